"""Graph of lock holders and waiters, and its cycles, which are deadlocks. Pure."""

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


@frozen
class QueuedRequest:
    """The locks that a call, task or fork (`waiting`) waits for: `wants` maps lock names to modes.

    `places` maps the names of all locks of the plan to their canonical paths. `path` is the family path of the owner.
    `since` is in seconds since 1970.
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
        """Its place in the queue; the lowest is first."""
        return queue_rank(self.since, self.priority), self.waiting.address

    @property
    def kept(self) -> LockKept:
        """Until when the lock will be kept."""
        kept: LockKept = self.waiting.status.get("kept", "turn")
        return "declared" if self.waiting.kind == "task" else kept

    @property
    def reason(self) -> str:
        """The reason given for the request."""
        is_task = self.waiting.kind == "task"
        return str(self.waiting.spec.get("goal", "") if is_task else self.waiting.status.get("reason", ""))


@frozen
class LockQueue:
    """All requests, unordered, and the entries (lock, waiting) of objects that no longer wait."""

    requests: tuple[QueuedRequest, ...]
    stale: tuple[tuple[str, str], ...]


def lock_queue(view: View) -> LockQueue:
    """Return all lock requests of the plan."""
    places: dict[str, str] = {}
    entries: dict[str, dict[str, float]] = {}
    for lock in view.list("lock"):
        path = lock.spec["path"]
        places[path] = lock_path(lock)
        for waiting, raw in lock.status.get("waiters", {}).items():
            entries.setdefault(waiting, {})[path] = raw["since"]
    requests: list[QueuedRequest] = []
    stale: list[tuple[str, str]] = []
    for waiting, since in entries.items():
        found = view.get(waiting)
        owner = None if found is None else waiting_owner_of(view, found)
        wants = {} if owner is None or found is None else _wants(found)
        if len(wants) != len(since) or wants.keys() != since.keys():
            stale += [(path, waiting) for path in since if path not in wants]
            places |= {path: path for path in wants if path not in places}
        if owner is not None and found is not None and wants:
            requests.append(QueuedRequest(found, owner, family_path(owner.address), wants, places, min(since.values())))
    return LockQueue(tuple(requests), tuple(stale))


def queue_order(view: View, requests: Iterable[QueuedRequest]) -> tuple[QueuedRequest, ...]:
    """Return the requests with their priorities, in the order in which they are served."""
    ranked = (
        remade(one, priority=priority) if (priority := lock_priority(view, one.owner.address)) else one
        for one in requests
    )
    return tuple(sorted(ranked, key=lambda one: one.rank))


def awaited_families(view: View, path: str) -> Iterator[str]:
    """Yield the families that the agent of the family at `path` waits for in a call: children, or speakers."""
    agent = f"agent/{path.rstrip('/') or '.'}"
    for call in (one for one in view.owned_by(agent) if one.state == CallState.AWAITING_CHILD):
        thread = view.get(str(call.status.get("thread", "")))
        asked = () if thread is None else thread.spec.get("speakers", ())
        yield from (family_path(str(one)) for one in (*(call.status.get("ends") or ()), *asked))


def _wants(waiting: Resource) -> dict[str, LockMode]:
    found: dict[str, LockMode] = waiting.status.get("wants") or {}
    return declared_locks(waiting.spec) if waiting.kind == "task" else found


@frozen
class ActiveGrant:
    """A grant of the lock `lock` that has not ended. `path` is the family path of its owner."""

    lock: str
    owner: str
    path: str
    mode: LockMode
    kept: LockKept


class ActiveGrants:
    """The active grants of a view, without those that are being released and with those that are being made."""

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
        """Add a grant of a lock with the canonical path `place`."""
        self._grants[grant.mode].add(place, grant)
        # A read grant does not block readers, so keep what is known for them: many are granted in one step.
        for key in [one for one in self._known if "write" in (one[1], grant.mode)]:
            del self._known[key]

    def against(self, place: str, mode: LockMode) -> list[ActiveGrant]:
        """Return the grants that exclude `mode` at `place` for any other family."""
        found = self._known.get((place, mode))
        if found is None:
            modes: tuple[LockMode, ...] = ("write", "read") if mode == "write" else ("write",)
            found = [grant for one in modes for _, grant in self._grants[one].near(place)]
            self._known[place, mode] = found
        return found

    def settled(self, requests: Iterable[QueuedRequest]) -> bool:
        """Whether no request can be granted and there is no deadlock: a fast check that is nearly always true."""
        barriers: dict[tuple[str, LockMode], list[ActiveGrant]] = {}
        waiting = {request.path for request in requests}
        for request in requests:
            is_barred = False
            for name, mode in request.wants.items():
                key = (request.places[name], mode)
                barriers[key] = self.against(*key)
                is_barred = is_barred or any(not request.path.startswith(grant.path) for grant in barriers[key])
            if not is_barred:
                return False
        holding = {grant.path for grants in barriers.values() for grant in grants}
        late = holding.union(*(awaited_families(self._view, path) for path in holding))
        return not any(path.startswith(one) for one in late for path in waiting)

    def blocking(self, request: QueuedRequest) -> Iterator[ActiveGrant]:
        """Yield the grants that block `request`; grants of its family and its ancestors do not."""
        for name, mode in request.wants.items():
            for grant in self.against(request.places[name], mode):
                if not request.path.startswith(grant.path):
                    yield grant


# Requests wait for grants, and grants for the requests of their owners. A cycle is a deadlock.
#
# An owner cannot release a lock while it waits for a lock itself, or while a call of it waits for a child (or for the
# agent that a ruling puts first) that does. A lock that it keeps to the end of its task also waits for its descendants.


class WaitGraph:
    """The requests and grants that wait for each other, at one moment."""

    def __init__(self, view: View, requests: tuple[QueuedRequest, ...], held: ActiveGrants) -> None:
        self._view = view
        self._held = held
        self._requests = requests
        self._own: dict[str, list[QueuedRequest]] = {}
        self._within: dict[str, list[QueuedRequest]] = {}
        self._served: set[str] = set()
        self._known: dict[tuple[str, LockMode], list[ActiveGrant]] = {}
        self._delays: dict[tuple[str, bool], tuple[QueuedRequest, ...]] = {}

    def after(self, request: QueuedRequest) -> Iterator[QueuedRequest]:
        """Yield the requests that must be granted, or end, before the grants that block `request` can be released."""
        for name, mode in request.wants.items():
            for grant in self._stuck(request.places[name], mode):
                if not request.path.startswith(grant.path):
                    yield from self._delaying(grant)

    def ring(self, requests: tuple[QueuedRequest, ...]) -> tuple[QueuedRequest, ...]:
        """Return the first cycle that `requests` lead to, each waiting for the next, or empty."""
        done: set[str] = set()
        for start in requests:
            found = self._ring_from(start, done)
            if found:
                return found
        return ()

    def served(self, request: QueuedRequest) -> None:
        """Note that `request` was granted and no longer waits."""
        self._served.add(request.address)
        self._known.clear()
        self._delays.clear()

    def families_before(
        self, request: QueuedRequest, ahead: Callable[[QueuedRequest], Iterable[QueuedRequest]]
    ) -> frozenset[str]:
        """Return the families that must release locks or be served before `request`; `ahead` yields those before it."""
        seen = {request.address}
        found: set[str] = set()
        rest = [request]
        while rest:
            here = rest.pop()
            found |= {grant.path for grant in self._held.blocking(here)}
            for other in (*self.after(here), *ahead(here)):
                found.add(other.path)
                if other.address not in seen:
                    seen.add(other.address)
                    rest.append(other)
        return frozenset(found)

    def _ring_from(self, start: QueuedRequest, done: set[str]) -> tuple[QueuedRequest, ...]:
        if start.address in done:
            return ()
        way: list[QueuedRequest] = [start]
        rest: list[Iterator[QueuedRequest]] = [self.after(start)]
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
        """Return the grants that block `mode` at `place` and whose owners wait themselves."""
        found = self._known.get((place, mode))
        if found is None:
            found = [grant for grant in self._held.against(place, mode) if self._delaying(grant)]
            self._known[place, mode] = found
        return found

    def _index(self) -> None:
        for request in self._requests:
            self._own.setdefault(request.path, []).append(request)
            for path in _with_ancestors(request.path):
                self._within.setdefault(path, []).append(request)
        self._requests = ()

    def _delaying(self, grant: ActiveGrant) -> tuple[QueuedRequest, ...]:
        if self._requests:  # Built at the first use: most steps of a lock do not need it.
            self._index()
        lasts = grant.kept in ("task", "declared")
        known = self._delays.get((grant.path, lasts))
        if known is None:
            below = self._within.get(grant.path, ()) if lasts else ()
            waiting = (*self._own.get(grant.path, ()), *below, *self._awaited(grant.path))
            found = {one.address: one for one in waiting if one.address not in self._served}
            known = self._delays[grant.path, lasts] = tuple(found.values())
        return known

    def _awaited(self, path: str) -> list[QueuedRequest]:
        """Return the requests of the families, and their descendants, that the agent at `path` waits for in a call."""
        return [request for other in awaited_families(self._view, path) for request in self._within.get(other, ())]


def _with_ancestors(path: str) -> Iterator[str]:
    names = path.rstrip("/").split("/") if path else []
    yield ""
    for depth in range(1, len(names) + 1):
        yield "/".join(names[:depth]) + "/"


def deadlock_victim(ring: tuple[QueuedRequest, ...]) -> QueuedRequest:
    """Return the request of a cycle to refuse: a call before a task, since agents can act; then the lowest priority,
    then the latest request.
    """
    return min(ring, key=lambda one: (not one.is_call, one.priority, -one.since, one.address))
