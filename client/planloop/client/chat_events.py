"""Chat events read from log records: answers, approvals, hand-overs, endings. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from planloop.client.render import approval_requests
from planloop.client.render.tables import call_words
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.log.record import Change, Drop, Put, Record, SetStatus
from planloop.schemas.objects.approval import WAITING, needs_person
from planloop.schemas.objects.container import OVER as ENDS
from planloop.schemas.resource import Resource, conditions_of_status


@frozen
class AgentAnswered:
    """The answer to the message `question`. If it failed, `error` is one CamelCase word and the text is the reason."""

    question: str
    agent: str
    text: str
    error: str = ""


@frozen
class AgentSpoke:
    """Text of an agent that does not answer this person."""

    agent: str
    text: str


@frozen
class AgentActive:
    """An agent does something, in a line."""

    agent: str
    what: str


@frozen
class AgentIdle:
    """An agent is idle: asleep, blocked or parked, with the reason and what would unblock it."""

    agent: str
    state: str
    why: str


@frozen
class ApprovalRequested:
    """An approval is pending at the address `approval`; `words` are its subject and reason."""

    approval: str
    by: str
    words: str


@frozen
class AgentRemoved:
    """The agent is no longer in the plan."""

    agent: str


@frozen
class SessionMoved:
    """The session has another primary agent."""

    to: str


@frozen
class ContainerEnded:
    """The container in which one talks has come to its end, in this state; `why` may be empty."""

    container: str
    state: str
    why: str


@frozen
class PlanEnded:
    """The whole plan has come to its end, in this state."""

    state: str


ChatEvent: TypeAlias = (
    AgentAnswered
    | AgentSpoke
    | AgentActive
    | AgentIdle
    | ApprovalRequested
    | AgentRemoved
    | SessionMoved
    | ContainerEnded
    | PlanEnded
)

RESTING = frozenset({"asleep", "blocked", "parked"})
ENDED = frozenset({"done", "failed", "cancelled"})


def chat_events(record: Record, agent: str, container: str = "") -> Iterator[ChatEvent]:
    """Return the events of `record` for a conversation with `agent` in `container` (addresses; empty: none)."""
    for said in record.draft.entries:
        if said.type == "model.replied" and said.subject == agent:
            yield from _reply(agent, said.data)
        for question, text in (said.data.get("answered") or {}).items():
            yield AgentAnswered(question, said.subject, str(text), str(said.data.get("error") or ""))
    for change in record.draft.changes:
        yield from _of_change(change, agent, container)


def _of_change(change: Change, agent: str, container: str) -> Iterator[ChatEvent]:
    match change:
        case Put(address=address, spec=spec) if address.startswith("approval/") and needs_person(spec):
            yield approval_event(address, spec)
        case SetStatus(address=address, merge=merge) if address == agent and merge.get("state") in RESTING:
            yield AgentIdle(agent, str(merge["state"]), str(merge.get("why") or ""))
        case SetStatus(address=address, merge=merge) if address == container and merge.get("state") in ENDS:
            yield ended_event(container, merge)
        case SetStatus(address="task/.", merge=merge) if merge.get("state") in ENDED:
            yield PlanEnded(str(merge["state"]))
        case SetStatus(address=address, merge={"session": {"primary": to}}) if address.startswith("plan/"):
            yield SessionMoved(str(to))
        case Drop(address=address) if address == agent:
            yield AgentRemoved(agent)
        case _:
            pass


def ended_event(container: str, status: JsonObject) -> ContainerEnded:
    """Return the end of `container`, from its `status`."""
    ready = conditions_of_status(status).get("Ready")
    return ContainerEnded(container, str(status["state"]), "" if ready is None else ready.message)


def _reply(agent: str, data: JsonObject) -> Iterator[ChatEvent]:
    text = str(data.get("text") or "").strip()
    calls = data.get("calls") or ()
    if text and not all(call.get("implied") for call in calls):  # Else it is the answer itself.
        yield AgentSpoke(agent, text)
    for call in calls:
        if call.get("tool") not in ("done", "fail"):
            yield AgentActive(agent, call_words(call))


def approval_event(address: str, spec: JsonObject) -> ApprovalRequested:
    """What waits at `address`, for a person."""
    return ApprovalRequested(address, str(spec.get("by", "")), approval_requests.approval_line(spec))


def pending_approvals(approvals: list[Resource]) -> list[ApprovalRequested]:
    """The approvals among these that wait for a person."""
    found = [one for one in approvals if one.state == WAITING and needs_person(one.spec)]
    return [approval_event(one.address, one.spec) for one in found]
