"""Clocks and ids for tests: virtual time, a fixed time, and ids that a seed reproduces."""

from __future__ import annotations

import random  # noqa: TID251 - seeded, so a simulation is the same every time

import anyio

from tests.product import SystemClock

EPOCH_S = 1_700_000_000.0


class VirtualClock:
    """A `Clock` that follows the event loop's time: under trio's autojump clock, sleeping costs nothing."""

    def now(self) -> float:
        return EPOCH_S + anyio.current_time()

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


class StillClock(SystemClock):
    """A clock whose time stands until a test sets `at_s`, however busy the machine is. Sleeping takes real time."""

    at_s = EPOCH_S

    def now(self) -> float:
        return self.at_s


class SeededIds:
    """`Ids` from a seed. The next owner of a plan uses the same object, because ids are never reused."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._given: set[str] = set()

    def mint(self) -> str:
        while (id_ := f"{self._random.getrandbits(48):012x}") in self._given:
            pass
        self._given.add(id_)
        return id_
