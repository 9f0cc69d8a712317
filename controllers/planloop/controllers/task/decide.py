"""Decide the next step of a task, and its status and conditions after that step. Pure."""

from __future__ import annotations

from typing import assert_never

from planloop.controllers.task import budgets, container_needs, halt, lifecycle, observe
from planloop.controllers.task.counters import TaskCounters, TaskSlots
from planloop.controllers.task.finish import CommandOutcome, children_not_done
from planloop.controllers.task.observe import FindWorkspace, ObservedTask, TaskObserver
from planloop.controllers.task.status import TaskStage
from planloop.controllers.task.step import CheckJob, TaskExplanation, TaskStep, compose_merges, observed_after
from planloop.reconciler.store.store import View
from planloop.schemas import json_patch
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.frozen import remade
from planloop.schemas.objects.call import CallState
from planloop.schemas.objects.container import AWAITING_CONTAINERS
from planloop.schemas.objects.fork import MERGE_CONFLICT, fork_request
from planloop.schemas.objects.task import AgentWork, GroupWork, TaskState
from planloop.schemas.resource import Condition, Resource, Truth, condition_from_json, update_condition

# The state, conditions and signal of a step, reduced to the members that change.

BUDGET = "BudgetGranted"
_MOVING = (TaskState.RUNNING, TaskState.CHECKING, TaskState.STOPPING)


def complete_step(observed: ObservedTask, step: TaskStep) -> TaskStep:
    """Return `step` with its full status, without the members that are written already."""
    if _is_plain_wait(observed, step):
        return remade(step, merge={})
    if not step.merge and _is_written(observed, step.says) and not _has_pending_raise(observed):
        return step
    says = step.says
    status = json_patch.merge_values(observed.me.status, step.merge)
    merge: JsonObject = {**step.merge, "state": str(says.state), "signal": _signal(observed, step, status)}
    merge["why"] = says.message or None
    written = observed.me.status.get("conditions", {})
    merge["conditions"] = {
        new.type: _stamped(written.get(new.type), new) for new in _conditions(observed, says, status)
    }
    absent = [type_ for type_ in written if type_ not in merge["conditions"] and type_ in _OURS]
    merge["conditions"].update(dict.fromkeys(absent))
    return remade(step, merge=changed_members(observed.me.status, merge))


def _is_plain_wait(observed: ObservedTask, step: TaskStep) -> bool:
    # A task that only waits writes nothing: otherwise a plan of 1,000 tasks would begin with 1,000 writes that repeat
    # the plan. `explain_task` computes the reason from the view. A free or missing slot is not written either.
    if step.merge or step.says.state is not TaskState.WAITING:
        return False
    is_queued = step.says.reason == "Queued" and observed.progress.state is TaskState.WAITING
    # Exception: the containers of the task start when they see this reason in its status.
    return is_queued or (not observed.me.status and step.says.reason != AWAITING_CONTAINERS)


def _is_written(observed: ObservedTask, says: TaskExplanation) -> bool:
    """Whether the status already holds `says`: a shortcut for the common case, without composing the status."""
    status = observed.me.status
    ready = status.get("conditions", {}).get("Ready")
    return (
        ready is not None
        and status.get("state") == says.state
        and ready["observed_generation"] == observed.me.generation
        and ready["reason"] == says.reason
        and ready["message"] == says.message
        and ready["unblocks"] == list(says.unblocks)
        and bool((status.get("signal") or {}).get("stuck")) == says.is_stuck
    )


def _has_pending_raise(observed: ObservedTask) -> bool:
    """Whether the condition about a raise that cannot be granted must be written or removed."""
    is_written = BUDGET in observed.me.status.get("conditions", {})
    return is_written or bool(observed.me.spec["budget"] and budgets.pending_raise(observed.me))


def changed_members(old: JsonObject, merge: JsonObject) -> JsonObject:
    """Return the part of the merge patch `merge` that changes `old`."""
    out: JsonObject = {}
    for key, value in merge.items():
        before: Json = old.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            changed = changed_members(before, value)
            if changed:
                out[key] = changed
        elif value != before or (value is None and key in old):
            out[key] = value
    return out


