"""Decide the next step of a fork from one observation. Pure."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from planloop.controllers.fork.context import outer_folder
from planloop.reconciler.engine.work_pools import WorkPlane
from planloop.reconciler.store.store import View
from planloop.schemas import limits
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.call import CallState
from planloop.schemas.objects.fork import (
    IN_USE,
    ForkRequest,
    ForkSpec,
    ForkState,
    ForkStatus,
    fork_from_json,
    fork_request,
    fork_status_from_json,
)
from planloop.schemas.resource import Resource

FORK_JOBS: Final = ("make", "bring", "leave", "clear", "look")
_IN_FLIGHT: Final = frozenset({CallState.PROPOSED, CallState.AUTHORIZED, CallState.STARTED})


@frozen
class ObservedFork:
    """A fork and its users: the tasks and agents that work in it.

    `asked` is what its own task requests; `is_wanted`: a user waits for its working tree. `is_called_off`: its task is
    cancelled or gone, or it is being removed. `busy` is a user that is in the middle of something, empty for none;
    `revs` are the revisions of all users. `is_placed`: the folder it branches from exists. `is_live`: its job runs.
    `by_agent`: an agent does its task, and resolves its conflicts.
    """

    resource: Resource
    spec: ForkSpec
    status: ForkStatus
    asked: ForkRequest
    is_wanted: bool
    is_called_off: bool
    busy: str
    revs: dict[str, int | None]
    is_placed: bool
    is_live: bool
    by_agent: bool
    now: float

    @property
    def is_in_line(self) -> bool:
        """Whether it waits for locks."""
        return bool(self.resource.status.get("wants")) and not self.resource.status.get("locks")


def observe_fork(resource: Resource, view: View, work: WorkPlane, now: float) -> ObservedFork:
    """Return the observation of the fork `resource`."""
    spec, status = fork_from_json(resource.spec), fork_status_from_json(resource.status)
    task = view.get(spec.task)
    users = [one for ref in resource.refs if (one := view.get(ref)) is not None and one.kind in ("task", "agent")]
    outer = view.get(spec.outer) if spec.outer else None
    return ObservedFork(
        resource=resource,
        spec=spec,
        status=status,
        asked=ForkRequest() if task is None else fork_request(task.status),
        is_wanted=any(one.kind == "task" and _waits(one) for one in users),
        is_called_off=resource.deleting or task is None or task.deleting or task.state == "cancelled",
        busy=next((one.address for one in users if is_user_busy(one, view)), ""),
        revs={one.address: one.rev for one in users},
        is_placed=spec.outer is None or (outer is not None and bool(outer_folder(view, spec))),
        is_live=any(work.is_live(fork_job_key(resource.uid, what)) for what in FORK_JOBS),
        by_agent=task is not None and task.spec["work"]["kind"] == "agent",
        now=now,
    )


def is_user_busy(user: Resource, view: View) -> bool:
    """Whether a task or agent is in the middle of something that reads or writes files."""
    if user.kind == "task":
        call = view.get(str(user.status.get("call") or ""))
        return call is not None and call.state == CallState.STARTED
    # A turn whose calls all wait (for a child, an answer, a lock) reads and writes no file until one of them continues,
    # nor does a turn whose decider could not be asked.
    opened: Json = user.status.get("open")
    is_asked = isinstance(opened, dict) and not opened.get("reply") and not opened.get("failure")
    return is_asked or any(one.state in _IN_FLIGHT for one in view.owned_by(user.address) if one.kind == "call")


def _waits(task: Resource) -> bool:
    return not task.deleting and task.state != "cancelled" and fork_request(task.status).wish == "made"


def fork_job_key(uid: str, what: str) -> str:
    """Return the key of a job of the fork with this uid, whose address may change."""
    return f"{uid}#{what}"


def has_worktree(status: ForkStatus) -> bool:
    """Whether the fork has a working tree to work in."""
    return status.state in IN_USE


# A job does each step and first writes what it is about to do. A noted step without a job was interrupted by a crash
# and is done again. Nothing is done while a task or agent that works in the fork is busy.

ForkJob: TypeAlias = Literal["make", "bring", "leave", "clear", "look"]


@frozen
class EnterForkState:
    """Write this state, if no task or agent of the fork has changed since; afterwards they begin nothing new."""

    merge: JsonObject


@frozen
class StartForkJob:
    """Start the job `what`."""

    what: ForkJob


@frozen
class ReportNothingToMerge:
    """Answer that there is nothing to merge back: the folder has all changes."""


@frozen
class ReleaseFork:
    """Nothing but perhaps the branch is left: the object may be removed."""


@frozen
class ForkRest:
    """Nothing to do now; decide again after `after_s` seconds, if set."""

    after_s: float | None = None


ForkStep: TypeAlias = EnterForkState | StartForkJob | ReportNothingToMerge | ReleaseFork | ForkRest

_LEFT: Final = frozenset({ForkState.NONE, ForkState.IN, ForkState.KEPT})


def decide_fork(seen: ObservedFork) -> ForkStep:
    """Return the next step."""
    status = seen.status
    if seen.is_live:
        return ForkRest()
    if status.retry_at > seen.now:
        return ForkRest(status.retry_at - seen.now)
    if seen.is_called_off and status.state is not ForkState.WRITING:
        return _called_off(seen)
    if status.state in (ForkState.MERGING, ForkState.WRITING):
        # A write that has begun is finished, whatever was decided since.
        return ForkRest() if seen.is_in_line else StartForkJob("bring")
    if status.state is ForkState.MAKING:
        return StartForkJob("make") if seen.is_placed else ForkRest()
    if seen.is_wanted and not has_worktree(status):
        return _make(seen)
    if status.state is ForkState.IN and status.folder and not status.ignored:
        return StartForkJob("clear")
    return _bring(seen)


def _called_off(seen: ObservedFork) -> ForkStep:
    status = seen.status
    if not status.folder and status.state is not ForkState.MAKING:
        return ReleaseFork() if seen.resource.deleting else ForkRest()
    if seen.busy:
        return ForkRest()
    if status.state is ForkState.KEPT or status.state is ForkState.IN:
        return StartForkJob("clear") if seen.resource.deleting or not status.ignored else ForkRest()
    return StartForkJob("leave")


def _make(seen: ObservedFork) -> ForkStep:
    if seen.busy or not seen.is_placed:
        return ForkRest()
    merge: JsonObject = {"state": str(ForkState.MAKING)}
    if seen.status.state is not ForkState.KEPT:
        merge |= {"base": None, "branch": None, "head": None}
    return EnterForkState(merge)


def _bring(seen: ObservedFork) -> ForkStep:
    status, asked = seen.status, seen.asked
    if asked.wish != "in":
        return ForkRest()
    if asked.bring > status.answered:
        if status.state in _LEFT:
            return ReportNothingToMerge()
        return ForkRest() if seen.busy else EnterForkState({"state": str(ForkState.MERGING)})
    if status.state is ForkState.CONFLICT and not seen.by_agent:
        return StartForkJob("look")  # A person resolves it: continue when no conflict is left.
    return ForkRest()


def git_retry_s(tries: int) -> float:
    """Return the seconds before the next try of git after `tries` failures in a row."""
    return min(limits.BACKOFF_CAP_S, 2.0 ** min(tries, 30))  # Higher powers exceed the cap and finally overflow.
