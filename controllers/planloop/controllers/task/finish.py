"""End an incarnation of a task: done, retried or failed, from the exit of its command and its children. Pure."""

from __future__ import annotations

from planloop.controllers.shared.workspace import FOLDER_LEADS_OUT, WorkspaceFault
from planloop.controllers.task import budgets
from planloop.controllers.task.observe import ObservedTask
from planloop.controllers.task.step import TaskExplanation, TaskStep
from planloop.reconciler.effects.journal import call_fate
from planloop.reconciler.effects.processes import UNKNOWN_OUTCOME, ExitCause, OperationTrace, ProcessExit
from planloop.reconciler.effects.truncate import last_line, truncate_output
from planloop.schemas import limits, quantities
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen, remade
from planloop.schemas.objects.call import CallResult, CallState, EffectClass
from planloop.schemas.objects.task import GroupWork, RunWork, TaskState

STATUS_TEXT_BYTES = 1 << 10  # Output kept in the task's status; the blob holds all of it.


@frozen
class CommandOutcome:
    """`result` goes into the task's status (None: no exit was observed); `call` settles the call object."""

    call: CallResult
    result: JsonObject | None


def outcome_of_exit(exit_: ProcessExit, work: RunWork, blob: str | None) -> CommandOutcome:
    """Return the outcome of a command that ended or was lost."""
    if exit_.ending is ExitCause.LOST:
        return lost_outcome(work)
    reason, why = _exit_failure(exit_, work)
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
    """Return the outcome of a command that the owner stopped before its end."""
    return CommandOutcome(CallResult(CallState.CANCELLED, "stopped before its end", "Cancelled"), None)


def lost_outcome(work: RunWork) -> CommandOutcome:
    """Return the outcome of a command whose end was not observed: its effect class decides whether it runs again."""
    if call_fate(OperationTrace.LOST, EffectClass(work.effect)) == "again":
        return CommandOutcome(CallResult(CallState.CANCELLED, "lost; it may run again", "Lost"), None)
    return CommandOutcome(CallResult(CallState.UNKNOWN, UNKNOWN_OUTCOME, "Lost"), None)


def _exit_failure(exit_: ProcessExit, work: RunWork) -> tuple[str, str]:
    """Return the reason and message for a command that failed; empty if it succeeded."""
    name = work.shell or " ".join(work.argv)
    line = last_line(exit_.output)
    printed = f": {line}" if line else ""
    match exit_.ending:
        case ExitCause.TIMED_OUT:
            return "TimedOut", f"`{name}` reached its time limit and was stopped{printed}"
        case ExitCause.TOO_MUCH_OUTPUT:
            return "TooMuchOutput", f"`{name}` printed more than {limits.OUTPUT_KEPT_BYTES_MAX >> 20} MiB"
        case ExitCause.NOT_STARTED:
            return "CannotStart", f"`{name}` could not be started{printed}"
        case _ if exit_.code == 0:
            return "", ""
        case _:
            return "CommandFailed", f"`{name}` ended with {quantities.describe_exit_code(exit_.code)}{printed}"


def children_not_done(observed: ObservedTask) -> TaskExplanation | None:
    """Return why the children keep the task from being done; None if they do not.

    Cancelled children do not count. A failed or stuck child fails the task only when no other child can still run.
    """
    tally, expected = observed.family.children, len(observed.spec.children)
    missing = expected - sum(tally)
    if tally.open or missing > 0:
        return TaskExplanation(
            TaskState.RUNNING, "ChildrenRunning", "its child tasks are not all done", ("its child tasks end",)
        )
    if tally.bad:
        return TaskExplanation(
            TaskState.FAILED, "ChildrenFailed", _describe_bad_children(observed), ("edit or retry the failed tasks",)
        )
    if tally.cancelled and not tally.done and isinstance(observed.spec.work, GroupWork):
        return TaskExplanation(TaskState.CANCELLED, "ChildrenCancelled", "all its child tasks are cancelled")
    return None


def _describe_bad_children(observed: ObservedTask) -> str:
    tally, bad = observed.family.children, observed.family.bad_child
    first = bad.address if bad is not None else "a task"
    if tally.bad == 1:
        return f"{first} is stuck" if bad is not None and bad.state == TaskState.BLOCKED else f"{first} failed"
    return f"{first} and {tally.bad - 1} more of {sum(tally)} tasks failed or are stuck"


def done_step(observed: ObservedTask, *, is_skipped: bool = False) -> TaskStep:
    """Return the step for accepted work. Unless the work was skipped, children may still keep the task running."""
    merge: JsonObject = {"stage": "done", "go": None, "round_for": None, "not_before": None}
    if is_skipped:
        says = TaskExplanation(TaskState.DONE, "AlreadyHolds", "its checks passed before any work")
        return TaskStep(says, merge={**merge, "skipped": True, "ended_at": observed.now})
    says = children_not_done(observed) or TaskExplanation(TaskState.DONE, "Done", "")
    return TaskStep(says, merge={**merge, "ended_at": observed.now})


def failed_step(observed: ObservedTask, reason: str, message: str) -> TaskStep:
    """Return the step after a failure: a retry after a delay while retries are left, else failed. The agent stops."""
    progress = observed.progress
    over: JsonObject = {"go": None, "round_for": None, "ended_at": observed.now}
    if not may_retry(observed):
        unblocks = (f"plan resume {observed.address}", "edit the task")
        says = TaskExplanation(TaskState.FAILED, reason, message, unblocks)
        return TaskStep(says, merge={**over, "stage": "failed"})
    pause_s = retry_delay_s(progress.attempt)
    says = TaskExplanation(
        TaskState.WAITING,
        "Retrying",
        f"attempt {progress.attempt} failed: {message}",
        ("the retry delay ends", "edit the task"),
    )
    again: JsonObject = {"stage": "", "attempt": progress.attempt + 1, "not_before": observed.now + pause_s}
    used = budgets.bill_usage(observed, retries=1)
    return TaskStep(says, merge={**over, **again, **used.merge}, changes=used.changes, again_s=pause_s)


def workspace_failed_step(observed: ObservedTask, problem: WorkspaceFault) -> TaskStep:
    """Return the step that ends an incarnation because the task may not work in its folder.

    The result holds the problem, also if the task is retried.
    """
    merge: JsonObject = {"result": result_json(ok=False, reason=FOLDER_LEADS_OUT, text=problem.words)}
    step = failed_step(observed, FOLDER_LEADS_OUT, problem.words).on_top_of(merge)
    if step.says.state is not TaskState.FAILED:
        return step
    return remade(step, says=remade(step.says, unblocks=(problem.cure, *step.says.unblocks)))


def may_retry(observed: ObservedTask) -> bool:
    """Whether the `retries` of the task and the budgets above it allow another attempt."""
    left = budgets.retries_left(observed)
    return observed.progress.attempt <= observed.spec.retries and (left is None or left > 0)


def retry_delay_s(attempt: int) -> float:
    """Return the seconds between attempt `attempt` and the next: doubles each time, up to `BACKOFF_CAP_S`."""
    return float(min(limits.BACKOFF_CAP_S, limits.BACKOFF_BASE_S * 2 ** min(attempt - 1, 30)))
