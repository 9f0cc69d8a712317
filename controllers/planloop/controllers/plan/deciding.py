"""What the plan's status should say, as a pure function of what was observed.

The plan is done, failed or cancelled when its root task is; these states are what exit codes are made from. The gate
itself writes the conditions about the file.
"""

from __future__ import annotations

from typing import Final

from planloop.controllers.plan.observing import Observed
from planloop.schemas import condition
from planloop.schemas.condition import Condition, Truth
from planloop.schemas.encoding import JsonObject
from planloop.schemas.task import TaskState

PASSED_ON: Final = frozenset({"done", "failed", "cancelled", "paused", "blocked"})
"""States of the root task that are the plan's as well; in every other one it is running."""


def state_of(seen: Observed) -> str:
    """The plan's one-word state."""
    if seen.root is None or seen.root.deleting:
        return "stopping" if seen.plan.deleting else "running"
    return seen.root.state if seen.root.state in PASSED_ON else "running"


def wanted_status(seen: Observed, faults: str, now: float) -> JsonObject:
    """The members of the status that this controller keeps. `faults` are those of the document, usually none."""
    conditions = [
        _outcome(seen, "Done", TaskState.DONE, now),
        _outcome(seen, "Failed", TaskState.FAILED, now),
        _held(seen, now),
        _held_back(seen, now),
        _invalid(seen, faults, now),
    ]
    old = condition.of_status(seen.plan.status)
    told = {one.type: condition.updated(old.get(one.type), one).to_json() for one in conditions}
    return {"state": state_of(seen), "conditions": told}


def _outcome(seen: Observed, type_: str, state: TaskState, now: float) -> Condition:
    is_so = state_of(seen) == state
    reason = type_ if is_so else "NotYet"
    message = str(seen.root.status.get("why", "")) if is_so and seen.root is not None else ""
    return _condition(seen, type_, ("True" if is_so else "False", reason, message), now)


def _held(seen: Observed, now: float) -> Condition:
    if not seen.waiting:
        return _condition(seen, "Held", ("False", "NothingWaits", ""), now)
    words = "; ".join(f"{one.address}: {one.spec.get('why', '')}" for one in seen.waiting)
    unblocks = tuple(f"plan approve {one.address}" for one in seen.waiting)
    return _condition(seen, "Held", ("True", "ApprovalNeeded", words), now, unblocks)


def _held_back(seen: Observed, now: float) -> Condition:
    file: JsonObject = seen.plan.status.get("file") or {}
    if not file.get("held_back"):
        return _condition(seen, "FileHeldBack", ("False", "NotHeldBack", ""), now)
    words = f"{file.get('path', 'the file')} was rolled back and is not applied again until it changes"
    return _condition(seen, "FileHeldBack", ("True", "RolledBack", words), now, ("change the file and save it",))


def _invalid(seen: Observed, faults: str, now: float) -> Condition:
    said: _Said = ("True", "DoesNotCompile", faults) if faults else ("False", "Compiles", "")
    return _condition(seen, "DocumentInvalid", said, now)


_Said = tuple[Truth, str, str]


def _condition(seen: Observed, type_: str, said: _Said, now: float, unblocks: tuple[str, ...] = ()) -> Condition:
    status, reason, message = said
    return Condition(type_, status, reason, message, now, seen.plan.generation, unblocks)
