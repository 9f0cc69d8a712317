"""Project the records of a run's log to benchmark events, and write them to `events.jsonl`."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Final, Self

from planloop.benchmarks.events.reader import BadEvents, read_events
from planloop.benchmarks.runs.run_compiler import CompiledRun, RunEntry
from planloop.schemas.canonical_json import JsonObject, canonical_bytes, decode
from planloop.schemas.frozen import mutable, remade
from planloop.schemas.log.record import Put, Record, SetStatus, SubRecord
from planloop.schemas.objects.call import FINAL_STATES, NO_SUCH_TOOL, NOT_GRANTED
from planloop.schemas.objects.case import CASE_KIND, CaseState, CaseVerdict

_BY_NAME: Final = (f"{NO_SUCH_TOOL} `", f"{NOT_GRANTED} `")
_OF_TURNS: Final = frozenset({"agent.woken", "turn.started"})
"""Types of records that may also contain results of calls."""


def record_writer(record: Record) -> str:
    """The address of the record's author: `agent/a` if the actor is `agent:a` or the record is a whole turn of `a`."""
    draft = record.draft
    return draft.subject if draft.type in _OF_TURNS else draft.actor.replace(":", "/", 1)


def rejected_calls(rulings: Mapping[str, object]) -> Iterator[tuple[str, str, str]]:
    """Yield the calls that `call.authorized` ended: address, last state, and the text that the agent read.

    All others continue: allowed calls, and calls that wait for an approval.
    """
    for call, ruling in rulings.items():
        state, _, text = str(ruling).partition(": ")
        if state in FINAL_STATES:
            yield call, state, text


def is_unknown_tool(text: str) -> bool:
    """Whether `text`, the reason why a call was refused, says that the agent has no such tool."""
    return text.startswith(_BY_NAME)


# An event is a line of `events.jsonl` without its `seq`. Events contain no random parts of the plan (ids of calls and
# objects), so two deterministic runs have the same events except for `ts`, `timing`, `rev` and `n`.

ENDING: Final = frozenset({"done", "fail"})
"""Tools that only end the work of an agent."""
TIMES: Final = frozenset({"runtime"})
"""Soft figures in seconds. They are under `timing`, because they differ from run to run."""
RUNS_OWN: Final = "human:file"
"""Author of the patches that apply the plan of the run."""
_NOTHING: Final[Mapping[str, float]] = {"tokens_in": 0, "tokens_out": 0, "usd": 0.0}
UP: Final = frozenset({"running", "healthy"})


@mutable
class _Attempt:
    """A running attempt of an entry: how events name it, and what is known about it so far."""

    entry: RunEntry
    number: int
    calls: dict[str, int] = field(default_factory=dict)
    usage: dict[str, float] = field(default_factory=dict)
    billed: dict[str, Decimal] = field(default_factory=dict)  # Dollars by the uid of an agent, so far.
    stronger: set[str] = field(default_factory=set)  # Agents that continue with a stronger model.
    has_escalated: bool = False
    escalated: dict[str, float] = field(default_factory=dict)  # What their stronger models used.
    is_up: bool = False
    started_at: float = 0.0
    is_started: bool = False
    is_touched: bool = False


