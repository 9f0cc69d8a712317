"""What a plan has to say, as JSON with the words in it: for the page, and for whoever asks the API.

The rules that make the words are Python's and are not written again in a browser. `planloop.cli.rendering` says the
same things as lines for a terminal.
"""
