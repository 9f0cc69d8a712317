"""Summarise one run from its folded events: the content of `summary.json`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import fsum
from typing import Final

from planloop.benchmarks.scoring import statistics
from planloop.benchmarks.scoring.fold import (
    EntryHistory,
    EntryResult,
    EntryUsage,
    ModelKind,
    RunFold,
    RunInfo,
    model_kind,
)
from planloop.benchmarks.scoring.statistics import CaseTally, Interval, round_figure
from planloop.schemas import canonical_json
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.case import CaseVerdict

# An entry is decided if it passed or failed. Error, invalid and missing entries say nothing about the model: rates do
# not count them, and the bounds show how much they could change. The order of entries does not change the figures.


@frozen
class EntryCounts:
    """Numbers of entries by result. `missing` entries were planned and have not ended."""

    passed: int = 0
    failed: int = 0
    errors: int = 0
    invalid: int = 0
    missing: int = 0

    @property
    def decided(self) -> int:
        return self.passed + self.failed

    @property
    def undecided(self) -> int:
        return self.errors + self.invalid + self.missing

    @property
    def total(self) -> int:
        return self.decided + self.undecided

    def to_json(self) -> JsonObject:
        return {
            "pass": self.passed,
            "fail": self.failed,
            "error": self.errors,
            "invalid": self.invalid,
            "missing": self.missing,
        }


@frozen
class PassShare:
    """The share of `counts` that passed, with Wilson's interval over entries, or over cases if documented so."""

    counts: EntryCounts
    rate: float | None
    interval: Interval | None

    def to_json(self) -> JsonObject:
        return self.counts.to_json() | {"rate": _number(self.rate), "interval": _interval(self.interval)}


@frozen
class PassAtK:
    """pass@k or pass^k: the mean over `cases` with at least k decided trials. `left_out` names the others."""

    k: int
    value: float | None
    cases: int
    left_out: tuple[str, ...]

    def to_json(self) -> JsonObject:
        return {"k": self.k, "value": _number(self.value), "cases": self.cases, "undecided": list(self.left_out)}


@frozen
class FigureSpread:
    """Median and mean of a figure over the `count` entries that have it."""

    count: int
    mean: float | None
    median: float | None

    def to_json(self) -> JsonObject:
        return {"count": self.count, "mean": _number(self.mean), "median": _number(self.median)}


@frozen
class SoftSummary:
    """A soft figure: over the entries that passed, and over all decided ones."""

    passed: FigureSpread
    all: FigureSpread

    def to_json(self) -> JsonObject:
        return {"passed": self.passed.to_json(), "all": self.all.to_json()}


@frozen
class TrialRates:
    """pass@k (at least one of k trials passes) and pass^k (all k pass)."""

    pass_at: tuple[PassAtK, ...]
    pass_hat: tuple[PassAtK, ...]


@frozen
class ModelTimes:
    """Durations of the entries of a model. `soft` are soft figures that are times."""

    median_s: float | None
    sum_s: float
    soft: Mapping[str, SoftSummary]

    def to_json(self) -> JsonObject:
        return {
            "median_s": _number(self.median_s),
            "sum_s": round_figure(self.sum_s),
            "soft": {name: one.to_json() for name, one in self.soft.items()},
        }


@frozen
class ModelSummary:
    """One model in one run. `by_case` is the interval by resampling cases; None if cases have one trial each."""

    model: str
    cases: int
    share: PassShare
    by_case: Interval | None
    bounds: Interval | None
    trials: TrialRates
    medians: Mapping[str, float | None]
    usage: EntryUsage
    slices: Mapping[str, Mapping[str, PassShare]]
    soft: Mapping[str, SoftSummary]
    touched: int
    times: ModelTimes

    @property
    def counts(self) -> EntryCounts:
        return self.share.counts

    @property
    def interval(self) -> Interval | None:
        """The interval to show: by case if a case has several trials."""
        return self.by_case or self.share.interval

    def to_json(self) -> JsonObject:
        """JSON without times, which differ between otherwise equal runs: see `times`."""
        return self.share.to_json() | {
            "cases": self.cases,
            "trials": self.counts.total,
            "interval_by_case": _interval(self.by_case),
            "bounds": _interval(self.bounds),
            "pass_at": [one.to_json() for one in self.trials.pass_at],
            "pass_hat": [one.to_json() for one in self.trials.pass_hat],
            "median": {name: _number(value) for name, value in self.medians.items()},
            "usage": self.usage.to_json() | {"usd": round_figure(self.usage.usd)},
            "slices": {by: {value: one.to_json() for value, one in of.items()} for by, of in self.slices.items()},
            "soft": {name: one.to_json() for name, one in self.soft.items()},
            "touched": self.touched,
        }


