"""The conditions of an agent: which ones this controller writes, and the merge that sets or clears one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from controllers.agent.observing import Observed
from schemas.agent import NO_MODEL, UNPRICED
from schemas.condition import Condition, condition_from_json, updated
from schemas.encoding import JsonObject

BLOCKING: Final = (
    "AwaitingApproval",
    "AwaitingInput",
    "AwaitingLock",
    "AwaitingServer",
    "BudgetSpent",
    "InDoubt",
    NO_MODEL,
    "Paused",
    UNPRICED,
)
"""At most one of these is True: it says why the agent does not go on."""


def condition_merge(seen: Observed, kind: str, message: str, *, unblocks: Sequence[str] = ()) -> JsonObject:
    """The status merge that makes the condition `kind` True with `message`, or takes it away when that is empty.

    Empty when nothing changes, so that a second pass writes nothing.
    """
    raw = seen.status.conditions.get(kind)
    old = None if raw is None else condition_from_json(kind, raw)
    if not message:
        return {} if old is None else {"conditions": {kind: None}}
    new = updated(old, Condition(kind, "True", kind, message, seen.now, seen.resource.generation, tuple(unblocks)))
    if old is not None and (old.message, old.unblocks) == (new.message, new.unblocks) and old.since == new.since:
        return {}
    return {"conditions": {kind: new.to_json()}}


def blocking_merge(seen: Observed, kind: str, message: str, unblocks: Sequence[str]) -> JsonObject:
    """The merge after which `kind` (empty: none) is the one blocking condition."""
    changes: JsonObject = {}
    for each in BLOCKING:
        merge = condition_merge(seen, each, message if each == kind else "", unblocks=unblocks)
        changes |= merge.get("conditions", {})
    return {"conditions": changes} if changes else {}
