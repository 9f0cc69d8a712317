"""Decide the next step of one task, and what its status then says. Pure."""

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

# From what a step says to the conditions, the state and the signal that are written, cut down to what is new.

BUDGET = "BudgetGranted"
_MOVING = (TaskState.RUNNING, TaskState.CHECKING, TaskState.STOPPING)


def complete_step(observed: ObservedTask, step: TaskStep) -> TaskStep:
    """`step` with everything that its status is to say, less what it says already."""
    if _is_plain_wait(observed, step):
        return remade(step, merge={})
    if not step.merge and _is_written(observed, step.says) and not _is_pending_news(observed):
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
    # A task that only waits its turn writes nothing until then: a plan of 1,000 tasks would begin with 1,000 writes
    # that say what the plan says already. `why` tells it from the view. Having a slot or not is no news either.
    if step.merge or step.says.state is not TaskState.WAITING:
        return False
    is_queued = step.says.reason == "Queued" and observed.progress.state is TaskState.WAITING
    # But a container that is for this task comes up when it hears that the task waits for it.
    return is_queued or (not observed.me.status and step.says.reason != AWAITING_CONTAINERS)


def _is_written(observed: ObservedTask, says: TaskExplanation) -> bool:
    """Whether the status says all this already: the common case, told without composing it again."""
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


def _is_pending_news(observed: ObservedTask) -> bool:
    """Whether a raise of the budget that cannot be given is to be told, or is no longer to be."""
    is_told = BUDGET in observed.me.status.get("conditions", {})
    return is_told or bool(observed.me.spec["budget"] and budgets.pending_raise(observed.me))


def changed_members(old: JsonObject, merge: JsonObject) -> JsonObject:
    """The part of a merge patch that would change `old`."""
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
    """Whether the checks hold, by their newest results; Unknown while one has none."""
    checks = status.get("checks") or {}
    results = [checks.get(check.key) for check in observed.spec.acceptance]
    bad = next((result for result in results if result is not None and result["result"] != "pass"), None)
    now, generation = observed.now, observed.me.generation
    if bad is not None:
        return Condition("Accepted", "False", "ChecksFailing", bad["message"], now, generation)
    if any(result is None for result in results) or says.state is TaskState.CHECKING:
        return Condition("Accepted", "Unknown", "NotChecked", "its checks have not all run", now, generation)
    words = "its check holds" if len(results) == 1 else f"all {len(results)} checks hold"
    return Condition("Accepted", "True", "ChecksHold", words, now, generation)


def _stamped(written: JsonObject | None, new: Condition) -> JsonObject:
    return update_condition(condition_from_json(new.type, written) if written else None, new).to_json()


def _signal(observed: ObservedTask, step: TaskStep, status: JsonObject) -> Json:
    """What agents, parents and dependents react to besides the state."""
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
        out["budget"] = counted  # Raised by the ledger when something waits for more and can have it.
    return out or None


# What to do about one task: a pure function from what was observed to one step.
#
# The order is the order of authority: removal, then cancel, then a newer wish, then pause, then how far the work is.
# Each rule is next door, in the file of its concept.


def decide_task(observed: ObservedTask) -> TaskStep:
    """The next step, its status complete with state and conditions and cut down to what is new.

    Deciding again on the state that the step leads to gives a step that writes nothing.
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
    """The step before it is compared with what is already written."""
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
            return lifecycle.hold_for_fork(observed) or lifecycle.clear_fork_wish(
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


# The writes around an effect, as pure steps: a command begins, a command ended, a check found something.
#
# Each is decided on what will be true once it is written, so that one append holds the result and what follows from it.


def incarnation_to_start(observed: ObservedTask) -> int:
    """The incarnation that a command started now belongs to: a command that never began is not a new one."""
    return observed.progress.incarnation + (0 if observed.progress.stage is TaskStage.WORK else 1)


def command_started_step(observed: ObservedTask, call: str) -> TaskStep:
    """The task's command starts as the call at `call`."""
    begun = lifecycle.begin_merge(observed, incarnation_to_start(observed))
    grants = budgets.grant_budget(observed)
    merge = compose_merges(next_step(observed).merge, {**begun, **grants.merge, "call": call})
    says = TaskExplanation(TaskState.RUNNING, "Running", "its command runs")
    return complete_step(observed, TaskStep(says, merge, grants.changes))


def command_ended_step(before: ObservedTask, call: Resource, outcome: CommandOutcome) -> TaskStep:
    """The command of `call` ended so, or was lost, or was stopped by us (then it has not begun)."""
    running_s = max(0.0, before.now - before.progress.times.started_at)
    used = budgets.bill_usage(before, time_s=running_s)
    merge: JsonObject = {**used.merge, "spent_s": round(before.progress.times.spent_s + running_s, 6)}
    jobs = frozenset(key for key in before.motion.jobs if not observe.is_run_key(key) and not observe.is_stop_key(key))
    if outcome.call.state is CallState.UNKNOWN:
        doubt = remade(call, status={**call.status, "state": str(CallState.UNKNOWN)})
        then = observed_after(used.then, merge)
        then = remade(then, motion=remade(then.motion, jobs=jobs, call=doubt))
    else:
        merge |= {"call": None, "result": outcome.result}
        if outcome.result is None:
            merge["stage"] = ""
        then = observed_after(used.then, merge)
        then = remade(then, motion=remade(then.motion, jobs=jobs))
    step = complete_step(before, next_step(then).on_top_of(merge))
    return remade(step, changes=(*used.changes, *step.changes))


def check_found_step(before: ObservedTask, job: CheckJob, entry: JsonObject) -> TaskStep:
    """The check of `job` found what `entry` says."""
    merge: JsonObject = {"checks": {job.check.key: entry}}
    return complete_step(before, next_step(observed_after(before, merge)).on_top_of(merge))


# Why a task is as it is, and what would change that: the controller's own rules, on a view and nothing else.


def explain_task(task: Resource, view: View, now: float, ground: FindWorkspace) -> TaskExplanation:
    """State, reason, message and `unblocks` of `task` as the view has it at `now`; for `plan describe`.

    `ground` says where a task works, which no view tells. A command that may start and has not is Queued: who waits for
    a slot is known to the owner's work plane only.
    """
    tallies = TaskCounters()
    near = [task.address, *task.spec["needs"], *(owned.address for owned in view.owned_by(task.address))]
    tallies.update(view, near)
    slots = TaskSlots()
    slots.count(view)
    return next_step(TaskObserver(view, tallies, None, slots=slots, ground=ground).observe_as(task, now)).says
