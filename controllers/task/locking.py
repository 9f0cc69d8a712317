"""Whether the locks that a task names are held by it.

The task says that it waits for them (reason `AwaitingLocks`), the lock controller grants all or none in the status of
the lock objects; neither imports the other.
"""

from __future__ import annotations

from reconciler.storing.store import View
from schemas.frozen import frozen
from schemas.resource import Resource
from schemas.task import TaskSpec


@frozen
class MissingLock:
    """A lock that the task does not hold, and the task that does (None: nobody, or it is not there yet)."""

    path: str
    holder: str | None


def missing_lock(view: View, me: Resource, spec: TaskSpec) -> MissingLock | None:
    """The first lock that `me` names and does not hold, those held by others before those held by nobody."""
    free: MissingLock | None = None
    for path in spec.locks:
        lock = view.get(f"lock/{path}")
        holder = None if lock is None else lock.status.get("holder")
        if holder is None:
            free = free or MissingLock(path, None)
        elif holder["task"] != me.address or holder["uid"] != me.uid:
            return MissingLock(path, holder["task"])
    return free