_OURS = frozenset({"Ready", "Progressing", "Accepted", "InDoubt", MERGE_CONFLICT, BUDGET})


def _conditions(observed: ObservedTask, says: TaskExplanation, status: JsonObject) -> list[Condition]:
    def condition(type_: str, truth: Truth) -> Condition:
        generation = observed.me.generation
        return Condition(type_, truth, says.reason, says.message, observed.now, generation, says.unblocks)

    out = [condition("Ready", "True" if says.state is TaskState.DONE else "False")]
    if not says.state.is_terminal:
        out.append(condition("Progressing", "True" if says.state in _MOVING else "False"))
    if says.reason == "InDoubt":
        out.append(condition("InDoubt", "True"))
    if conflict := lifecycle.fork_conflict(observed):
        now, generation = observed.now, observed.me.generation
        out.append(Condition(MERGE_CONFLICT, "True", MERGE_CONFLICT, conflict, now, generation))
    if observed.spec.acceptance:
        out.append(_accepted(observed, says, status))
    if observed.me.spec["budget"] and (pending := budgets.pending_raise(remade(observed.me, status=status))):
        now, generation = observed.now, observed.me.generation
        out.append(Condition(BUDGET, "False", budgets.NO_BUDGET_LEFT, pending, now, generation, budgets.RAISE))
    return out


def _accepted(observed: ObservedTask, says: TaskExplanation, status: JsonObject) -> Condition:
    """Condition `Accepted`: whether the newest results of all checks pass; Unknown while one has no result."""
    checks = status.get("checks") or {}
    results = [checks.get(check.key) for check in observed.spec.acceptance]
    bad = next((result for result in results if result is not None and result["result"] != "pass"), None)
    now, generation = observed.now, observed.me.generation
    if bad is not None:
        return Condition("Accepted", "False", "ChecksFailing", bad["message"], now, generation)
    if any(result is None for result in results) or says.state is TaskState.CHECKING:
        return Condition("Accepted", "Unknown", "NotChecked", "not all checks have run", now, generation)
    words = "its check passes" if len(results) == 1 else f"all {len(results)} checks pass"
    return Condition("Accepted", "True", "ChecksHold", words, now, generation)


def _stamped(written: JsonObject | None, new: Condition) -> JsonObject:
    return update_condition(condition_from_json(new.type, written) if written else None, new).to_json()


def _signal(observed: ObservedTask, step: TaskStep, status: JsonObject) -> Json:
    """Return what agents, parents, dependents and containers react to besides the state."""
    out: JsonObject = {"stuck": True} if step.says.is_stuck else {}
    if step.says.reason in container_needs.STILL_STARTING:
        out["containers"] = True
    if isinstance(observed.spec.work, AgentWork):
        verdict = status.get("verdict") or {}
        out["go"] = status.get("go")
        out["verdict"] = [verdict.get("incarnation", 0), verdict.get("claim", 0)]
    if observed.spec.fork and (asked := fork_request(status)).wish:
        out["fork"] = [asked.wish, asked.bring]
    counted = (status.get("signal") or {}).get("budget")
    if counted:
        out["budget"] = counted  # The ledger raises this number when a waiting task can have more budget.
    return out or None


# The order of precedence: removal, cancel, an edit, pause, then the stage of the work.


def decide_task(observed: ObservedTask) -> TaskStep:
    """Return the next step with state and conditions, reduced to the members that change.

    A decision on the state after that step writes nothing.
    """
    entry = budgets.align_ledger(observed)
    step = next_step(entry.then)
    if entry.merge or entry.changes:
        step = step.on_top_of(entry.merge).first(entry.changes)
    step = complete_step(observed, step)
    if observed.budget.over and (refunds := budgets.refund_changes(entry.then)):
        return remade(step, changes=(*step.changes, *refunds), type="budget.refunded")
    return step


def next_step(observed: ObservedTask) -> TaskStep:
    """Return the next step before it is compared with the written status."""
    if observed.me.deleting:
        return halt.remove_task(observed)
    if observed.halt is not None and observed.halt.how == "cancel":
        return halt.keep_ended(observed) if halt.is_ended(observed) else halt.cancel_task(observed)
    edited = halt.superseded_reason(observed)
    if observed.halt is not None:
        if halt.is_ended(observed):
            return halt.keep_ended(observed)
        return halt.restart_task(observed, edited) if edited and observed.motion.jobs else halt.pause_task(observed)
    if edited:
        return halt.restart_task(observed, edited)
    return _by_stage(observed)