@frozen
class SummaryOptions:
    """Options of a summary: the values of k, the planned trials of each case, and the seed for resampling."""

    pass_at: tuple[int, ...] = (1,)
    pass_hat: tuple[int, ...] = (1,)
    planned: Mapping[str, int] | None = None
    seed: str = ""


def summarise_model(model: str, entries: Sequence[EntryResult], wanted: SummaryOptions) -> ModelSummary:
    """Summarise `model` from `entries`, which must be its own. Planned entries that have not ended are missing."""
    decided = [entry for entry in entries if entry.is_decided]
    ended = [entry for entry in entries if entry.verdict is not None]
    tallies = tally_cases(entries, wanted.planned)
    counts = _counts(entries, missing=_missing(ended, wanted.planned))
    times = [entry.times.took_s for entry in decided if entry.times.took_s is not None]
    by_case = statistics.bootstrap_interval(list(tallies.values()), wanted.seed) if _has_trials(tallies) else None
    return ModelSummary(
        model,
        len(tallies),
        pass_share(counts),
        by_case,
        statistics.pass_bounds(counts.passed, counts.decided, counts.undecided),
        TrialRates(
            tuple(_at_k(statistics.pass_at_k, k, tallies) for k in wanted.pass_at),
            tuple(_at_k(statistics.pass_hat_k, k, tallies) for k in wanted.pass_hat),
        ),
        _medians(decided),
        _used(ended),
        _slices(ended),
        _soft((entry, entry.soft) for entry in decided),
        sum(entry.is_touched for entry in ended),
        ModelTimes(
            statistics.median_of(times),
            fsum(entry.times.took_s for entry in ended if entry.times.took_s is not None),
            _soft((entry, entry.times.soft) for entry in decided),
        ),
    )


def pass_share(counts: EntryCounts) -> PassShare:
    """The share of `counts` that passed, with Wilson's interval."""
    rate = statistics.pass_rate(counts.passed, counts.decided)
    return PassShare(counts, rate, statistics.wilson_interval(counts.passed, counts.decided))


def tally_cases(entries: Iterable[EntryResult], planned: Mapping[str, int] | None = None) -> dict[str, CaseTally]:
    """Case → decided and passed trials, ordered by case. Contains every case of `planned`."""
    found: dict[str, list[EntryResult]] = {case: [] for case in planned or ()}
    for entry in entries:
        found.setdefault(entry.case, []).append(entry)
    return {
        case: CaseTally(sum(one.has_passed for one in found[case]), sum(one.is_decided for one in found[case]))
        for case in sorted(found)
    }


def _has_trials(tallies: Mapping[str, CaseTally]) -> bool:
    return any(one.decided > 1 for one in tallies.values())


def _missing(ended: Sequence[EntryResult], planned: Mapping[str, int] | None) -> int:
    return 0 if planned is None else max(0, sum(planned.values()) - len(ended))


def _counts(entries: Iterable[EntryResult], *, missing: int = 0) -> EntryCounts:
    verdicts = [entry.verdict for entry in entries]
    passed, failed, errors, invalid = (
        verdicts.count(one) for one in (CaseVerdict.PASS, CaseVerdict.FAIL, CaseVerdict.ERROR, CaseVerdict.INVALID)
    )
    return EntryCounts(passed, failed, errors, invalid, missing)


def _at_k(estimate: statistics.Estimate, k: int, tallies: Mapping[str, CaseTally]) -> PassAtK:
    found = {case: estimate(k, one) for case, one in tallies.items()}
    values = [value for value in found.values() if value is not None]
    left_out = tuple(case for case, value in found.items() if value is None)
    return PassAtK(k, statistics.mean_of(values), len(values), left_out)


def _medians(decided: Sequence[EntryResult]) -> dict[str, float | None]:
    used = [entry.usage for entry in decided]
    return {
        "usd": statistics.median_of(one.usd for one in used),
        "turns": statistics.median_of(one.turns for one in used),
        "calls": statistics.median_of(one.calls for one in used),
        "tokens": statistics.median_of(one.tokens_in + one.tokens_out for one in used),
    }


def _used(ended: Sequence[EntryResult]) -> EntryUsage:
    used = [entry.usage for entry in ended]
    return EntryUsage(
        sum(one.tokens_in for one in used),
        sum(one.tokens_out for one in used),
        fsum(one.usd for one in used),
        sum(one.calls for one in used),
        sum(one.turns for one in used),
        sum(one.escalated for one in used),
        sum(one.stronger_tokens for one in used),
        round_figure(fsum(one.stronger_usd for one in used)),
    )


