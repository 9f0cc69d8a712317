"""Standard streams for a command that was started with some of them closed, as by `plan get >&-`.

A closed one is opened on nothing. Otherwise the next file to be opened, the log for instance, would take its number,
and whatever writes to stdout or stderr would write into that.
"""

from __future__ import annotations

import os
import sys
from typing import Final

NAMES: Final = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


def open_closed() -> None:
    """Opens stdin, stdout and stderr on nothing where they are closed."""
    for number, (name, mode) in enumerate(NAMES):
        if getattr(sys, name) is not None:
            continue
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # Takes the lowest free number, which is this one.
        setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))
