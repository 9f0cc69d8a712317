"""What the records of a plan mean to somebody who talks with one of its agents. Pure: a record in, events out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from planloop.cli.rendering import questions
from planloop.cli.rendering.objects import call_words
from planloop.schemas.approval import WAITING, is_for_person
from planloop.schemas.condition import of_status
from planloop.schemas.container import OVER as ENDS
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.record import Change, Drop, Put, Record, SetStatus
from planloop.schemas.resource import Resource


@frozen
class Answered:
    """The answer to the message `question`. `error` is one CamelCase word when there is none but a reason."""

    question: str
    agent: str
    text: str
    error: str = ""


@frozen
class Spoke:
    """An agent said something that is no answer to this person: it thinks aloud, or reports."""

    agent: str
    text: str


@frozen
class Doing:
    """An agent does something, in a line."""

    agent: str
    what: str


@frozen
class Resting:
    """An agent has come to rest: asleep, blocked, parked, with the reason and what would unblock it."""

    agent: str
    state: str
    why: str


@frozen
class Asks:
    """Something waits for a person's yes at the address `approval`; `words` say what and why."""

    approval: str
    by: str
    words: str


@frozen
class Gone:
    """The agent is no longer in the plan."""

    agent: str


@frozen
class Moved:
    """The session has another primary agent."""

    to: str


@frozen
class Ended:
    """The container in which one talks has come to its end, in this state; `why` may be empty."""

    container: str
    state: str
    why: str


@frozen
class Over:
    """The whole plan has come to its end, in this state."""

    state: str


Event: TypeAlias = Answered | Spoke | Doing | Resting | Asks | Gone | Moved | Ended | Over

RESTING = frozenset({"asleep", "blocked", "parked"})
ENDED = frozenset({"done", "failed", "cancelled"})


def events(record: Record, agent: str, container: str = "") -> Iterator[Event]:
    """What `record` means to somebody who talks with `agent` in `container` (addresses, empty: none), in order."""
    for said in record.draft.entries:
        if said.type == "model.replied" and said.subject == agent:
            yield from _reply(agent, said.data)
        for question, text in (said.data.get("answered") or {}).items():
            yield Answered(question, said.subject, str(text), str(said.data.get("error") or ""))
    for change in record.draft.changes:
        yield from _of_change(change, agent, container)


def _of_change(change: Change, agent: str, container: str) -> Iterator[Event]:
    match change:
        case Put(address=address, spec=spec) if address.startswith("approval/") and is_for_person(spec):
            yield approval_event(address, spec)
        case SetStatus(address=address, merge=merge) if address == agent and merge.get("state") in RESTING:
            yield Resting(agent, str(merge["state"]), str(merge.get("why") or ""))
        case SetStatus(address=address, merge=merge) if address == container and merge.get("state") in ENDS:
            yield ended_event(container, merge)
        case SetStatus(address="task/.", merge=merge) if merge.get("state") in ENDED:
            yield Over(str(merge["state"]))
        case SetStatus(address=address, merge={"session": {"primary": to}}) if address.startswith("plan/"):
            yield Moved(str(to))
        case Drop(address=address) if address == agent:
            yield Gone(agent)
        case _:
            pass


def ended_event(container: str, status: JsonObject) -> Ended:
    """The end of `container`, as its `status` tells of it."""
    ready = of_status(status).get("Ready")
    return Ended(container, str(status["state"]), "" if ready is None else ready.message)


def _reply(agent: str, data: JsonObject) -> Iterator[Event]:
    text = str(data.get("text") or "").strip()
    calls = data.get("calls") or ()
    if text and not all(call.get("implied") for call in calls):  # Else it is the answer itself.
        yield Spoke(agent, text)
    for call in calls:
        if call.get("tool") not in ("done", "fail"):
            yield Doing(agent, call_words(call))


def approval_event(address: str, spec: JsonObject) -> Asks:
    """What waits at `address`, for a person."""
    return Asks(address, str(spec.get("by", "")), questions.line(spec))


def waiting(approvals: list[Resource]) -> list[Asks]:
    """The approvals among these that wait for a person."""
    found = [one for one in approvals if one.state == WAITING and is_for_person(one.spec)]
    return [approval_event(one.address, one.spec) for one in found]
