"""The port of everything that decides: a script, a program, a Python function, and later a model.

A mind is asked once a turn with all it may know and answers with text and calls; it touches nothing itself. What it
wants to keep between turns it hands back as `memory`. A mind may be asked again with the same input after a crash.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal, Protocol, TypeAlias

from planloop.schemas.call import CallResult
from planloop.schemas.encoding import Json, JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.message import Message

Then: TypeAlias = Literal["again", "sleep", "final"]


class MindFailed(Exception):
    """The mind gave no usable answer. The message is for people; the agent claims failure with it."""


@frozen
class CallOutcome:
    """One call of the turn before, its one result, and what hooks say to it."""

    id: str
    tool: str
    arguments: JsonObject
    result: CallResult
    comments: tuple[str, ...] = ()

    def to_json(self) -> JsonObject:
        out: JsonObject = {"id": self.id, "tool": self.tool, "arguments": self.arguments}
        out["result"] = self.result.to_json()
        return out | {"comments": list(self.comments)} if self.comments else out


@frozen
class ChildView:
    """A child task as its parent's mind sees it. `state` is a TaskState's text, empty before the first reconcile."""

    task: str
    state: str
    goal: str = ""
    result: Json = None
    message: str = ""
    is_removing: bool = False

    def to_json(self) -> JsonObject:
        out: JsonObject = {"task": self.task, "state": self.state, "goal": self.goal, "message": self.message}
        return out | {"result": self.result, "is_removing": self.is_removing}


@frozen
class TurnInput:
    """All that a mind is told for one turn: levels (goal, children, budget) and what is new (messages, results).

    `op` is the operation id of this asking, the key that a model's request or a program's process goes under.
    `cwd` is the absolute workspace. `rejected` holds the verdict on the last claim when it was not accepted. `now` is
    seconds since 1970. `comments` are what hooks say to the beginning of the turn.
    """

    agent: str
    incarnation: int
    turn: int
    op: str
    now: float
    goal: str
    cwd: str
    notes: str = ""
    prompt: str = ""
    checks: tuple[JsonObject, ...] = ()
    reasons: tuple[str, ...] = ()
    messages: tuple[Message, ...] = ()
    results: tuple[CallOutcome, ...] = ()
    children: tuple[ChildView, ...] = ()
    tools: tuple[str, ...] = ()
    budget_left: Mapping[str, float] = field(default_factory=dict)
    rejected: JsonObject | None = None
    memory: Json = None
    options: JsonObject = field(default_factory=dict)
    comments: tuple[str, ...] = ()

    def to_json(self) -> JsonObject:
        """One turn as a program is told it."""
        said: JsonObject = {"comments": list(self.comments)} if self.comments else {}
        return said | {
            "agent": self.agent,
            "incarnation": self.incarnation,
            "turn": self.turn,
            "op": self.op,
            "now": self.now,
            "goal": self.goal,
            "cwd": self.cwd,
            "notes": self.notes,
            "prompt": self.prompt,
            "checks": list(self.checks),
            "reasons": list(self.reasons),
            "messages": [message.to_json() for message in self.messages],
            "results": [outcome.to_json() for outcome in self.results],
            "children": [child.to_json() for child in self.children],
            "tools": list(self.tools),
            "budget_left": dict(self.budget_left),
            "rejected": self.rejected,
            "memory": self.memory,
            "options": self.options,
        }


@frozen
class ProposedCall:
    """A call as a mind asks for it, not yet looked at. `arguments` may be anything; `key` is the mind's own id for it.

    `fault` says why it could not even be read; such a call still gets its one result. `is_parallel` lets it run beside
    its neighbours though it is not a mere read. `extra` are fields that the mind's provider wants back with the call.
    """

    tool: str
    arguments: Json
    key: str = ""
    fault: str = ""
    is_parallel: bool = False
    extra: JsonObject = field(default_factory=dict)


@frozen
class Reply:
    """What a mind answers. With calls it is asked again when they have their results, whatever `then` says.

    `then`: `again` at once, `sleep` until a reason to wake (`sleep_s` sets a timer), `final` claims that the work is
    done with `text` as its result. `memory` is given back next turn; `usage` is what the answer cost, by unit; `note`
    is what the mind is told of its own answer; `data` goes into the record of the reply, for readers;
    `extra` are fields that the mind's provider wants back with the message.
    """

    text: str = ""
    calls: tuple[ProposedCall, ...] = ()
    then: Then = "sleep"
    sleep_s: float | None = None
    memory: Json = None
    usage: JsonObject = field(default_factory=dict)
    note: str = ""
    data: JsonObject = field(default_factory=dict)
    extra: JsonObject = field(default_factory=dict)


class Mind(Protocol):
    """Decides. Adapters raise MindFailed; everything else that goes wrong is an answer."""

    async def respond(self, turn: TurnInput) -> Reply: ...
