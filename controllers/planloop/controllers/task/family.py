"""The children of a task as it sees them: whether they are done, may still run, or will not be done."""

from __future__ import annotations

from planloop.controllers.task.observing import Observed
from planloop.controllers.task.step import Says
from planloop.schemas.task import Group, TaskState


def not_done(observed: Observed) -> Says | None:
    """Why the children keep the task from being done; None when they do not.

    Cancelled children are left out of account: somebody decided that they are not wanted. A failed or stuck one makes
    the task fail only when nothing below it can run any more.
    """
    tally, expected = observed.children, len(observed.spec.children)
    missing = expected - sum(tally)
    if tally.open or missing > 0:
        return Says(TaskState.RUNNING, "ChildrenRunning", "its tasks are not all done", ("its tasks end",))
    if tally.bad:
        return Says(TaskState.FAILED, "ChildrenFailed", _which(observed), ("the failed tasks are edited or retried",))
    if tally.cancelled and not tally.done and isinstance(observed.spec.work, Group):
        return Says(TaskState.CANCELLED, "ChildrenCancelled", "all its tasks are cancelled")
    return None


def _which(observed: Observed) -> str:
    tally, bad = observed.children, observed.bad_child
    first = bad.address if bad is not None else "a task"
    if tally.bad == 1:
        return f"{first} is stuck" if bad is not None and bad.state == TaskState.BLOCKED else f"{first} failed"
    return f"{first} and {tally.bad - 1} more of {sum(tally)} tasks failed or are stuck"
