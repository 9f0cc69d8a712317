"""A task and the fork that it works in: asked for before it starts, brought in before it is done.

The task says what it wants of the fork in its own status and reads the answer in the fork's; how a fork is made and
merged is its controller's. A task below the one that has the fork only waits for it to be there.
"""

from __future__ import annotations

from typing import Final

from planloop.controllers.task import claiming, finishing, verifying, working
from planloop.controllers.task.observing import Observed
from planloop.controllers.task.step import Says, Step, after
from planloop.schemas import limits
from planloop.schemas.encoding import JsonObject
from planloop.schemas.fork import (
    AWAITING_FORK,
    FORK_FAILED,
    IN_USE,
    MERGE_CONFLICT,
    MOVING,
    ForkState,
    ForkStatus,
    asked_of,
    fork_status,
)
from planloop.schemas.task import ByAgent, TaskState

_UNMARKED: Final = (
    "A file without marks (binary, UTF-16, or removed on one side) has your version, and `git show MERGE_HEAD:./FILE` "
    "prints the other"
)
MADE: JsonObject = {"fork": {"wants": "made"}}
"""What a task writes that cannot go on before its fork is there."""


def obstacle(observed: Observed) -> Says | None:
    """What the task says while its fork is not ready to be worked in; None when it is, or when it has none."""
    if not observed.spec.fork:
        return None
    status = _status(observed)
    if status.state in IN_USE and status.state not in MOVING:
        return None
    return _failed(status) or Says(TaskState.WAITING, AWAITING_FORK, f"{observed.spec.fork} is made first")


def hold(observed: Observed) -> Step | None:
    """Keeps an agent at work that was given a fork from its next turn until the fork is there; None when it is."""
    if not observed.spec.fork or not isinstance(observed.spec.work, ByAgent):
        return None
    status = _status(observed)
    if status.state in IN_USE or claiming.newest_claim(observed) is not None:
        return None
    words = f"its agent ends its turn and goes on in {observed.spec.fork}"
    return Step(_failed(status) or Says(TaskState.RUNNING, AWAITING_FORK, words), MADE)


def go_on(observed: Observed, step: Step) -> Step:
    """`step`, which no longer asks for a fork that is there."""
    return step.on_top_of({"fork": {"wants": None}}) if asked_of(observed.me.status).wish == "made" else step


def bring(observed: Observed) -> Step | None:
    """What is to happen before the task is done: its fork is brought in. None: all of it is, or it has none."""
    if observed.fork is None or observed.fork.spec["task"] != observed.address:
        return None
    status, asked = _status(observed), asked_of(observed.me.status)
    if status.state in (ForkState.NONE, ForkState.IN, ForkState.KEPT):
        return None
    says = _failed(status) or Says(TaskState.CHECKING, "BringingIn", f"what was done in {observed.spec.fork} is merged")
    if asked.wish == "in" and asked.bring > status.answered:
        return Step(says)
    if status.state is ForkState.CONFLICT and asked.told < status.answered:
        return _conflict(observed, status)
    if status.state is ForkState.READY and asked.wish == "in" and asked.told < status.answered:
        return _check_again(observed, status)
    if status.state in MOVING:
        return Step(says)
    return Step(says, {"fork": {"wants": "in", "bring": status.answered + 1}})


def _check_again(observed: Observed, status: ForkStatus) -> Step:
    """What others did meanwhile was merged in, and the checks have not seen that yet."""
    merge: JsonObject = {"fork": {"wants": None, "told": status.answered}}
    return verifying.begin_round(after(observed, merge), observed.progress.round_for or "work").on_top_of(merge)


def _conflict(observed: Observed, status: ForkStatus) -> Step:
    """The merge stands open in the fork: its agent is told to mend it, or a person is."""
    words = _in_conflict(status)
    if not isinstance(observed.spec.work, ByAgent):
        cure = (f"mend the files in {status.folder}, no mark left; what has none: git add it",)
        return Step(Says(TaskState.BLOCKED, MERGE_CONFLICT, words, cure))
    words = (
        f"{words}: mend them where they are marked `<<<<<<<` and `>>>>>>>`. {_UNMARKED}; then say again that it is done"
    )
    refused = verifying.verdict(observed, accepted=False, message=words)
    told: JsonObject = {"fork": {"wants": None, "told": status.answered}, "verdict": refused}
    if hopeless := verifying.hopeless(observed):
        return finishing.failed(observed, MERGE_CONFLICT, f"{words}; {hopeless}").on_top_of(told)
    merge: JsonObject = {**told, "stage": "work", "round_for": None}
    return working.advance(after(observed, merge)).on_top_of(merge)


def conflict_words(observed: Observed) -> str:
    """What of the task's own fork does not merge and is not mended; empty when all of it does."""
    if observed.fork is None or observed.fork.spec["task"] != observed.address:
        return ""
    status = _status(observed)
    return _in_conflict(status) if status.state is ForkState.CONFLICT else ""


def _in_conflict(status: ForkStatus) -> str:
    shown = [path.removeprefix(status.prefix) for path in status.files[: limits.FORK_FILES_SHOWN]]
    more = len(status.files) - len(shown)
    files = ", ".join(shown) + (f" and {more} more" if more else "")
    verb = "was" if len(status.files) == 1 else "were"
    return f"{files} {verb} changed by others meanwhile and did not merge into {status.branch}"


def _failed(status: ForkStatus) -> Says | None:
    if not status.fault:
        return None
    cure = ("mend what git says; it is tried again by itself",)
    return Says(TaskState.BLOCKED, FORK_FAILED, f"its fork: {status.fault}", cure)


def _status(observed: Observed) -> ForkStatus:
    return fork_status(observed.fork.status) if observed.fork is not None else ForkStatus()
