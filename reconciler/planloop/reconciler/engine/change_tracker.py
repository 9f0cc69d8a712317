"""Which addresses a change wakes (`ChangeWatcher`), and which controllers are in a hot loop (`HotLoopDetector`). Pure.

A changed object wakes itself and its owner. If its `signal` changed, it also wakes the objects whose `refs` name it; an
owner that has such a ref is woken by the signal only. The answer depends on the state before and after, never on the
type of the record, so a lost wake-up is made up for by reconciling everything, as every start does.

Controllers that work write ever new states; controllers that fight write the same states again and again. The detector
slows an address down if, within one window, its controllers wrote the same content too often, or wrote more often than
real work does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from planloop.reconciler.store.store import View
from planloop.schemas import limits
from planloop.schemas.canonical_json import Json
from planloop.schemas.frozen import frozen, mutable
from planloop.schemas.resource import Resource


@frozen
class _Observed:
    signal: tuple[Json, ...]
    owner: str | None


class ChangeWatcher:
    """Remembers the signal and the owner of every object. `resources` are the objects at the start."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        self._observed = {resource.address: _Observed(resource.signal, resource.owner) for resource in resources}

    def concerned(self, view: View, changed: Sequence[str]) -> list[str]:
        """The addresses to wake after the objects at `changed` changed, each once, those of `changed` first.

        `view` is the state after the change. Remembers it, so call this once for every change.
        """
        woken = dict.fromkeys(changed)
        for address in changed:
            old = self._observed.get(address)
            resource = view.get(address)
            new = None if resource is None else _Observed(resource.signal, resource.owner)
            if old is not None and new is not None and old == new:
                if new.owner is not None and new.owner not in view.referrers(address):
                    woken[new.owner] = None
                continue
            woken.update(
                dict.fromkeys(each.owner for each in (old, new) if each is not None and each.owner is not None)
            )
            if new is None:
                self._observed.pop(address, None)
            else:
                self._observed[address] = new
            if (old.signal if old else None) != (new.signal if new else None):
                woken.update(dict.fromkeys(view.referrers(address)))
        return list(woken)


WINDOW_S: Final = 10.0
FREE_WRITES: Final = 50  # In a window, before contents are compared at all: nearly every object has fewer.
DELAY_BASE_S: Final = 1.0
DELAY_CAP_S: Final = 60.0
RECORDS_KEPT: Final = 1_000  # Addresses remembered before those of past windows are dropped.
TRIPS_COUNTED: Final = 16  # The delay reaches its cap much earlier.


@mutable
class _WriteCount:
    since: float
    writes: int = 0
    contents: dict[int, int] | None = None
    trips: int = 0  # Windows in a row with a hot loop.
    is_tripped: bool = False


class HotLoopDetector:
    """Counts the writes of controllers by address. Times are in seconds of one monotonic clock."""

    def __init__(self) -> None:
        self._records: dict[str, _WriteCount] = {}
        self._prune_at = RECORDS_KEPT

    def wrote(self, address: str, now: float, content: Callable[[], str]) -> None:
        """Count one write. `content` returns the object as text; it is called only after many writes."""
        record = self._records.get(address)
        if record is None:
            self._prune(now)
            record = self._records[address] = _WriteCount(now)
        elif now - record.since > WINDOW_S:
            record.trips = record.trips if record.is_tripped else 0
            record.since, record.writes, record.is_tripped, record.contents = now, 0, False, None
        record.writes += 1
        if record.is_tripped or record.writes <= FREE_WRITES:
            return
        contents = record.contents = record.contents or {}
        digest = hash(content())  # Two texts with one hash would only slow an object down.
        contents[digest] = contents.get(digest, 0) + 1
        if contents[digest] > limits.FIGHT_REPEATS_MAX or record.writes > limits.FIGHT_WRITES_MAX:
            record.is_tripped = True
            record.trips += 1

    def delay_s(self, address: str, now: Callable[[], float]) -> float:
        """Seconds to delay a wake-up of `address` that a controller causes; 0 if it is not in a hot loop."""
        record = self._records.get(address)
        if record is None or not record.is_tripped or now() - record.since > _expiry_s(record):
            return 0.0
        return float(min(DELAY_CAP_S, DELAY_BASE_S * 2 ** min(record.trips - 1, TRIPS_COUNTED)))

    def _prune(self, now: float) -> None:
        if len(self._records) < self._prune_at:
            return
        expired = [address for address, one in self._records.items() if now - one.since > _expiry_s(one)]
        for address in expired:
            del self._records[address]
        self._prune_at = max(RECORDS_KEPT, 2 * len(self._records))


def _expiry_s(record: _WriteCount) -> float:
    """Seconds after which a window no longer counts; that of a hot loop lasts longer than the longest delay."""
    return WINDOW_S + DELAY_CAP_S if record.is_tripped else WINDOW_S
