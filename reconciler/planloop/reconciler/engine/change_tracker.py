"""Which addresses a change wakes, and which address its controllers write in a hot loop. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from planloop.reconciler.store.store import View
from planloop.schemas import limits
from planloop.schemas.canonical_json import Json
from planloop.schemas.frozen import frozen, mutable
from planloop.schemas.resource import Resource

# A changed object wakes itself, its owner and, if its `signal` changed, the objects that name it in their `refs`. An
# owner with such a ref is woken by the signal only. The answer depends on the state before and after, never on the
# record's type, so a lost wake-up is made up for by reconciling every object, as each start does.


@frozen
class _Seen:
    signal: tuple[Json, ...]
    owner: str | None


class ChangeWatcher:
    """Remembers the signal of every object, to detect changes."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        self._seen = {resource.address: _Seen(resource.signal, resource.owner) for resource in resources}

    def concerned(self, view: View, changed: Sequence[str]) -> list[str]:
        """The addresses to reconcile after a change of the objects `changed`, each once, the changed ones first."""
        woken = dict.fromkeys(changed)
        for address in changed:
            old = self._seen.get(address)
            resource = view.get(address)
            new = None if resource is None else _Seen(resource.signal, resource.owner)
            if old is not None and new is not None and old == new:
                if new.owner is not None and new.owner not in view.referrers(address):
                    woken[new.owner] = None
                continue
            woken.update(
                dict.fromkeys(each.owner for each in (old, new) if each is not None and each.owner is not None)
            )
            if new is None:
                self._seen.pop(address, None)
            else:
                self._seen[address] = new
            if (old.signal if old else None) != (new.signal if new else None):
                woken.update(dict.fromkeys(view.referrers(address)))
        return list(woken)


# Hot loops: progress writes new states, while controllers that undo each other's writes return to earlier ones. An
# address is delayed if, within one window, controllers wrote the same content repeatedly, or more often than any real
# work does. The engine applies the delay and writes the condition.

WINDOW_S: Final = 10.0
FREE_WRITES: Final = 50  # Per window, before contents are compared: nearly every object stays below.
DELAY_BASE_S: Final = 1.0
DELAY_CAP_S: Final = 60.0
RECORDS_KEPT: Final = 1_000  # Addresses remembered before those of past windows are dropped.
TRIPS_COUNTED: Final = 16  # The delay reaches its cap long before.


@mutable
class _WriteCount:
    since: float
    writes: int = 0
    contents: dict[int, int] | None = None
    trips: int = 0  # Consecutive windows that were hot loops.
    is_tripped: bool = False


class HotLoopDetector:
    """Counts controllers' writes per address."""

    def __init__(self) -> None:
        self._records: dict[str, _WriteCount] = {}
        self._prune_at = RECORDS_KEPT

    def wrote(self, address: str, now: float, content: Callable[[], str]) -> None:
        """Count one write; calls `content`, which returns the object as text, only if there were many."""
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
        """How long to delay wake-ups of `address` by controllers, in seconds; 0 outside a hot loop."""
        record = self._records.get(address)
        if record is None or not record.is_tripped or now() - record.since > _over_s(record):
            return 0.0
        return float(min(DELAY_CAP_S, DELAY_BASE_S * 2 ** min(record.trips - 1, TRIPS_COUNTED)))


def _over_s(record: _WriteCount) -> float:
    """Seconds after which a window no longer counts: that of a hot loop lasts longer than the longest delay."""
    return WINDOW_S + DELAY_CAP_S if record.is_tripped else WINDOW_S
