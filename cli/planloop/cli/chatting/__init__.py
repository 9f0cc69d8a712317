"""A conversation with a plan: what a line means, what the log says back, and the loop between them.

`lines.py`, `listening.py` and `commands.py` are pure and serve every face of the chat; `talking.py` is the terminal's.
"""