@mutable
class RunProjection:
    """Folds records to events. `note` returns the events of a record, in order."""

    compiled: CompiledRun
    run: str
    attempts: dict[str, _Attempt] = field(default_factory=dict)
    ended: dict[str, str] = field(default_factory=dict)  # Verdict by entry, of the newest attempt.
    is_open: bool = False
    is_closed: bool = False

    def note(self, record: Record) -> Iterator[JsonObject]:
        """The events of `record`."""
        for entry in record.draft.entries:
            read = _READERS.get(entry.type)
            if read is not None:
                yield from read(self, record, entry)
        if self.is_open and not self.is_closed and len(self.ended) == len(self.compiled.entries):
            self.is_closed = True
            errors = sum(CaseVerdict(verdict).is_unknown for verdict in self.ended.values())
            yield self._event(record, "run/close", None, {"complete": errors == 0, "errors": errors})

    def _event(self, record: Record, type_: str, attempt: _Attempt | None, data: JsonObject) -> JsonObject:
        entry = attempt.entry if attempt is not None else None
        return {
            "ts": record.at,
            "rev": record.rev,
            "type": type_,
            "suite": self.compiled.suite,
            "case": entry.case if entry else None,
            "model": entry.model if entry else None,
            "trial": entry.trial if entry else None,
            "attempt": attempt.number if attempt else None,
            "key": entry.key if entry else None,
            "data": data,
        }

    # One method for each type of record: (projection, record, one of its entries) → events.

    def _planned(self, record: Record, said: SubRecord) -> Iterator[JsonObject]:
        """New tasks of the plan are new attempts. If a person changes a task, its entry is marked as touched."""
        if record.draft.actor.startswith("human:") and record.draft.actor != RUNS_OWN:
            for difference in said.data.get("differences", ()):
                self._touch(str(difference["address"]))
        puts = (change for change in record.draft.changes if isinstance(change, Put))
        new = [
            put.spec
            for put in puts
            if put.address.startswith(f"{CASE_KIND}/") and put.spec["task"] not in self.attempts
        ]
        for spec in new:
            # The key of this attempt: `resume --suite` may change it for the next one.
            entry = remade(self.compiled.entries[spec["entry"]], key=spec["key"])
            self.attempts[spec["task"]] = _Attempt(entry, spec["attempt"])
            self.ended.pop(spec["entry"], None)
        if not new:
            return
        self.is_closed = False
        if not self.is_open:
            self.is_open = True
            yield self._event(record, "run/open", None, self._opening())
        else:
            again = len(self.compiled.entries) - len(self.ended)
            data = {"kept": len(self.ended), "again": again, "validated": self.compiled.is_validated}
            yield self._event(record, "run/resume", None, data)

    def _opening(self) -> JsonObject:
        compiled = self.compiled
        return {
            "run": self.run,
            "plan": compiled.digest,
            "seed": compiled.settings.seed,
            "scoring": compiled.scoring,
            "models": list(compiled.models),
            "cases": len(compiled.cases),
            "entries": len(compiled.entries),
            "planned": _planned(compiled),
            "trials": compiled.settings.trials,
            "report": compiled.report,
            "deterministic": compiled.settings.deterministic,
            "validated": compiled.is_validated,
        }

    def _task(self, record: Record, said: SubRecord) -> Iterator[JsonObject]:
        attempt = self.attempts.get(said.subject)
        if attempt is None or attempt.is_started or said.data.get("state") != "running":
            return
        attempt.is_started, attempt.started_at = True, record.at
        case = self.compiled.cases[attempt.entry.case]
        data: JsonObject = {"variant": attempt.entry.variant, "language": case["language"], "tags": case["tags"]}
        data["case_key"] = attempt.entry.case_key
        yield self._event(record, "case/start", attempt, data)

    def _replied(self, record: Record, said: SubRecord) -> Iterator[JsonObject]:
        attempt = self._of(said.subject)
        if attempt is None:
            return
        _add(attempt.usage, {"turns": 1})
        used = _used(record, said, attempt)
        yield self._event(record, "llm/call", attempt, {"turn": said.data.get("turn"), **used})
        for call in said.data.get("calls", ()):
            number = attempt.calls.setdefault(call["call"], len(attempt.calls) + 1)
            data = {
                "call": number,
                "tool": call["tool"],
                "arguments": call["arguments"],
                "fault": call.get("fault", ""),
            }
            yield self._event(record, "tool/call", attempt, data)
            _add(attempt.usage, {"calls": 1})

    def _billed(self, record: Record, said: SubRecord) -> Iterator[JsonObject]:
        """Count requests without a reply, and summaries: they cost as well."""
        attempt = self._of(said.subject)
        if attempt is not None:
            _used(record, said, attempt)
        return iter(())

    def _escalated(self, record: Record, said: SubRecord) -> Iterator[JsonObject]:
        """A stronger model continues: later usage is counted as its cost."""
        attempt = self._of(said.subject)
        if attempt is not None:
            attempt.stronger.add(said.subject)
            attempt.has_escalated = True
            yield self._event(
                record, "llm/escalated", attempt, {name: said.data[name] for name in ("to", "why", "turn")}
            )

    def _woken(self, record: Record, said: SubRecord) -> Iterator[JsonObject]:
        """A new run of an agent starts with its own model again."""
        del record
        attempt = self._of(said.subject)
        if attempt is not None:
            attempt.stronger.discard(said.subject)
        return iter(())

    def _authorized(self, record: Record, said: SubRecord) -> Iterator[JsonObject]:
        """Report calls that were refused immediately: no later record ends them."""
        for address, state, text in rejected_calls(said.data):
            yield from self._result(record, said.subject, address, {"state": state, "text": text})

    def _settled(self, record: Record, said: SubRecord) -> Iterator[JsonObject]:
        yield from self._result(record, record_writer(record), said.subject, said.data.get("result") or {})

    def _result(self, record: Record, agent: str, call: str, result: JsonObject) -> Iterator[JsonObject]:
        attempt = self._of(agent)
        if attempt is not None and call in attempt.calls:
            data = {"call": attempt.calls[call], "state": result.get("state", ""), "text": result.get("text", "")}
            yield self._event(record, "tool/result", attempt, data)

    def _container(self, record: Record, said: SubRecord) -> Iterator[JsonObject]:
        attempt = self.attempts.get("task/" + said.subject.partition("/c-")[2])
        if attempt is None:
            return
        is_up = said.data.get("state") in UP
        if is_up != attempt.is_up and (is_up or said.data.get("state") in ("removed", "failed", "stopping")):
            attempt.is_up = is_up
            image = self.compiled.cases[attempt.entry.case]["image"]
            data = {"image": self.compiled.images.get(image, image)}
            yield self._event(record, "env/up" if is_up else "env/down", attempt, data)

    def _touched(self, record: Record, said: SubRecord) -> Iterator[JsonObject]:
        """A message from a person to an agent marks the entry as touched."""
        if record.draft.actor.startswith("human:"):
            self._touch(str(said.data.get("to", said.subject)))
        return iter(())

    def _touch(self, address: str) -> None:
        attempt = self._of(address)
        if attempt is not None:
            attempt.is_touched = True

    def _case(self, record: Record, said: SubRecord) -> Iterator[JsonObject]:
        attempt = self.attempts.get("task/" + said.subject.partition("/")[2])
        if attempt is None or said.data.get("state") != CaseState.ENDED:
            return
        for result in said.data["results"]:
            yield self._event(record, "check/result", attempt, result)
        soft: JsonObject = said.data.get("soft", {})
        times = {name: value for name, value in soft.items() if name in TIMES}
        for name, value in soft.items():
            known = {"timing": {"value": value}} if name in times else {"value": value}
            yield self._event(record, "metric", attempt, {"name": name, **known})
        self.ended[attempt.entry.name] = said.data["verdict"]
        data: JsonObject = {
            "verdict": said.data["verdict"],
            "why": said.data["why"],
            "soft": {name: value for name, value in soft.items() if name not in times},
            "usage": _usage(attempt),
            "touched": attempt.is_touched,
            "timing": {"s": round(record.at - attempt.started_at, 6) if attempt.is_started else 0.0, "soft": times},
        }
        yield self._event(record, "case/end", attempt, data)

    def _of(self, address: str) -> _Attempt | None:
        """The attempt that an agent or task at `address` belongs to, directly or as a descendant."""
        path = address.partition("/")[2]
        return self.attempts.get("task/" + path.partition("/")[0])


