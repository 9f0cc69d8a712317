"""Combine runs of several suites and models into one report, `report.json`, the source of the other formats."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from itertools import combinations, groupby
from typing import Final, TypeVar

from planloop.benchmarks.scoring import statistics
from planloop.benchmarks.scoring.fold import EntryResult, EntryUsage, ModelKind, RunInfo, model_kind
from planloop.benchmarks.scoring.statistics import INDISTINGUISHABLE, CaseTally, PairedWins, round_figure
from planloop.benchmarks.scoring.summary import (
    EntryCounts,
    ModelSummary,
    RunSummary,
    SuspectCases,
    entry_to_json,
    find_suspects,
    reference_model,
)
from planloop.schemas import canonical_json
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen


@frozen
class ComparedModel:
    """The entries of one model in one run. `label` is its name in a report."""

    label: str
    run: RunInfo
    entries: tuple[EntryResult, ...]


@frozen
class ModelComparison:
    """Comparison of `a` with `b`.

    Counts of keys: `keys` decided on both sides, `undecided` on a side, `unpaired` on one.
    """

    a: str
    b: str
    keys: int
    undecided: int
    unpaired: int
    found: PairedWins

    @property
    def sentence(self) -> str:
        """The conclusion of the comparison, as a sentence."""
        if not self.found.cases:
            return "not comparable: both models have no decided case in common"
        if not self.found.is_distinguishable:
            return INDISTINGUISHABLE
        first, second = (self.a, self.b) if self.found.wins > self.found.losses else (self.b, self.a)
        return f"{first} passes more than {second}"

    def to_json(self) -> JsonObject:
        found = self.found
        return {
            "a": self.a,
            "b": self.b,
            "keys": self.keys,
            "cases": found.cases,
            "undecided": self.undecided,
            "unpaired": self.unpaired,
            "wins": found.wins,
            "losses": found.losses,
            "ties": found.ties,
            "p": round_figure(found.p),
            "difference": None if found.difference is None else round_figure(found.difference),
            "interval": None if found.interval is None else found.interval.to_json(),
            "test": "exact McNemar, two-sided, a case is one unit",
            "interval_by": "Bonett-Price, 95 %",
            "sentence": self.sentence,
        }


def compare_models(a: ComparedModel, b: ComparedModel) -> ModelComparison:
    """Compare `a` and `b` on identical keys. Wins are wins of `a`."""
    ours, theirs = _keyed(a), _keyed(b)
    both = sorted(ours.keys() & theirs.keys(), key=repr)
    decided = [key for key in both if ours[key].is_decided and theirs[key].is_decided]
    tallies = _tallies((ours[key], theirs[key]) for key in decided)
    found = statistics.count_paired_wins([one for one, _ in tallies], [other for _, other in tallies])
    unpaired = len(ours) + len(theirs) - 2 * len(both)
    return ModelComparison(a.label, b.label, len(decided), len(both) - len(decided), unpaired, found)


def entry_key(entry: EntryResult, run: RunInfo) -> Hashable:
    """Key that is equal for entries with the same input, of any model and run.

    If a run does not record digests of its cases, only entries of the same plan.json are equal.
    """
    return entry.case, entry.trial, entry.given.case_key or ("plan", run.plan)


def _keyed(side: ComparedModel) -> dict[Hashable, EntryResult]:
    return {entry_key(one, side.run): one for one in side.entries}


def _tallies(pairs: Iterable[tuple[EntryResult, EntryResult]]) -> list[tuple[CaseTally, CaseTally]]:
    cases: dict[str, list[tuple[bool, bool]]] = defaultdict(list)
    for one, other in pairs:
        cases[one.case].append((one.has_passed, other.has_passed))
    return [
        (CaseTally(sum(a for a, _ in of), len(of)), CaseTally(sum(b for _, b in of), len(of)))
        for of in map(cases.get, sorted(cases))
        if of
    ]


# A column is a model in a run. If a suite was run several times, models of different runs are compared on the keys that
# they share, and each model with the nop and the oracle of its own run. The totals of a model are sums, and the mean of
# its rates, with the suites that they cover. The same runs give the same bytes in any order.

FORMAT: Final = 1


@frozen
class ReportColumn:
    """A model in a run. `label` is its name, with the run if the name is not unique. `usd` is the cost of all
    attempts."""

    label: str
    run: str
    standing: ModelSummary
    entries: tuple[EntryResult, ...]

    @property
    def kind(self) -> ModelKind:
        return model_kind(self.standing.model)

    def to_json(self) -> JsonObject:
        about = {"label": self.label, "model": self.standing.model, "run": self.run, "kind": self.kind.value}
        return about | self.standing.to_json()


@frozen
class RunCaveats:
    """Reasons to distrust a run: missing entries, and interventions by a person."""

    suite: str
    run: RunInfo
    counts: EntryCounts
    is_complete: bool
    touched: int

    def to_json(self) -> JsonObject:
        return {
            "suite": self.suite,
            "run": self.run.name,
            "plan": self.run.plan,
            "seed": self.run.seed,
            "scoring": self.run.scoring,
            "validated": self.run.is_validated,
            "complete": self.is_complete,
            "entries": self.counts.to_json() | {"total": self.counts.total},
            "touched": self.touched,
        }


@frozen
class ScaleEnds:
    """The scores of nop and oracle on the cases of a run, which are the ends of its scale; None if unknown."""

    run: str
    nop: ReportColumn | None
    oracle: ReportColumn | None

    def to_json(self) -> JsonObject:
        return {"nop": _label(self.nop), "oracle": _label(self.oracle)}


@frozen
class ReportSection:
    """One suite. `columns` are all models, tested ones first; `ends` has an item for each of `runs`."""

    suite: str
    runs: tuple[RunCaveats, ...]
    columns: tuple[ReportColumn, ...]
    ends: tuple[ScaleEnds, ...]
    pairs: tuple[ModelComparison, ...]
    suspects: SuspectCases

    @property
    def tested(self) -> tuple[ReportColumn, ...]:
        return tuple(column for column in self.columns if column.kind is ModelKind.TESTED)

    @property
    def nop(self) -> ReportColumn | None:
        """The nop, if it is the same in all runs; else None."""
        return _alike([one.nop for one in self.ends])

    @property
    def oracle(self) -> ReportColumn | None:
        """The oracle, if it is the same in all runs; else None."""
        return _alike([one.oracle for one in self.ends])

    def ends_of(self, column: ReportColumn) -> ScaleEnds:
        """The nop and oracle that the model in `column` is compared with."""
        return next(one for one in self.ends if one.run == column.run)

    @property
    def cases(self) -> tuple[str, ...]:
        return tuple(sorted({entry.case for column in self.columns for entry in column.entries}))

    def to_json(self) -> JsonObject:
        return {
            "runs": [one.to_json() for one in self.runs],
            "models": [one.to_json() for one in self.columns],
            "nop": _label(self.nop),
            "oracle": _label(self.oracle),
            "ends": {one.run: one.to_json() for one in self.ends},
            "pairs": [one.to_json() for one in self.pairs],
            "suspects": self.suspects.to_json(),
            "cases": _cases(self.columns),
        }


@frozen
class ModelTotal:
    """One model over all suites and runs of a report. `rates` are its pass rates by suite with decided entries."""

    model: str
    suites: tuple[str, ...]
    runs: int
    counts: EntryCounts
    usage: EntryUsage
    rates: Mapping[str, float]

    @property
    def rate(self) -> float | None:
        """The share of all decided entries that passed: a suite counts by its number of cases."""
        return self.counts.passed / self.counts.decided if self.counts.decided else None

    @property
    def mean_rate(self) -> float | None:
        """The mean of the rates of its suites: each suite counts the same."""
        return sum(self.rates.values()) / len(self.rates) if self.rates else None

    def to_json(self) -> JsonObject:
        return {
            "suites": list(self.suites),
            "runs": self.runs,
            "entries": self.counts.to_json() | {"total": self.counts.total},
            "rate": self.rate,
            "mean_rate": self.mean_rate,
            "usage": self.usage.to_json(),
        }


@frozen
class BenchReport:
    """A report: all suites, ordered by name."""

    sections: tuple[ReportSection, ...]

    @property
    def totals(self) -> tuple[ModelTotal, ...]:
        """The totals of each tested model, or of each oracle and nop if there is none, ordered by mean rate."""
        models = {one.standing.model for section in self.sections for one in section.tested or section.columns}
        found = (_total(model, self.sections) for model in models)
        return tuple(sorted(found, key=lambda one: (-1.0 if one.mean_rate is None else -one.mean_rate, one.model)))

    @property
    def runs(self) -> tuple[RunCaveats, ...]:
        return tuple(run for section in self.sections for run in section.runs)

    @property
    def is_complete(self) -> bool:
        return all(run.is_complete for run in self.runs)

    def to_json(self) -> JsonObject:
        return {
            "format": FORMAT,
            "complete": self.is_complete,
            "suites": {section.suite: section.to_json() for section in self.sections},
            "totals": {one.model: one.to_json() for one in self.totals},
            "timing": {
                section.suite: {column.label: column.standing.times.to_json() for column in section.columns}
                for section in self.sections
            },
        }


def combine_summaries(summaries: Iterable[RunSummary]) -> BenchReport:
    """Combine `summaries` of different runs into a report."""
    ordered = sorted(summaries, key=lambda one: (one.run.suite, one.run.name, one.run.plan))
    suites = groupby(ordered, key=lambda one: one.run.suite)
    return BenchReport(tuple(_section(suite, tuple(found)) for suite, found in suites))


def print_report(report: BenchReport) -> bytes:
    """Return the bytes of `report.json`."""
    return canonical_json.canonical_bytes(report.to_json()) + b"\n"


def _total(model: str, sections: Sequence[ReportSection]) -> ModelTotal:
    columns = {
        section.suite: found
        for section in sections
        if (found := [one for one in section.columns if one.standing.model == model])
    }
    every = [one.standing for found in columns.values() for one in found]
    counts = {suite: _sum(EntryCounts(), [one.standing.counts for one in found]) for suite, found in columns.items()}
    return ModelTotal(
        model=model,
        suites=tuple(columns),
        runs=len(every),
        counts=_sum(EntryCounts(), list(counts.values())),
        usage=_sum(EntryUsage(), [one.usage for one in every]),
        rates={suite: one.passed / one.decided for suite, one in counts.items() if one.decided},
    )


_Sums = TypeVar("_Sums", EntryCounts, EntryUsage)


def _sum(start: _Sums, found: Sequence[_Sums]) -> _Sums:
    """Add up the sums, member by member."""
    names = [each.name for each in fields(start)]
    return replace(start, **{name: sum(getattr(one, name) for one in found) for name in names})


def _section(suite: str, summaries: Sequence[RunSummary]) -> ReportSection:
    columns = _columns(summaries)
    runs = {one.run.name: one.run for one in summaries}
    sides = [ComparedModel(one.label, runs[one.run], one.entries) for one in columns if one.kind is ModelKind.TESTED]
    return ReportSection(
        suite,
        tuple(_state(one) for one in summaries),
        columns,
        _ends(summaries, columns),
        tuple(compare_models(a, b) for a, b in combinations(sides, 2)),
        find_suspects(entry for one in summaries for entry in one.entries),
    )


def _columns(summaries: Sequence[RunSummary]) -> tuple[ReportColumn, ...]:
    times = Counter(standing.model for one in summaries for standing in one.standings)
    found = [
        ReportColumn(
            standing.model if times[standing.model] == 1 else f"{standing.model} ({one.run.name})",
            one.run.name,
            standing,
            tuple(entry for entry in one.entries if entry.model == standing.model),
        )
        for one in summaries
        for standing in one.standings
    ]
    return tuple(sorted(found, key=lambda one: (_ORDER.index(one.kind), one.label)))


_ORDER: Final = (ModelKind.TESTED, ModelKind.ORACLE, ModelKind.NOP, ModelKind.CHEAT, ModelKind.MUTANT)


def _ends(summaries: Sequence[RunSummary], columns: Sequence[ReportColumn]) -> tuple[ScaleEnds, ...]:
    keys = {one.run.name: {entry_key(entry, one.run) for entry in one.entries} for one in summaries}

    def end(run: str, kind: ModelKind) -> ReportColumn | None:
        """The nop or oracle of the run, or if it has none, of another run with identical cases."""
        runs = (one for one in (run, *keys) if keys[one] == keys[run])
        found = (_beside([column for column in columns if column.run == one], kind) for one in runs)
        return next((one for one in found if one is not None), None)

    return tuple(ScaleEnds(run, end(run, ModelKind.NOP), end(run, ModelKind.ORACLE)) for run in keys)


def _alike(found: Sequence[ReportColumn | None]) -> ReportColumn | None:
    counts = [None if one is None else one.standing.share.counts for one in found]
    scores = {None if one is None else (one.passed, one.decided) for one in counts}
    return found[0] if len(scores) == 1 else None


def _label(column: ReportColumn | None) -> str | None:
    return None if column is None else column.label


def _beside(columns: Sequence[ReportColumn], kind: ModelKind) -> ReportColumn | None:
    found = reference_model([column.standing for column in columns], kind)
    return next((column for column in columns if column.standing is found), None)


def _state(summary: RunSummary) -> RunCaveats:
    touched = sum(entry.is_touched for entry in summary.entries)
    return RunCaveats(summary.run.suite, summary.run, summary.counts, summary.is_complete, touched)


def _cases(columns: Sequence[ReportColumn]) -> JsonObject:
    """Case → column → trial → result."""
    out: JsonObject = {}
    for column in columns:
        for entry in column.entries:
            models = out.setdefault(entry.case, {})
            models.setdefault(column.label, {})[str(entry.trial)] = entry_to_json(entry)
    return out
