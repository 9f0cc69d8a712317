"""Runs of suites, made up: what became of each entry, told as the events that a run writes.

`told` interleaves entries, lets attempts fail and resumes the run; `seed` decides how, and never what came of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from planloop.benchmarks.events.reader import BenchEvent
from planloop.benchmarks.scoring.fold import RunFold
from planloop.benchmarks.scoring.summary import RunSummary, summarise_run
from tests.product import JsonObject, canonical_bytes

PLAN = "5" * 64


@dataclass(frozen=True)
class Outcome:
    """What becomes of an entry in the end."""

    case: str
    model: str
    trial: int = 1
    verdict: str = "pass"
    usd: float = 0.01
    turns: int = 3
    seconds: float = 2.0
    language: str | None = None
    variant: int = 0
    tags: JsonObject = field(default_factory=dict)
    checks: JsonObject = field(default_factory=lambda: {"works": "pass"})
    soft: JsonObject = field(default_factory=dict)
    touched: bool = False

    @property
    def key(self) -> str:
        return hashlib.sha256(f"{self.case} {self.model} {self.trial}".encode()).hexdigest()

    @property
    def case_key(self) -> str:
        return hashlib.sha256(f"{self.case} {self.trial}".encode()).hexdigest()


@dataclass(frozen=True)
class Told:
    """How a run goes. `lost` of ten attempts are interrupted; `erring` end as an error, and a later attempt
    succeeds."""

    suite: str = "tool-calling"
    run: str = "first"
    seed: int = 1
    parallel: int = 3
    lost: int = 0
    erring: int = 0
    report: JsonObject = field(default_factory=lambda: {"pass-at": [1], "pass-hat": [1]})
    validated: bool | None = True
    planned: Sequence[Outcome] = ()
    """More entries than have outcomes: the others never start."""


class Chance:
    """Numbers that follow from a seed alone."""

    def __init__(self, seed: int) -> None:
        self._seed, self._count = seed, 0

    def below(self, bound: int) -> int:
        self._count += 1
        content = hashlib.sha256(f"{self._seed} {self._count}".encode()).digest()
        return int.from_bytes(content[:8], "big") % bound


def told(outcomes: Sequence[Outcome], how: Told | None = None) -> list[BenchEvent]:
    """The events of a run in which each of `outcomes` came about."""
    how = how or Told()
    events = _Events(how)
    chance = Chance(how.seed)
    events.say("run/open", None, 0, _opening(outcomes, how))
    waiting, attempt = list(outcomes), 1
    while waiting:
        again: list[Outcome] = []
        running: list[Iterator[None]] = []
        queue = list(waiting)
        while queue or running:
            while queue and len(running) < how.parallel:
                one = queue.pop(chance.below(len(queue)))
                fate = chance.below(10)
                end = "lost" if fate < how.lost else "error" if fate < how.lost + how.erring else ""
                if attempt > 3:
                    end = ""
                if end:
                    again.append(one)
                running.append(_lived(events, one, attempt, end))
            place = chance.below(len(running))
            if next(running[place], True):
                running.pop(place)
        if again:
            events.say("run/resume", None, 0, {"kept": len(outcomes) - len(again), "again": len(again)})
        waiting, attempt = again, attempt + 1
    events.say("run/close", None, 0, {"complete": True, "errors": 0})
    return events.all


def summarised(outcomes: Sequence[Outcome], how: Told | None = None) -> RunSummary:
    """The summary of a run in which `outcomes` came about."""
    return summarise_run(RunFold().add_all(told(outcomes, how)))


def file_of(events: Sequence[BenchEvent]) -> bytes:
    """The bytes of `events.jsonl`."""
    return b"".join(
        canonical_bytes({name: getattr(one, name) for name in BenchEvent.__match_args__}) + b"\n" for one in events
    )


def outcomes(cases: int, models: Sequence[str], trials: int = 1, seed: int = 1) -> list[Outcome]:
    """`cases` × `models` × `trials`, with everything that a case can have."""
    chance = Chance(seed)
    return [
        _drawn(f"case-{case:04}", model, trial, chance)
        for case in range(cases)
        for model in models
        for trial in range(1, trials + 1)
    ]


def _drawn(case: str, model: str, trial: int, chance: Chance) -> Outcome:
    verdict = {"oracle": "pass", "nop": "fail"}.get(model) or ("pass" if chance.below(10) < 6 else "fail")
    return Outcome(
        case,
        model,
        trial,
        verdict,
        usd=chance.below(1000) / 7000,
        turns=chance.below(12) + 1,
        seconds=chance.below(400) / 10,
        language=("clojure", "typescript")[int(case[-1]) % 2],
        variant=trial % 2,
        tags={"kind": ("near", "far", "none")[int(case[-1]) % 3]},
        checks={"works": verdict, "safe": "pass"},
        soft={"lint": chance.below(20), "churn": chance.below(90) / 7},
    )


class _Events:
    def __init__(self, how: Told) -> None:
        self.all: list[BenchEvent] = []
        self._how = how

    def say(self, type_: str, one: Outcome | None, attempt: int, data: JsonObject) -> None:
        seq = len(self.all) + 1
        if one is None:
            event = BenchEvent(seq, 1000.0 + seq, type_, self._how.suite, None, None, None, None, None, data)
        else:
            event = BenchEvent(
                seq, 1000.0 + seq, type_, self._how.suite, one.case, one.model, one.trial, attempt, one.key, data
            )
        self.all.append(event)


def _opening(outcomes: Sequence[Outcome], how: Told) -> JsonObject:
    planned: dict[str, dict[str, int]] = {}
    for one in (*outcomes, *how.planned):
        cases = planned.setdefault(one.model, {})
        cases[one.case] = cases.get(one.case, 0) + 1
    return {
        "run": how.run,
        "plan": PLAN,
        "seed": 7,
        "scoring": 1,
        "models": list(planned),
        "planned": planned,
        "report": how.report,
        "cases": len({one.case for one in outcomes}),
        "entries": sum(sum(cases.values()) for cases in planned.values()),
        "deterministic": True,
        "validated": how.validated,
    }


def _lived(events: _Events, one: Outcome, attempt: int, end: str) -> Iterator[None]:
    """One attempt, an event at a time."""
    start = {"variant": one.variant, "language": one.language, "tags": one.tags, "case_key": one.case_key}
    events.say("case/start", one, attempt, start)
    yield None
    for turn in range(min(one.turns, 2)):
        events.say(
            "llm/call", one, attempt, {"turn": turn, "tokens_in": 900, "tokens_out": 40, "usd": 0.001, "timing": {}}
        )
        yield None
    if end == "lost":
        return
    if end == "error":
        events.say("check/result", one, attempt, {"check": "works", "kind": "calls", "result": "error", "probes": 0})
        one = replace(one, verdict="error", usd=one.usd / 3, seconds=0.5, checks={})
    for check, result in one.checks.items():
        events.say("check/result", one, attempt, {"check": check, "kind": "calls", "result": result, "probes": 2})
        yield None
    events.say("case/end", one, attempt, _ended(one, attempt))


def _ended(one: Outcome, attempt: int) -> JsonObject:
    usage = {"tokens_in": 900 * one.turns, "tokens_out": 40 * one.turns, "usd": one.usd, "calls": 2, "turns": one.turns}
    return {
        "verdict": one.verdict,
        "why": "" if one.verdict == "pass" else "works: it does not",
        "soft": one.soft,
        "usage": usage,
        "touched": one.touched,
        "timing": {"s": one.seconds + attempt, "soft": {"runtime": one.seconds / 10}},
    }
