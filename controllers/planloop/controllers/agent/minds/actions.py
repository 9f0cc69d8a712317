"""The actions that scripts and programs speak: small maps that become text and calls.

`{say: text}`, `{say: text, to: who}` · `{call: {tool: {arguments}}}` or `{call: tool, with: {arguments}}`, a list for
several · `{patch: [ops], reason: text}` · `{task: {…}}` · `{send: {to, text}}` · `{sleep: 2s}` · `{done: result}` ·
`{fail: reason}` · `{parallel: [actions]}` · `{again: true}` · `{memory: anything}`. An action that makes no sense
becomes a call with a fault, so that whoever wrote it gets a result that says why.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import field

from planloop.controllers.agent.minds.port import ProposedCall, Reply, Then
from planloop.schemas.encoding import Json, JsonObject
from planloop.schemas.frozen import mutable, remade

VERBS = frozenset("say call patch task send sleep done fail parallel again memory".split())

_BESIDE = {"call": "with", "say": "to"}
"""Of verbs that may hold all there is to say: the field in which the rest stands when they do not."""
_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)(ms|s|m|h|d))+")
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
SLEEP_S_END = 10 * 365 * 86400.0
_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


@mutable
class Draft:
    """A reply in the making: actions are added one by one."""

    texts: list[str] = field(default_factory=list)
    calls: list[ProposedCall] = field(default_factory=list)
    then: Then = "sleep"
    sleep_s: float | None = None
    memory: Json = None

    def reply(self) -> Reply:
        return Reply("\n".join(self.texts), tuple(self.calls), self.then, self.sleep_s, self.memory)


def reply_of(actions: Iterable[Json], memory: Json = None) -> Reply:
    """The reply that `actions` add up to. `memory` is kept unless an action sets it."""
    draft = Draft(memory=memory)
    for action in actions:
        add(draft, action)
    return draft.reply()


def add(draft: Draft, action: Json) -> None:
    """Adds one action. Never raises: nonsense becomes a call with a fault."""
    if isinstance(action, str):
        draft.texts.append(action)
        return
    verb = verb_of(action)
    if verb is None:
        draft.calls.append(
            ProposedCall("?", action, fault=f"an action is a map with one of {', '.join(sorted(VERBS))}")
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
            draft.calls += calls_of(verb, value, action)


def _alongside(draft: Draft, value: Json) -> None:
    inner = Draft()
    for each in value if isinstance(value, list) else [value]:
        add(inner, each)
    draft.texts += inner.texts
    draft.calls += [remade(call, is_parallel=True) for call in inner.calls]


def verb_of(action: Json) -> str | None:
    """The one verb of an action, None when there is none or more than one."""
    if not isinstance(action, dict):
        return None
    verbs = [key for key in action if key in VERBS]
    return verbs[0] if len(verbs) == 1 else None


def calls_of(verb: str, value: Json, action: JsonObject) -> list[ProposedCall]:
    """The calls behind one action with this verb."""
    key = str(action.get("key", ""))
    if isinstance(value, dict | list) and (beside := _BESIDE.get(verb)) in action:
        return [ProposedCall("?", action, key, f"`{beside}` is not read where `{verb}` is a map or a list")]
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
    return [ProposedCall("?", value, key, "`call` names a tool: `call: {shell: {command: make}}`")]


def _sleep(draft: Draft, value: Json) -> None:
    seconds = seconds_of(value)
    if seconds is None:
        draft.calls.append(ProposedCall("?", value, fault="`sleep` is a time such as 2s, 1m30s or a number of seconds"))
        return
    draft.then, draft.sleep_s = "sleep", seconds


def seconds_of(value: Json) -> float | None:
    """Seconds in `2`, `1.5`, `2s`, `1m30s`; None for anything else, and for what is longer than clocks can count."""
    seconds = -1.0
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(min(value, SLEEP_S_END))
    if isinstance(value, str) and _DURATION.fullmatch(value.strip()):
        seconds = sum(float(number) * _UNIT_S[unit] for number, unit in _PART.findall(value))
    return seconds if 0 <= seconds < SLEEP_S_END else None
