"""The locks under which a fork's files are written into the folder: its task's, taken all or none, waited for in line.

They are named as everybody names files there. Files beyond the plan's folder have no locks.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from planloop.controllers import leases
from planloop.controllers.fork.desk import Fork
from planloop.controllers.leases import Granted, Owner, Wants
from planloop.controllers.leases.granting import losses
from planloop.controllers.leases.words import barred
from planloop.schemas import limits
from planloop.schemas.encoding import JsonObject, printable
from planloop.schemas.fork import lock_place
from planloop.schemas.lock import LockKept
from planloop.schemas.record import Change

_KEPT: Final[LockKept] = "asked"
NO_WISH: Final[JsonObject] = {"wants": None, "kept": None, "reason": None, "locks": None}
"""A fork that waits for no locks any more."""


def wants_of(fork: Fork, prefix: str, paths: Sequence[str]) -> Wants:
    """The locks of `paths`, which are relative to the root of a repository, in which `prefix` is the plan's folder."""
    names = [printable(path.removeprefix(prefix)) for path in paths if path.startswith(prefix)]
    if len(names) > limits.FORK_LOCKS_MAX:
        above = os.path.commonpath([name.rpartition("/")[0] or "." for name in names])
        names = [f"{above}/**" if above not in ("", ".") else "**"]
    place = lock_place(fork.spec.outer) if fork.spec.outer else ""
    return {f"{place}/{name}" if place else name: "write" for name in names}


def taken(fork: Fork, wants: Wants) -> tuple[Change, ...] | None:
    """The changes that grant all of `wants` to the fork's task; None when others are in the way."""
    owner = _owner(fork)
    if owner is None or not wants:
        return ()
    found = leases.granted(fork.desk.store.view, owner, wants, _KEPT, _reason(fork), fork.desk.clock.now())
    return found.changes if isinstance(found, Granted) else None


class Lost(Exception):
    """Somebody took the locks from the fork, or has them by now: what is not written yet may not be."""


def require(fork: Fork, wants: Wants) -> None:
    """Looks at the fence of what was taken to write `wants`. Raises Lost."""
    owner, view = _owner(fork), fork.desk.store.view
    if owner is None:
        return
    if any(losses(view, owner, wants)) or any(leases.barring(view, owner.address, wants)):
        raise Lost(fork.address)


async def wait(fork: Fork, wants: Wants) -> None:
    """Puts the fork into the queues of all these locks, with none of them held meanwhile: no ring goes through it."""
    owner, view, now = _owner(fork), fork.desk.store.view, fork.desk.clock.now()
    if owner is None:
        return
    if (held := freed(fork)) != ():
        await fork.note("lock.released", {}, {"owner": owner.address}, held)
    others = leases.blockers(view, owner, wants, now)
    why = barred(others).message if others else ""
    merge: JsonObject = {"wants": dict(wants), "kept": _KEPT, "reason": _reason(fork), "locks": None}
    queued = leases.queued(view, fork.address, owner, wants, _reason(fork), now)
    data: JsonObject = {"owner": owner.address, "wants": dict(wants), "message": why}
    await fork.note("lock.requested", merge, data, queued)


def freed(fork: Fork) -> tuple[Change, ...]:
    """The changes that give all of it back, and take the fork out of the queues that it stands in."""
    owner = _owner(fork)
    wants: JsonObject = fork.resource.status.get("wants") or {}
    left = leases.unqueued(fork.desk.store.view, fork.address, tuple(wants)) if wants else ()
    return left or (() if owner is None else leases.released(fork.desk.store.view, owner, kept={_KEPT}))


def left_behind(fork: Fork) -> tuple[Change, ...]:
    """The changes that give back what agents took in the folder that they leave: its files are theirs no more."""
    view = fork.desk.store.view
    found = (view.get(ref) for ref in fork.resource.refs if ref.startswith("agent/"))
    agents = [leases.owner_of(agent) for agent in found if agent is not None]
    return tuple(change for agent in agents for change in leases.released(view, agent, kept=("turn", "asked", "task")))


def _owner(fork: Fork) -> Owner | None:
    task = fork.desk.store.view.get(fork.spec.task)
    return None if task is None else leases.owner_of(task)


def _reason(fork: Fork) -> str:
    return f"{fork.address} is brought in"
