"""Decide what the plan's status should be, from the plan, its root task and its pending approvals. Pure."""

from __future__ import annotations

from typing import Final

from planloop.reconciler.store.store import View
from planloop.schemas import address as addresses
from planloop.schemas import resource
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.approval import WAITING
from planloop.schemas.objects.task import TaskState
from planloop.schemas.resource import Condition, Resource, Truth

# What the plan controller reads: the plan, its root task, what waits for approval, and which objects have to wait.


@frozen
class ObservedPlan:
    """`root` is None until the plan's objects exist. `freed` are pending addresses that nothing old is in the way of.

    `waiting` are approvals that nobody has answered, `orphans` those whose asker is gone.
    """

    plan: Resource
    root: Resource | None
    freed: tuple[str, ...]
    waiting: tuple[Resource, ...]
    orphans: tuple[Resource, ...]


def observe_plan(view: View, address: str) -> ObservedPlan | None:
    """The plan at `address` with what bears on it; None when it is gone."""
    plan = view.get(address)
    if plan is None:
        return None
    approvals = view.list("approval")
    return ObservedPlan(
        plan=plan,
        root=view.get("task/."),
        freed=tuple(one for one in plan.status.get("pending") or () if _is_free(view, one)),
        waiting=tuple(one for one in approvals if one.state == WAITING),
        orphans=tuple(one for one in approvals if one.owner is not None and view.get(one.owner) is None),
    )


def _is_free(view: View, text: str) -> bool:
    address = addresses.parse_address(text)
    above = addresses.task_address(*address.path) if address.kind == "agent" else address.parent
    return not any(found is not None and found.deleting for found in (view.get(text), view.get(str(above))))


# What the plan's status should say, as a pure function of what was observed.
#
# The plan is done, failed or cancelled when its root task is; these states are what exit codes are made from. The gate
# itself writes the conditions about the file.

PASSED_ON: Final = frozenset({"done", "failed", "cancelled", "paused", "blocked"})
"""States of the root task that are the plan's as well; in every other one it is running."""


def plan_state(seen: ObservedPlan) -> str:
    """The plan's one-word state."""
    if seen.root is None or seen.root.deleting:
        return "stopping" if seen.plan.deleting else "running"
    return seen.root.state if seen.root.state in PASSED_ON else "running"


def plan_status(seen: ObservedPlan, faults: str, now: float) -> JsonObject:
    """The members of the status that this controller keeps. `faults` are those of the document, usually none."""
    conditions = [
        _outcome(seen, "Done", TaskState.DONE, now),
        _outcome(seen, "Failed", TaskState.FAILED, now),
        _held(seen, now),
        _held_back(seen, now),
        _invalid(seen, faults, now),
    ]
    old = resource.conditions_of_status(seen.plan.status)
    told = {one.type: resource.update_condition(old.get(one.type), one).to_json() for one in conditions}
    return {"state": plan_state(seen), "conditions": told}


def _outcome(seen: ObservedPlan, type_: str, state: TaskState, now: float) -> Condition:
    is_so = plan_state(seen) == state
    reason = type_ if is_so else "NotYet"
    message = str(seen.root.status.get("why", "")) if is_so and seen.root is not None else ""
    return _condition(seen, type_, ("True" if is_so else "False", reason, message), now)


def _held(seen: ObservedPlan, now: float) -> Condition:
    if not seen.waiting:
        return _condition(seen, "Held", ("False", "NothingWaits", ""), now)
    words = "; ".join(f"{one.address}: {one.spec.get('why', '')}" for one in seen.waiting)
    unblocks = tuple(f"plan approve {one.address}" for one in seen.waiting)
    return _condition(seen, "Held", ("True", "ApprovalNeeded", words), now, unblocks)


def _held_back(seen: ObservedPlan, now: float) -> Condition:
    file: JsonObject = seen.plan.status.get("file") or {}
    if not file.get("held_back"):
        return _condition(seen, "FileHeldBack", ("False", "NotHeldBack", ""), now)
    words = f"{file.get('path', 'the file')} was rolled back and is not applied again until it changes"
    return _condition(seen, "FileHeldBack", ("True", "RolledBack", words), now, ("change the file and save it",))


def _invalid(seen: ObservedPlan, faults: str, now: float) -> Condition:
    said: _Said = ("True", "DoesNotCompile", faults) if faults else ("False", "Compiles", "")
    return _condition(seen, "DocumentInvalid", said, now)


_Said = tuple[Truth, str, str]


def _condition(seen: ObservedPlan, type_: str, said: _Said, now: float, unblocks: tuple[str, ...] = ()) -> Condition:
    status, reason, message = said
    return Condition(type_, status, reason, message, now, seen.plan.generation, unblocks)
