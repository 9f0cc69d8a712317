"""Screens that show a run: a live tree on a terminal, one line per event elsewhere."""

from __future__ import annotations

import sys

from planloop.cli.progress.line_screen import LineScreen
from planloop.owner.screen import ProgressScreen, ScreenKey

__all__ = ["ProgressScreen", "ScreenKey", "screen_for_stdout"]


def screen_for_stdout() -> ProgressScreen:
    """The screen that suits where the output goes."""
    if not sys.stdout.isatty():
        return LineScreen()
    from planloop.cli.progress.tree_screen import TreeScreen  # Rich takes 40 ms to import, and a log does not need it.

    return TreeScreen()
