"""Single keys from a terminal while something is painted: no echo, no Enter; the terminal is always put back."""

from __future__ import annotations

import os
import sys
import termios
import tty
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import anyio


@contextmanager
def raw_keys() -> Iterator[int | None]:
    """The file descriptor to read keys from; None when there is no terminal to read from. Ctrl-C stays a signal."""
    if not sys.stdin.isatty():
        yield None
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield descriptor
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


async def pressed(descriptor: int | None) -> AsyncIterator[str]:
    """Every key as it comes; ends when the terminal does."""
    if descriptor is None:
        return
    while True:
        await anyio.wait_readable(descriptor)
        content = os.read(descriptor, 32)
        if not content:
            return
        for key in content.decode(errors="replace"):
            yield key
