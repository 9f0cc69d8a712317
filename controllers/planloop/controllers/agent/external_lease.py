"""Lease of an MCP client on an external agent: how long it holds, and how it ends. Pure.

A seat is a lease in the agent's status. Its client keeps it by saying something before the plan's time is over, and
gives it up or loses it in steps that any owner can take: what runs is stopped, the turn ends, the seat goes with all
that was held under it. What comes later under its number is refused.
"""

from __future__ import annotations

from planloop.controllers.agent.observe import ObservedAgent
from planloop.controllers.agent.status import AGENT_ACTOR, ExternalLease
from planloop.reconciler.engine.reconcile import Again, Done, Outcome
from planloop.schemas import amounts
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.log.record import RecordDraft, SetStatus
from planloop.schemas.objects.agent import McpClientSpec


def client_lease_s(mind: object) -> float:
    """Seconds that a client of such a mind may be silent."""
    assert isinstance(mind, McpClientSpec), "only outside agents have seats"
    return mind.lease_s


def why_lease_ends(seat: ExternalLease, lease_s: float, now: float) -> str:
    """Why the seat is to be given up now; empty while it holds."""
    if seat.leaving:
        return seat.leaving
    return f"silent for {amounts.format_duration(lease_s)}" if seat.heard_at + lease_s <= now else ""


def why_agent_lease_ends(agent: ObservedAgent) -> str:
    """Why the agent's seat is to be given up; empty while it holds, or when nobody has it."""
    seat, mind = agent.status.client.lease, agent.spec.mind
    if seat is None:
        return ""
    return (
        why_lease_ends(seat, mind.lease_s, agent.now)
        if isinstance(mind, McpClientSpec)
        else "the plan gives it to another"
    )


def is_turn_abandoned(agent: ObservedAgent) -> bool:
    """Whether nobody waits any more for what the open turn does."""
    opened = agent.status.open
    return opened is not None and (opened.client.is_withdrawn or bool(why_agent_lease_ends(agent)))


def wake_by_lease(agent: ObservedAgent, outcome: Outcome) -> Outcome:
    """The same outcome, but the agent is looked at again when its seat lapses, whatever it does or waits for."""
    seat, mind = agent.status.client.lease, agent.spec.mind
    if seat is None or not isinstance(mind, McpClientSpec) or not isinstance(outcome, Done | Again):
        return outcome
    due_s = max(0.0, seat.heard_at + mind.lease_s - agent.now)
    return Again(due_s if isinstance(outcome, Done) else min(outcome.after_s, due_s))


def draft_lease_end(agent: ObservedAgent, why: str) -> RecordDraft:
    """The seat is free. Whoever takes it next has read nothing, and what waited under the old one is not done."""
    seat = agent.status.client.lease
    assert seat is not None, "only a seat that is taken is given up"
    merge: JsonObject = {"seat": None, "files": None}
    if agent.status.client.said:
        merge["said"] = dict.fromkeys(agent.status.client.said)
    data: JsonObject = {"seat": seat.number, "client": seat.client, "why": why, "dropped": [*agent.status.client.said]}
    changes = (SetStatus(agent.resource.address, agent.resource.uid, merge),)
    return RecordDraft("seat.left", AGENT_ACTOR, agent.resource.address, changes, data)
