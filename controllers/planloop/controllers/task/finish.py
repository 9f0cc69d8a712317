"""How an incarnation of a task ends: done, retried or failed, from its command's exit and its children. Pure."""

from __future__ import annotations

from planloop.controllers.shared.workspace import FOLDER_LEADS_OUT, WorkspaceFault
from planloop.controllers.task import budgets
from planloop.controllers.task.observe import ObservedTask
from planloop.controllers.task.step import TaskExplanation, TaskStep
from planloop.reconciler.effects.journal import call_fate
from planloop.reconciler.effects.processes import ExitCause, OperationTrace, ProcessExit
from planloop.reconciler.effects.truncate import last_line, truncate_output
from planloop.schemas import limits, quantities
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen, remade
from planloop.schemas.objects.call import CallResult, CallState, EffectClass
from planloop.schemas.objects.task import GroupWork, RunWork, TaskState

# What the end of a command means for its task and for its call object.

STATUS_TEXT_BYTES = 1 << 10  # Of an output, in the task's status; the rest is in the blob.


@frozen
class CommandOutcome:
    """`result` goes into the status (None: nobody saw the end, so there is none); `call` settles the call object."""

    call: CallResult
    result: JsonObject | None


def outcome_of_exit(exit_: ProcessExit, work: RunWork, blob: str | None) -> CommandOutcome:
    """The outcome of a command that came to an end or was lost."""
    if exit_.ending is ExitCause.LOST:
        return lost_outcome(work)
    reason, why = _trouble(exit_, work)
    shown = truncate_output(exit_.output, STATUS_TEXT_BYTES)
    text = shown if not reason else why
    state = CallState.FAILED if reason else CallState.SUCCEEDED
    call = CallResult(state, truncate_output(exit_.output), reason, exit_.code, blob)
    return CommandOutcome(call, result_json(ok=not reason, reason=reason, text=text, exit_code=exit_.code, blob=blob))


def result_json(
    *, ok: bool, reason: str = "", text: str = "", exit_code: int | None = None, blob: str | None = None
) -> JsonObject:
    """A result for the status. Every member is named, so that a merge leaves nothing of an older one."""
    return {"ok": ok, "reason": reason or None, "text": text, "exit_code": exit_code, "blob": blob}


def cancelled_outcome() -> CommandOutcome:
    """The command was stopped before its end, by us."""
    return CommandOutcome(CallResult(CallState.CANCELLED, "stopped before its end", "Cancelled"), None)


def lost_outcome(work: RunWork) -> CommandOutcome:
    """Nobody saw how far the command got: its effect class decides whether it may run again."""
    if call_fate(OperationTrace.LOST, EffectClass(work.effect)) == "again":
        return CommandOutcome(CallResult(CallState.CANCELLED, "lost, and may run again", "Lost"), None)
    return CommandOutcome(CallResult(CallState.UNKNOWN, "nobody saw how it ended", "Lost"), None)


def _trouble(exit_: ProcessExit, work: RunWork) -> tuple[str, str]:
    """A reason and a sentence for a command that did not end well; empty when it did."""
    name = work.shell or " ".join(work.argv)
    line = last_line(exit_.output)
    said = f": {line}" if line else ""
    match exit_.ending:
        case ExitCause.TIMED_OUT:
            return "TimedOut", f"`{name}` was stopped at its time limit{said}"
        case ExitCause.TOO_MUCH_OUTPUT:
            return "TooMuchOutput", f"`{name}` printed more than {limits.OUTPUT_KEPT_BYTES_MAX >> 20} MiB"
        case ExitCause.NOT_STARTED:
            return "CannotStart", f"`{name}` could not be started{said}"
        case _ if exit_.code == 0:
            return "", ""
        case _:
            return "CommandFailed", f"`{name}` ended with {quantities.describe_exit_code(exit_.code)}{said}"


# The children of a task as it sees them: whether they are done, may still run, or will not be done.