_Reader = Callable[[RunProjection, Record, SubRecord], Iterator[JsonObject]]
_READERS: Final[Mapping[str, _Reader]] = MappingProxyType(
    {
        "plan.patched": RunProjection._planned,
        "task.changed": RunProjection._task,
        "model.replied": RunProjection._replied,
        "model.failed": RunProjection._billed,
        "context.compacted": RunProjection._billed,
        "agent.escalated": RunProjection._escalated,
        "agent.woken": RunProjection._woken,
        "call.authorized": RunProjection._authorized,
        "call.settled": RunProjection._settled,
        "container.observed": RunProjection._container,
        "message.sent": RunProjection._touched,
        "case.ended": RunProjection._case,
    }
)


def _planned(compiled: CompiledRun) -> JsonObject:
    """The number of trials by model and case."""
    found: dict[str, dict[str, int]] = {name: {} for name in compiled.models}
    for entry in compiled.entries.values():
        found[entry.model][entry.case] = found[entry.model].get(entry.case, 0) + 1
    return found


def _add(total: dict[str, float], more: Mapping[str, object]) -> None:
    for name, value in more.items():
        if isinstance(value, int | float):
            total[name] = total.get(name, 0) + value


def _used(record: Record, said: SubRecord, attempt: _Attempt) -> JsonObject:
    """The usage of a request: tokens as the provider reported them, dollars as billed to the agent."""
    stated = said.data.get("usage") or {}
    before = sum(attempt.billed.values())
    for change in record.draft.changes:
        if isinstance(change, SetStatus) and change.address == said.subject and "usd" in change.merge.get("used", {}):
            attempt.billed[change.uid] = Decimal(str(change.merge["used"]["usd"]))
    tokens: JsonObject = {"tokens_in": stated.get("in", 0), "tokens_out": stated.get("out", 0)}
    _add(attempt.usage, tokens)
    cost = tokens | {"usd": float(sum(attempt.billed.values()) - before)}
    if said.subject in attempt.stronger:
        _add(attempt.escalated, cost)
    return cost


def _usage(attempt: _Attempt) -> JsonObject:
    kept: JsonObject = {"tokens_in": 0, "tokens_out": 0, "calls": 0, "turns": 0}
    counts = {name: attempt.usage.get(name, zero) for name, zero in kept.items()}
    counts["usd"] = float(sum(attempt.billed.values()))
    return counts | ({"escalated": {**_NOTHING, **attempt.escalated}} if attempt.has_escalated else {})


