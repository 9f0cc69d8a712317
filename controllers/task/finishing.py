"""How an incarnation ends: done, tried again, or failed."""

from __future__ import annotations

from controllers.task import family
from controllers.task.observing import Observed
from controllers.task.step import Says, Step
from schemas import limits
from schemas.encoding import JsonObject
from schemas.task import TaskState


def done(observed: Observed, *, is_skipped: bool = False) -> Step:
    """The work is accepted; children of a task that did not skip its work may still keep it from being done."""
    merge: JsonObject = {"stage": "done", "go": None, "round_for": None, "not_before": None}
    if is_skipped:
        says = Says(TaskState.DONE, "AlreadyHolds", "its checks held before any work")
        return Step(says, merge={**merge, "skipped": True, "ended_at": observed.now})
    says = family.not_done(observed) or Says(TaskState.DONE, "Done", "")
    return Step(says, merge={**merge, "ended_at": observed.now})


def failed(observed: Observed, reason: str, message: str) -> Step:
    """Tries again after a pause while retries are left, else the task has failed. Either way the agent stops."""
    progress = observed.progress
    over: JsonObject = {"go": None, "round_for": None, "ended_at": observed.now}
    if progress.attempt > retries(observed):
        says = Says(TaskState.FAILED, reason, message, ("edit the task, or raise its retries",))
        return Step(says, merge={**over, "stage": "failed"})
    pause_s = retry_delay_s(progress.attempt)
    says = Says(
        TaskState.WAITING,
        "Retrying",
        f"attempt {progress.attempt} failed: {message}",
        ("the pause ends", "or the task is edited"),
    )
    again: JsonObject = {"stage": "", "attempt": progress.attempt + 1, "not_before": observed.now + pause_s}
    return Step(says, merge={**over, **again}, again_s=pause_s)


def retries(observed: Observed) -> int:
    """How many times the task may be tried again: its own wish under its budget."""
    bound = observed.spec.budget.retries
    return observed.spec.retries if bound is None else min(observed.spec.retries, bound)


def retry_delay_s(attempt: int) -> float:
    """Seconds between attempt `attempt` and the next: doubles, and stops at a minute."""
    return float(min(limits.BACKOFF_CAP_S, limits.BACKOFF_BASE_S * 2 ** min(attempt - 1, 30)))
