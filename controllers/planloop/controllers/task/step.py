"""Result of a task decision: a status merge, other writes of the same append, jobs to start and to cancel. Pure."""

from __future__ import annotations

from dataclasses import field
from typing import TypeAlias

from planloop.controllers.task import observe
from planloop.controllers.task.observe import ObservedTask
from planloop.controllers.task.status import read_task_progress
from planloop.schemas import json_patch
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen, remade
from planloop.schemas.log.record import Change
from planloop.schemas.objects.call import CallState
from planloop.schemas.objects.sandbox import SandboxRequest
from planloop.schemas.objects.task import CheckSpec, TaskState
from planloop.schemas.resource import Resource


@frozen
class RunJob:
    """Starts the task's command, or adopts one that is already running."""

    key: str
    priority: int


@frozen
class CheckJob:
    """Runs one check of round `round`; `digest` identifies the version of the check."""

    key: str
    priority: int
    check: CheckSpec
    round: int
    digest: str


@frozen
class StopJob:
    """Stops a command that an earlier owner started and that no job waits for."""

    key: str
    call: str
    op: str


@frozen
class TryJob:
    """Finds out whether a sandbox is available."""

    key: str
    request: SandboxRequest


TaskJob: TypeAlias = RunJob | CheckJob | StopJob | TryJob


@frozen
class TaskExplanation:
    """State of a task with a CamelCase reason, a message for people, and what would unblock it.

    `is_stuck`: the task makes no progress until a person or another task changes something.
    """

    state: TaskState
    reason: str
    message: str = ""
    unblocks: tuple[str, ...] = ()
    is_stuck: bool = False


@frozen
class TaskStep:
    """One step for one task. `merge` goes into its status, `type` is the record's type.

    The task is reconciled again after `again_s` seconds.
    """

    says: TaskExplanation
    merge: JsonObject = field(default_factory=dict)
    changes: tuple[Change, ...] = ()
    start: tuple[TaskJob, ...] = ()
    cancel: tuple[str, ...] = ()
    again_s: float | None = None
    type: str = "task.changed"

    def on_top_of(self, merge: JsonObject) -> TaskStep:
        """Return the step with `merge` applied before its own merge."""
        return remade(self, merge=compose_merges(merge, self.merge))

    def first(self, changes: tuple[Change, ...]) -> TaskStep:
        """Return the step with `changes` before its own."""
        return remade(self, changes=(*changes, *self.changes)) if changes else self


def compose_merges(first: JsonObject, second: JsonObject) -> JsonObject:
    """Return one merge patch for two in sequence (RFC 7386).

    A map that follows a removal must name every member that it may have.
    """
    out = dict(first)
    for key, value in second.items():
        below = out.get(key)
        out[key] = compose_merges(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return out


def observed_after(observed: ObservedTask, merge: JsonObject) -> ObservedTask:
    """Return what would be observed after `merge` is written, so that one append can hold several steps."""
    status = json_patch.merge_values(observed.me.status, merge)
    call = observed.motion.call if status.get("call") else None
    return remade(
        observed,
        me=remade(observed.me, status=status),
        progress=read_task_progress(status),
        motion=remade(observed.motion, call=call),
    )


# A running command to adopt, and a check of finished work, get a slot before new work.
_ADOPTION, _CHECK = 1_000_000, 500_000


def run_job(observed: ObservedTask, incarnation: int, *, is_adoption: bool = False) -> RunJob:
    """Return the job that runs the command of `incarnation`."""
    priority = observed.spec.priority
    return RunJob(
        observe.run_job_key(observed.me.uid, incarnation, priority), priority + (_ADOPTION if is_adoption else 0)
    )


def queue_command(observed: ObservedTask, step: TaskStep, incarnation: int) -> TaskStep:
    """Return `step` with the command queued. A command queued at another priority is queued again."""
    job = run_job(observed, incarnation)
    if job.key in observed.motion.jobs:
        return step
    queued = tuple(
        key for key in observed.motion.jobs if observe.is_run_key(key) and key not in observed.motion.running
    )
    return TaskStep(step.says, step.merge, step.changes, (job,), queued, step.again_s)


def check_job(observed: ObservedTask, check: CheckSpec, round_: int) -> CheckJob:
    """Return the job that runs `check` in round `round_`."""
    digest = observed.digests[check.key]
    key = observe.check_job_key(observed.me.uid, round_, check.key, digest)
    return CheckJob(key, observed.spec.priority + _CHECK, check, round_, digest)


def stop_job(observed: ObservedTask, call: Resource) -> StopJob:
    """Return the job that stops the command of `call`."""
    return StopJob(observe.stop_job_key(observed.me.uid, call.address), call.address, call.spec["op"])


# What runs for a task, and how it is stopped: jobs, a command of an earlier owner, its agent.

_AT_REST = frozenset({"", "idle", "ended"})


def is_agent_busy(observed: ObservedTask) -> bool:
    """Whether the agent has an incarnation that has not ended."""
    return observed.motion.agent is not None and observed.motion.agent.state not in _AT_REST


def is_call_started(observed: ObservedTask) -> bool:
    """Whether a command was started and its result is not written yet."""
    return observed.motion.call is not None and observed.motion.call.state == CallState.STARTED


def is_in_motion(observed: ObservedTask) -> bool:
    """Whether a job, the agent or a command of the task still runs."""
    return bool(observed.motion.jobs) or is_agent_busy(observed) or is_call_started(observed)


def stop_everything(observed: ObservedTask, says: TaskExplanation, merge: JsonObject | None = None) -> TaskStep:
    """Return the step that stops everything that runs for the task.

    Cancelled jobs clean up after themselves. A command that no job waits for gets a `StopJob`.
    """
    start: tuple[TaskJob, ...] = ()
    if is_call_started(observed) and not observed.motion.jobs and observed.motion.call is not None:
        start = (stop_job(observed, observed.motion.call),)
    stopping = tuple(sorted(key for key in observed.motion.jobs if not observe.is_stop_key(key)))
    return TaskStep(says, merge={"go": None, **(merge or {})}, start=start, cancel=stopping)
