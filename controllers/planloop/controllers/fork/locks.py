"""The locks that a fork takes before it writes into the folder: all or none, with a place in each queue.

They are named as everybody names files there. Files beyond the plan's folder have no locks.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from planloop.controllers.fork.context import ForkHandle
from planloop.controllers.shared.leases import grants, owners
from planloop.controllers.shared.leases.grants import LocksGranted, Wants, explain_blockers, lost_locks
from planloop.controllers.shared.leases.owners import LockOwner
from planloop.schemas import limits
from planloop.schemas.canonical_json import JsonObject, printable_name
from planloop.schemas.log.record import Change
from planloop.schemas.objects.fork import lock_prefix
from planloop.schemas.objects.lock import LockKept

_KEPT: Final[LockKept] = "asked"
NO_WISH: Final[JsonObject] = {"wants": None, "kept": None, "reason": None, "locks": None}
"""A fork that waits for no locks any more."""


def wanted_locks(fork: ForkHandle, prefix: str, paths: Sequence[str]) -> Wants:
    """The locks of `paths`, which are relative to the root of a repository, in which `prefix` is the plan's folder."""
    names = [printable_name(path.removeprefix(prefix)) for path in paths if path.startswith(prefix)]
    if len(names) > limits.FORK_LOCKS_MAX:
        above = os.path.commonpath([name.rpartition("/")[0] or "." for name in names])
        names = [f"{above}/**" if above not in ("", ".") else "**"]
    place = lock_prefix(fork.spec.outer) if fork.spec.outer else ""
    return {f"{place}/{name}" if place else name: "write" for name in names}


def take_locks(fork: ForkHandle, wants: Wants) -> tuple[Change, ...] | None:
    """The changes that grant all of `wants` to the fork's task; None when others are in the way."""
    owner = _owner(fork)
    if owner is None or not wants:
        return ()
    found = grants.grant_locks(fork.desk.store.view, owner, wants, _KEPT, _reason(fork), fork.desk.clock.now())
    return found.changes if isinstance(found, LocksGranted) else None


class ForkLocksLost(Exception):
    """Somebody took the locks from the fork, or has them by now: what is not written yet may not be."""


def require_locks(fork: ForkHandle, wants: Wants) -> None:
    """Looks at the fence of what was taken to write `wants`. Raises ForkLocksLost."""
    owner, view = _owner(fork), fork.desk.store.view
    if owner is None:
        return
    if any(lost_locks(view, owner, wants)) or any(grants.blocking_grants(view, owner.address, wants)):
        raise ForkLocksLost(fork.address)


async def wait_for_locks(fork: ForkHandle, wants: Wants) -> None:
    """Puts the fork into the queues of all these locks, with none of them held meanwhile: no ring goes through it."""
    owner, view, now = _owner(fork), fork.desk.store.view, fork.desk.clock.now()
    if owner is None:
        return
    if (held := release_fork_locks(fork)) != ():
        await fork.note("lock.released", {}, {"owner": owner.address}, held)
    others = grants.find_blockers(view, owner, wants, now)
    why = explain_blockers(others).message if others else ""
    merge: JsonObject = {"wants": dict(wants), "kept": _KEPT, "reason": _reason(fork), "locks": None}
    queued = grants.queue_changes(view, fork.address, owner, wants, _reason(fork), now)
    data: JsonObject = {"owner": owner.address, "wants": dict(wants), "message": why}
    await fork.note("lock.requested", merge, data, queued)


def release_fork_locks(fork: ForkHandle) -> tuple[Change, ...]:
    """The changes that give all of it back, and take the fork out of the queues that it stands in."""
    owner = _owner(fork)
    wants: JsonObject = fork.resource.status.get("wants") or {}
    left = grants.unqueue_changes(fork.desk.store.view, fork.address, tuple(wants)) if wants else ()
    return left or (() if owner is None else grants.release_changes(fork.desk.store.view, owner, kept={_KEPT}))


def release_outer_locks(fork: ForkHandle) -> tuple[Change, ...]:
    """The changes that give back what agents took in the folder that they leave: its files are theirs no more."""
    view = fork.desk.store.view
    found = (view.get(ref) for ref in fork.resource.refs if ref.startswith("agent/"))
    agents = [owners.lock_owner(agent) for agent in found if agent is not None]
    return tuple(
        change for agent in agents for change in grants.release_changes(view, agent, kept=("turn", "asked", "task"))
    )


def _owner(fork: ForkHandle) -> LockOwner | None:
    task = fork.desk.store.view.get(fork.spec.task)
    return None if task is None else owners.lock_owner(task)


def _reason(fork: ForkHandle) -> str:
    return f"{fork.address} is brought in"
