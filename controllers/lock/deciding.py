"""Who has which lock: pure, over all locks at once.

All or none: a task is granted everything it names in one go, so no task waits while holding and no cycle can form. By
priority, then first come first served; who waits keeps later comers off what it waits for, so nobody starves.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile

from controllers.lock.observing import Holder, Lock, Observed, Wisher


def allotted(seen: Observed) -> dict[str, Lock]:
    """Every lock as it should now be: ended holders let go, waiters noted, and whoever can be served has all."""
    locks = {path: _cleared(lock, seen) for path, lock in seen.locks.items()}
    queue = sorted((_waiting(task, locks, seen.now) for task in seen.tasks.values() if task.is_waiting), key=_order)
    reserved: list[str] = []
    for since, task in queue:
        wanted = sorted(path for path in task.paths if path in locks)
        is_free = all(_is_free(path, task, locks) for path in wanted)
        if is_free and not any(overlap(path, other) for path in wanted for other in reserved):
            locks |= {path: _granted(locks[path], task, seen.now) for path in wanted}
        else:
            reserved += wanted
            locks |= {path: _joined(locks[path], task, since) for path in wanted}
    return locks


def _cleared(lock: Lock, seen: Observed) -> Lock:
    holder = lock.holder
    if holder is not None and not _holds(holder, lock, seen):
        holder = None
    waiters = {
        address: since
        for address, since in lock.waiters.items()
        if address in seen.tasks and seen.tasks[address].is_waiting and lock.path in seen.tasks[address].paths
    }
    return replace(lock, holder=holder, waiters=waiters)


def _holds(holder: Holder, lock: Lock, seen: Observed) -> bool:
    """A holder keeps its lock until it has ended, is gone, or no longer names it; retries and pauses keep it."""
    task = seen.tasks.get(holder.task)
    return task is not None and task.uid == holder.uid and not task.is_over and lock.path in task.paths


def _waiting(task: Wisher, locks: dict[str, Lock], now: float) -> tuple[float, Wisher]:
    known = [locks[path].waiters[task.address] for path in task.paths if task.address in _waiters(locks, path)]
    return min(known, default=now), task


def _waiters(locks: dict[str, Lock], path: str) -> dict[str, float]:
    return locks[path].waiters if path in locks else {}


def _order(entry: tuple[float, Wisher]) -> tuple[int, float, str]:
    since, task = entry
    return (-task.priority, since, task.address)


def _is_free(path: str, task: Wisher, locks: dict[str, Lock]) -> bool:
    rivals = (lock for lock in locks.values() if overlap(path, lock.path) and lock.holder is not None)
    return all(lock.holder is not None and lock.holder.task == task.address for lock in rivals)


def _granted(lock: Lock, task: Wisher, now: float) -> Lock:
    if lock.holder is not None and lock.holder.task == task.address:
        return lock
    waiters = {address: since for address, since in lock.waiters.items() if address != task.address}
    # It is held by the incarnation that is about to start.
    holder = Holder(task.address, task.uid, task.incarnation + 1, now, lock.fence + 1)
    return replace(lock, holder=holder, waiters=waiters, fence=lock.fence + 1)


def _joined(lock: Lock, task: Wisher, since: float) -> Lock:
    return lock if task.address in lock.waiters else replace(lock, waiters={**lock.waiters, task.address: since})


def overlap(one: str, other: str) -> bool:
    """Whether two globs may name a file in common. Errs on the side of yes: their fixed beginnings are compared."""
    mine, theirs = _fixed(one), _fixed(other)
    shorter = min(len(mine), len(theirs))
    # Equal beginnings: one is the other or lies below it, and a plain path names what is below it as well.
    return mine[:shorter] == theirs[:shorter]


def _fixed(glob: str) -> list[str]:
    """The names before the first one with a wildcard."""
    return list(takewhile(lambda name: not set(name) & set("*?["), glob.strip("/").split("/")))