def _slices(ended: Iterable[EntryResult]) -> dict[str, dict[str, PassShare]]:
    """`language`, `variant` and each tag as `tag:NAME`, by value. A tag with only one value gives no slice."""
    found: dict[str, dict[str, list[EntryResult]]] = defaultdict(lambda: defaultdict(list))
    for entry in ended:
        for by, value in _places(entry):
            found[by][value].append(entry)
    return {
        by: {value: _slice(of[value]) for value in sorted(of)}
        for by, of in sorted(found.items())
        if by.startswith("tag:") or len(of) > 1
    }


def _slice(entries: Sequence[EntryResult]) -> PassShare:
    """The pass rate of a slice. With several trials of a case, Wilson's interval over cases: cheap and cautious."""
    counts, tallies = _counts(entries), tally_cases(entries)
    found = pass_share(counts)
    if found.rate is None or not _has_trials(tallies):
        return found
    cases = sum(one.decided > 0 for one in tallies.values())
    return PassShare(counts, found.rate, statistics.wilson_interval(found.rate * cases, cases))


def _places(entry: EntryResult) -> list[tuple[str, str]]:
    places = [("language", entry.given.language)] if entry.given.language else []
    return [*places, ("variant", entry.given.variant), *((f"tag:{tag}", value) for tag, value in entry.given.tags)]


def _soft(figures: Iterable[tuple[EntryResult, Mapping[str, float]]]) -> dict[str, SoftSummary]:
    found: dict[str, list[tuple[bool, float]]] = defaultdict(list)
    for entry, numbers in figures:
        for name, value in numbers.items():
            found[name].append((entry.has_passed, value))
    return {name: _soft_figure(found[name]) for name in sorted(found)}


def _soft_figure(values: Sequence[tuple[bool, float]]) -> SoftSummary:
    return SoftSummary(_spread([value for passed, value in values if passed]), _spread([value for _, value in values]))


def _spread(values: Sequence[float]) -> FigureSpread:
    return FigureSpread(len(values), statistics.mean_of(values), statistics.median_of(values))


def _number(value: float | None) -> float | None:
    return None if value is None else round_figure(value)


def _interval(interval: Interval | None) -> Json:
    return None if interval is None else interval.to_json()


@frozen
class SuspectCases:
    """Cases that may be wrong.

    `failed_by_all`: no tested model passed in any trial; with the checks that always failed. `passed_by_cheats_only`: a
    cheat passed, but no tested model and no oracle. `failed_by_oracle` and `passed_by_nop` show errors of the suite.
    """

    failed_by_all: Mapping[str, tuple[str, ...]]
    passed_by_cheats_only: tuple[str, ...]
    failed_by_oracle: tuple[str, ...]
    passed_by_nop: tuple[str, ...]

    @property
    def is_empty(self) -> bool:
        return not (self.failed_by_all or self.passed_by_cheats_only or self.failed_by_oracle or self.passed_by_nop)

    def to_json(self) -> JsonObject:
        return {
            "failed_by_all": {case: list(checks) for case, checks in self.failed_by_all.items()},
            "passed_by_cheats_only": list(self.passed_by_cheats_only),
            "failed_by_oracle": list(self.failed_by_oracle),
            "passed_by_nop": list(self.passed_by_nop),
        }


def find_suspects(entries: Iterable[EntryResult]) -> SuspectCases:
    """Find suspect cases among the decided entries of one or several runs of the same suite."""
    found: dict[str, dict[ModelKind, list[EntryResult]]] = defaultdict(lambda: defaultdict(list))
    for entry in entries:
        if entry.is_decided:
            found[entry.case][model_kind(entry.model)].append(entry)
    cases = {case: found[case] for case in sorted(found)}
    return SuspectCases(
        {
            case: _failing(by[ModelKind.TESTED])
            for case, by in cases.items()
            if by[ModelKind.TESTED] and not _any(by[ModelKind.TESTED])
        },
        tuple(case for case, by in cases.items() if _any(by[ModelKind.CHEAT]) and not _any(_honest(by))),
        tuple(case for case, by in cases.items() if any(not one.has_passed for one in by[ModelKind.ORACLE])),
        tuple(case for case, by in cases.items() if _any(by[ModelKind.NOP])),
    )


def _honest(by: Mapping[ModelKind, Sequence[EntryResult]]) -> list[EntryResult]:
    return [*by[ModelKind.TESTED], *by[ModelKind.ORACLE]]


def _any(entries: Iterable[EntryResult]) -> bool:
    return any(entry.has_passed for entry in entries)


def _failing(entries: Sequence[EntryResult]) -> tuple[str, ...]:
    """The checks that passed in none of `entries`, all of which failed."""
    failed = [{check for check, result in entry.checks.items() if result != "pass"} for entry in entries]
    return tuple(sorted(set.intersection(*failed)))


# The file can be deleted and written again with the same bytes. Values that may differ between otherwise equal runs
# (times, durations, numbers of attempts) are under its member `timing`.

