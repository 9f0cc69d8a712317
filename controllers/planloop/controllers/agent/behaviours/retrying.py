"""The record of a try that failed and is to be made again: billed as a retry, and nothing is under way after it."""

from __future__ import annotations

from planloop.controllers.agent import budget, turn
from planloop.controllers.agent.observing import Observed
from planloop.reconciler.storing.store import View
from planloop.schemas.budget import Cost
from planloop.schemas.call import CallResult, CallState
from planloop.schemas.encoding import JsonObject
from planloop.schemas.record import Change, Draft, SetStatus
from planloop.schemas.resource import Resource


def failed_once(seen: Observed, view: View, call: Resource, failed: CallResult, tries: int, pause_s: float) -> Draft:
    """The call is Authorized again after its `tries`-th try; its next one has an intent of its own."""
    why = f"try {tries} failed ({failed.error}); the next one in {pause_s:g} s"
    merge: JsonObject = {"state": str(CallState.AUTHORIZED), "retries": tries, "why": why}
    changes = (SetStatus(call.address, call.uid, merge), *billed(seen, view))
    data: JsonObject = {"retry": tries, "tool": call.spec["tool"], "pause_s": pause_s, "failed": failed.to_json()}
    return Draft("call.reconciled", turn.ACTOR, call.address, changes, data)


def billed(seen: Observed, view: View) -> tuple[Change, ...]:
    """The changes that count one retry of the agent."""
    return budget.settle(view, seen.resource, "", Cost(retries=1))
