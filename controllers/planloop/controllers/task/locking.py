"""Whether the locks that a task names are held by it, and the wish that puts it into their queues.

The task says that it waits for them (reason `AwaitingLocks`) and stands in their queues from the same append on; the
lock controller grants all or none, in the locks and in the task's own status, which wakes it.
"""

from __future__ import annotations

from planloop.controllers.leases import blockers, owner_of, queued, wants_of
from planloop.controllers.leases.owners import fallen
from planloop.controllers.leases.words import Words, barred, free
from planloop.reconciler.storing.store import View
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.record import Change
from planloop.schemas.resource import Resource
from planloop.schemas.task import TaskSpec


@frozen
class MissingLock:
    """A lock that the task does not hold: in words, and the changes that put it into the queue, none when it is there.

    `ring` names those who wait for each other, the task first; empty when they do not.
    """

    words: Words
    wish: tuple[Change, ...]
    ring: tuple[str, ...] = ()


def missing_lock(view: View, me: Resource, spec: TaskSpec, now: float) -> MissingLock | None:
    """What keeps `me` from starting, of the locks that it names: None when it holds them all."""
    missing = [path for path in spec.locks if not _is_held(view, me, path)]
    if not missing:
        return None
    owner, wants = owner_of(me), wants_of(view, me.address)
    others = blockers(view, owner, wants, now)
    words = barred(others) if others else free(min(missing))
    ring: JsonObject = me.status.get("ring") or {}
    return MissingLock(words, queued(view, me.address, owner, spec.locks, spec.goal, now), tuple(ring.get("cycle", ())))


def _is_held(view: View, me: Resource, path: str) -> bool:
    lock = view.get(f"lock/{path}")
    grant = None if lock is None else lock.status.get("holders", {}).get(me.address)
    return grant is not None and not fallen(view, me.address, grant, path)
