"""The tables of a report as texts: columns and rows, decided once for every format."""

from __future__ import annotations

from collections.abc import Sequence

from planloop.benchmarks.reporting import figure_text
from planloop.benchmarks.reporting.report import BenchReport, ReportColumn, ReportSection, ScaleEnds
from planloop.benchmarks.scoring.fold import ModelKind
from planloop.benchmarks.scoring.model_summary import FigureSpread, PassAtK
from planloop.benchmarks.scoring.statistics import Interval
from planloop.schemas.frozen import frozen


@frozen
class ReportTable:
    """A table. The first `names` columns are names, the others figures. `note` says what must be known to read it."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    names: int = 1
    note: str = ""


def section_tables(section: ReportSection) -> list[ReportTable]:
    """All tables of a suite that have something in them."""
    found = [
        rates_table(section),
        costs_table(section),
        trials_table(section),
        slices_table(section),
        soft_table(section),
    ]
    return [sheet for sheet in found if sheet.rows]


def overview_table(report: BenchReport) -> ReportTable:
    """All suites at a glance: each tested model between the ends of its run's scale."""
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
            figure_text.describe_passed(one.counts),
            figure_text.format_percent(one.rate),
            figure_text.format_percent(one.mean_rate),
            str(one.counts.undecided or figure_text.NOTHING),
            figure_text.format_usd(one.usage.usd),
            figure_text.format_number(one.usage.tokens_in + one.usage.tokens_out),
        )
        for one in report.totals
    ]
    head = ("model", "suites", "passed", "rate", "mean rate", "undecided", "$ in all", "tokens")
    note = "Rate: of all entries that passed or failed. Mean rate: each suite counts the same. Compare on equal suites."
    return ReportTable("Totals over all suites", head, tuple(rows), note=note)


def rates_table(section: ReportSection) -> ReportTable:
    """How much each model passed."""
    has_bounds = any(column.standing.counts.undecided for column in section.columns)
    head = ("model", "passed", "rate", "95 %") + (("undecided", "bounds") if has_bounds else ())
    rows = [_rate(column, has_bounds) for column in section.columns]
    note = "Interval: Wilson; where cases have several trials, by resampling cases."
    if has_bounds:
        note += " Bounds: if all undecided had failed, and if all had passed."
    return ReportTable("Pass rate", head, tuple(rows), note=note)


def costs_table(section: ReportSection) -> ReportTable:
    """What it took."""
    head: tuple[str, ...] = ("model", "$ median", "$ in all", "time median", "turns", "calls", "tokens")
    note = "Medians are of entries that passed or failed."
    has_escalated = any(column.standing.usage.escalated for column in section.columns)
    if has_escalated:
        head += ("escalated", "stronger model: $", "tokens")
        note += " Escalated: entries that a stronger model continued; what it used is part of `$ in all`."
    rows = [_cost(column) + (_escalated(column) if has_escalated else ()) for column in section.columns]
    return ReportTable("Cost", head, tuple(rows), note=note)


def trials_table(section: ReportSection) -> ReportTable:
    """pass@k and pass^k, where something has more than one trial."""
    columns = [column for column in section.columns if column.standing.by_case is not None]
    hats = sorted({one.k for column in columns for one in column.standing.pass_hat})
    ats = sorted({one.k for column in columns for one in column.standing.pass_at})
    head = ("model", *(f"pass@{k}" for k in ats), *(f"pass^{k}" for k in hats), "left out")
    rows = [
        (column.label, *_at(column.standing.pass_at, ats), *_at(column.standing.pass_hat, hats), _left_out(column))
        for column in columns
    ]
    note = "pass@k: one of k trials passes; pass^k: all of k do. Cases with fewer than k decided trials are left out."
    return ReportTable("Several trials", head, tuple(rows), note=note)


def slices_table(section: ReportSection) -> ReportTable:
    """Pass rates by language, prompt variant and tag."""
    rows = [
        (
            figure_text.slice_name(by),
            value,
            column.label,
            figure_text.describe_passed(share.counts),
            *_share(share.rate, share.interval),
        )
        for by, value in _places(section)
        for column in section.tested or section.columns
        if (share := column.standing.slices.get(by, {}).get(value)) is not None
    ]
    note = "Interval: Wilson; where cases have several trials, with cases for trials."
    return ReportTable("Slices", ("by", "is", "model", "passed", "rate", "95 %"), tuple(rows), names=3, note=note)


