"""The status of a task as typed values.

`state` is what people see; `stage` is how far the current incarnation has come and outlives pauses and blocks, so that
a resumed task goes on where it was. Everything here is read afresh from the object at every reconcile: nothing about a
task lives in the controller's memory.
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
    """A task as those who wait for it see it. STUCK: blocked by a failure elsewhere, will not move by itself."""

    OPEN = "open"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    STUCK = "stuck"


CheckRound: TypeAlias = Literal["before", "work", "edit", "heal"]
"""Why checks run: before the work, after it, because they were edited, or because a done task heals."""

_STATES: Final[Mapping[str, TaskState]] = {str(one): one for one in TaskState}
_STAGES: Final[Mapping[str, TaskStage]] = {str(one): one for one in TaskStage}
_STANDINGS = {"done": TaskStanding.DONE, "failed": TaskStanding.FAILED, "cancelled": TaskStanding.CANCELLED}


def task_standing(task: Resource) -> TaskStanding:
    """What `task` means to its parent and to those that need it; one on its way out is still open."""
    if task.deleting:
        return TaskStanding.OPEN
    state = task.status.get("state", "")
    if state == "blocked" and (task.status.get("signal") or {}).get("stuck"):
        return TaskStanding.STUCK
    return _STANDINGS.get(state, TaskStanding.OPEN)


@frozen
class TaskProgress:
    """The status of one task. `attempt` counts tries for the same wish from 1; `incarnation` counts all runs.

    `basis` holds digests of what this incarnation was begun with. `round` numbers verifications and `round_for` says
    why the current one runs (None: none does). `judged` is the last claim of the agent that was answered,
    `rejections` how many of them were turned down.
    `not_before` is the earliest start of a retry, `spent_s` what its commands took over all incarnations.
    """

    state: TaskState | None = None
    stage: TaskStage = TaskStage.NOT_BEGUN
    incarnation: int = 0
    attempt: int = 1
    go: int | None = None
    basis: JsonObject | None = None
    round: int = 0
    round_for: CheckRound | None = None
    checks: JsonObject | None = None
    judged: int = 0
    rejections: int = 0
    call: str | None = None
    result: JsonObject | None = None
    is_skipped: bool = False
    not_before: float = 0.0
    started_at: float = 0.0
    spent_s: float = 0.0


def read_task_progress(status: JsonObject) -> TaskProgress:
    """Reads a status; one never written reads as a task that has not begun."""
    if not status:
        return TaskProgress()
    state = status.get("state")
    verdict: JsonObject = status.get("verdict") or {}
    is_of_this_run = verdict.get("incarnation") == status.get("incarnation", 0)
    return TaskProgress(
        state=_STATES[state] if state else None,
        stage=_STAGES[status.get("stage", "")],
        incarnation=status.get("incarnation", 0),
        attempt=status.get("attempt", 1),
        go=status.get("go"),
        basis=status.get("basis"),
        round=status.get("round", 0),
        round_for=status.get("round_for"),
        checks=status.get("checks"),
        judged=verdict.get("claim", 0) if is_of_this_run else 0,
        rejections=verdict.get("rejections", 0) if is_of_this_run else 0,
        call=status.get("call"),
        result=status.get("result"),
        is_skipped=status.get("skipped", False),
        not_before=status.get("not_before", 0.0),
        started_at=status.get("started_at", 0.0),
        spent_s=status.get("spent_s", 0.0),
    )
