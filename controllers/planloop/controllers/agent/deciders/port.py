"""The port of deciders: their input and reply, the traits of each kind, and replies written as JSON actions.

A decider is asked once per turn and answers with text and calls; it changes nothing itself. It returns what it wants to
keep between turns as `memory`. After a crash it may be asked again with the same input.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Final, Literal, Protocol, TypeAlias

from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.frozen import frozen, mutable, remade
from planloop.schemas.objects.agent import (
    CliAgentSpec,
    DeciderSpec,
    McpClientSpec,
    ModelDeciderSpec,
    ProgramSpec,
    PythonFunctionSpec,
    ScriptSpec,
)
from planloop.schemas.objects.call import CallResult
from planloop.schemas.objects.message import Message
from planloop.schemas.predicates import is_number

NextMove: TypeAlias = Literal["again", "sleep", "final"]


class DeciderFailed(Exception):
    """The decider gave no usable answer. The agent claims failure, with the message as its reason."""


@frozen
class CallOutcome:
    """One call of the turn before, its result, and the comments of hooks."""

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
    """A child task as the parent's decider sees it. `state` is a TaskState's text, empty before the first reconcile."""

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
    """The input of a decider for one turn: levels (goal, children, budget) and news (messages, results).

    `op` is the operation id of the request, the key of a model's request or a program's process. `cwd` is the absolute
    workspace. `rejected` is the verdict on the last claim if it was rejected. `now` is in seconds since 1970.
    `comments` are those of hooks on the beginning of the turn.
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
        """The turn as JSON for a program."""
        comments: JsonObject = {"comments": list(self.comments)} if self.comments else {}
        return comments | {
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
    """A call as the decider asks for it, not yet checked.

    `arguments` may be anything; `key` is the decider's own id for it. A call that could not be parsed has the error in
    `fault`, and gets it as its result. `is_parallel` lets the call run in parallel with others even if it does not only
    read. `extra` are fields that the provider requires back with the call.
    """

    tool: str
    arguments: Json
    key: str = ""
    fault: str = ""
    is_parallel: bool = False
    extra: JsonObject = field(default_factory=dict)


@frozen
class DeciderReply:
    """The answer of a decider. With calls it is asked again when they have their results, whatever `then` says.

    `then`: `again` immediately, `sleep` until a reason to wake (`sleep_s` sets a timer), `final` claims that the work
    is done with `text` as its result. `memory` is returned in the next turn; `usage` is the cost of the answer, by
    unit; `note` is a message to the decider about its own answer; `data` goes into the record of the reply, for
    readers; `extra` are fields that the provider requires back with the message.
    """

    text: str = ""
    calls: tuple[ProposedCall, ...] = ()
    then: NextMove = "sleep"
    sleep_s: float | None = None
    memory: Json = None
    usage: JsonObject = field(default_factory=dict)
    note: str = ""
    data: JsonObject = field(default_factory=dict)
    extra: JsonObject = field(default_factory=dict)


class DeciderPort(Protocol):
    """Decides the next step of an agent. `respond` raises DeciderFailed; other errors are part of the reply."""

    async def respond(self, turn: TurnInput) -> DeciderReply: ...


@frozen
class DeciderTraits:
    """How agents with a kind of decider are treated.

    `is_model`: its requests are reserved and billed, it has a transcript, and it hands over when its budget is used up.
    `is_instant`: it answers immediately, in this process. `is_redirected`: an edit of its goal stops its request.
    `outlives_owner`: its request may continue without the owner and is adopted. `judges_doubt`: it gets unknown
    outcomes; otherwise an operator decides. `may_go_round`: it could repeat the same turn forever. `is_guest`: it is an
    MCP client; each of its calls starts a turn, and nothing else does.
    """

    is_model: bool = False
    is_instant: bool = False
    is_redirected: bool = False
    outlives_owner: bool = False
    judges_doubt: bool = True
    may_go_round: bool = True
    is_guest: bool = False


TRAITS_BY_KIND: Final[dict[type[DeciderSpec], DeciderTraits]] = {
    ScriptSpec: DeciderTraits(is_instant=True, judges_doubt=False, may_go_round=False),
    ProgramSpec: DeciderTraits(),
    PythonFunctionSpec: DeciderTraits(),
    ModelDeciderSpec: DeciderTraits(is_model=True, is_redirected=True),
    CliAgentSpec: DeciderTraits(is_redirected=True, outlives_owner=True),
    McpClientSpec: DeciderTraits(is_instant=True, may_go_round=False, is_guest=True),
}


def traits_of(decider: DeciderSpec) -> DeciderTraits:
    """The traits of `decider`."""
    return TRAITS_BY_KIND[type(decider)]


# Actions are small maps that become text and calls:
#
# `{say: text}`, `{say: text, to: agent}` · `{call: {tool: {arguments}}}` or `{call: tool, with: {arguments}}`, a list
# for several · `{patch: [ops], reason: text}` · `{task: {…}}` · `{send: {to, text}}` · `{sleep: 2s}` · `{done:
# result}` · `{fail: reason}` · `{parallel: [actions]}` · `{again: true}` · `{memory: anything}`. An invalid action
# becomes a call whose result is the error.

ACTION_VERBS = frozenset("say call patch task send sleep done fail parallel again memory".split())

_COMPANIONS = {"call": "with", "say": "to"}
"""The second field of a verb. It is not allowed if the value of the verb is a map or list."""
_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)(ms|s|m|h|d))+")
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
SLEEP_S_END = 10 * 365 * 86400.0
_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


