"""Status of a task as typed values: its state, stage, attempt, checks, claims and times.

`state` is what people see. `stage` is how far the current incarnation is; it survives pauses and blocks, so a resumed
task continues where it was. The controller parses the object at every reconcile and keeps no state of a task.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, StrEnum
from typing import Final, Literal, TypeAlias

from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.task import TaskState
from planloop.schemas.resource import Resource


class TaskStage(StrEnum):
    """How far the current incarnation is."""

    NOT_BEGUN = ""
    BEFORE = "before"  # The checks run first, because the plan says `when: before`.
    WORK = "work"
    VERIFY = "verify"
    DONE = "done"
    FAILED = "failed"


class TaskStanding(Enum):
    """State of a task for its parent and its dependents. STUCK: blocked until a person or another task acts."""

    OPEN = "open"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    STUCK = "stuck"


CheckRound: TypeAlias = Literal["before", "work", "edit", "heal"]
"""Why checks run: before the work, after it, after an edit of the checks, or at the interval of `heal`."""

_STATES: Final[Mapping[str, TaskState]] = {str(one): one for one in TaskState}
_STAGES: Final[Mapping[str, TaskStage]] = {str(one): one for one in TaskStage}
_STANDINGS = {"done": TaskStanding.DONE, "failed": TaskStanding.FAILED, "cancelled": TaskStanding.CANCELLED}


def task_standing(task: Resource) -> TaskStanding:
    """Return the standing of `task` for its parent and dependents. A task that is being removed is still open."""
    if task.deleting:
        return TaskStanding.OPEN
    state = task.status.get("state", "")
    if state == "blocked" and (task.status.get("signal") or {}).get("stuck"):
        return TaskStanding.STUCK
    return _STANDINGS.get(state, TaskStanding.OPEN)


@frozen
class RoundProgress:
    """The newest round of checks: its number, why it runs (None if none does), and the results by check."""

    number: int = 0
    why: CheckRound | None = None
    results: JsonObject | None = None


@frozen
class ClaimProgress:
    """`judged` is the number of the agent's last answered claim in this run; `rejections` counts rejected claims."""

    judged: int = 0
    rejections: int = 0


@frozen
class TaskTimes:
    """`not_before` is the earliest start of a retry, `spent_s` the run time of its commands in all incarnations."""

    not_before: float = 0.0
    started_at: float = 0.0
    spent_s: float = 0.0


@frozen
class TaskProgress:
    """Status of one task. `attempt` counts from 1 for the same spec; `incarnation` counts all runs.

    `basis` holds digests of the spec that this incarnation started with.
    """

    state: TaskState | None = None
    stage: TaskStage = TaskStage.NOT_BEGUN
    incarnation: int = 0
    attempt: int = 1
    go: int | None = None
    basis: JsonObject | None = None
    call: str | None = None
    result: JsonObject | None = None
    is_skipped: bool = False
    round: RoundProgress = RoundProgress()
    claims: ClaimProgress = ClaimProgress()
    times: TaskTimes = TaskTimes()


def read_task_progress(status: JsonObject) -> TaskProgress:
    """Parse the status of a task. An empty status means that the task has not begun."""
    if not status:
        return TaskProgress()
    state = status.get("state")
    verdict: JsonObject = status.get("verdict") or {}
    is_of_this_run = verdict.get("incarnation") == status.get("incarnation", 0)
    claims = ClaimProgress(verdict.get("claim", 0), verdict.get("rejections", 0)) if is_of_this_run else ClaimProgress()
    return TaskProgress(
        state=_STATES[state] if state else None,
        stage=_STAGES[status.get("stage", "")],
        incarnation=status.get("incarnation", 0),
        attempt=status.get("attempt", 1),
        go=status.get("go"),
        basis=status.get("basis"),
        call=status.get("call"),
        result=status.get("result"),
        is_skipped=status.get("skipped", False),
        round=RoundProgress(status.get("round", 0), status.get("round_for"), status.get("checks")),
        claims=claims,
        times=TaskTimes(status.get("not_before", 0.0), status.get("started_at", 0.0), status.get("spent_s", 0.0)),
    )
