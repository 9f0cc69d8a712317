"""Who holds which lock, who waits for it, and for whom: a cycle in this graph is a deadlock. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from planloop.controllers.shared.leases.grants import (
    LockOwner,
    family_path,
    lock_path,
    lock_priority,
    queue_rank,
    waiting_owner_of,
    why_grant_ended,
)
from planloop.controllers.shared.leases.lock_paths import PathIndex
from planloop.reconciler.store.store import View
from planloop.schemas.frozen import frozen, remade
from planloop.schemas.objects.call import CallState
from planloop.schemas.objects.lock import LockKept, LockMode, declared_locks
from planloop.schemas.resource import Resource

# Who waits for locks, read at one moment: who may have one depends on all who wait for something near it.


@frozen
class LockWish:
    """What the call, task or fork `waiting` waits for, since when: `wants` by the names of locks.

    `places` has what each lock of the plan is about, by name; `path` is that of the owner and all its family.
    """

    waiting: Resource
    owner: LockOwner
    path: str
    wants: dict[str, LockMode]
    places: dict[str, str]
    since: float
    priority: int = 0

    @property
    def address(self) -> str:
        return self.waiting.address

    @property
    def is_call(self) -> bool:
        return self.waiting.kind == "call"

    @property
    def rank(self) -> tuple[float, str]:
        """Its place in the queue, the least first."""
        return queue_rank(self.since, self.priority), self.waiting.address

    @property
    def kept(self) -> LockKept:
        """Until when it will be kept."""
        kept: LockKept = self.waiting.status.get("kept", "turn")
        return "declared" if self.waiting.kind == "task" else kept

    @property
    def reason(self) -> str:
        """What it is wanted for."""
        is_task = self.waiting.kind == "task"
        return str(self.waiting.spec.get("goal", "") if is_task else self.waiting.status.get("reason", ""))


@frozen
class LockQueue:
    """All wishes, in no order yet, and the entries (lock, waiting) of those that wait no more."""

    wishes: tuple[LockWish, ...]
    stale: tuple[tuple[str, str], ...]


def lock_queue(view: View) -> LockQueue:
    """Everybody who waits."""
    places: dict[str, str] = {}
    entries: dict[str, dict[str, float]] = {}
    for lock in view.list("lock"):
        path = lock.spec["path"]
        places[path] = lock_path(lock)
        for waiting, raw in lock.status.get("waiters", {}).items():
            entries.setdefault(waiting, {})[path] = raw["since"]
    wishes: list[LockWish] = []
    stale: list[tuple[str, str]] = []
    for waiting, since in entries.items():
        found = view.get(waiting)
        owner = None if found is None else waiting_owner_of(view, found)
        wants = {} if owner is None or found is None else _wants(found)
        if len(wants) != len(since) or wants.keys() != since.keys():
            stale += [(path, waiting) for path in since if path not in wants]
            places |= {path: path for path in wants if path not in places}
        if owner is not None and found is not None and wants:
            wishes.append(LockWish(found, owner, family_path(owner.address), wants, places, min(since.values())))
    return LockQueue(tuple(wishes), tuple(stale))


def queue_order(view: View, wishes: Iterable[LockWish]) -> tuple[LockWish, ...]:
    """The wishes in the order in which they are served, with their priorities."""
    ranked = (
        remade(one, priority=priority) if (priority := lock_priority(view, one.owner.address)) else one
        for one in wishes
    )
    return tuple(sorted(ranked, key=lambda one: one.rank))


def awaited_families(view: View, path: str) -> Iterator[str]:
    """The families that the agent of the one at `path` waits for in a call: children, or who goes first by a ruling."""
    agent = f"agent/{path.rstrip('/') or '.'}"
    for call in (one for one in view.owned_by(agent) if one.state == CallState.AWAITING_CHILD):
        thread = view.get(str(call.status.get("thread", "")))
        asked = () if thread is None else thread.spec.get("speakers", ())
        yield from (family_path(str(one)) for one in (*(call.status.get("ends") or ()), *asked))


def _wants(waiting: Resource) -> dict[str, LockMode]:
    found: dict[str, LockMode] = waiting.status.get("wants") or {}
    return declared_locks(waiting.spec) if waiting.kind == "task" else found


# The grants that stand, by place: who is in the way of a wish, and who has to be waited for to get past them. Pure.


@frozen
class ActiveGrant:
    """A standing grant of the lock `lock`. `path` is that of its owner's family."""

    lock: str
    owner: str
    path: str
    mode: LockMode
    kept: LockKept