def soft_table(section: ReportSection) -> ReportTable:
    """Figures that never change a verdict. The oracle's are what a good answer has."""
    columns = [one for one in section.columns if one.kind in (ModelKind.TESTED, ModelKind.ORACLE)] or section.columns
    rows = [
        (name, column.label, *_spread(figure.passed, is_time), *_spread(figure.all, is_time), str(figure.all.count))
        for name, is_time in _figures(section)
        for column in columns
        if (figure := (column.standing.soft_s if is_time else column.standing.soft).get(name)) is not None
    ]
    head = ("figure", "model", "passed: median", "mean", "all: median", "mean", "entries")
    return ReportTable(
        "Soft figures",
        head,
        tuple(rows),
        names=2,
        note="Of the entries that passed, and of all. They never change a verdict.",
    )


def verdicts_table(section: ReportSection) -> ReportTable:
    """Every case with every model: how many of its trials passed, and what is not decided."""
    by_case = [{case: list(of) for case, of in _by_case(column).items()} for column in section.columns]
    head = ("case", *(column.label for column in section.columns))
    rows = [(case, *(_verdict(of.get(case, [])) for of in by_case)) for case in section.cases]
    return ReportTable("Cases", head, tuple(rows))


def _ends(ends: ScaleEnds) -> list[str]:
    columns = (ends.nop, ends.oracle)
    return [
        figure_text.NOTHING if one is None else figure_text.format_percent(one.standing.share.rate) for one in columns
    ]


def _rate(column: ReportColumn, has_bounds: bool) -> tuple[str, ...]:
    standing = column.standing
    share = standing.share
    row = (column.label, figure_text.describe_passed(share.counts), *_share(share.rate, standing.interval))
    if not has_bounds:
        return row
    bounds = standing.bounds if share.counts.undecided else None
    return (
        *row,
        figure_text.describe_undecided(share.counts) or figure_text.NOTHING,
        figure_text.format_interval(bounds),
    )


def _cost(column: ReportColumn) -> tuple[str, ...]:
    standing, medians = column.standing, column.standing.medians
    return (
        column.label,
        figure_text.format_usd(medians["usd"]),
        figure_text.format_usd(standing.usage.usd),
        figure_text.format_seconds(standing.median_s),
        *(figure_text.format_number(medians[name]) for name in ("turns", "calls", "tokens")),
    )


def _escalated(column: ReportColumn) -> tuple[str, ...]:
    used = column.standing.usage
    return (
        str(used.escalated),
        figure_text.format_usd(used.stronger_usd),
        figure_text.format_number(used.stronger_tokens),
    )


def _share(rate: float | None, interval: Interval | None) -> tuple[str, str]:
    return figure_text.format_percent(rate), figure_text.format_interval(interval)


def _at(found: Sequence[PassAtK], ks: Sequence[int]) -> list[str]:
    values = {one.k: one.value for one in found}
    return [figure_text.format_percent(values.get(k)) for k in ks]


def _left_out(column: ReportColumn) -> str:
    """How many cases lack trials for the largest k."""
    found = (*column.standing.pass_at, *column.standing.pass_hat)
    return str(max((len(one.left_out) for one in found), default=0) or figure_text.NOTHING)


def _places(section: ReportSection) -> list[tuple[str, str]]:
    found = {(by, value) for column in section.columns for by, of in column.standing.slices.items() for value in of}
    return sorted(found)


def _figures(section: ReportSection) -> list[tuple[str, bool]]:
    plain = {(name, False) for column in section.columns for name in column.standing.soft}
    times = {(name, True) for column in section.columns for name in column.standing.soft_s}
    return sorted(plain | times)


def _spread(spread: FigureSpread, is_time: bool) -> tuple[str, str]:
    words = figure_text.format_seconds if is_time else figure_text.format_number
    return words(spread.median), words(spread.mean)


def _by_case(column: ReportColumn) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for entry in column.entries:
        found.setdefault(entry.case, []).append(entry.verdict.value if entry.verdict is not None else "missing")
    return found


def _verdict(found: Sequence[str]) -> str:
    """`pass`, or `2 of 3` with what else there is: `2 of 3, 1 error`."""
    if not found:
        return figure_text.NOTHING
    if len(found) == 1:
        return found[0]
    other = [f"{found.count(word)} {word}" for word in ("error", "invalid", "missing") if word in found]
    decided = found.count("pass") + found.count("fail")
    return ", ".join((f"{found.count('pass')} of {decided}", *other))
