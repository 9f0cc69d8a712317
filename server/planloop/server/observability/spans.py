"""Spans read from the log: turns, model requests, calls, commands, lock waits.

Names and attributes follow OpenTelemetry's conventions for generative AI (semantic conventions 1.37: `invoke_agent`,
`chat`, `execute_tool`, `gen_ai.*`); other attributes start with `planloop.`. Spans never contain prompts, replies or
arguments, because these may be confidential.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Literal, TypeAlias

from planloop.schemas.frozen import frozen
from planloop.schemas.log.record import Record, SubRecord
from planloop.schemas.objects.call import CallState
from planloop.schemas.objects.lock import lock_status_from_json
from planloop.schemas.objects.model import parse_model_name
from planloop.schemas.resource import Resource

Attributes: TypeAlias = Mapping[str, str | int | float]
Sort: TypeAlias = Literal["turn", "model", "call", "run", "wait", "held"]

OPEN_MAX: Final = 10_000  # Open spans. If there are more, the oldest ends with the error `Forgotten`.
FORGOTTEN: Final = "Forgotten"


@frozen
class SpanStart:
    """A span starts at `at` (seconds since 1970), as a child of the span `parent` or, if None, as a new trace."""

    key: str
    sort: Sort
    name: str
    at: float
    parent: str | None
    attributes: Attributes


@frozen
class SpanEnd:
    """The span `key` ends. `error` is one word; empty on success."""

    key: str
    at: float
    attributes: Attributes
    error: str = ""


SpanEvent: TypeAlias = SpanStart | SpanEnd
ViewLookup: TypeAlias = Callable[[str], Resource | None]


class SpanReader:
    """Computes spans from records. `plan` is the plan's name; `look` returns an object after the noted record."""

    def __init__(self, plan: str, look: ViewLookup) -> None:
        self._plan = plan
        self._look = look
        self._open: dict[str, SpanStart] = {}
        self._asked: dict[str, str] = {}  # The running request to a model, by agent.
        self._tools: dict[str, str] = {}  # The tool of each call that has not ended.
        self._holders: dict[str, frozenset[str]] = {}

    def note(self, record: Record) -> list[SpanEvent]:
        """Return the spans that `record`, which is folded already, starts and ends."""
        out = [one for entry in record.draft.entries for one in self._entry(entry, record.at)]
        for address in dict.fromkeys(change.address for change in record.draft.changes):
            if address.startswith("lock/"):
                out += self._lock(address, record.at)
        return out

    def _entry(self, entry: SubRecord, at: float) -> Iterator[SpanEvent]:
        match entry.type:
            case "turn.started":
                yield from self._turn(entry, at)
            case "turn.ended":
                yield from self._end(f"turn:{entry.subject}", at)
            case "model.requested" if "model" in entry.data:
                yield from self._requested(entry, at)
            case "model.replied" | "model.failed":
                yield from self._answered(entry, at)
            case "call.started":
                yield from self._started(entry, at)
            case "call.settled":
                yield from self._settled(entry, at)
            case "lock.granted" if entry.data.get("waited_s"):
                yield from self._waited(entry, at)

    def _turn(self, entry: SubRecord, at: float) -> Iterator[SpanEvent]:
        yield from self._end(f"turn:{entry.subject}", at, error="Superseded")
        named: Attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": _path(entry.subject),
            "gen_ai.agent.id": entry.subject,
            "gen_ai.conversation.id": f"{self._plan}/{entry.subject}",
            "planloop.turn": int(entry.data["turn"]),
        }
        own = self._own("turn", f"invoke_agent {_path(entry.subject)}", named)
        yield from self._begin(f"turn:{entry.subject}", own, at, None)

    def _requested(self, entry: SubRecord, at: float) -> Iterator[SpanEvent]:
        name = parse_model_name(str(entry.data["model"]))
        named: Attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": name.provider or "openai_compatible",
            "gen_ai.request.model": name.name,
            "planloop.attempt": int(entry.data["attempt"]),
        }
        key = f"model:{entry.data['op']}"
        self._asked[entry.subject] = key
        yield from self._begin(key, self._own("model", f"chat {name.name}", named), at, self._turn_of(entry.subject))

    def _answered(self, entry: SubRecord, at: float) -> Iterator[SpanEvent]:
        for call in entry.data.get("calls", ()):
            self._tools[call["call"]] = str(call["tool"])
            if len(self._tools) > OPEN_MAX:
                del self._tools[next(iter(self._tools))]  # Probably a refused call: these never end.
        if entry.data.get("late") or (key := self._asked.pop(entry.subject, None)) is None:
            return
        usage = entry.data.get("usage") or {}
        used = {"in": "input_tokens", "out": "output_tokens", "cached": "cache_read.input_tokens"}
        found = {f"gen_ai.usage.{word}": int(usage[name]) for name, word in used.items() if name in usage}
        error = str(entry.data.get("reason", "")) if entry.type == "model.failed" else ""
        yield from self._end(key, at, found, error)

    def _started(self, entry: SubRecord, at: float) -> Iterator[SpanEvent]:
        if "op" in entry.data:
            own = self._own("run", f"run {_path(entry.subject)}", {"planloop.task": entry.subject})
            yield from self._begin(f"run:{entry.data['op']}", own, at, None)
        for call in entry.data.get("calls", ()):
            tool = self._tools.get(call, "")
            named = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool, "gen_ai.tool.call.id": call}
            own = self._own("call", f"execute_tool {tool}", named)
            yield from self._begin(f"call:{call}", own, at, self._turn_of(entry.subject))

    def _settled(self, entry: SubRecord, at: float) -> Iterator[SpanEvent]:
        result = entry.data.get("result") or {}
        state = str(result.get("state", ""))
        error = "" if state in ("", CallState.SUCCEEDED) else str(result.get("error") or state)
        key = f"run:{entry.data['op']}" if "op" in entry.data else f"call:{entry.subject}"
        self._tools.pop(entry.subject, None)
        yield from self._end(key, at, {"planloop.state": state}, error)

    def _waited(self, entry: SubRecord, at: float) -> Iterator[SpanEvent]:
        """Yield a wait as a whole when it has ended, because its start need not be in the log."""
        owner, key = str(entry.data["owner"]), f"wait:{entry.subject}:{entry.data['owner']}"
        named = {"planloop.lock": entry.subject, "planloop.owner": owner}
        own = self._own("wait", f"wait for {entry.subject}", named)
        yield from self._begin(key, own, at - entry.data["waited_s"], self._turn_of(owner))
        yield from self._end(key, at)

    def _lock(self, address: str, at: float) -> Iterator[SpanEvent]:
        lock = self._look(address)
        holders = frozenset(lock_status_from_json(lock.status).holders) if lock is not None else frozenset()
        before = self._holders.get(address, frozenset())
        for owner in sorted(before - holders):
            yield from self._end(f"held:{address}:{owner}", at)
        for owner in sorted(holders - before):
            named = {"planloop.lock": address, "planloop.owner": owner}
            yield from self._begin(f"held:{address}:{owner}", self._own("held", f"hold {address}", named), at, None)
        if holders:
            self._holders[address] = holders
        else:
            self._holders.pop(address, None)

    def _own(self, sort: Sort, name: str, attributes: Attributes) -> tuple[Sort, str, Attributes]:
        return sort, name.strip(), {"planloop.plan": self._plan, **attributes}

    def _begin(self, key: str, own: tuple[Sort, str, Attributes], at: float, parent: str | None) -> Iterator[SpanEvent]:
        if len(self._open) >= OPEN_MAX:
            yield from self._end(next(iter(self._open)), at, error=FORGOTTEN)
        sort, name, attributes = own
        self._open[key] = begun = SpanStart(key, sort, name, at, parent, attributes)
        yield begun

    def _end(self, key: str, at: float, attributes: Attributes | None = None, error: str = "") -> Iterator[SpanEvent]:
        if self._open.pop(key, None) is not None:
            yield SpanEnd(key, at, attributes or {}, error)

    def _turn_of(self, owner: str) -> str | None:
        key = f"turn:{owner}"
        return key if key in self._open else None


def _path(address: str) -> str:
    return address.partition("/")[2]
