"""All locks of the plan and the tasks that name them, read at one moment: who may have one depends on all of them."""

from __future__ import annotations

from dataclasses import field

from reconciler.storing.store import View
from schemas.frozen import frozen
from schemas.lock import locks_of
from schemas.resource import Resource
from schemas.task import ENDED

WAITING_FOR_LOCKS = "AwaitingLocks"  # The reason that a task's controller gives; nothing else is in its way.


@frozen
class Holder:
    """The task that has a lock. `fence` rises with every grant; `since` is seconds since 1970."""

    task: str
    uid: str
    incarnation: int
    since: float
    fence: int


@frozen
class Lock:
    """`path` is a path or glob below the plan's folder. `waiters` maps tasks to when they were first seen waiting."""

    resource: Resource
    path: str
    holder: Holder | None
    waiters: dict[str, float] = field(default_factory=dict)
    fence: int = 0


@frozen
class Wisher:
    """A task that names locks."""

    address: str
    uid: str
    incarnation: int
    paths: tuple[str, ...]
    priority: int
    is_waiting: bool
    is_over: bool


@frozen
class Observed:
    """Locks by path, tasks by address."""

    locks: dict[str, Lock]
    tasks: dict[str, Wisher]
    now: float


def observe(view: View, now: float) -> Observed:
    """Every lock, and every task that names one."""
    locks = [_lock(each) for each in view.list("lock") if each.owner is not None]
    named = dict.fromkeys(task for lock in locks for task in lock.resource.refs)
    found = (view.get(address) for address in named)
    tasks = [_wisher(each) for each in found if each is not None]
    return Observed({lock.path: lock for lock in locks}, {task.address: task for task in tasks}, now)


def _lock(resource: Resource) -> Lock:
    status = resource.status
    raw = status.get("holder")
    holder = None if raw is None else Holder(**raw)
    return Lock(resource, resource.spec["path"], holder, status.get("waiters", {}), status.get("fence", 0))


def _wisher(task: Resource) -> Wisher:
    ready = task.status.get("conditions", {}).get("Ready") or {}
    return Wisher(
        address=task.address,
        uid=task.uid,
        incarnation=int(task.status.get("incarnation", 0)),
        paths=tuple(locks_of(task.spec)),
        priority=int(task.spec["priority"]),
        is_waiting=not task.deleting and ready.get("reason") == WAITING_FOR_LOCKS,
        is_over=task.state in ENDED,
    )
