"""Texts and tables of a report, shared by all formats."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from planloop.benchmarks.reporting.report import (
    BenchReport,
    ModelComparison,
    ReportColumn,
    ReportSection,
    RunCaveats,
    ScaleEnds,
)
from planloop.benchmarks.scoring.fold import ModelKind
from planloop.benchmarks.scoring.statistics import Interval
from planloop.benchmarks.scoring.summary import EntryCounts, FigureSpread, PassAtK, SuspectCases
from planloop.schemas import quantities
from planloop.schemas.frozen import frozen
from planloop.schemas.quantities import pluralize

NOTHING = "–"
"""Shown if there is no figure."""

PAIRS_TITLE = "Pairwise comparison"
PAIRS = (
    "On identical keys; the model that passes more trials of a case wins it. Difference: cases won minus cases lost, "
    "in percentage points, with the 95 % interval of Bonett and Price. p: exact McNemar test, two-sided, not corrected "
    "for the number of pairs."
)
"""Explains how models are compared."""


def format_percent(share: float | None) -> str:
    """`62.5 %`."""
    return NOTHING if share is None else f"{100 * share:.1f} %"


def format_interval(interval: Interval | None) -> str:
    """`45.1 to 77.3 %`."""
    return NOTHING if interval is None else f"{100 * interval.low:.1f} to {100 * interval.high:.1f} %"


def format_points(share: float | None) -> str:
    """A difference of shares in percentage points: `+12.5`."""
    return NOTHING if share is None else f"{100 * share:+.1f}"


def format_usd(usd: float | None) -> str:
    """`$0.0042`."""
    return NOTHING if usd is None else quantities.format_money(Decimal(repr(usd)))


def format_seconds(value: float | None) -> str:
    """`1m40s`."""
    return NOTHING if value is None else quantities.format_duration(value)


def format_number(value: float | None) -> str:
    """A number with three significant digits."""
    return NOTHING if value is None else quantities.format_count(float(f"{value:.3g}"))


def describe_passed(counts: EntryCounts) -> str:
    """`12 of 20`: passed and decided entries."""
    return f"{counts.passed} of {counts.decided}"


def describe_undecided(counts: EntryCounts) -> str:
    """`2 errors, 1 missing`; empty if all entries are decided."""
    words = [
        (counts.errors, pluralize(counts.errors, "error")),
        (counts.invalid, f"{counts.invalid} invalid"),
        (counts.missing, f"{counts.missing} missing"),
    ]
    return ", ".join(text for count, text in words if count)


def format_p_value(p: float) -> str:
    """`p = 0.042`, `p < 0.001`."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def describe_scale(section: ReportSection) -> str:
    """The scores of nop and oracle as sentences; by run if they differ."""
    runs: dict[str, list[str]] = {}
    for ends in section.ends:
        runs.setdefault(_scale_ends_text(ends), []).append(ends.run)
    if len(runs) > 1:
        return " ".join(f"In {', '.join(of)}: {text}" for text, of in runs.items())
    return "".join(text[0].upper() + text[1:] for text in runs)


def describe_run_problems(state: RunCaveats) -> list[str]:
    """Warnings to read before the figures of a run; empty for most runs."""
    found: list[str] = []
    if not state.is_complete:
        lacks = describe_undecided(state.counts)
        found.append(f"incomplete: {lacks}. Rates leave these out; the bounds show how much they could change")
    elif state.counts.invalid:
        found.append(f"{state.counts.invalid} invalid: a check passed without looking at anything. Correct the suite")
    if state.touched:
        found.append(f"a person intervened in {pluralize(state.touched, 'entry', 'entries')}")
    if state.run.is_validated is None:
        found.append("not validated: run `plan bench validate` to test the checks of the suite")
    elif not state.run.is_validated:
        found.append("invalid suite: `plan bench validate` found errors, so do not rely on the figures")
    return found


def describe_comparison(pair: ModelComparison) -> str:
    """The result of a comparison of two models, without their names."""
    found = pair.found
    if not found.cases:
        return pair.sentence
    left_out = f"; {pair.undecided} undecided left out" if pair.undecided else ""
    return (
        f"{found.wins} won, {found.losses} lost, {found.ties} tied of {pluralize(found.cases, 'case')}{left_out}; "
        f"difference {format_points(found.difference)} points ({_points_value(found.interval)}), "
        f"{format_p_value(found.p)}: {pair.sentence}"
    )


def describe_suspicions(found: SuspectCases) -> list[tuple[str, tuple[str, ...]]]:
    """Reasons to look at cases, each with its cases and the checks that always failed."""
    failed = tuple(f"{case} ({', '.join(checks)})" if checks else case for case, checks in found.failed_by_all.items())
    every = [
        ("Failed by every model: the case is too hard, or a check is wrong", failed),
        ("Passed by cheats only: a check can be fooled", found.passed_by_cheats_only),
        ("Failed by the oracle: a check rejects a right answer", found.failed_by_oracle),
        ("Passed by doing nothing: the checks require nothing", found.passed_by_nop),
    ]
    return [(what, cases) for what, cases in every if cases]


