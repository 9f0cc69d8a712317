"""Lease of an MCP client on an external agent: how long it lasts, and how it ends. Pure.

The lease is in the agent's status, with the JSON key `seat`. A client renews it with each request. When the lease ends,
the jobs are cancelled, the turn ends, and the locks of the agent are released; any owner can take these steps. Later
requests under the number of the lease are refused.
"""

from __future__ import annotations

from planloop.controllers.agent.observe import ObservedAgent
from planloop.controllers.agent.status import AGENT_ACTOR, ExternalLease
from planloop.reconciler.engine.reconcile import Again, Done, Outcome
from planloop.schemas import quantities
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.log.record import RecordDraft, SetStatus
from planloop.schemas.objects.agent import McpClientSpec


def client_lease_s(decider: object) -> float:
    """Seconds without a request after which the lease expires."""
    assert isinstance(decider, McpClientSpec), "only external agents have leases"
    return decider.lease_s


def why_lease_ends(lease: ExternalLease, lease_s: float, now: float) -> str:
    """Why the lease ends now; empty while it lasts."""
    if lease.leaving:
        return lease.leaving
    return f"no request for {quantities.format_duration(lease_s)}" if lease.heard_at + lease_s <= now else ""


def why_agent_lease_ends(agent: ObservedAgent) -> str:
    """Why the agent's lease ends now; empty while it lasts, and if no client holds one."""
    lease, decider = agent.status.client.lease, agent.spec.mind
    if lease is None:
        return ""
    return (
        why_lease_ends(lease, decider.lease_s, agent.now)
        if isinstance(decider, McpClientSpec)
        else "the plan gave the agent another decider"
    )


def is_turn_abandoned(agent: ObservedAgent) -> bool:
    """Whether the client of the open turn has cancelled its call or lost its lease."""
    opened = agent.status.open
    return opened is not None and (opened.client.is_withdrawn or bool(why_agent_lease_ends(agent)))


def wake_by_lease(agent: ObservedAgent, outcome: Outcome) -> Outcome:
    """`outcome`, with a reconcile at the latest when the lease expires."""
    lease, decider = agent.status.client.lease, agent.spec.mind
    if lease is None or not isinstance(decider, McpClientSpec) or not isinstance(outcome, Done | Again):
        return outcome
    due_s = max(0.0, lease.heard_at + decider.lease_s - agent.now)
    return Again(due_s if isinstance(outcome, Done) else min(outcome.after_s, due_s))


def draft_lease_end(agent: ObservedAgent, why: str) -> RecordDraft:
    """The record of a lease that ends. Waiting calls are dropped, and the next client begins with no file read."""
    lease = agent.status.client.lease
    assert lease is not None, "only a lease that exists ends"
    merge: JsonObject = {"seat": None, "files": None}
    if agent.status.client.said:
        merge["said"] = dict.fromkeys(agent.status.client.said)
    data: JsonObject = {
        "seat": lease.number,
        "client": lease.client,
        "why": why,
        "dropped": [*agent.status.client.said],
    }
    changes = (SetStatus(agent.resource.address, agent.resource.uid, merge),)
    return RecordDraft("seat.left", AGENT_ACTOR, agent.resource.address, changes, data)
