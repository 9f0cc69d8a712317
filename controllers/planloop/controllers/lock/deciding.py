"""What one lock calls for: a pure function from all locks, and all who wait, to one append.

What nobody stands behind any more is taken back, leases whose time is up are looked at, the queue is served, and rings
of waits are broken. Each rule is next door, in the file of its concept.
"""

from __future__ import annotations

from planloop.controllers.leases.granting import place_of
from planloop.controllers.leases.places import overlap
from planloop.controllers.leases.writing import Rows
from planloop.controllers.lock.holding import Held
from planloop.controllers.lock.lapsing import expired, leases_of, let_go
from planloop.controllers.lock.observing import in_order, observe
from planloop.controllers.lock.serving import served
from planloop.controllers.lock.telling import answers, knotted, refusals
from planloop.controllers.lock.waiting import Waits
from planloop.reconciler.driving.working import WorkPlane
from planloop.reconciler.storing.store import View
from planloop.schemas import limits
from planloop.schemas.frozen import frozen
from planloop.schemas.record import Also, Change


@frozen
class Step:
    """What is to be written, and in how many seconds somebody has to look again; None: when something changes."""

    changes: tuple[Change, ...] = ()
    says: tuple[Also, ...] = ()
    again_s: float | None = None


def decide(view: View, address: str, now: float, work: WorkPlane | None = None, about: str = "") -> Step:
    """What the lock at `address` calls for. Costs a look at each lock, and more only when somebody waits near it.

    `about` is the path that a declared lock is found to be about, empty when nobody has looked. Deciding again on what
    the step leads to gives a step that writes nothing.
    """
    lock, rows = view.get(address), Rows(view)
    path = address.partition("/")[2]
    says: list[Also] = []
    if lock is not None:
        rows.tidy(path)
        if about and lock.owner is not None and about != place_of(lock):
            rows.settle(path, about)
            return Step(rows.changes(), (Also("object.updated", address, {"place": about}),))
        says += let_go(view, lock, rows)
    place = path if lock is None else place_of(lock)
    near = (one for one in view.list("lock") if one.status.get("waiters"))
    if not any(overlap(place_of(one), place) for one in near):
        return Step(rows.changes(), tuple(says))
    return _serve(view, place, rows, says, (now, work))


def _serve(view: View, place: str, rows: Rows, says: list[Also], at: tuple[float, WorkPlane | None]) -> Step:
    now, work = at
    queue = observe(view)
    for path, waiting in queue.stale:
        rows.leave(path, waiting)
    gone = {(path, str(one.data["owner"])) for one in says for path in one.data["paths"]}
    held = Held(view, gone)
    left_s: list[float] = []
    for lease in leases_of(view, held, queue.wishes, place):
        if lease.due_at > now:
            left_s.append(lease.due_at - now)
            continue
        said = expired(view, work, lease, now, rows)
        says.append(said)
        if said.type == "lock.fenced":
            gone.add((lease.lock.spec["path"], lease.owner))
            held = Held(view, gone)
        else:
            left_s.append(limits.LOCK_TTL_S)
    again_s = min(left_s, default=None)
    if held.settled(queue.wishes) and not any(one.waiting.status.get("ring") for one in queue.wishes):
        return Step(rows.changes(), tuple(says), again_s)
    wishes = in_order(view, queue.wishes)
    granted = served(view, wishes, held)
    changes = [*answers(granted, rows, now, says)]
    served_now = {one.address for one in granted}
    rest = tuple(one for one in wishes if one.address not in served_now)
    rings = [] if held.settled(rest) else knotted(Waits(view, rest, held), rest)
    changes += refusals(rest, rings, rows, says)
    return Step((*rows.changes(), *changes), tuple(says), again_s)
