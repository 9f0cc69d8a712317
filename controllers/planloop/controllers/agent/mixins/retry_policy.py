"""When a failed call may be retried, and the record of the retry. Pure."""

from __future__ import annotations

from typing import Final

from planloop.controllers.agent import budget
from planloop.controllers.agent.mixins.steps import MixinStep
from planloop.controllers.agent.observe import ObservedAgent
from planloop.controllers.agent.turn import records
from planloop.reconciler.store.store import View
from planloop.schemas import limits
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.log.record import Change, RecordDraft, SetStatus
from planloop.schemas.objects.budget import Cost
from planloop.schemas.objects.call import CallResult, CallState, EffectClass
from planloop.schemas.resource import Resource

# When a failed call may be made again: the failure may heal, and a second try can do no harm. Pure.

RETRYABLE_ERRORS: Final = frozenset(
    {"TimedOut", "Disconnected", "NoServer", "ServerError", "Unreachable", "Overloaded", "RateLimited", "NotStarted"}
)
"""Reasons of failures that another moment may not have."""

ERRORS_BEFORE_EFFECT: Final = frozenset({"NotStarted", "NoServer", "Unreachable"})
"""Reasons that say that nothing had happened yet, so that any class of call may be made again."""


def may_retry(step: MixinStep, result: CallResult, effect: EffectClass) -> bool:
    """Whether a call that ended like this may be tried again under `step`, however often it was."""
    if result.state is not CallState.FAILED:
        return False  # A denial stands, a success needs no more, and what is unknown must never be made twice.
    named = step.table.get("errors")
    if result.error not in (RETRYABLE_ERRORS if not named else frozenset(named)):
        return False
    return effect.may_run_again or result.error in ERRORS_BEFORE_EFFECT


def retries_max(step: MixinStep) -> int:
    """Tries after the first."""
    return int(step.table.get("max", 2))


def retry_pause_s(step: MixinStep, tries: int) -> float:
    """Seconds before the try after `tries` tries: doubles from the step's own back-off, and stops at the cap."""
    base = float(step.table.get("backoff", limits.BACKOFF_BASE_S))
    return min(limits.BACKOFF_CAP_S, base * 2.0 ** min(max(0, tries - 1), 30))


# The record of a try that failed and is to be made again: billed as a retry, and nothing is under way after it.


def draft_retry(
    seen: ObservedAgent, view: View, call: Resource, failed: CallResult, tries: int, pause_s: float
) -> RecordDraft:
    """The call is Authorized again after its `tries`-th try; its next one has an intent of its own."""
    why = f"try {tries} failed ({failed.error}); the next one in {pause_s:g} s"
    merge: JsonObject = {"state": str(CallState.AUTHORIZED), "retries": tries, "why": why}
    changes = (SetStatus(call.address, call.uid, merge), *retry_cost_changes(seen, view))
    data: JsonObject = {"retry": tries, "tool": call.spec["tool"], "pause_s": pause_s, "failed": failed.to_json()}
    return RecordDraft("call.reconciled", records.AGENT_ACTOR, call.address, changes, data)


def retry_cost_changes(seen: ObservedAgent, view: View) -> tuple[Change, ...]:
    """The changes that count one retry of the agent."""
    return budget.settle_changes(view, seen.resource, "", Cost(retries=1))