def _by_stage(observed: ObservedTask) -> TaskStep:
    stage = observed.progress.stage
    match stage:
        case TaskStage.NOT_BEGUN:
            return lifecycle.start_task(observed)
        case TaskStage.BEFORE:
            return lifecycle.advance_checks(observed)
        case TaskStage.WORK:
            return lifecycle.hold_for_fork(observed) or lifecycle.clear_fork_request(
                observed, lifecycle.advance_work(observed)
            )
        case TaskStage.VERIFY:
            if isinstance(observed.spec.work, GroupWork) and children_not_done(observed) is not None:
                return lifecycle.finish_own_work(observed)
            return lifecycle.advance_checks(observed)
        case TaskStage.DONE:
            return lifecycle.keep_done(observed)
        case TaskStage.FAILED:
            return lifecycle.keep_failed(observed)
        case _:
            assert_never(stage)


# Steps around an effect: a command starts, a command ended, a check finished.
#
# Each is decided on the status after the result, so that one append holds the result and its consequences.


def incarnation_to_start(observed: ObservedTask) -> int:
    """Return the incarnation of a command that starts now. A restart of a command that never began is not a new one."""
    return observed.progress.incarnation + (0 if observed.progress.stage is TaskStage.WORK else 1)


def command_started_step(observed: ObservedTask, call: str) -> TaskStep:
    """Return the step for a command that starts as the call at address `call`."""
    begun = lifecycle.begin_merge(observed, incarnation_to_start(observed))
    grants = budgets.grant_budget(observed)
    merge = compose_merges(next_step(observed).merge, {**begun, **grants.merge, "call": call})
    return complete_step(observed, TaskStep(lifecycle.COMMAND_RUNNING, merge, grants.changes))


def command_ended_step(before: ObservedTask, call: Resource, outcome: CommandOutcome) -> TaskStep:
    """Return the step after the command of `call` ended, was lost, or was stopped by the owner."""
    running_s = max(0.0, before.now - before.progress.times.started_at)
    used = budgets.bill_usage(before, time_s=running_s)
    merge: JsonObject = {**used.merge, "spent_s": round(before.progress.times.spent_s + running_s, 6)}
    jobs = frozenset(key for key in before.motion.jobs if not observe.is_run_key(key) and not observe.is_stop_key(key))
    if outcome.call.state is CallState.UNKNOWN:
        unknown = remade(call, status={**call.status, "state": str(CallState.UNKNOWN)})
        then = observed_after(used.then, merge)
        then = remade(then, motion=remade(then.motion, jobs=jobs, call=unknown))
    else:
        merge |= {"call": None, "result": outcome.result}
        if outcome.result is None:
            merge["stage"] = ""
        then = observed_after(used.then, merge)
        then = remade(then, motion=remade(then.motion, jobs=jobs))
    step = complete_step(before, next_step(then).on_top_of(merge))
    return remade(step, changes=(*used.changes, *step.changes))


def check_found_step(before: ObservedTask, job: CheckJob, entry: JsonObject) -> TaskStep:
    """Return the step after the check of `job` finished with the result `entry`."""
    merge: JsonObject = {"checks": {job.check.key: entry}}
    return complete_step(before, next_step(observed_after(before, merge)).on_top_of(merge))


def explain_task(task: Resource, view: View, now: float, ground: FindWorkspace) -> TaskExplanation:
    """Return the state, reason, message and `unblocks` of `task` at `now`, from a view alone; for `plan describe`.

    `ground` returns the workspace of a task, which the view does not contain. A command that may start and has not is
    reported as Queued, because only the owner's work plane knows which commands wait for a slot.
    """
    counters = TaskCounters()
    near = [task.address, *task.spec["needs"], *(owned.address for owned in view.owned_by(task.address))]
    counters.update(view, near)
    slots = TaskSlots()
    slots.count(view)
    return next_step(TaskObserver(view, counters, None, slots=slots, ground=ground).observe_as(task, now)).says
