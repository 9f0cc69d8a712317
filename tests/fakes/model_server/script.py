"""The script of a model: which step answers which request, each once unless it says `times`.

```yaml
steps:
  - model: "ollama/*"            # a glob over the model's name as the server sees it; any when left out
    when: {system: reviewer, last: review this, any: text, after: read, tool: write, not: stop}
    reply: {text: looking, calls: [{name: read, arguments: {path: a.txt}}], split: 3}
    usage: {in: 120, cached: 100, out: 9}      # `none`: the server says nothing about usage
    delay: 0.2                   # seconds before the answer
    times: 2                     # or `always`
```

Beside `steps`, a script may have `takes`, fields of an assistant's message that the server knows, and
`vendor: mistral`, whose rules for ids and roles then hold too.

`when`: `system`, `last` (message), `user` (the last one of that role) and `any` hold a text; `after` is the tool whose
result came last; `tool` is offered; `not` stands nowhere. A list means all of them. `reply.chunks` lists the pieces of
the stream: texts, or deltas as a vendor would send them. `reply.split: n` cuts text, ids, names and arguments after
every n characters; `reply.bytes: n` cuts what goes over the wire. `raw` instead of `arguments` is sent as it stands.

Failures: `status` (with `headers`, `error`), `hang: true` or after N pieces, `cut` after N pieces (the first
one only says the role), `garbage: true` or the body itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml

STEP_KEYS = frozenset("model when reply usage delay status headers error hang cut garbage times name".split())
WHEN_KEYS = frozenset("system last user any after tool not".split())
REPLY_KEYS = frozenset("text calls chunks split bytes finish".split())
CALL_KEYS = frozenset("name arguments raw id".split())


class BadScript(Exception):
    """The script itself is wrong."""


@dataclass(frozen=True, slots=True)
class Step:
    """One answer. `hang_after` and `cut_after` count pieces of the stream; None: never."""

    number: int
    name: str
    model: str = "*"
    when: dict[str, list[str]] = field(default_factory=dict)
    reply: dict[str, Any] = field(default_factory=dict)
    usage: dict[str, Any] | None = field(default_factory=dict)
    delay_s: float = 0.0
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    error: Any = None
    hang_after: int | None = None
    cut_after: int | None = None
    garbage: str | None = None
    times: int | None = 1


@dataclass(frozen=True, slots=True)
class Question:
    """What a step looks at: the request's model, messages and the names of the tools that it offers.

    `alias` is the model's name in the plan, where that is known: a step's glob may be for either.
    """

    model: str
    messages: list[dict[str, Any]]
    tools: list[str]
    alias: str = ""

    def holds(self, key: str, wanted: str) -> bool:
        """Whether one condition of a `when` is true."""
        match key:
            case "tool":
                return any(fnmatchcase(name, wanted) for name in self.tools)
            case "after":
                return self._last_tool() == wanted
            case "not":
                return not any(wanted in text_of(one) for one in self.messages)
            case "any":
                return any(wanted in text_of(one) for one in self.messages)
            case "last":
                return wanted in text_of(self.messages[-1])
            case "user":
                return wanted in next((text_of(one) for one in reversed(self.messages) if one["role"] == "user"), "")
            case _:
                return any(wanted in text_of(one) for one in self.messages if one["role"] in ("system", "developer"))

    def _last_tool(self) -> str:
        last = self.messages[-1]
        if last["role"] != "tool":
            return ""
        calls = [call for one in self.messages for call in one.get("tool_calls") or ()]
        return next((call["function"]["name"] for call in reversed(calls) if call["id"] == last["tool_call_id"]), "")


def text_of(message: dict[str, Any]) -> str:
    """The text of a message, its parts joined."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content)


class Player:
    """Gives out the steps of a script. `takes` and `vendor` are for `validating.check`."""

    def __init__(self, steps: list[Step], takes: frozenset[str] = frozenset(), vendor: str = "") -> None:
        self.steps = steps
        self.takes = takes
        self.vendor = vendor
        self._left = {step.number: step.times for step in steps}

    def take(self, question: Question) -> Step | None:
        """The first matching step that is not used up, or None."""
        for step in self.steps:
            left = self._left[step.number]
            if left == 0 or not any(fnmatchcase(name, step.model) for name in (question.model, question.alias)):
                continue
            if all(question.holds(key, one) for key, texts in step.when.items() for one in texts):
                if left is not None:
                    self._left[step.number] = left - 1
                return step
        return None

    @property
    def left(self) -> list[str]:
        """The names of the steps that may still be taken."""
        return [step.name for step in self.steps if self._left[step.number] != 0]

    @property
    def unused(self) -> list[str]:
        """The names of unused steps, without those for `always`."""
        return [step.name for step in self.steps if self._left[step.number]]


def read(path: Path) -> Player:
    """The player of the script at `path`. Raises BadScript."""
    return play(path.read_text())


def play(script: str | dict[str, Any] | list[Any]) -> Player:
    """The player of a script: as YAML text, as its value, or as its list of steps. Raises BadScript."""
    value = yaml.safe_load(script) if isinstance(script, str) else script
    steps = value.get("steps") if isinstance(value, dict) else value
    if not isinstance(steps, list):
        raise BadScript("a script is a map with a list of `steps`")
    more = value if isinstance(value, dict) else {}
    takes = frozenset(map(str, more.get("takes", ())))
    return Player([_step(number, one) for number, one in enumerate(steps, 1)], takes, str(more.get("vendor", "")))


def _step(number: int, raw: dict[str, Any]) -> Step:
    _only(raw, STEP_KEYS, f"step {number}")
    when, reply = raw.get("when") or {}, raw.get("reply") or {}
    _only(when, WHEN_KEYS, f"step {number}: when")
    _only(reply, REPLY_KEYS, f"step {number}: reply")
    for call in reply.get("calls") or ():
        _only(call, CALL_KEYS, f"step {number}: call")
    usage, garbage = raw.get("usage", {}), raw.get("garbage")
    times = raw.get("times", 1)
    return Step(
        number=number,
        name=str(raw.get("name", f"step {number}")),
        model=raw.get("model", "*"),
        when={key: one if isinstance(one, list) else [str(one)] for key, one in when.items()},
        reply=reply,
        usage=None if usage in ("none", None) else usage,
        delay_s=float(raw.get("delay", 0)),
        status=int(raw.get("status", 200)),
        headers={str(name).lower(): str(one) for name, one in (raw.get("headers") or {}).items()},
        error=raw.get("error"),
        hang_after=_count(raw.get("hang")),
        cut_after=_count(raw.get("cut")),
        garbage="<html>the proxy says hello</html>" if garbage is True else garbage,
        times=None if times == "always" else int(times),
    )


def _count(raw: object) -> int | None:
    """True means at once."""
    if raw is None or raw is False:
        return None
    return 0 if raw is True else int(str(raw))


def _only(raw: object, keys: frozenset[str], where: str) -> None:
    if not isinstance(raw, dict):
        raise BadScript(f"{where} must be a map")
    if unknown := sorted(set(raw) - keys):
        raise BadScript(f"{where} has no field {unknown}; it takes {sorted(keys)}")
