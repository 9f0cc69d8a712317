"""The live plan as a text that somebody edits in a page: what the text says, what it would do, and how it is applied.

Nothing here decides: the text is compiled as a file is, merged as a file is, and goes through the owner's one gate.
Whoever edits is told of every conflict and chooses; neither side is ever taken in silence.
"""
