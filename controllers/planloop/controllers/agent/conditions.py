"""The conditions of an agent: which ones this controller writes, and the merge that sets or clears one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from planloop.controllers.agent.observing import Observed
from planloop.schemas.agent import NO_GUEST, NO_MODEL, UNPRICED
from planloop.schemas.condition import Condition, condition_from_json, updated
from planloop.schemas.encoding import JsonObject

BLOCKING: Final = (
    "AwaitingApproval",
    "AwaitingInput",
    "AwaitingLock",
    "AwaitingServer",
    "BudgetSpent",
    "InDoubt",
    NO_GUEST,
    NO_MODEL,
    "Paused",
    UNPRICED,
)
"""At most one of these is True: it says why the agent does not go on."""

CHILD_FAILED: Final = "ChildFailed"
"""Stands, whatever else the agent does, while a child has failed and is not mended, taken away or accepted."""


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
    stand = [each for each in BLOCKING if each == kind or each in seen.status.conditions]
    return united(condition_merge(seen, each, message if each == kind else "", unblocks=unblocks) for each in stand)


def standing_merge(seen: Observed, failed: str) -> JsonObject:
    """The merge after which `failed`, the children that have failed in words, is a condition; empty: none has."""
    return condition_merge(seen, CHILD_FAILED, failed, unblocks=("it is mended, taken away or accepted",))


def united(merges: Iterable[JsonObject]) -> JsonObject:
    """One merge of the conditions that each of `merges` changes; empty when none does."""
    changes: JsonObject = {}
    for merge in merges:
        changes |= merge.get("conditions", {})
    return {"conditions": changes} if changes else {}
