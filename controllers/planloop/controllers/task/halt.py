"""Stop a task that is restarted, paused, cancelled or removed: its children first, then itself. Pure."""

from __future__ import annotations

from planloop.controllers.task import budgets, lifecycle, observe, step
from planloop.controllers.task.observe import ObservedTask
from planloop.controllers.task.status import TaskStage
from planloop.controllers.task.step import TaskExplanation, TaskStep
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.log.record import Change, Drop, Mark
from planloop.schemas.objects.task import TaskState
from planloop.schemas.resource import Uid

FINALIZER = "task"


def superseded_reason(observed: ObservedTask) -> str:
    """Return which edit makes the current incarnation obsolete; empty if none does."""
    old, new, stage = observed.progress.basis, observed.basis, observed.progress.stage
    if old is None or not new["work"]:
        return ""
    if old["work"] != new["work"]:
        return "its work was edited"
    if stage in (TaskStage.DONE, TaskStage.FAILED) and old.get("goal") != new.get("goal"):
        return "its goal was edited after it ended"
    if stage is TaskStage.FAILED and old.get("notes") != new.get("notes"):
        return "its notes were edited after it failed"
    return ""


def is_cancelled_by_plan(observed: ObservedTask) -> bool:
    """Whether the plan asks to stop the current run: the task is removed, cancelled, or restarted by an edit."""
    is_cancelled = observed.halt is not None and observed.halt.how == "cancel"
    return observed.me.deleting or is_cancelled or bool(superseded_reason(observed))


def restart_task(observed: ObservedTask, why: str) -> TaskStep:
    """Stops the old incarnation, then begins a new one."""
    if step.is_in_motion(observed):
        says = TaskExplanation(
            TaskState.STOPPING, "Restarting", f"{why}; its old run is stopping", ("the old run has stopped",)
        )
        return step.stop_everything(observed, says)
    return lifecycle.begin_afresh(observed)


def pause_task(observed: ObservedTask) -> TaskStep:
    """Pauses the task: a running command runs to its end, an agent ends its turn, and nothing new starts."""
    halt = observed.halt
    by = halt.by if halt is not None else observed.address
    resume = (f"plan resume {by}",)
    pausing = TaskExplanation(TaskState.RUNNING, "Pausing", f"{by} is paused; the running command ends first", resume)
    if any(observe.is_run_key(key) for key in observed.motion.running):
        return TaskStep(pausing)
    if step.is_call_started(observed):
        # An earlier owner started this command and no job waits for it. Adopt it, or the pause loses its result.
        job = step.run_job(observed, observed.progress.incarnation, is_adoption=True)
        return TaskStep(pausing, start=() if job.key in observed.motion.jobs else (job,))
    which = "it" if by == observed.address else by
    says = TaskExplanation(TaskState.PAUSED, "Paused", f"{which} is paused", resume)
    return TaskStep(says, merge={"go": None}, cancel=tuple(sorted(observed.motion.jobs - observed.motion.running)))


def cancel_task(observed: ObservedTask) -> TaskStep:
    """Stops the work and marks the task as cancelled."""
    by = observed.halt.by if observed.halt is not None else observed.address
    if step.is_in_motion(observed):
        return step.stop_everything(
            observed, TaskExplanation(TaskState.STOPPING, "Cancelling", f"{by} is cancelled; its work is stopping")
        )
    if observed.family.children.open:
        says = TaskExplanation(
            TaskState.STOPPING,
            "Cancelling",
            f"{by} is cancelled; its child tasks stop first",
            ("its child tasks have stopped",),
        )
        return TaskStep(says, merge={"go": None})
    says = TaskExplanation(TaskState.CANCELLED, "Cancelled", f"{by} is cancelled", (f"plan patch {by} cancel=false",))
    dropped = _drop_call(observed)
    merge: JsonObject = {**lifecycle.AFRESH_MERGE, "basis": None}
    if observed.progress.state is not TaskState.CANCELLED:
        merge["ended_at"] = observed.now
    return TaskStep(says, merge=merge, changes=dropped)


def remove_task(observed: ObservedTask) -> TaskStep:
    """Stops the work, waits until its child tasks, agent and hooks are gone, then releases the task. Files stay."""
    if step.is_in_motion(observed):
        return step.stop_everything(observed, _removing("; its work is stopping"))
    if sum(observed.family.children):
        return TaskStep(_removing("; its child tasks are removed first"), merge={"go": None})
    waits_for = [address for address in observed.family.remains if address.startswith(("agent/", "hook/"))]
    if waits_for:
        return TaskStep(_removing(f"; {waits_for[0]} is removed first"), merge={"go": None})
    says = _removing()
    if FINALIZER not in observed.me.finalizers:
        return TaskStep(says)
    left = tuple(name for name in observed.me.finalizers if name != FINALIZER)
    released: Change = Mark(observed.address, observed.me.uid, finalizers=left)
    return TaskStep(says, changes=(*_drop_call(observed), *budgets.removal_changes(observed), released))


def _removing(meanwhile: str = "") -> TaskExplanation:
    return TaskExplanation(TaskState.STOPPING, "Removing", f"it was removed from the plan{meanwhile}")


def _drop_call(observed: ObservedTask) -> tuple[Change, ...]:
    call = observed.motion.call
    return (Drop(call.address, Uid(call.uid)),) if call is not None else ()


def is_ended(observed: ObservedTask) -> bool:
    """Whether the task has ended, so that a pause or cancel has nothing to stop."""
    return observed.progress.state in (TaskState.DONE, TaskState.FAILED) and not step.is_in_motion(observed)


def keep_ended(observed: ObservedTask) -> TaskStep:
    """Keeps the status of an ended task."""
    return TaskStep(lifecycle.stored_explanation_as(observed, observed.progress.state or TaskState.DONE))