@mutable
class ReplyDraft:
    """A reply that is built from actions."""

    texts: list[str] = field(default_factory=list)
    calls: list[ProposedCall] = field(default_factory=list)
    then: NextMove = "sleep"
    sleep_s: float | None = None
    memory: Json = None

    def reply(self) -> DeciderReply:
        return DeciderReply("\n".join(self.texts), tuple(self.calls), self.then, self.sleep_s, self.memory)


def reply_from_actions(actions: Iterable[Json], memory: Json = None) -> DeciderReply:
    """The reply that `actions` make. `memory` is kept unless an action sets it."""
    draft = ReplyDraft(memory=memory)
    for action in actions:
        add_action(draft, action)
    return draft.reply()


def add_action(draft: ReplyDraft, action: Json) -> None:
    """Add one action. Never raises: an invalid action becomes a call whose result is the error."""
    if isinstance(action, str):
        draft.texts.append(action)
        return
    verb = verb_of(action)
    if verb is None:
        draft.calls.append(
            ProposedCall("?", action, fault=f"an action must be a map with one of {', '.join(sorted(ACTION_VERBS))}")
        )
        return
    value = action[verb]
    match verb:
        case "say" if "to" not in action and not isinstance(value, dict):
            draft.texts.append(str(value))
        case "sleep":
            _sleep(draft, value)
        case "again":
            draft.then = "again" if value else draft.then
        case "memory":
            draft.memory = value
        case "parallel":
            _alongside(draft, value)
        case _:
            draft.calls += calls_of_action(verb, value, action)


def _alongside(draft: ReplyDraft, value: Json) -> None:
    inner = ReplyDraft()
    for each in value if isinstance(value, list) else [value]:
        add_action(inner, each)
    draft.texts += inner.texts
    draft.calls += [remade(call, is_parallel=True) for call in inner.calls]


def verb_of(action: Json) -> str | None:
    """The verb of an action; None unless it has exactly one."""
    if not isinstance(action, dict):
        return None
    verbs = [key for key in action if key in ACTION_VERBS]
    return verbs[0] if len(verbs) == 1 else None


def calls_of_action(verb: str, value: Json, action: JsonObject) -> list[ProposedCall]:
    """The calls that one action with this verb makes."""
    key = str(action.get("key", ""))
    if isinstance(value, dict | list) and (companion := _COMPANIONS.get(verb)) in action:
        return [ProposedCall("?", action, key, f"`{companion}` is not allowed if `{verb}` is a map or a list")]
    match verb:
        case "say":
            message = value if isinstance(value, dict) else {"to": action["to"], "text": str(value)}
            return [ProposedCall("send", message, key)]
        case "patch":
            return [ProposedCall("plan_patch", {"ops": value, "reason": str(action.get("reason", ""))}, key)]
        case "done":
            return [ProposedCall("done", {"result": value}, key)]
        case "fail":
            return [ProposedCall("fail", {"reason": str(value)}, key)]
        case "task" if isinstance(value, list):
            return [ProposedCall("task", {"tasks": value}, key)]
        case "call":
            return _calls(value, action.get("with", {}), key)
        case _:
            return [ProposedCall(verb, value, key)]


def _calls(value: Json, arguments: Json, key: str) -> list[ProposedCall]:
    if isinstance(value, str):
        return [ProposedCall(value, arguments, key)]
    if isinstance(value, list):
        return [call for each in value for call in _calls(each, {}, key)]
    if isinstance(value, dict) and value:
        return [ProposedCall(tool, {} if given is None else given, key) for tool, given in value.items()]
    return [ProposedCall("?", value, key, "`call` must name a tool, as in `call: {shell: {command: make}}`")]


def _sleep(draft: ReplyDraft, value: Json) -> None:
    seconds = action_seconds(value)
    if seconds is None:
        fault = "`sleep` must be a duration such as 2s or 1m30s, or a number of seconds"
        draft.calls.append(ProposedCall("?", value, fault=fault))
        return
    draft.then, draft.sleep_s = "sleep", seconds


def action_seconds(value: Json) -> float | None:
    """Seconds of `2`, `1.5`, `2s`, `1m30s`; None for anything else, and for durations of ten years or more."""
    seconds = -1.0
    if is_number(value):
        seconds = float(min(value, SLEEP_S_END))
    if isinstance(value, str) and _DURATION.fullmatch(value.strip()):
        seconds = sum(float(number) * _UNIT_S[unit] for number, unit in _PART.findall(value))
    return seconds if 0 <= seconds < SLEEP_S_END else None
