"""One fork and those who work in it, read from the view at one moment."""

from __future__ import annotations

from typing import Final

from planloop.controllers.fork.desk import outer_tree
from planloop.reconciler.driving.working import WorkPlane
from planloop.reconciler.storing.store import View
from planloop.schemas.call import CallState
from planloop.schemas.encoding import Json
from planloop.schemas.fork import IN_USE, Asked, ForkSpec, ForkStatus, asked_of, fork_from_json, fork_status
from planloop.schemas.frozen import frozen
from planloop.schemas.resource import Resource

JOBS: Final = ("make", "bring", "leave", "clear", "look")
_IN_FLIGHT: Final = frozenset({CallState.PROPOSED, CallState.AUTHORIZED, CallState.STARTED})


@frozen
class Observed:
    """`asked` is what its own task asks of it, `is_wanted` says that somebody who works in it waits for it to be there.

    `is_called_off`: its task is cancelled or gone, or it is being removed. `busy` is one who works in it and is in the
    middle of something (empty: nobody), `revs` the revisions of all of them. `is_placed`: the folder that it leaves is
    there. `is_live`: its job runs. `by_agent`: an agent does its task, and is told of conflicts. `is_in_line`: it waits
    for locks.
    """

    resource: Resource
    spec: ForkSpec
    status: ForkStatus
    asked: Asked
    is_wanted: bool
    is_called_off: bool
    busy: str
    revs: dict[str, int | None]
    is_placed: bool
    is_live: bool
    by_agent: bool
    is_in_line: bool
    now: float


def observe(resource: Resource, view: View, work: WorkPlane, now: float) -> Observed:
    """What is known of the fork `resource`."""
    spec, status = fork_from_json(resource.spec), fork_status(resource.status)
    task = view.get(spec.task)
    users = [one for ref in resource.refs if (one := view.get(ref)) is not None and one.kind in ("task", "agent")]
    outer = view.get(spec.outer) if spec.outer else None
    return Observed(
        resource=resource,
        spec=spec,
        status=status,
        asked=Asked() if task is None else asked_of(task.status),
        is_wanted=any(one.kind == "task" and _waits(one) for one in users),
        is_called_off=resource.deleting or task is None or task.deleting or task.state == "cancelled",
        busy=next((one.address for one in users if is_busy(one, view)), ""),
        revs={one.address: one.rev for one in users},
        is_placed=spec.outer is None or (outer is not None and bool(outer_tree(view, spec))),
        is_live=any(work.is_live(job_key(resource.uid, what)) for what in JOBS),
        by_agent=task is not None and task.spec["work"]["kind"] == "agent",
        is_in_line=bool(resource.status.get("wants")) and not resource.status.get("locks"),
        now=now,
    )


def is_busy(user: Resource, view: View) -> bool:
    """Whether a task or agent is in the middle of something that reads or writes files."""
    if user.kind == "task":
        call = view.get(str(user.status.get("call") or ""))
        return call is not None and call.state == CallState.STARTED
    # A turn whose calls all wait (for a child, an answer, a lock) touches nothing until one of them goes on, nor does
    # one whose mind could not be asked.
    opened: Json = user.status.get("open")
    is_asked = isinstance(opened, dict) and not opened.get("reply") and not opened.get("failure")
    return is_asked or any(one.state in _IN_FLIGHT for one in view.owned_by(user.address) if one.kind == "call")


def _waits(task: Resource) -> bool:
    return not task.deleting and task.state != "cancelled" and asked_of(task.status).wish == "made"


def job_key(uid: str, what: str) -> str:
    """The key of a job of the fork `uid`, which may move meanwhile."""
    return f"{uid}#{what}"


def is_there(status: ForkStatus) -> bool:
    """Whether there is a working tree to work in."""
    return status.state in IN_USE