FORMAT: Final = 1


@frozen
class RunSummary:
    """Summary of one run. `standings` are in the order of the run's models."""

    run: RunInfo
    standings: tuple[ModelSummary, ...]
    entries: tuple[EntryResult, ...]
    suspects: SuspectCases
    history: EntryHistory

    @property
    def counts(self) -> EntryCounts:
        """The counts of all models together."""
        counts = [standing.counts for standing in self.standings]
        names = ("passed", "failed", "errors", "invalid", "missing")
        return EntryCounts(*(sum(getattr(one, name) for one in counts) for name in names))

    @property
    def is_complete(self) -> bool:
        """Whether no entry is missing, and none ended with an error."""
        is_unknown = any(entry.verdict is not None and entry.verdict.is_unknown for entry in self.entries)
        return not (is_unknown or self.counts.missing)

    @property
    def nop(self) -> ModelSummary | None:
        return reference_model(self.standings, ModelKind.NOP)

    @property
    def oracle(self) -> ModelSummary | None:
        return reference_model(self.standings, ModelKind.ORACLE)

    def to_json(self) -> JsonObject:
        run, counts = self.run, self.counts
        return {
            "format": FORMAT,
            "suite": run.suite,
            "run": run.name,
            "plan": run.plan,
            "seed": run.seed,
            "scoring": run.scoring,
            "deterministic": run.is_deterministic,
            "validated": run.is_validated,
            "complete": self.is_complete,
            "entries": counts.to_json() | {"total": counts.total},
            "touched": [[one.case, one.model, one.trial] for one in self.entries if one.is_touched],
            "models": {one.model: {"kind": model_kind(one.model).value} | one.to_json() for one in self.standings},
            "beside": {
                "nop": None if self.nop is None else self.nop.share.to_json(),
                "oracle": None if self.oracle is None else self.oracle.share.to_json(),
            },
            "cases": _cases(self.entries),
            "suspects": self.suspects.to_json(),
            "timing": _timing(self),
        }


def summarise_run(fold: RunFold) -> RunSummary:
    """Summarise the events so far."""
    entries = fold.entries()
    by_model: dict[str, list[EntryResult]] = defaultdict(list)
    for entry in entries:
        by_model[entry.model].append(entry)
    run = fold.run
    names = dict.fromkeys((*run.models, *sorted(by_model)))
    standings = tuple(summarise_model(name, by_model[name], _wanted(run, name)) for name in names)
    return RunSummary(run, standings, entries, find_suspects(entries), fold.history())


def print_summary(summary: RunSummary) -> bytes:
    """Return the bytes of `summary.json`."""
    return canonical_json.canonical_bytes(summary.to_json()) + b"\n"


def reference_model(standings: Sequence[ModelSummary], kind: ModelKind) -> ModelSummary | None:
    """The model of `kind` that a suite is measured with: `oracle` before `oracle:form`, else the first."""
    found = sorted((one for one in standings if model_kind(one.model) is kind), key=lambda one: ":" in one.model)
    return found[0] if found else None


def _wanted(run: RunInfo, model: str) -> SummaryOptions:
    return SummaryOptions(run.pass_at, run.pass_hat, run.planned.get(model), seed=f"{run.suite}\n{run.seed}\n{model}")


def _cases(entries: Sequence[EntryResult]) -> JsonObject:
    """Case → language, tags, and model → trial → result."""
    out: JsonObject = {}
    for entry in entries:
        case = out.setdefault(entry.case, {"models": {}})
        case |= {"language": entry.given.language, "tags": _tags(entry.given.tags)}
        case["models"].setdefault(entry.model, {})[str(entry.trial)] = entry_to_json(entry)
    return out


def entry_to_json(entry: EntryResult) -> JsonObject | None:
    """The result of an entry; None if none of its attempts has ended. Results of checks are shown, never added up."""
    if entry.verdict is None:
        return None
    out: JsonObject = {
        "verdict": entry.verdict.value,
        "key": entry.given.key,
        "variant": entry.given.variant,
        "checks": dict(entry.checks),
    }
    return out if entry.verdict is CaseVerdict.PASS else out | {"why": entry.why}


def _tags(tags: Sequence[tuple[str, str]]) -> Mapping[str, list[str]]:
    out: dict[str, list[str]] = defaultdict(list)
    for tag, value in tags:
        out[tag].append(value)
    return out


def _timing(summary: RunSummary) -> JsonObject:
    history = summary.history
    return {
        "first_ts": history.first_ts,
        "last_ts": history.last_ts,
        "resumes": history.resumes,
        "attempts": history.attempts,
        "usd_of_all_attempts": round_figure(history.usd),
        "models": {one.model: one.times.to_json() for one in summary.standings},
    }
