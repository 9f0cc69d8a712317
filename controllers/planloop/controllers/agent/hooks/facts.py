"""The facts that a hook may use, frozen at one point of an agent's work, and the JSON question made from them.

All deciders of hooks see the same: a rule is a pure function of these facts, its options and its memory; a program, a
function and an agent get them as the question, version 1. Whatever is not in here no verdict may depend on.
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
    """A child of the agent. `state` is its task's; `agent_state` its agent's, empty when there is none.

    `turns_silent` counts the watched agent's turns since it last said something to the child or heard from it.
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
    """The call at this point: before it starts with the `arguments` it would have, after it with `result`.

    `original` are the arguments as the agent wrote them if a hook has rewritten them (None: none has). Patterns such as
    `write(src/**)` are matched with `subjects` to hold back and with `exact` to let through: only what the call surely
    is about, None if that is unknown. `places` are the paths below the agent's folder that its `path` means, as written
    and after links; empty for other tools. `id` is the call's address.
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

    `depth` is 0 for the agent of the root task. `call` is there at before-call, after-call and on-patch, `reply` at
    before-reply, on-sleep and on-end: what the agent said last. `prompt` is the text of what it is told at on-input:
    the goal in its first turn, and messages. `messages` and `reasons` are those of the turn. `files_known` are the
    paths of which the agent knows the content, `files_changed` those of them that have another content on disk now,
    with its digest, empty for a file that is gone. `turn_calls` counts the calls of this reply by tool, `begins` the
    children that they would begin, `calls` the calls of the agent's turns that have ended. `budget_left` is by unit.
    `approvals` are the open ones of the agent, `requests` those of them that it asked for itself. `sent_back` counts
    how often before-reply has sent the present answer back, `nudges` how often in a row a comment at on-sleep has woken
    the agent.
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
        """The tool of the call, empty where the point is about none."""
        return "" if self.call is None else self.call.tool

    @property
    def arguments(self) -> JsonObject:
        """The arguments of the call, empty where the point is about none."""
        return {} if self.call is None else self.call.arguments

    @property
    def result(self) -> CallResult | None:
        return None if self.call is None else self.call.result


def question_json(facts: HookFacts, question_id: str, memory: Json, options: JsonObject) -> JsonObject:
    """The facts as a program, a function or an agent is told them: version 1.

    `id` is the same when the question is put again after a crash. `state` is what the hook's last verdict kept as
    `memory`, `options` its settings in the plan.
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
        asked["notes"] = memory["notes"]  # What the clauses before an agent kept for it.
    return asked | ({} if facts.call is None else _told(facts.call))


def _told(call: CallFact) -> JsonObject:
    out: JsonObject = {"tool_name": call.tool, "tool_input": call.arguments, "tool_use_id": call.id}
    out["effect"] = call.effect
    if call.original is not None:
        out["tool_input_original"] = call.original
    if call.result is not None:
        out["tool_response"] = call.result.to_json()
    return out
