"""Decide the next step of a lock: which waiters get it, and which waiter of a deadlock is refused. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from planloop.controllers.lock.lease_expiry import contested_leases, expire_lease, release_ended_grants
from planloop.controllers.lock.wait_graph import (
    ActiveGrant,
    ActiveGrants,
    QueuedRequest,
    WaitGraph,
    deadlock_victim,
    lock_queue,
    queue_order,
)
from planloop.controllers.shared.leases.grants import LockRows, lock_path
from planloop.controllers.shared.leases.lock_paths import PathIndex, paths_overlap
from planloop.reconciler.engine.work_pools import WorkPlane
from planloop.reconciler.store.store import View
from planloop.schemas import limits
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.log.record import Change, SetStatus, SubRecord
from planloop.schemas.objects.lock import DEADLOCK, LockMode

# Requests are served in the order of the queue, each completely or not at all. A request that must wait also blocks the
# requests behind it, except those that must be served before it can be.


class RequestsAhead:
    """Requests that must wait, by the paths that they wait for."""

    def __init__(self) -> None:
        self._places: PathIndex[str] = PathIndex()
        self._requests: dict[str, dict[LockMode, list[QueuedRequest]]] = {}

    def add(self, request: QueuedRequest) -> None:
        """Add a request behind all others."""
        for name, mode in request.wants.items():
            place = request.places[name]
            if place not in self._requests:
                self._requests[place] = {"read": [], "write": []}
                self._places.add(place, place)
            self._requests[place][mode].append(request)

    def of(self, request: QueuedRequest) -> Iterator[QueuedRequest]:
        """Yield the requests before `request` that a grant to it would block; one may come more than once."""
        for name, mode in request.wants.items():
            for _, place in self._places.near(request.places[name]):
                waiting = self._requests[place]
                for others in (waiting["write"], waiting["read"] if mode == "write" else ()):
                    before = takewhile(lambda other: other.rank < request.rank, others)
                    yield from (other for other in before if not other.path.startswith(request.path))


def served_requests(view: View, requests: tuple[QueuedRequest, ...], held: ActiveGrants) -> tuple[QueuedRequest, ...]:
    """Return the requests that can be granted now, in the order of the queue, and add their grants to `held`."""
    out: list[QueuedRequest] = []
    ahead, waits = RequestsAhead(), WaitGraph(view, requests, held)
    known: dict[str, frozenset[str]] = {}
    for request in requests:
        is_blocked = next(held.blocking(request), None) is not None
        if is_blocked or any(not _is_held_up(waits, other, request, ahead, known) for other in ahead.of(request)):
            ahead.add(request)
            continue
        out.append(request)
        for name, mode in request.wants.items():
            held.add(request.places[name], ActiveGrant(name, request.owner.address, request.path, mode, request.kept))
        waits.served(request)
        known.clear()
    return tuple(out)


def _is_held_up(
    waits: WaitGraph, other: QueuedRequest, by: QueuedRequest, ahead: RequestsAhead, known: dict[str, frozenset[str]]
) -> bool:
    """Whether `other` must wait until the family of `by`, or an ancestor of it, was served and released its locks."""
    before = known.get(other.address)
    if before is None:
        before = known[other.address] = waits.families_before(other, ahead.of)
    return any(by.path.startswith(path) for path in before)


def grant_answers(
    granted: tuple[QueuedRequest, ...], rows: LockRows, now: float, says: list[SubRecord]
) -> Iterator[Change]:
    """Write the grants into `rows`, and yield the changes that wake their waiters: `granted` in a call, `locks` in a
    task.
    """
    for request in granted:
        fences: JsonObject = {}
        for name, mode in request.wants.items():
            holder = rows.grant(name, request.owner, mode, request.kept, (now, request.reason))
            rows.leave(name, request.address)
            fences[name] = holder.fence
        waited_s = round(max(0.0, now - request.since), 3)
        data: JsonObject = {
            "owner": request.owner.address,
            "fences": fences,
            "kept": request.kept,
            "waited_s": waited_s,
        }
        says.append(SubRecord("lock.granted", f"lock/{min(request.wants)}", data))
        merge: JsonObject = {"granted": fences} if request.is_call else {"locks": fences, "ring": None}
        yield SetStatus(request.address, request.waiting.uid, merge)


def deadlocks(waits: WaitGraph, requests: tuple[QueuedRequest, ...]) -> list[tuple[QueuedRequest, ...]]:
    """Return all deadlocks, each without the victims of the ones before it."""
    found: list[tuple[QueuedRequest, ...]] = []
    while ring := waits.ring(requests):
        found.append(ring)
        out = deadlock_victim(ring)
        waits.served(out)
        requests = tuple(one for one in requests if one is not out)
    return found


def deadlock_refusals(
    waiting: tuple[QueuedRequest, ...], rings: list[tuple[QueuedRequest, ...]], rows: LockRows, says: list[SubRecord]
) -> Iterator[Change]:
    """Yield the changes that break deadlocks: the victim is refused if it is a call; a task waits on and is stuck."""
    stuck: dict[str, JsonObject] = {}
    for ring in rings:
        out = deadlock_victim(ring)
        cycle = [one.owner.address for one in (*ring[ring.index(out) :], *ring[: ring.index(out)])]
        refusal: JsonObject = {"reason": DEADLOCK, "cycle": cycle, "locks": sorted(out.wants)}
        data: JsonObject = {**refusal, "owner": out.owner.address, "why": DEADLOCK}
        if out.is_call:
            for name in out.wants:
                rows.leave(name, out.address)
            says.append(SubRecord("lock.deadlock", f"lock/{min(out.wants)}", data))
            yield SetStatus(out.address, out.waiting.uid, {"refused": refusal})
        else:
            stuck[out.address] = refusal
    for request in waiting:
        old, new = request.waiting.status.get("ring"), stuck.get(request.address)
        if not request.is_call and old != new:
            yield SetStatus(request.address, request.waiting.uid, {"ring": new})


# One step releases grants whose owner is gone, checks leases that are due, serves the queue, and breaks deadlocks.


@frozen
class LockStep:
    """Changes and records to write. Decide again after `again_s` seconds; None: when something changes."""

    changes: tuple[Change, ...] = ()
    says: tuple[SubRecord, ...] = ()
    again_s: float | None = None


def decide_lock(view: View, address: str, now: float, work: WorkPlane | None = None, about: str = "") -> LockStep:
    """Return the next step for the lock at `address`. It looks at each lock, and at more only if waiters are near.

    `about` is the canonical path of a declared lock; empty if it is not known. A decision on the state after the step
    writes nothing.
    """
    lock, rows = view.get(address), LockRows(view)
    path = address.partition("/")[2]
    says: list[SubRecord] = []
    if lock is not None:
        rows.tidy(path)
        if about and lock.owner is not None and about != lock_path(lock):
            rows.settle(path, about)
            return LockStep(rows.changes(), (SubRecord("object.updated", address, {"place": about}),))
        says += release_ended_grants(view, lock, rows)
    place = path if lock is None else lock_path(lock)
    near = (one for one in view.list("lock") if one.status.get("waiters"))
    if not any(paths_overlap(lock_path(one), place) for one in near):
        return LockStep(rows.changes(), tuple(says))
    return _serve(view, place, rows, says, (now, work))


def _serve(
    view: View, place: str, rows: LockRows, says: list[SubRecord], at: tuple[float, WorkPlane | None]
) -> LockStep:
    now, work = at
    queue = lock_queue(view)
    for path, waiting in queue.stale:
        rows.leave(path, waiting)
    gone = {(path, str(one.data["owner"])) for one in says for path in one.data["paths"]}
    held = ActiveGrants(view, gone)
    left_s: list[float] = []
    for lease in contested_leases(view, held, queue.requests, place):
        if lease.due_at > now:
            left_s.append(lease.due_at - now)
            continue
        said = expire_lease(view, work, lease, now, rows)
        says.append(said)
        if said.type == "lock.fenced":
            gone.add((lease.lock.spec["path"], lease.owner))
            held = ActiveGrants(view, gone)
        else:
            left_s.append(limits.LOCK_TTL_S)
    again_s = min(left_s, default=None)
    if held.settled(queue.requests) and not any(one.waiting.status.get("ring") for one in queue.requests):
        return LockStep(rows.changes(), tuple(says), again_s)
    requests = queue_order(view, queue.requests)
    granted = served_requests(view, requests, held)
    changes = [*grant_answers(granted, rows, now, says)]
    served_now = {one.address for one in granted}
    rest = tuple(one for one in requests if one.address not in served_now)
    rings = [] if held.settled(rest) else deadlocks(WaitGraph(view, rest, held), rest)
    changes += deadlock_refusals(rest, rings, rows, says)
    return LockStep((*rows.changes(), *changes), tuple(says), again_s)
