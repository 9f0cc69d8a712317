"""Who of those who wait can be served now: pure, over all locks and all wishes at once.

In the order of the queue, each all or none. Who has to wait keeps what it waits for from those behind it, but not from
one that has to be served before it can be.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from planloop.controllers.leases.places import ByPlace
from planloop.controllers.lock.holding import Grant, Held
from planloop.controllers.lock.observing import Wish
from planloop.controllers.lock.waiting import Waits
from planloop.reconciler.storing.store import View
from planloop.schemas.lock import LockMode


class Ahead:
    """The wishes that have to wait, by what they wait for."""

    def __init__(self) -> None:
        self._places: ByPlace[str] = ByPlace()
        self._wishes: dict[str, dict[LockMode, list[Wish]]] = {}

    def add(self, wish: Wish) -> None:
        """One more, behind all others."""
        for name, mode in wish.wants.items():
            place = wish.places[name]
            if place not in self._wishes:
                self._wishes[place] = {"read": [], "write": []}
                self._places.add(place, place)
            self._wishes[place][mode].append(wish)

    def of(self, wish: Wish) -> Iterator[Wish]:
        """Those before `wish` that a grant to it would be in the way of; perhaps one of them more than once."""
        for name, mode in wish.wants.items():
            for _, place in self._places.near(wish.places[name]):
                waiting = self._wishes[place]
                for others in (waiting["write"], waiting["read"] if mode == "write" else ()):
                    before = takewhile(lambda other: other.rank < wish.rank, others)
                    yield from (other for other in before if not other.path.startswith(wish.path))


def served(view: View, wishes: tuple[Wish, ...], held: Held) -> tuple[Wish, ...]:
    """Those of `wishes`, in the order of the queue, that can all have what they want; `held` has it afterwards."""
    out: list[Wish] = []
    ahead, waits = Ahead(), Waits(view, wishes, held)
    known: dict[str, frozenset[str]] = {}
    for wish in wishes:
        is_blocked = next(held.blocking(wish), None) is not None
        if is_blocked or any(not _is_held_up(waits, other, wish, ahead, known) for other in ahead.of(wish)):
            ahead.add(wish)
            continue
        out.append(wish)
        for name, mode in wish.wants.items():
            held.add(wish.places[name], Grant(name, wish.owner.address, wish.path, mode, wish.kept))
        waits.served(wish)
        known.clear()
    return tuple(out)


def _is_held_up(waits: Waits, other: Wish, by: Wish, ahead: Ahead, known: dict[str, frozenset[str]]) -> bool:
    """Whether `other` cannot be served before the family of `by`, or an ancestor of it, has been and has let go."""
    before = known.get(other.address)
    if before is None:
        before = known[other.address] = waits.families_before(other, ahead.of)
    return any(by.path.startswith(path) for path in before)