def children_not_done(observed: ObservedTask) -> TaskExplanation | None:
    """Why the children keep the task from being done; None when they do not.

    Cancelled children are left out of account: somebody decided that they are not wanted. A failed or stuck one makes
    the task fail only when nothing below it can run any more.
    """
    tally, expected = observed.family.children, len(observed.spec.children)
    missing = expected - sum(tally)
    if tally.open or missing > 0:
        return TaskExplanation(TaskState.RUNNING, "ChildrenRunning", "its tasks are not all done", ("its tasks end",))
    if tally.bad:
        return TaskExplanation(
            TaskState.FAILED, "ChildrenFailed", _which(observed), ("the failed tasks are edited or retried",)
        )
    if tally.cancelled and not tally.done and isinstance(observed.spec.work, GroupWork):
        return TaskExplanation(TaskState.CANCELLED, "ChildrenCancelled", "all its tasks are cancelled")
    return None


def _which(observed: ObservedTask) -> str:
    tally, bad = observed.family.children, observed.family.bad_child
    first = bad.address if bad is not None else "a task"
    if tally.bad == 1:
        return f"{first} is stuck" if bad is not None and bad.state == TaskState.BLOCKED else f"{first} failed"
    return f"{first} and {tally.bad - 1} more of {sum(tally)} tasks failed or are stuck"


# How an incarnation ends: done, tried again, or failed.


def done_step(observed: ObservedTask, *, is_skipped: bool = False) -> TaskStep:
    """The work is accepted; children of a task that did not skip its work may still keep it from being done."""
    merge: JsonObject = {"stage": "done", "go": None, "round_for": None, "not_before": None}
    if is_skipped:
        says = TaskExplanation(TaskState.DONE, "AlreadyHolds", "its checks held before any work")
        return TaskStep(says, merge={**merge, "skipped": True, "ended_at": observed.now})
    says = children_not_done(observed) or TaskExplanation(TaskState.DONE, "Done", "")
    return TaskStep(says, merge={**merge, "ended_at": observed.now})


def failed_step(observed: ObservedTask, reason: str, message: str) -> TaskStep:
    """Tries again after a pause while retries are left, else the task has failed. Either way the agent stops."""
    progress = observed.progress
    over: JsonObject = {"go": None, "round_for": None, "ended_at": observed.now}
    if not may_retry(observed):
        unblocks = (f"plan resume {observed.address}", "it is edited")
        says = TaskExplanation(TaskState.FAILED, reason, message, unblocks)
        return TaskStep(says, merge={**over, "stage": "failed"})
    pause_s = retry_delay_s(progress.attempt)
    says = TaskExplanation(
        TaskState.WAITING,
        "Retrying",
        f"attempt {progress.attempt} failed: {message}",
        ("the pause ends", "the task is edited"),
    )
    again: JsonObject = {"stage": "", "attempt": progress.attempt + 1, "not_before": observed.now + pause_s}
    used = budgets.bill_usage(observed, retries=1)
    return TaskStep(says, merge={**over, **again, **used.merge}, changes=used.changes, again_s=pause_s)


def workspace_failed_step(observed: ObservedTask, astray: WorkspaceFault) -> TaskStep:
    """The incarnation ends for want of a folder: its result says so, also where it is tried again."""
    merge: JsonObject = {"result": result_json(ok=False, reason=FOLDER_LEADS_OUT, text=astray.words)}
    step = failed_step(observed, FOLDER_LEADS_OUT, astray.words).on_top_of(merge)
    if step.says.state is not TaskState.FAILED:
        return step
    return remade(step, says=remade(step.says, unblocks=(astray.cure, *step.says.unblocks)))


def may_retry(observed: ObservedTask) -> bool:
    """Whether the task may be tried once more: by its own wish, and by the budgets it is under."""
    left = budgets.retries_left(observed)
    return observed.progress.attempt <= observed.spec.retries and (left is None or left > 0)


def retry_delay_s(attempt: int) -> float:
    """Seconds between attempt `attempt` and the next: doubles, and stops at a minute."""
    return float(min(limits.BACKOFF_CAP_S, limits.BACKOFF_BASE_S * 2 ** min(attempt - 1, 30)))
