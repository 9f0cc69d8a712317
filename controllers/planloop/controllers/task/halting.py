"""Tasks that are not to go on: restarted, paused, cancelled, or removed. Children first, then self."""

from __future__ import annotations

from planloop.controllers.task import budgets, flight, jobs, keys, reopening
from planloop.controllers.task.observing import Observed
from planloop.controllers.task.status import Stage
from planloop.controllers.task.step import Says, Step
from planloop.schemas.encoding import JsonObject
from planloop.schemas.record import Change, Drop, Mark
from planloop.schemas.resource import Uid
from planloop.schemas.task import TaskState

FINALIZER = "task"


def superseded(observed: Observed) -> str:
    """What was edited that makes the current incarnation obsolete; empty when nothing was."""
    old, new, stage = observed.progress.basis, observed.basis, observed.progress.stage
    if old is None or not new["work"]:
        return ""
    if old["work"] != new["work"]:
        return "what it runs, or where, was edited"
    if stage in (Stage.DONE, Stage.FAILED) and old.get("goal") != new.get("goal"):
        return "its goal was edited after it had ended"
    if stage is Stage.FAILED and old.get("notes") != new.get("notes"):
        return "its notes were edited after it had failed"
    return ""


def is_called_off(observed: Observed) -> bool:
    """Whether the plan itself wants the current run stopped: it is removed, cancelled, or begun anew."""
    is_cancelled = observed.halt is not None and observed.halt.how == "cancel"
    return observed.me.deleting or is_cancelled or bool(superseded(observed))


def restart(observed: Observed, why: str) -> Step:
    """Brings the old incarnation down, then begins a new one."""
    if flight.is_in_motion(observed):
        says = Says(
            TaskState.STOPPING, "Restarting", f"{why}: the old run is stopped first", ("the old run has stopped",)
        )
        return flight.bring_down(observed, says)
    return reopening.begin_again(observed)


def pause(observed: Observed) -> Step:
    """Stops at the next boundary: a command runs to its end, an agent ends its turn, nothing new starts."""
    halt = observed.halt
    by = halt.by if halt is not None else observed.address
    resume = (f"plan resume {by}",)
    if any(keys.is_run(key) for key in observed.running):
        return Step(Says(TaskState.RUNNING, "Pausing", f"{by} is paused; the command that runs ends first", resume))
    if flight.is_call_started(observed):
        # Nobody waits for a command that runs: an earlier owner left it. Its result must not be lost to the pause.
        job = jobs.run_job(observed, observed.progress.incarnation, is_adoption=True)
        says = Says(TaskState.RUNNING, "Pausing", f"{by} is paused; the command that runs ends first", resume)
        return Step(says, start=() if job.key in observed.jobs else (job,))
    where = "it" if by == observed.address else by
    says = Says(TaskState.PAUSED, "Paused", f"{where} is paused", resume)
    return Step(says, merge={"go": None}, cancel=tuple(sorted(observed.jobs - observed.running)))


def cancel(observed: Observed) -> Step:
    """Stops the work and keeps the task as cancelled. What has ended stays as it ended."""
    by = observed.halt.by if observed.halt is not None else observed.address
    if flight.is_in_motion(observed):
        return flight.bring_down(
            observed, Says(TaskState.STOPPING, "Cancelling", f"{by} is cancelled; its work is stopped")
        )
    if observed.children.open:
        says = Says(
            TaskState.STOPPING, "Cancelling", f"{by} is cancelled; its tasks stop first", ("its tasks have stopped",)
        )
        return Step(says, merge={"go": None})
    says = Says(TaskState.CANCELLED, "Cancelled", f"{by} is cancelled", (f"plan patch {by} cancel=false",))
    dropped = _drop_call(observed)
    merge: JsonObject = {**reopening.AFRESH, "basis": None}
    if observed.progress.state is not TaskState.CANCELLED:
        merge["ended_at"] = observed.now
    return Step(says, merge=merge, changes=dropped)


def remove(observed: Observed) -> Step:
    """Stops the work, waits until everything below is gone, then lets go of the object. Files are left."""
    if flight.is_in_motion(observed):
        return flight.bring_down(observed, Says(TaskState.STOPPING, "Removing", "it was removed; its work is stopped"))
    if sum(observed.children):
        return Step(Says(TaskState.STOPPING, "Removing", "it was removed; its tasks go first"), merge={"go": None})
    waits_for = [address for address in observed.remains if address.startswith(("agent/", "hook/"))]
    if waits_for:
        says = Says(TaskState.STOPPING, "Removing", f"it was removed; {waits_for[0]} goes first")
        return Step(says, merge={"go": None})
    says = Says(TaskState.STOPPING, "Removing", "it was removed")
    if FINALIZER not in observed.me.finalizers:
        return Step(says)
    left = tuple(name for name in observed.me.finalizers if name != FINALIZER)
    released: Change = Mark(observed.address, observed.me.uid, finalizers=left)
    return Step(says, changes=(*_drop_call(observed), *budgets.removed(observed), released))


def _drop_call(observed: Observed) -> tuple[Change, ...]:
    call = observed.call
    return (Drop(call.address, Uid(call.uid)),) if call is not None else ()


def is_ended(observed: Observed) -> bool:
    """Whether the task has ended, so that pausing or cancelling it has nothing to stop."""
    return observed.progress.state in (TaskState.DONE, TaskState.FAILED) and not flight.is_in_motion(observed)


def keep(observed: Observed) -> Step:
    """Leaves an ended task as it is."""
    return Step(reopening.as_written(observed, observed.progress.state or TaskState.DONE))
