"""How an incarnation ends: done, tried again, or failed."""

from __future__ import annotations

from planloop.controllers.sandboxes import LEADS_OUT, Astray
from planloop.controllers.task import budgets, family, outcome
from planloop.controllers.task.observing import Observed
from planloop.controllers.task.step import Says, Step
from planloop.schemas import limits
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import remade
from planloop.schemas.task import TaskState


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
    if not may_retry(observed):
        unblocks = (f"plan resume {observed.address}", "it is edited")
        says = Says(TaskState.FAILED, reason, message, unblocks)
        return Step(says, merge={**over, "stage": "failed"})
    pause_s = retry_delay_s(progress.attempt)
    says = Says(
        TaskState.WAITING,
        "Retrying",
        f"attempt {progress.attempt} failed: {message}",
        ("the pause ends", "the task is edited"),
    )
    again: JsonObject = {"stage": "", "attempt": progress.attempt + 1, "not_before": observed.now + pause_s}
    used = budgets.billed(observed, retries=1)
    return Step(says, merge={**over, **again, **used.merge}, changes=used.changes, again_s=pause_s)


def led_out(observed: Observed, astray: Astray) -> Step:
    """The incarnation ends for want of a folder: its result says so, also where it is tried again."""
    merge: JsonObject = {"result": outcome.result(ok=False, reason=LEADS_OUT, text=astray.words)}
    step = failed(observed, LEADS_OUT, astray.words).on_top_of(merge)
    if step.says.state is not TaskState.FAILED:
        return step
    return remade(step, says=remade(step.says, unblocks=(astray.cure, *step.says.unblocks)))


def may_retry(observed: Observed) -> bool:
    """Whether the task may be tried once more: by its own wish, and by the budgets it is under."""
    left = budgets.retries_left(observed)
    return observed.progress.attempt <= observed.spec.retries and (left is None or left > 0)


def retry_delay_s(attempt: int) -> float:
    """Seconds between attempt `attempt` and the next: doubles, and stops at a minute."""
    return float(min(limits.BACKOFF_CAP_S, limits.BACKOFF_BASE_S * 2 ** min(attempt - 1, 30)))
