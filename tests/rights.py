"""Drop the rights of root inside a block, so that file modes bind a test that runs as root."""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

VERSION_3: Final = 0x20080522
HEADER: Final = struct.Struct("=Ii")
SETS: Final = struct.Struct("=6I")
"""Effective, permitted and inheritable capabilities 0 to 31, then those from 32 on: capget(2)."""


@contextmanager
def without_rights() -> Iterator[None]:
    """Drop the effective capabilities of this thread, and of threads that start inside the block.

    Programs that root starts get them back; start those with `setpriv --bounding-set=-all`.
    """
    if os.geteuid() != 0 or not sys.platform.startswith("linux"):
        yield
        return
    held = _call("capget", bytes(SETS.size))
    low, high = SETS.unpack(held)[1:3], SETS.unpack(held)[4:6]
    _call("capset", SETS.pack(0, *low, 0, *high))
    try:
        yield
    finally:
        _call("capset", held)


def _call(name: str, sets: bytes) -> bytes:
    libc = ctypes.CDLL(None, use_errno=True)
    header = ctypes.create_string_buffer(HEADER.pack(VERSION_3, 0), HEADER.size)
    buffer = ctypes.create_string_buffer(sets, SETS.size)
    if getattr(libc, name)(header, buffer) != 0:
        raise OSError(ctypes.get_errno(), f"{name} failed")
    return buffer.raw
