"""From what a step says to the conditions, the state and the signal that are written, cut down to what is new."""

from __future__ import annotations

from planloop.controllers.task import budgets, containing, forking
from planloop.controllers.task.observing import Observed
from planloop.controllers.task.step import Says, Step
from planloop.schemas import patching
from planloop.schemas.condition import Condition, Truth, condition_from_json, updated
from planloop.schemas.container import AWAITING_CONTAINERS
from planloop.schemas.encoding import Json, JsonObject
from planloop.schemas.fork import MERGE_CONFLICT, asked_of
from planloop.schemas.frozen import remade
from planloop.schemas.task import ByAgent, TaskState

BUDGET = "BudgetGranted"
_MOVING = (TaskState.RUNNING, TaskState.CHECKING, TaskState.STOPPING)


def complete(observed: Observed, step: Step) -> Step:
    """`step` with everything that its status is to say, less what it says already."""
    if _is_plain_wait(observed, step):
        return remade(step, merge={})
    if not step.merge and _is_written(observed, step.says) and not _is_pending_news(observed):
        return step
    says = step.says
    status = patching.merge(observed.me.status, step.merge)
    merge: JsonObject = {**step.merge, "state": str(says.state), "signal": _signal(observed, step, status)}
    merge["why"] = says.message or None
    written = observed.me.status.get("conditions", {})
    merge["conditions"] = {
        new.type: _stamped(written.get(new.type), new) for new in _conditions(observed, says, status)
    }
    absent = [type_ for type_ in written if type_ not in merge["conditions"] and type_ in _OURS]
    merge["conditions"].update(dict.fromkeys(absent))
    return remade(step, merge=news(observed.me.status, merge))


def _is_plain_wait(observed: Observed, step: Step) -> bool:
    # A task that only waits its turn writes nothing until then: a plan of 1,000 tasks would begin with 1,000 writes
    # that say what the plan says already. `why` tells it from the view. Having a slot or not is no news either.
    if step.merge or step.says.state is not TaskState.WAITING:
        return False
    is_queued = step.says.reason == "Queued" and observed.progress.state is TaskState.WAITING
    # But a container that is for this task comes up when it hears that the task waits for it.
    return is_queued or (not observed.me.status and step.says.reason != AWAITING_CONTAINERS)


def _is_written(observed: Observed, says: Says) -> bool:
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


def _is_pending_news(observed: Observed) -> bool:
    """Whether a raise of the budget that cannot be given is to be told, or is no longer to be."""
    is_told = BUDGET in observed.me.status.get("conditions", {})
    return is_told or bool(observed.me.spec["budget"] and budgets.pending(observed.me))


def news(old: JsonObject, merge: JsonObject) -> JsonObject:
    """The part of a merge patch that would change `old`."""
    out: JsonObject = {}
    for key, value in merge.items():
        before: Json = old.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            changed = news(before, value)
            if changed:
                out[key] = changed
        elif value != before or (value is None and key in old):
            out[key] = value
    return out


_OURS = frozenset({"Ready", "Progressing", "Accepted", "InDoubt", MERGE_CONFLICT, BUDGET})


def _conditions(observed: Observed, says: Says, status: JsonObject) -> list[Condition]:
    def condition(type_: str, truth: Truth) -> Condition:
        generation = observed.me.generation
        return Condition(type_, truth, says.reason, says.message, observed.now, generation, says.unblocks)

    out = [condition("Ready", "True" if says.state is TaskState.DONE else "False")]
    if not says.state.is_terminal:
        out.append(condition("Progressing", "True" if says.state in _MOVING else "False"))
    if says.reason == "InDoubt":
        out.append(condition("InDoubt", "True"))
    if conflict := forking.conflict_words(observed):
        now, generation = observed.now, observed.me.generation
        out.append(Condition(MERGE_CONFLICT, "True", MERGE_CONFLICT, conflict, now, generation))
    if observed.spec.acceptance:
        out.append(_accepted(observed, says, status))
    if observed.me.spec["budget"] and (pending := budgets.pending(remade(observed.me, status=status))):
        now, generation = observed.now, observed.me.generation
        out.append(Condition(BUDGET, "False", budgets.NO_BUDGET_LEFT, pending, now, generation, budgets.RAISE))
    return out


def _accepted(observed: Observed, says: Says, status: JsonObject) -> Condition:
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
    return updated(condition_from_json(new.type, written) if written else None, new).to_json()


def _signal(observed: Observed, step: Step, status: JsonObject) -> Json:
    """What agents, parents and dependents react to besides the state."""
    out: JsonObject = {"stuck": True} if step.says.is_stuck else {}
    if step.says.reason in containing.WANTING:
        out["containers"] = True
    if isinstance(observed.spec.work, ByAgent):
        verdict = status.get("verdict") or {}
        out["go"] = status.get("go")
        out["verdict"] = [verdict.get("incarnation", 0), verdict.get("claim", 0)]
    if observed.spec.fork and (asked := asked_of(status)).wish:
        out["fork"] = [asked.wish, asked.bring]
    counted = (status.get("signal") or {}).get("budget")
    if counted:
        out["budget"] = counted  # Raised by the ledger when something waits for more and can have it.
    return out or None
