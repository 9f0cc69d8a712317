"""Tells a controller that works from two that fight, or one that chases its own tail.

Progress writes ever new states; a fight returns to states already seen. So an address is slowed down when, within one
window, controllers wrote the same content over and over, or wrote more often than any real work does. Pure: time and
content are arguments; the engine applies the delay and opens the condition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from planloop.schemas import limits
from planloop.schemas.frozen import mutable

WINDOW_S: Final = 10.0
FREE_WRITES: Final = 50  # In a window, before contents are compared at all: nearly every object stays below.
DELAY_BASE_S: Final = 1.0
DELAY_CAP_S: Final = 60.0
RECORDS_KEPT: Final = 1_000  # Addresses remembered before those of past windows are dropped.
TRIPS_COUNTED: Final = 16  # The delay is at its cap long before.


@mutable
class _Record:
    since: float
    writes: int = 0
    contents: dict[int, int] | None = None
    trips: int = 0  # Windows in a row that ended in a fight.
    is_tripped: bool = False


class FightDetector:
    """Counts controllers' writes per address."""

    def __init__(self) -> None:
        self._records: dict[str, _Record] = {}
        self._prune_at = RECORDS_KEPT

    def wrote(self, address: str, now: float, content: Callable[[], str]) -> None:
        """Notes one write; `content` is asked for the object as text only when there were many."""
        record = self._records.get(address)
        if record is None:
            self._prune(now)
            record = self._records[address] = _Record(now)
        elif now - record.since > WINDOW_S:
            record.trips = record.trips if record.is_tripped else 0
            record.since, record.writes, record.is_tripped, record.contents = now, 0, False, None
        record.writes += 1
        if record.is_tripped or record.writes <= FREE_WRITES:
            return
        contents = record.contents = record.contents or {}
        seen = hash(content())  # Two texts with one hash would only slow an object down.
        contents[seen] = contents.get(seen, 0) + 1
        if contents[seen] > limits.FIGHT_REPEATS_MAX or record.writes > limits.FIGHT_WRITES_MAX:
            record.is_tripped = True
            record.trips += 1

    def _prune(self, now: float) -> None:
        if len(self._records) < self._prune_at:
            return
        calm = [address for address, one in self._records.items() if now - one.since > _over_s(one)]
        for address in calm:
            del self._records[address]
        self._prune_at = max(RECORDS_KEPT, 2 * len(self._records))

    def delay_s(self, address: str, now: Callable[[], float]) -> float:
        """How long controllers' wake-ups of `address` are to be held back; 0 when it is calm."""
        record = self._records.get(address)
        if record is None or not record.is_tripped or now() - record.since > _over_s(record):
            return 0.0
        return float(min(DELAY_CAP_S, DELAY_BASE_S * 2 ** min(record.trips - 1, TRIPS_COUNTED)))


def _over_s(record: _Record) -> float:
    """Seconds after which a window has no more bearing on anything: a fight's outlasts the longest delay."""
    return WINDOW_S + DELAY_CAP_S if record.is_tripped else WINDOW_S
