"""Who waits for whom: wishes wait for grants, grants for what their owners wait for. A ring is a deadlock. Pure.

An owner lets go later while it waits for a lock itself, while a call of it waits for a child (or for who goes first by
a ruling) that does, and, of what it keeps to the end of its task, while any task below it does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from planloop.controllers.lock.holding import Grant, Held
from planloop.controllers.lock.observing import Wish, awaited
from planloop.reconciler.storing.store import View
from planloop.schemas.lock import LockMode


class Waits:
    """The graph of waits at one moment."""

    def __init__(self, view: View, wishes: tuple[Wish, ...], held: Held) -> None:
        self._view = view
        self._held = held
        self._wishes = wishes
        self._own: dict[str, list[Wish]] = {}
        self._within: dict[str, list[Wish]] = {}
        self._served: set[str] = set()
        self._known: dict[tuple[str, LockMode], list[Grant]] = {}
        self._delays: dict[tuple[str, bool], tuple[Wish, ...]] = {}

    def after(self, wish: Wish) -> Iterator[Wish]:
        """The wishes that must come true, or end, before what is in the way of `wish` can be let go."""
        for name, mode in wish.wants.items():
            for grant in self._stuck(wish.places[name], mode):
                if not wish.path.startswith(grant.path):
                    yield from self._delaying(grant)

    def ring(self, wishes: tuple[Wish, ...]) -> tuple[Wish, ...]:
        """The first ring among those that can be reached from `wishes`, each waiting for the next; empty: none."""
        done: set[str] = set()
        for start in wishes:
            found = self._ring_from(start, done)
            if found:
                return found
        return ()

    def served(self, wish: Wish) -> None:
        """`wish` waits no more: what it wanted is among the grants."""
        self._served.add(wish.address)
        self._known.clear()
        self._delays.clear()

    def families_before(self, wish: Wish, ahead: Callable[[Wish], Iterable[Wish]]) -> frozenset[str]:
        """The families that must let go, or be served, before `wish` is; `ahead` are those before it in a queue."""
        seen = {wish.address}
        found: set[str] = set()
        rest = [wish]
        while rest:
            here = rest.pop()
            found |= {grant.path for grant in self._held.blocking(here)}
            for other in (*self.after(here), *ahead(here)):
                found.add(other.path)
                if other.address not in seen:
                    seen.add(other.address)
                    rest.append(other)
        return frozenset(found)

    def _ring_from(self, start: Wish, done: set[str]) -> tuple[Wish, ...]:
        if start.address in done:
            return ()
        way: list[Wish] = [start]
        rest: list[Iterator[Wish]] = [self.after(start)]
        place = {start.address: 0}
        while way:
            step = next(rest[-1], None)
            if step is None:
                gone = way.pop()
                rest.pop()
                del place[gone.address]
                done.add(gone.address)
            elif step.address in place:
                return tuple(way[place[step.address] :])
            elif step.address not in done:
                place[step.address] = len(way)
                way.append(step)
                rest.append(self.after(step))
        return ()

    def _stuck(self, place: str, mode: LockMode) -> list[Grant]:
        """The grants in the way at `place` whose owners wait for something themselves."""
        found = self._known.get((place, mode))
        if found is None:
            found = [grant for grant in self._held.against(place, mode) if self._delaying(grant)]
            self._known[place, mode] = found
        return found

    def _index(self) -> None:
        for wish in self._wishes:
            self._own.setdefault(wish.path, []).append(wish)
            for path in _with_ancestors(wish.path):
                self._within.setdefault(path, []).append(wish)
        self._wishes = ()

    def _delaying(self, grant: Grant) -> tuple[Wish, ...]:
        if self._wishes:  # Made when it is first asked: most looks at a lock ask nothing.
            self._index()
        lasts = grant.kept in ("task", "declared")
        known = self._delays.get((grant.path, lasts))
        if known is None:
            below = self._within.get(grant.path, ()) if lasts else ()
            waiting = (*self._own.get(grant.path, ()), *below, *self._awaited(grant.path))
            found = {one.address: one for one in waiting if one.address not in self._served}
            known = self._delays[grant.path, lasts] = tuple(found.values())
        return known

    def _awaited(self, path: str) -> list[Wish]:
        """The wishes of those, and below those, whom the agent of the family at `path` waits for in a call."""
        return [wish for other in awaited(self._view, path) for wish in self._within.get(other, ())]


def _with_ancestors(path: str) -> Iterator[str]:
    names = path.rstrip("/").split("/") if path else []
    yield ""
    for depth in range(1, len(names) + 1):
        yield "/".join(names[:depth]) + "/"


def yielding(ring: tuple[Wish, ...]) -> Wish:
    """Who of a ring is to give way: the lowest priority, then the youngest wait. Calls before tasks: they can act."""
    return min(ring, key=lambda one: (not one.is_call, one.priority, -one.since, one.address))
