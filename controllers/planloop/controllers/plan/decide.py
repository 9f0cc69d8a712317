"""Decide the state and conditions of the plan, from its root task and its pending approvals. Pure."""

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


@frozen
class ObservedPlan:
    """A plan with what affects its status.

    `root` is None until the plan's objects exist. `freed` are pending addresses whose old object is gone. `waiting` are
    approvals without an answer, `orphans` are approvals whose requester is gone.
    """

    plan: Resource
    root: Resource | None
    freed: tuple[str, ...]
    waiting: tuple[Resource, ...]
    orphans: tuple[Resource, ...]


def observe_plan(view: View, address: str) -> ObservedPlan | None:
    """Return the observation of the plan at `address`; None if it is gone."""
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


# The plan is done, failed or cancelled when its root task is; exit codes depend on these states. The gate itself writes
# the conditions about the file.

PASSED_ON: Final = frozenset({"done", "failed", "cancelled", "paused", "blocked"})
"""States that the plan takes over from its root task. With any other state of the root, the plan is running."""


def plan_state(seen: ObservedPlan) -> str:
    """Return the state of the plan."""
    if seen.root is None or seen.root.deleting:
        return "stopping" if seen.plan.deleting else "running"
    return seen.root.state if seen.root.state in PASSED_ON else "running"


def plan_status(seen: ObservedPlan, errors: str, now: float) -> JsonObject:
    """Return the state and conditions of the plan. `errors` are those of its document, usually none."""
    conditions = [
        _outcome(seen, "Done", TaskState.DONE, now),
        _outcome(seen, "Failed", TaskState.FAILED, now),
        _held(seen, now),
        _held_back(seen, now),
        _invalid(seen, errors, now),
    ]
    old = resource.conditions_of_status(seen.plan.status)
    new = {one.type: resource.update_condition(old.get(one.type), one).to_json() for one in conditions}
    return {"state": plan_state(seen), "conditions": new}


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


def _invalid(seen: ObservedPlan, errors: str, now: float) -> Condition:
    verdict: _Verdict = ("True", "DoesNotCompile", errors) if errors else ("False", "Compiles", "")
    return _condition(seen, "DocumentInvalid", verdict, now)


_Verdict = tuple[Truth, str, str]
"""Status, reason and message of a condition."""


def _condition(
    seen: ObservedPlan, type_: str, verdict: _Verdict, now: float, unblocks: tuple[str, ...] = ()
) -> Condition:
    status, reason, message = verdict
    return Condition(type_, status, reason, message, now, seen.plan.generation, unblocks)
