"""Who shows a run: a live tree on a terminal, a line an event anywhere else."""

from __future__ import annotations

import sys

from planloop.cli.screens.lines import Lines
from planloop.cli.screens.port import Key, Screen

__all__ = ["Key", "Screen", "screen_for_stdout"]


def screen_for_stdout() -> Screen:
    """The screen that suits where the output goes."""
    if not sys.stdout.isatty():
        return Lines()
    from planloop.cli.screens.tree import Tree  # Rich takes 40 ms to import, and a log does not need it.

    return Tree()