class ActiveGrants:
    """The standing grants of a view, without those that are about to go, and with those that are about to be made."""

    def __init__(self, view: View, gone: Collection[tuple[str, str]] = ()) -> None:
        self._view = view
        self._grants: dict[LockMode, PathIndex[ActiveGrant]] = {"write": PathIndex(), "read": PathIndex()}
        self._known: dict[tuple[str, LockMode], list[ActiveGrant]] = {}
        for lock in view.list("lock"):
            path = lock.spec["path"]
            for owner, raw in lock.status.get("holders", {}).items():
                if (path, owner) not in gone and not why_grant_ended(view, owner, raw, path):
                    self.add(lock_path(lock), ActiveGrant(path, owner, family_path(owner), raw["mode"], raw["kept"]))

    def add(self, place: str, grant: ActiveGrant) -> None:
        """One more grant, of a lock that is about `place`."""
        self._grants[grant.mode].add(place, grant)
        # One more reader is in the way of no reader: many are granted in one go.
        for key in [one for one in self._known if "write" in (one[1], grant.mode)]:
            del self._known[key]

    def against(self, place: str, mode: LockMode) -> list[ActiveGrant]:
        """The grants that exclude `mode` at `place`, whoever asks."""
        found = self._known.get((place, mode))
        if found is None:
            modes: tuple[LockMode, ...] = ("write", "read") if mode == "write" else ("write",)
            found = [grant for one in modes for _, grant in self._grants[one].near(place)]
            self._known[place, mode] = found
        return found

    def settled(self, wishes: Iterable[LockWish]) -> bool:
        """Whether no wish can be served and no ring can be among them: true of nearly all looks at a lock in use."""
        barriers: dict[tuple[str, LockMode], list[ActiveGrant]] = {}
        waiting = {wish.path for wish in wishes}
        for wish in wishes:
            is_barred = False
            for name, mode in wish.wants.items():
                key = (wish.places[name], mode)
                barriers[key] = self.against(*key)
                is_barred = is_barred or any(not wish.path.startswith(grant.path) for grant in barriers[key])
            if not is_barred:
                return False
        holding = {grant.path for grants in barriers.values() for grant in grants}
        late = holding.union(*(awaited_families(self._view, path) for path in holding))
        return not any(path.startswith(one) for one in late for path in waiting)

    def blocking(self, wish: LockWish) -> Iterator[ActiveGrant]:
        """The grants in the way of `wish`: those of its family and its ancestors are not."""
        for name, mode in wish.wants.items():
            for grant in self.against(wish.places[name], mode):
                if not wish.path.startswith(grant.path):
                    yield grant


# Who waits for whom: wishes wait for grants, grants for what their owners wait for. A ring is a deadlock. Pure.
#
# An owner lets go later while it waits for a lock itself, while a call of it waits for a child (or for who goes first
# by a ruling) that does, and, of what it keeps to the end of its task, while any task below it does.


class WaitGraph:
    """The graph of waits at one moment."""

    def __init__(self, view: View, wishes: tuple[LockWish, ...], held: ActiveGrants) -> None:
        self._view = view
        self._held = held
        self._wishes = wishes
        self._own: dict[str, list[LockWish]] = {}
        self._within: dict[str, list[LockWish]] = {}
        self._served: set[str] = set()
        self._known: dict[tuple[str, LockMode], list[ActiveGrant]] = {}
        self._delays: dict[tuple[str, bool], tuple[LockWish, ...]] = {}

    def after(self, wish: LockWish) -> Iterator[LockWish]:
        """The wishes that must come true, or end, before what is in the way of `wish` can be let go."""
        for name, mode in wish.wants.items():
            for grant in self._stuck(wish.places[name], mode):
                if not wish.path.startswith(grant.path):
                    yield from self._delaying(grant)

    def ring(self, wishes: tuple[LockWish, ...]) -> tuple[LockWish, ...]:
        """The first ring among those that can be reached from `wishes`, each waiting for the next; empty: none."""
        done: set[str] = set()
        for start in wishes:
            found = self._ring_from(start, done)
            if found:
                return found
        return ()

    def served(self, wish: LockWish) -> None:
        """`wish` waits no more: what it wanted is among the grants."""
        self._served.add(wish.address)
        self._known.clear()
        self._delays.clear()

    def families_before(self, wish: LockWish, ahead: Callable[[LockWish], Iterable[LockWish]]) -> frozenset[str]:
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

    def _ring_from(self, start: LockWish, done: set[str]) -> tuple[LockWish, ...]:
        if start.address in done:
            return ()
        way: list[LockWish] = [start]
        rest: list[Iterator[LockWish]] = [self.after(start)]
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

    def _stuck(self, place: str, mode: LockMode) -> list[ActiveGrant]:
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

    def _delaying(self, grant: ActiveGrant) -> tuple[LockWish, ...]:
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

    def _awaited(self, path: str) -> list[LockWish]:
        """The wishes of those, and below those, whom the agent of the family at `path` waits for in a call."""
        return [wish for other in awaited_families(self._view, path) for wish in self._within.get(other, ())]


def _with_ancestors(path: str) -> Iterator[str]:
    names = path.rstrip("/").split("/") if path else []
    yield ""
    for depth in range(1, len(names) + 1):
        yield "/".join(names[:depth]) + "/"


def deadlock_victim(ring: tuple[LockWish, ...]) -> LockWish:
    """Who of a ring is to give way: the lowest priority, then the youngest wait. Calls before tasks: they can act."""
    return min(ring, key=lambda one: (not one.is_call, one.priority, -one.since, one.address))