def slice_name(by: str) -> str:
    """`tag:kind` as `kind`, `variant` as `prompt variant`."""
    return "prompt variant" if by == "variant" else by.removeprefix("tag:")


def _scale_ends_text(ends: ScaleEnds) -> str:
    nop = _score(ends.nop, "doing nothing", "nop was not run: add --model nop")
    oracle = _score(ends.oracle, "the oracle", "the oracle was not run: add --model oracle")
    return f"{nop}; {oracle}."


def _score(column: ReportColumn | None, who: str, otherwise: str) -> str:
    if column is None:
        return otherwise
    share = column.standing.share
    return f"{who} passes {format_percent(share.rate)} ({describe_passed(share.counts)})"


def _points_value(interval: Interval | None) -> str:
    return NOTHING if interval is None else f"{100 * interval.low:+.1f} to {100 * interval.high:+.1f}"


@frozen
class ReportTable:
    """A table. The first `names` columns are names, the others figures. `note` explains the columns."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    names: int = 1
    note: str = ""


def section_tables(section: ReportSection) -> list[ReportTable]:
    """All tables of a suite that are not empty."""
    found = [
        rates_table(section),
        costs_table(section),
        trials_table(section),
        slices_table(section),
        soft_table(section),
    ]
    return [sheet for sheet in found if sheet.rows]


def overview_table(report: BenchReport) -> ReportTable:
    """All suites: the rate of each tested model, and the scores of nop and oracle in its run."""
    rows = [
        (
            section.suite,
            column.label,
            *_share(column.standing.share.rate, column.standing.interval),
            *_ends(section.ends_of(column)),
        )
        for section in report.sections
        for column in section.tested or section.columns
    ]
    return ReportTable("All suites", ("suite", "model", "rate", "95 %", "nop", "oracle"), tuple(rows), names=2)


def totals_table(report: BenchReport) -> ReportTable:
    """Each tested model over all suites."""
    every = len(report.sections)
    rows = [
        (
            one.model,
            str(every) if len(one.suites) == every else f"{len(one.suites)} of {every}",
            describe_passed(one.counts),
            format_percent(one.rate),
            format_percent(one.mean_rate),
            str(one.counts.undecided or NOTHING),
            format_usd(one.usage.usd),
            format_number(one.usage.tokens_in + one.usage.tokens_out),
        )
        for one in report.totals
    ]
    head = ("model", "suites", "passed", "rate", "mean rate", "undecided", "$ total", "tokens")
    note = "Rate: share of all decided entries. Mean rate: each suite counts the same. Compare models on equal suites."
    return ReportTable("Totals over all suites", head, tuple(rows), note=note)


def rates_table(section: ReportSection) -> ReportTable:
    """The pass rate of each model."""
    has_bounds = any(column.standing.counts.undecided for column in section.columns)
    head = ("model", "passed", "rate", "95 %") + (("undecided", "bounds") if has_bounds else ())
    rows = [_rate(column, has_bounds) for column in section.columns]
    note = "Interval: Wilson; by resampling cases if they have several trials."
    if has_bounds:
        note += " Bounds: the rate if all undecided entries had failed, and if all had passed."
    return ReportTable("Pass rate", head, tuple(rows), note=note)


def costs_table(section: ReportSection) -> ReportTable:
    """Cost, time, turns, calls and tokens."""
    head: tuple[str, ...] = ("model", "$ median", "$ total", "time median", "turns", "calls", "tokens")
    note = "Medians are over entries that passed or failed."
    has_escalated = any(column.standing.usage.escalated for column in section.columns)
    if has_escalated:
        head += ("escalated", "stronger model: $", "tokens")
        note += " Escalated: entries that a stronger model continued; its cost is included in `$ total`."
    rows = [_cost(column) + (_escalated(column) if has_escalated else ()) for column in section.columns]
    return ReportTable("Cost", head, tuple(rows), note=note)


def trials_table(section: ReportSection) -> ReportTable:
    """pass@k and pass^k, if a case has more than one trial."""
    columns = [column for column in section.columns if column.standing.by_case is not None]
    hats = sorted({one.k for column in columns for one in column.standing.trials.pass_hat})
    ats = sorted({one.k for column in columns for one in column.standing.trials.pass_at})
    head = ("model", *(f"pass@{k}" for k in ats), *(f"pass^{k}" for k in hats), "left out")
    rows = [
        (
            column.label,
            *_at(column.standing.trials.pass_at, ats),
            *_at(column.standing.trials.pass_hat, hats),
            _left_out(column),
        )
        for column in columns
    ]
    note = (
        "pass@k: at least one of k trials passes; pass^k: all k do. Left out: cases with fewer than k decided trials."
    )
    return ReportTable("Several trials", head, tuple(rows), note=note)


def pairs_table(pairs: Sequence[ModelComparison]) -> ReportTable:
    """The comparison of each pair of models, as a sentence."""
    rows = tuple((pair.a, pair.b, describe_comparison(pair)) for pair in pairs)
    head = ("first", "second", "first compared with second")
    return ReportTable(PAIRS_TITLE, head, rows, names=3, note=PAIRS)


def slices_table(section: ReportSection) -> ReportTable:
    """Pass rates by language, prompt variant and tag."""
    rows = [
        (
            slice_name(by),
            value,
            column.label,
            describe_passed(share.counts),
            *_share(share.rate, share.interval),
        )
        for by, value in _places(section)
        for column in section.tested or section.columns
        if (share := column.standing.slices.get(by, {}).get(value)) is not None
    ]
    note = "Interval: Wilson; over cases instead of trials if cases have several trials."
    return ReportTable("Slices", ("by", "is", "model", "passed", "rate", "95 %"), tuple(rows), names=3, note=note)


def soft_table(section: ReportSection) -> ReportTable:
    """Soft figures. Those of the oracle show the values of a good answer."""
    columns = [one for one in section.columns if one.kind in (ModelKind.TESTED, ModelKind.ORACLE)] or section.columns
    rows = [
        (name, column.label, *_spread(figure.passed, is_time), *_spread(figure.all, is_time), str(figure.all.count))
        for name, is_time in _figures(section)
        for column in columns
        if (figure := (column.standing.times.soft if is_time else column.standing.soft).get(name)) is not None
    ]
    head = ("figure", "model", "passed: median", "mean", "all: median", "mean", "entries")
    return ReportTable(
        "Soft figures",
        head,
        tuple(rows),
        names=2,
        note="Over entries that passed, and over all decided entries. Soft figures never change a verdict.",
    )


def verdicts_table(section: ReportSection) -> ReportTable:
    """Every case with every model: how many of its trials passed, and which are undecided."""
    by_case = [{case: list(of) for case, of in _by_case(column).items()} for column in section.columns]
    head = ("case", *(column.label for column in section.columns))
    rows = [(case, *(_verdict(of.get(case, [])) for of in by_case)) for case in section.cases]
    return ReportTable("Cases", head, tuple(rows))


def _ends(ends: ScaleEnds) -> list[str]:
    columns = (ends.nop, ends.oracle)
    return [NOTHING if one is None else format_percent(one.standing.share.rate) for one in columns]


def _rate(column: ReportColumn, has_bounds: bool) -> tuple[str, ...]:
    standing = column.standing
    share = standing.share
    row = (column.label, describe_passed(share.counts), *_share(share.rate, standing.interval))
    if not has_bounds:
        return row
    bounds = standing.bounds if share.counts.undecided else None
    return (
        *row,
        describe_undecided(share.counts) or NOTHING,
        format_interval(bounds),
    )


def _cost(column: ReportColumn) -> tuple[str, ...]:
    standing, medians = column.standing, column.standing.medians
    return (
        column.label,
        format_usd(medians["usd"]),
        format_usd(standing.usage.usd),
        format_seconds(standing.times.median_s),
        *(format_number(medians[name]) for name in ("turns", "calls", "tokens")),
    )


def _escalated(column: ReportColumn) -> tuple[str, ...]:
    used = column.standing.usage
    return (
        str(used.escalated),
        format_usd(used.stronger_usd),
        format_number(used.stronger_tokens),
    )


def _share(rate: float | None, interval: Interval | None) -> tuple[str, str]:
    return format_percent(rate), format_interval(interval)


def _at(found: Sequence[PassAtK], ks: Sequence[int]) -> list[str]:
    values = {one.k: one.value for one in found}
    return [format_percent(values.get(k)) for k in ks]


def _left_out(column: ReportColumn) -> str:
    """How many cases have too few trials for the largest k."""
    found = (*column.standing.trials.pass_at, *column.standing.trials.pass_hat)
    return str(max((len(one.left_out) for one in found), default=0) or NOTHING)


def _places(section: ReportSection) -> list[tuple[str, str]]:
    found = {(by, value) for column in section.columns for by, of in column.standing.slices.items() for value in of}
    return sorted(found)


def _figures(section: ReportSection) -> list[tuple[str, bool]]:
    plain = {(name, False) for column in section.columns for name in column.standing.soft}
    times = {(name, True) for column in section.columns for name in column.standing.times.soft}
    return sorted(plain | times)


def _spread(spread: FigureSpread, is_time: bool) -> tuple[str, str]:
    words = format_seconds if is_time else format_number
    return words(spread.median), words(spread.mean)


def _by_case(column: ReportColumn) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for entry in column.entries:
        found.setdefault(entry.case, []).append(entry.verdict.value if entry.verdict is not None else "missing")
    return found


def _verdict(found: Sequence[str]) -> str:
    """`pass`, or for several trials `2 of 3, 1 error`."""
    if not found:
        return NOTHING
    if len(found) == 1:
        return found[0]
    other = [f"{found.count(word)} {word}" for word in ("error", "invalid", "missing") if word in found]
    decided = found.count("pass") + found.count("fail")
    return ", ".join((f"{found.count('pass')} of {decided}", *other))
