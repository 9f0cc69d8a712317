"""What a server prints about itself, in a file of bounded size that `plan logs mcp/<name>` shows."""

from __future__ import annotations

from typing import Final

from planloop.reconciler.effects.rolling_file import RollingFile

HEAD: Final = "--- "
"""How a line of ours begins: each run has one before its words."""
_LINE_CHARS: Final = 200


def last_words(grumbles: RollingFile) -> str:
    """The last line of the newest run, for telling why a server ended; empty when it said nothing."""
    lines = grumbles.end().decode(errors="replace").splitlines()
    said = next((line.strip()[:_LINE_CHARS] for line in reversed(lines) if line.strip()), "")
    return "" if said.startswith(HEAD) else said
