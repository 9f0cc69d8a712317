"""Who shows a run: a live tree on a terminal, a line an event anywhere else."""

from __future__ import annotations

from typing import TextIO

from planloop.hosting import Screen
from planloop.screens.lines import Lines


def screen_for(stream: TextIO) -> Screen:
    """The screen that suits where the output goes."""
    del stream
    return Lines()