# Events follow from the log alone, so comparing the file with the log finds every edited line.

ASKED: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "run/open": frozenset({"plan", "cases", "entries", "planned", "report", "validated"}),
        "run/resume": frozenset({"validated"}),
        "case/start": frozenset({"variant", "language", "tags", "case_key"}),
    }
)
"""Members that come from plan.json and not from the log. They differ after `resume --suite` or an edit of the file."""

NAMED: Final = frozenset({"run"})
"""Members that depend on the folder's name. Users may rename the folder, and no figure depends on it."""


class EventVerifier:
    """Compares existing `lines` with the log. `note` takes the log's records, starting with the first."""

    def __init__(self, lines: Iterable[bytes], projection: RunProjection) -> None:
        self._lines = iter(lines)
        self._projection = projection
        self._seq = 0
        self._is_replanned = False

    def note(self, records: Iterable[Record]) -> Iterator[JsonObject]:
        """Yield the events of `records` that have no line yet. Raises BadEvents if a line differs from the log."""
        for record in records:
            for number, made in enumerate(self._projection.note(record)):
                self._seq += 1
                event = {"seq": self._seq, "n": number, **made}
                there = next(self._lines, None)
                if there is None:
                    yield event
                elif (other := self._other(there, event)) is not None:
                    raise BadEvents(self._seq, f"`{other}` differs from the run's log")

    def end(self) -> None:
        """Raise BadEvents if lines are left after the whole log was compared."""
        if next(self._lines, None) is not None:
            raise BadEvents(self._seq + 1, "the run's log has no such event")

    def _other(self, there: bytes, event: JsonObject) -> str | None:
        """The first member in which the line `there` differs from `event`; None if they are equal."""
        if there == canonical_bytes(event):
            return None
        line = decode(there)
        if event["type"] == "run/open":
            self._is_replanned = _asked_by(line) != _asked_by(event)
        asked = ASKED.get(event["type"], frozenset()) if self._is_replanned else frozenset()
        others = asked | NAMED if event["type"] == "run/open" else asked
        line, event = _without(others, line), _without(others, event)
        return next((name for name in sorted({*line, *event}) if line.get(name) != event.get(name)), None)


def _asked_by(opening: JsonObject) -> object:
    """The digest of the plan.json that a `run/open` event names."""
    data = opening.get("data")
    return data.get("plan") if isinstance(data, dict) else None


def _without(names: frozenset[str], event: JsonObject) -> JsonObject:
    data = event.get("data")
    if not isinstance(data, dict):
        return event
    return event | {"data": {name: value for name, value in data.items() if name not in names}}


# The run's log is durable before its events. The writer folds the log from the start, compares the file with it, and
# appends the missing events, so a crash neither loses nor duplicates an event.

FILE: Final = "events.jsonl"


class EventsTaken(Exception):
    """Another process writes the events of the run."""


class EventFile:
    """`events.jsonl` in `folder`, open for appending. `note` takes the log's records, starting with the first.

    Raises EventsTaken, BadEvents, OSError.
    """

    def __init__(self, folder: Path, projection: RunProjection) -> None:
        self._path = folder / FILE
        self._file = self._path.open("ab+", buffering=0)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise EventsTaken(str(self._path)) from None
        self._holding = EventVerifier(self._look(), projection)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ended: object) -> None:
        self.close()

    def note(self, records: Iterable[Record]) -> list[JsonObject]:
        """Append the missing events of `records`, and return them.

        Raises BadEvents if an existing line differs from the log, and OSError, for example for a full disk; the next
        writer completes the file.
        """
        fresh = list(self._holding.note(records))
        if fresh:
            # In one write: a reader sees at most one incomplete line, the last one.
            self._write(b"".join(canonical_bytes(event) + b"\n" for event in fresh))
        return fresh

    def close(self) -> None:
        """Make the written events durable."""
        if not self._file.closed:
            os.fsync(self._file.fileno())
            self._file.close()

    def _write(self, content: bytes) -> None:
        while content:  # A full disk accepts a part, and reports the error only at the next write.
            content = content[self._file.write(content) :]

    def _look(self) -> Iterator[bytes]:
        """Yield the existing lines. A torn line at the end is moved to a separate file."""
        self._file.seek(0)
        content = self._file.read()
        reading = read_events(content)
        if reading.torn is not None:
            self._set_aside(reading.torn.content)
            os.ftruncate(self._file.fileno(), reading.torn.offset)
            content = content[: reading.torn.offset]
        return iter(content.splitlines())

    def _set_aside(self, torn: bytes) -> None:
        number = 1
        while (path := self._path.with_name(f"{FILE}.torn-{number}")).exists():
            number += 1
        path.write_bytes(torn)
