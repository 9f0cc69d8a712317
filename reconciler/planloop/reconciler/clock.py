"""Clock and id ports with their real versions. Only this module and the composition root read the real clock."""

from __future__ import annotations

import os
import re
import time
from typing import Final, Protocol

import anyio

ID_BYTES: Final = 6
IDS_DRAWN: Final = 256

MINTED: Final = re.compile(r"(?<![0-9a-z])[0-9a-f]{12}(?![0-9a-z])")
"""An id in a text, as `Ids` mint them."""


class Clock(Protocol):
    """Wall time in seconds since 1970, and a sleep that follows it; simulations run both on virtual time."""

    def now(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class Ids(Protocol):
    """Mints unique ids: for uids, calls, operations and approvals."""

    def mint(self) -> str:
        """12 characters of `0-9a-f`."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


class RandomIds:
    """Ids from the system's randomness: 48 bits, enough for one plan's log.

    It draws many at a time, because each draw releases the interpreter to other threads. Any thread may mint; after a
    fork, only one of the two processes may.
    """

    def __init__(self) -> None:
        self._ready: list[str] = []

    def mint(self) -> str:
        try:
            return self._ready.pop()
        except IndexError:
            drawn = os.urandom(ID_BYTES * IDS_DRAWN).hex()
            width = 2 * ID_BYTES
            first, *more = (drawn[at : at + width] for at in range(0, len(drawn), width))
            self._ready.extend(more)
            return first
