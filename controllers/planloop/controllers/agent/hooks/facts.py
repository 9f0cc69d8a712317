"""The facts about an agent at one point of its work, for its hooks, and the JSON question made from them.

All hooks get the same facts: a rule is a pure function of them, its options and its memory; programs, functions and
agents get them as a question, version 1. A verdict may depend on nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.frozen import frozen, members
from planloop.schemas.objects.call import CallResult
from planloop.schemas.objects.hook import HOOK_VERSION, HookPoint
from planloop.schemas.objects.message import Message


@frozen
class ChildFact:
    """A child of the agent. `state` is that of its task; `agent_state` that of its agent, empty without an agent.

    `turns_silent` counts the watched agent's turns since it last sent the child a message or got one.
    """

    agent: str
    task: str
    state: str
    goal: str = ""
    is_live: bool = False
    agent_state: str = ""
    turns_silent: int = 0

    def to_json(self) -> JsonObject:
        return members(self)


@frozen
class CallFact:
    """The call at this point: with the `arguments` that it would start with, or after its end with its `result`.

    `original` are the agent's own arguments if a hook has rewritten them (None: none has). Patterns such as
    `write(src/**)` are matched against `subjects` to deny, and against `exact` to allow: these are only what the call
    is certainly about, or None if that is unknown. `places` are the paths below the agent's folder that its `path`
    means, as written and with links resolved; empty for other tools. `id` is the call's address.
    """

    id: str
    tool: str
    arguments: JsonObject
    effect: str = ""
    subjects: tuple[str, ...] = ()
    exact: tuple[str, ...] | None = None
    places: tuple[str, ...] = ()
    original: JsonObject | None = None
    result: CallResult | None = None


@frozen
class HookFacts:
    """Everything at one point. `now` is in seconds since 1970, `cwd` absolute.

    `depth` is 0 for the agent of the root task. `call` is set at before-call, after-call and on-patch. `reply`, the
    last text of the agent, is set at before-reply, on-sleep and on-end. `prompt`, at on-input, is the text that the
    agent gets: the goal in its first turn, and messages. `messages` and `reasons` are those of the turn.
    `files_known` are the paths of files that the agent has read; `files_changed` are those with another content on
    disk now, with its digest, which is empty for a file that is gone. `turn_calls` counts the calls of this reply by
    tool, `begins` the children that they would start, `calls` the calls of the agent's ended turns. `budget_left` is
    by unit. `approvals` are the open ones of the agent, `requests` those that it asked for itself. `sent_back` counts
    how often before-reply has sent back the present answer, `nudges` how often in a row a comment at on-sleep has
    woken the agent.
    """

    point: HookPoint
    agent: str
    task: str
    cwd: str
    turn: int
    now: float
    incarnation: int = 1
    depth: int = 0
    goal: str = ""
    call: CallFact | None = None
    prompt: str = ""
    reply: str = ""
    reasons: tuple[str, ...] = ()
    messages: tuple[Message, ...] = ()
    children: tuple[ChildFact, ...] = ()
    files_known: tuple[str, ...] = ()
    files_changed: Mapping[str, str] = field(default_factory=dict)
    turn_calls: Mapping[str, int] = field(default_factory=dict)
    begins: int = 0
    calls: int = 0
    budget_left: Mapping[str, float] = field(default_factory=dict)
    approvals: tuple[str, ...] = ()
    requests: tuple[str, ...] = ()
    claim: str = ""
    sent_back: int = 0
    nudges: int = 0

    @property
    def tool(self) -> str:
        """The tool of the call; empty at points without a call."""
        return "" if self.call is None else self.call.tool

    @property
    def arguments(self) -> JsonObject:
        """The arguments of the call; empty at points without a call."""
        return {} if self.call is None else self.call.arguments

    @property
    def result(self) -> CallResult | None:
        return None if self.call is None else self.call.result


def question_json(facts: HookFacts, question_id: str, memory: Json, options: JsonObject) -> JsonObject:
    """The question to a program, function or agent, version 1.

    `id` is the same if the question is asked again after a crash. `state` is the `memory` of the hook's last verdict,
    `options` are its settings in the plan.
    """
    asked: JsonObject = {
        "version": HOOK_VERSION,
        "id": question_id,
        "hook_event_name": facts.point,
        "agent": facts.agent,
        "task": facts.task,
        "goal": facts.goal,
        "cwd": facts.cwd,
        "turn": facts.turn,
        "depth": facts.depth,
        "reasons": list(facts.reasons),
        "messages": [message.to_json() for message in facts.messages],
        "children": [child.to_json() for child in facts.children],
        "files_known": list(facts.files_known),
        "files_changed": dict(facts.files_changed),
        "turn_calls": dict(facts.turn_calls),
        "begins": facts.begins,
        "calls": facts.calls,
        "budget_left": dict(facts.budget_left),
        "approvals": list(facts.approvals),
        "requests": list(facts.requests),
        "sent_back": facts.sent_back,
        "nudges": facts.nudges,
        "state": memory,
        "options": options,
    }
    asked |= {name: text for name in ("prompt", "reply", "claim") if (text := getattr(facts, name))}
    if isinstance(memory, dict) and memory.get("notes"):
        asked["notes"] = memory["notes"]  # The notes of the clauses before an agent.
    return asked | ({} if facts.call is None else _call_json(facts.call))


def _call_json(call: CallFact) -> JsonObject:
    out: JsonObject = {"tool_name": call.tool, "tool_input": call.arguments, "tool_use_id": call.id}
    out["effect"] = call.effect
    if call.original is not None:
        out["tool_input_original"] = call.original
    if call.result is not None:
        out["tool_response"] = call.result.to_json()
    return out
