"""Which addresses a change wakes, and which address is written so often that its controllers are in a hot loop.
Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from planloop.reconciler.store.store import View
from planloop.schemas import limits
from planloop.schemas.canonical_json import Json
from planloop.schemas.frozen import frozen, mutable
from planloop.schemas.resource import Resource

# Which addresses a change concerns: the level-triggered side of waking.
#
# A changed object wakes itself, its owner, and, when its `signal` changed, those that name it in their `refs`; an owner
# that does so has said that the signal is what it looks at. The
# answer depends on state before and after only, never on what kind of record it was; so a wake-up that is lost is found
# again by reconciling everything, as every start does.


@frozen
class _Seen:
    signal: tuple[Json, ...]
    owner: str | None


class ChangeWatcher:
    """Remembers the signal of every object, to tell whether it changed."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        self._seen = {resource.address: _Seen(resource.signal, resource.owner) for resource in resources}

    def concerned(self, view: View, changed: Sequence[str]) -> list[str]:
        """The addresses to reconcile after `changed` moved, each once, the changed ones first."""
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


# Tells a controller that works from two that fight, or one that chases its own tail.
#
# Progress writes ever new states; a fight returns to states already seen. So an address is slowed down when, within one
# window, controllers wrote the same content over and over, or wrote more often than any real work does. Pure: time and
# content are arguments; the engine applies the delay and opens the condition.

WINDOW_S: Final = 10.0
FREE_WRITES: Final = 50  # In a window, before contents are compared at all: nearly every object stays below.
DELAY_BASE_S: Final = 1.0
DELAY_CAP_S: Final = 60.0
RECORDS_KEPT: Final = 1_000  # Addresses remembered before those of past windows are dropped.
TRIPS_COUNTED: Final = 16  # The delay is at its cap long before.


@mutable
class _WriteCount:
    since: float
    writes: int = 0
    contents: dict[int, int] | None = None
    trips: int = 0  # Windows in a row that ended in a fight.
    is_tripped: bool = False


class HotLoopDetector:
    """Counts controllers' writes per address."""

    def __init__(self) -> None:
        self._records: dict[str, _WriteCount] = {}
        self._prune_at = RECORDS_KEPT

    def wrote(self, address: str, now: float, content: Callable[[], str]) -> None:
        """Notes one write; `content` is asked for the object as text only when there were many."""
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
        """How long controllers' wake-ups of `address` are to be held back; 0 when it is calm."""
        record = self._records.get(address)
        if record is None or not record.is_tripped or now() - record.since > _over_s(record):
            return 0.0
        return float(min(DELAY_CAP_S, DELAY_BASE_S * 2 ** min(record.trips - 1, TRIPS_COUNTED)))


def _over_s(record: _WriteCount) -> float:
    """Seconds after which a window has no more bearing on anything: a fight's outlasts the longest delay."""
    return WINDOW_S + DELAY_CAP_S if record.is_tripped else WINDOW_S
