"""Fold the events of a run to entries: the result of each case with each model in each trial."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from enum import StrEnum
from math import fsum
from typing import Final

from planloop.benchmarks.events.reader import BenchEvent
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen, mutable
from planloop.schemas.objects.case import CaseVerdict


class ModelKind(StrEnum):
    """Kind of a contestant.

    ORACLE knows the answer, NOP does nothing, CHEAT and MUTANT must fail, TESTED are all others.
    """

    ORACLE = "oracle"
    NOP = "nop"
    CHEAT = "cheat"
    MUTANT = "mutant"
    TESTED = "tested"


_PREFIXES: Final = {kind.value: kind for kind in ModelKind if kind is not ModelKind.TESTED}


def model_kind(model: str) -> ModelKind:
    """The kind, from the word before the colon: `oracle`, `oracle:form`, `nop`, `cheat:printed-pass`, `mutant:x`."""
    return _PREFIXES.get(model.partition(":")[0], ModelKind.TESTED)


# Fold with `RunFold.add` in order of `seq`. The result depends only on the events. Only the `case/end` of an entry's
# highest attempt counts, so a run that was killed and resumed folds like an uninterrupted one. The usage of all
# attempts together is stored separately.


class BadRun(Exception):
    """The events are valid, but an event does not belong to a benchmark run."""


@frozen
class EntryUsage:
    """Usage of one or several attempts. `escalated` of them continued with a stronger model, whose usage is
    `stronger`."""

    tokens_in: int = 0
    tokens_out: int = 0
    usd: float = 0.0
    calls: int = 0
    turns: int = 0
    escalated: int = 0
    stronger_tokens: int = 0
    stronger_usd: float = 0.0

    def to_json(self) -> JsonObject:
        out: JsonObject = {name: getattr(self, name) for name in ("tokens_in", "tokens_out", "usd", "calls", "turns")}
        if self.escalated:
            out["escalated"] = {"count": self.escalated, "tokens": self.stronger_tokens, "usd": self.stronger_usd}
        return out


@frozen
class RunInfo:
    """The content of `run/open`. `plan` is the digest of plan.json; `planned` is model → case → number of trials.

    `is_validated`: whether the suite is valid, None if unknown. `run/resume` updates it.
    """

    suite: str
    name: str
    plan: str
    seed: int | str | None
    scoring: int | str | None
    is_deterministic: bool
    models: tuple[str, ...]
    planned: Mapping[str, Mapping[str, int]]
    pass_at: tuple[int, ...]
    pass_hat: tuple[int, ...]
    is_validated: bool | None = None

    @property
    def has_begun(self) -> bool:
        """Whether a `run/open` was folded."""
        return self.name != ""

    @property
    def entry_count(self) -> int:
        return sum(sum(cases.values()) for cases in self.planned.values())


@frozen
class EntryInput:
    """The input of an entry. `key` is the digest of everything that decides the entry.

    `case_key` is equal for models with the same input; None if the run does not record it.
    """

    key: str = ""
    case_key: str | None = None
    language: str | None = None
    variant: str = ""
    tags: tuple[tuple[str, str], ...] = ()


@frozen
class EntryTimes:
    """Times of an entry in seconds. `soft` are soft figures that are times; `began` is the start of an open attempt."""

    took_s: float | None = None
    soft: Mapping[str, float] = field(default_factory=dict)
    began: float | None = None


@frozen
class EntryResult:
    """One case with one model in one trial: the result of the last ended attempt.

    `verdict` is None until an attempt has ended. `checks` has the result of each check.
    """

    case: str
    model: str
    trial: int
    given: EntryInput = EntryInput()
    verdict: CaseVerdict | None = None
    why: str = ""
    checks: Mapping[str, str] = field(default_factory=dict)
    soft: Mapping[str, float] = field(default_factory=dict)
    usage: EntryUsage = field(default_factory=EntryUsage)
    is_touched: bool = False
    times: EntryTimes = EntryTimes()

    @property
    def is_decided(self) -> bool:
        return self.verdict is not None and self.verdict.is_decided

    @property
    def has_passed(self) -> bool:
        return self.verdict is CaseVerdict.PASS


@frozen
class EntryHistory:
    """How the entries were run: what may differ between runs with equal results."""

    first_ts: float | None = None
    last_ts: float | None = None
    resumes: int = 0
    attempts: int = 0
    usd: float = 0.0


@mutable
class _Attempt:
    """The events of one attempt so far."""

    began: float | None = None
    key: str = ""
    start: JsonObject = field(default_factory=dict)
    checks: dict[str, str] = field(default_factory=dict)
    end: JsonObject | None = None


_Name = tuple[str, str, int]
NO_RUN: Final = RunInfo("", "", "", None, None, False, (), {}, (1,), (1,))


class RunFold:
    """Fold of the events so far. Adding an event takes constant time."""

    def __init__(self) -> None:
        self.run = NO_RUN
        self._attempts: dict[_Name, dict[int, _Attempt]] = {}
        self._first_ts: float | None = None
        self._last_ts: float | None = None
        self._resumes = 0

    def add(self, event: BenchEvent) -> None:
        """Fold one event. Raises BadRun if no benchmark run writes such an event."""
        if self._first_ts is None:
            self._first_ts = event.ts
        self._last_ts = event.ts
        read = _READERS.get(event.type)
        if read is None:
            return
        try:
            read(self, event)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise BadRun(f"events.jsonl, seq {event.seq}: invalid {event.type} ({error!r})") from None

    def add_all(self, events: Iterable[BenchEvent]) -> RunFold:
        """Fold all `events`, and return this fold."""
        for event in events:
            self.add(event)
        return self

    def entries(self) -> tuple[EntryResult, ...]:
        """All entries that have started, ordered by case, model and trial."""
        return tuple(_entry(name, self._attempts[name]) for name in sorted(self._attempts))

    def history(self) -> EntryHistory:
        attempts = [one for tries in self._attempts.values() for one in tries.values()]
        usd = fsum(_usage(one.end.get("usage") or {}).usd for one in attempts if one.end is not None)
        return EntryHistory(self._first_ts, self._last_ts, self._resumes, len(attempts), usd)

    def _open(self, event: BenchEvent) -> None:
        self.run = _run(event.suite, event.data)

    def _resume(self, event: BenchEvent) -> None:
        """Update `is_validated`: cases may have been edited since the run was opened."""
        self._resumes += 1
        self.run = replace(self.run, is_validated=event.data.get("validated", self.run.is_validated))

    def _start(self, event: BenchEvent) -> None:
        attempt = self._attempt(event)
        attempt.began, attempt.start = event.ts, event.data
        # The attempt was started again after a crash: its earlier events do not count.
        attempt.checks, attempt.end = {}, None

    def _check(self, event: BenchEvent) -> None:
        self._attempt(event).checks[str(event.data["check"])] = str(event.data["result"])

    def _end(self, event: BenchEvent) -> None:
        CaseVerdict(event.data["verdict"])
        attempt = self._attempt(event)
        attempt.end, attempt.key = event.data, event.key or ""

    def _attempt(self, event: BenchEvent) -> _Attempt:
        if event.case is None or event.model is None or event.trial is None or event.attempt is None:
            raise ValueError("the event names no entry")
        tries = self._attempts.setdefault((event.case, event.model, event.trial), {})
        return tries.setdefault(event.attempt, _Attempt())


_READERS: Final[dict[str, Callable[[RunFold, BenchEvent], None]]] = {
    "run/open": RunFold._open,
    "run/resume": RunFold._resume,
    "case/start": RunFold._start,
    "check/result": RunFold._check,
    "case/end": RunFold._end,
}
"""Other types are for live viewers: `case/end` contains the same information."""


def _run(suite: str, data: JsonObject) -> RunInfo:
    report = data.get("report") or {}
    planned = {
        str(model): {str(case): int(trials) for case, trials in cases.items()}
        for model, cases in (data.get("planned") or {}).items()
    }
    return RunInfo(
        suite,
        str(data["run"]),
        str(data.get("plan", "")),
        data.get("seed"),
        data.get("scoring"),
        bool(data.get("deterministic")),
        tuple(map(str, data.get("models") or planned)),
        planned,
        tuple(sorted({int(k) for k in report.get("pass-at", (1,))})),
        tuple(sorted({int(k) for k in report.get("pass-hat", (1,))})),
        data.get("validated"),
    )


def _entry(name: _Name, tries: Mapping[int, _Attempt]) -> EntryResult:
    """The entry of the last ended attempt, or of the last attempt if none has ended."""
    last = max(tries)
    ended = [number for number, one in tries.items() if one.end is not None]
    attempt = tries[max(ended)] if ended else tries[last]
    end, start = attempt.end or {}, attempt.start
    timing = end.get("timing") or {}
    return EntryResult(
        *name,
        given=EntryInput(
            key=attempt.key,
            case_key=start.get("case_key"),
            language=start.get("language") or None,
            variant=str(start.get("variant", "")),
            tags=_tags(start.get("tags") or {}),
        ),
        verdict=CaseVerdict(end["verdict"]) if end else None,
        why=str(end.get("why") or ""),
        checks=attempt.checks,
        soft=_numbers(end.get("soft")),
        usage=_usage(end.get("usage") or {}),
        is_touched=bool(end.get("touched")),
        times=EntryTimes(
            took_s=_number(timing.get("s")),
            soft=_numbers(timing.get("soft")),
            began=tries[last].began if tries[last].end is None else None,
        ),
    )


def _tags(raw: JsonObject) -> tuple[tuple[str, str], ...]:
    """Tags and values. A tag may have several values: the entry is then in the slice of each."""
    pairs = ((str(tag), value) for tag, values in raw.items() for value in _listed(values))
    return tuple(sorted((tag, str(value)) for tag, value in pairs))


def _listed(values: object) -> list[object]:
    return values if isinstance(values, list) else [values]


def _usage(raw: JsonObject) -> EntryUsage:
    whole = {name: int(raw.get(name) or 0) for name in ("tokens_in", "tokens_out", "calls", "turns")}
    usd, more = float(raw.get("usd") or 0), raw.get("escalated")
    if not isinstance(more, dict):
        return EntryUsage(usd=usd, **whole)
    tokens = int(more.get("tokens_in") or 0) + int(more.get("tokens_out") or 0)
    return EntryUsage(usd=usd, **whole, escalated=1, stronger_tokens=tokens, stronger_usd=float(more.get("usd") or 0))


def _numbers(raw: JsonObject | None) -> dict[str, float]:
    """Figures by name, without values that are not numbers: those were not measured."""
    found = ((str(name), _number(value)) for name, value in (raw or {}).items())
    return {name: value for name, value in found if value is not None}


def _number(raw: object) -> float | None:
    return float(raw) if isinstance(raw, int | float) else None
