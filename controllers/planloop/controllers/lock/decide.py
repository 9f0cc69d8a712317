"""Decide what one lock needs: which waiters are served, and which waiter of a deadlock is refused. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from planloop.controllers.lock.lease_expiry import contested_leases, expire_lease, release_ended_grants
from planloop.controllers.lock.wait_graph import (
    ActiveGrant,
    ActiveGrants,
    LockWish,
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

# Who of those who wait can be served now: pure, over all locks and all wishes at once.
#
# In the order of the queue, each all or none. Who has to wait keeps what it waits for from those behind it, but not
# from one that has to be served before it can be.


class WishesAhead:
    """The wishes that have to wait, by what they wait for."""

    def __init__(self) -> None:
        self._places: PathIndex[str] = PathIndex()
        self._wishes: dict[str, dict[LockMode, list[LockWish]]] = {}

    def add(self, wish: LockWish) -> None:
        """One more, behind all others."""
        for name, mode in wish.wants.items():
            place = wish.places[name]
            if place not in self._wishes:
                self._wishes[place] = {"read": [], "write": []}
                self._places.add(place, place)
            self._wishes[place][mode].append(wish)

    def of(self, wish: LockWish) -> Iterator[LockWish]:
        """Those before `wish` that a grant to it would be in the way of; perhaps one of them more than once."""
        for name, mode in wish.wants.items():
            for _, place in self._places.near(wish.places[name]):
                waiting = self._wishes[place]
                for others in (waiting["write"], waiting["read"] if mode == "write" else ()):
                    before = takewhile(lambda other: other.rank < wish.rank, others)
                    yield from (other for other in before if not other.path.startswith(wish.path))


def served_wishes(view: View, wishes: tuple[LockWish, ...], held: ActiveGrants) -> tuple[LockWish, ...]:
    """Those of `wishes`, in the order of the queue, that can all have what they want; `held` has it afterwards."""
    out: list[LockWish] = []
    ahead, waits = WishesAhead(), WaitGraph(view, wishes, held)
    known: dict[str, frozenset[str]] = {}
    for wish in wishes:
        is_blocked = next(held.blocking(wish), None) is not None
        if is_blocked or any(not _is_held_up(waits, other, wish, ahead, known) for other in ahead.of(wish)):
            ahead.add(wish)
            continue
        out.append(wish)
        for name, mode in wish.wants.items():
            held.add(wish.places[name], ActiveGrant(name, wish.owner.address, wish.path, mode, wish.kept))
        waits.served(wish)
        known.clear()
    return tuple(out)


def _is_held_up(
    waits: WaitGraph, other: LockWish, by: LockWish, ahead: WishesAhead, known: dict[str, frozenset[str]]
) -> bool:
    """Whether `other` cannot be served before the family of `by`, or an ancestor of it, has been and has let go."""
    before = known.get(other.address)
    if before is None:
        before = known[other.address] = waits.families_before(other, ahead.of)
    return any(by.path.startswith(path) for path in before)


# What those who waited are told: the grant, or that they have to give way because they wait for each other.


def grant_answers(granted: tuple[LockWish, ...], rows: LockRows, now: float, says: list[SubRecord]) -> Iterator[Change]:
    """The grants, in `rows`, and what wakes those who get them: `granted` in a call, `locks` in a task."""
    for wish in granted:
        fences: JsonObject = {}
        for name, mode in wish.wants.items():
            holder = rows.grant(name, wish.owner, mode, wish.kept, (now, wish.reason))
            rows.leave(name, wish.address)
            fences[name] = holder.fence
        waited_s = round(max(0.0, now - wish.since), 3)
        data: JsonObject = {"owner": wish.owner.address, "fences": fences, "kept": wish.kept, "waited_s": waited_s}
        says.append(SubRecord("lock.granted", f"lock/{min(wish.wants)}", data))
        merge: JsonObject = {"granted": fences} if wish.is_call else {"locks": fences, "ring": None}
        yield SetStatus(wish.address, wish.waiting.uid, merge)


def deadlocks(waits: WaitGraph, wishes: tuple[LockWish, ...]) -> list[tuple[LockWish, ...]]:
    """All rings, each without the one who gives way in those before it."""
    found: list[tuple[LockWish, ...]] = []
    while ring := waits.ring(wishes):
        found.append(ring)
        out = deadlock_victim(ring)
        waits.served(out)
        wishes = tuple(one for one in wishes if one is not out)
    return found


def deadlock_refusals(
    waiting: tuple[LockWish, ...], rings: list[tuple[LockWish, ...]], rows: LockRows, says: list[SubRecord]
) -> Iterator[Change]:
    """Who gives way is refused at once if it is a call; a task goes on waiting and says that it is stuck, and why."""
    stuck: dict[str, JsonObject] = {}
    for ring in rings:
        out = deadlock_victim(ring)
        cycle = [one.owner.address for one in (*ring[ring.index(out) :], *ring[: ring.index(out)])]
        said: JsonObject = {"reason": DEADLOCK, "cycle": cycle, "locks": sorted(out.wants)}
        data: JsonObject = {**said, "owner": out.owner.address, "why": DEADLOCK}
        if out.is_call:
            for name in out.wants:
                rows.leave(name, out.address)
            says.append(SubRecord("lock.deadlock", f"lock/{min(out.wants)}", data))
            yield SetStatus(out.address, out.waiting.uid, {"refused": said})
        else:
            stuck[out.address] = said
    for wish in waiting:
        old, new = wish.waiting.status.get("ring"), stuck.get(wish.address)
        if not wish.is_call and old != new:
            yield SetStatus(wish.address, wish.waiting.uid, {"ring": new})


# What one lock calls for: a pure function from all locks, and all who wait, to one append.
#
# What nobody stands behind any more is taken back, leases whose time is up are looked at, the queue is served, and
# rings of waits are broken. Each rule is next door, in the file of its concept.


@frozen
class LockStep:
    """What is to be written, and in how many seconds somebody has to look again; None: when something changes."""

    changes: tuple[Change, ...] = ()
    says: tuple[SubRecord, ...] = ()
    again_s: float | None = None


def decide_lock(view: View, address: str, now: float, work: WorkPlane | None = None, about: str = "") -> LockStep:
    """What the lock at `address` calls for. Costs a look at each lock, and more only when somebody waits near it.

    `about` is the path that a declared lock is found to be about, empty when nobody has looked. Deciding again on what
    the step leads to gives a step that writes nothing.
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
    for lease in contested_leases(view, held, queue.wishes, place):
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
    if held.settled(queue.wishes) and not any(one.waiting.status.get("ring") for one in queue.wishes):
        return LockStep(rows.changes(), tuple(says), again_s)
    wishes = queue_order(view, queue.wishes)
    granted = served_wishes(view, wishes, held)
    changes = [*grant_answers(granted, rows, now, says)]
    served_now = {one.address for one in granted}
    rest = tuple(one for one in wishes if one.address not in served_now)
    rings = [] if held.settled(rest) else deadlocks(WaitGraph(view, rest, held), rest)
    changes += deadlock_refusals(rest, rings, rows, says)
    return LockStep((*rows.changes(), *changes), tuple(says), again_s)
