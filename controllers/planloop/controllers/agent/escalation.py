"""The model that an agent is asked by: its own, one that a yes gave it, or the stronger one of its escalation. Pure.

An escalation is one record, which sets `status.escalated`; an agent escalates once in an incarnation, so that a crash
before the record repeats it and a crash after it does not. The conversation stays: only the model is another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planloop.controllers.agent import stuck
from planloop.controllers.agent.mail import telling
from planloop.schemas.agent import AgentSpec, Model
from planloop.schemas.encoding import JsonObject

if TYPE_CHECKING:
    from planloop.controllers.agent.observing import Observed
    from planloop.controllers.agent.status import AgentStatus


def model_of(spec: AgentSpec, status: AgentStatus) -> Model:
    """The model that the agent is asked by now."""
    assert isinstance(spec.mind, Model), "only models are asked by request"
    granted = "" if spec.granted is None else spec.granted.stated
    if spec.escalate is not None and status.escalated is not None and status.escalated.get("over", "") == granted:
        return spec.escalate.to
    return spec.granted or spec.mind


def model_by(spec: AgentSpec, status: AgentStatus) -> str:
    """The name of a model that has taken the place of the agent's own; empty while it has not."""
    found = model_of(spec, status)
    return "" if found is spec.mind else found.model


def is_possible(seen: Observed) -> bool:
    """Whether the agent has an escalation that it has not used."""
    return seen.spec.escalate is not None and seen.status.escalated is None and not seen.is_watcher


def due(seen: Observed) -> str:
    """Why the stronger model continues from here; empty when it does not. Asked between two turns."""
    escalate = seen.spec.escalate
    if escalate is None or not is_possible(seen):
        return ""
    verdict = telling.rejected_verdict(seen)
    if seen.status.claim is not None and verdict is None:
        return ""  # Its answer is being checked.
    if words := stuck.why(seen.status.tried):
        return words
    count = 0 if verdict is None else int(verdict.get("rejections", 0))
    return f"{count} of its answers were rejected" if count >= escalate.after else ""


def merge_of(seen: Observed, why: str) -> JsonObject:
    """The merge into the agent's status after which the stronger model continues."""
    assert seen.spec.escalate is not None, "an escalation is due"
    before: JsonObject = {**seen.status.used.to_json(), "tokens": seen.status.used.tokens, "usd": seen.status.used.usd}
    over = "" if seen.spec.granted is None else seen.spec.granted.stated
    told: JsonObject = {"to": seen.spec.escalate.to.model, "turn": seen.status.turn, "at": seen.now, "why": why}
    return {"escalated": told | {"before": before, "over": over}, "tried": None, "same": ["", 0]}
