"""The lock controller: a lock that is woken has those served who wait near it, in one append.

Who holds a lock and wants no other needs no controller: grants and releases are part of the holder's own records. This
one serves the queue, takes back what nobody holds any more, and finds out who waits for each other.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from controllers.leases.granting import place_of
from controllers.leases.places import overlap
from controllers.leases.writing import Rows
from controllers.lock.holding import Held
from controllers.lock.lapsing import BY, expired, leases_of, let_go
from controllers.lock.observing import in_order, observe
from controllers.lock.placing import canonical
from controllers.lock.serving import served
from controllers.lock.telling import answers, knotted, refusals
from controllers.lock.waiting import Waits
from reconciler.clock import Clock
from reconciler.contract import Again, Done, Outcome
from reconciler.driving.working import WorkPlane
from reconciler.storing.store import Store, View
from schemas import limits
from schemas.address import Address
from schemas.frozen import frozen
from schemas.record import Also, Change, Draft

KIND: Final = "lock"


@frozen
class Step:
    """What is to be written, and in how many seconds somebody has to look again; None: when something changes."""

    changes: tuple[Change, ...] = ()
    says: tuple[Also, ...] = ()
    again_s: float | None = None


class LockReconciler:
    """Drives objects of kind `lock`. `root` is the plan's folder, where symbolic links are followed; None: nowhere."""

    kind = KIND

    def __init__(self, store: Store, clock: Clock, work: WorkPlane | None = None, root: Path | None = None) -> None:
        self._store = store
        self._clock = clock
        self._work = work
        self._root = root

    async def reconcile(self, address: Address) -> Outcome:
        """Serves those who wait near the lock at `address`, which may be gone by now."""
        step = decide(self._store.view, str(address), self._clock.now(), self._work, self._root)
        if step.changes:
            first, *also = step.says or (Also("object.updated", str(address), {}),)
            draft = Draft(first.type, BY, first.subject, step.changes, first.data, also=tuple(also))
            self._store.propose(draft)  # No effect follows: who is granted something flushes before it acts.
        return Done() if step.again_s is None else Again(step.again_s)


def decide(view: View, address: str, now: float, work: WorkPlane | None = None, root: Path | None = None) -> Step:
    """What the lock at `address` calls for. Costs a look at each lock, and more only when somebody waits near it."""
    lock, rows = view.get(address), Rows(view)
    path = address.partition("/")[2]
    says: list[Also] = []
    if lock is not None:
        rows.tidy(path)
        if root is not None and lock.owner is not None and (place := canonical(root, path)) != place_of(lock):
            rows.settle(path, place)
            return Step(rows.changes(), (Also("object.updated", address, {"place": place}),))
        says += let_go(view, lock, rows)
    place = path if lock is None else place_of(lock)
    near = (one for one in view.list(KIND) if one.status.get("waiters"))
    if not any(overlap(place_of(one), place) for one in near):
        return Step(rows.changes(), tuple(says))
    return _serve(view, place, rows, says, (now, work))


def _serve(view: View, place: str, rows: Rows, says: list[Also], at: tuple[float, WorkPlane | None]) -> Step:
    now, work = at
    queue = observe(view)
    for path, waiting in queue.stale:
        rows.leave(path, waiting)
    gone = {(one.subject.partition("/")[2], str(one.data["owner"])) for one in says}
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
