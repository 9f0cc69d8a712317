"""The tables of a report, as texts: which columns and rows there are is decided here once for every form."""

from __future__ import annotations

from collections.abc import Sequence

from planloop.benchmarks.reporting import wording
from planloop.benchmarks.reporting.combined import Column, Ends, Report, Section
from planloop.benchmarks.scoring.kinds import Kind
from planloop.benchmarks.scoring.standing import AtK, Spread
from planloop.benchmarks.scoring.statistics import Interval
from planloop.schemas.frozen import frozen


@frozen
class Sheet:
    """A table. The first `names` columns are names, the others figures. `note` says what must be known to read it."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    names: int = 1
    note: str = ""


def sheets(section: Section) -> list[Sheet]:
    """All tables of a suite that have something in them."""
    found = [rates(section), costs(section), trials(section), slices(section), soft(section)]
    return [sheet for sheet in found if sheet.rows]


def overview(report: Report) -> Sheet:
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
    return Sheet("All suites", ("suite", "model", "rate", "95 %", "nop", "oracle"), tuple(rows), names=2)


def totals(report: Report) -> Sheet:
    """Each tested model over all suites."""
    every = len(report.sections)
    rows = [
        (
            one.model,
            str(every) if len(one.suites) == every else f"{len(one.suites)} of {every}",
            wording.passed(one.counts),
            wording.percent(one.rate),
            wording.percent(one.mean_rate),
            str(one.counts.undecided or wording.NOTHING),
            wording.money(one.usage.usd),
            wording.number(one.usage.tokens_in + one.usage.tokens_out),
        )
        for one in report.totals
    ]
    head = ("model", "suites", "passed", "rate", "mean rate", "undecided", "$ in all", "tokens")
    note = "Rate: of all entries that passed or failed. Mean rate: each suite counts the same. Compare on equal suites."
    return Sheet("Totals over all suites", head, tuple(rows), note=note)


def rates(section: Section) -> Sheet:
    """How much each model passed."""
    has_bounds = any(column.standing.counts.undecided for column in section.columns)
    head = ("model", "passed", "rate", "95 %") + (("undecided", "bounds") if has_bounds else ())
    rows = [_rate(column, has_bounds) for column in section.columns]
    note = "Interval: Wilson; where cases have several trials, by resampling cases."
    if has_bounds:
        note += " Bounds: if all undecided had failed, and if all had passed."
    return Sheet("Pass rate", head, tuple(rows), note=note)


def costs(section: Section) -> Sheet:
    """What it took."""
    head: tuple[str, ...] = ("model", "$ median", "$ in all", "time median", "turns", "calls", "tokens")
    note = "Medians are of entries that passed or failed."
    has_escalated = any(column.standing.usage.escalated for column in section.columns)
    if has_escalated:
        head += ("escalated", "stronger model: $", "tokens")
        note += " Escalated: entries that a stronger model continued; what it used is part of `$ in all`."
    rows = [_cost(column) + (_escalated(column) if has_escalated else ()) for column in section.columns]
    return Sheet("Cost", head, tuple(rows), note=note)


def trials(section: Section) -> Sheet:
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
    return Sheet("Several trials", head, tuple(rows), note=note)


def slices(section: Section) -> Sheet:
    """Pass rates by language, prompt variant and tag."""
    rows = [
        (wording.sliced(by), value, column.label, wording.passed(share.counts), *_share(share.rate, share.interval))
        for by, value in _places(section)
        for column in section.tested or section.columns
        if (share := column.standing.slices.get(by, {}).get(value)) is not None
    ]
    note = "Interval: Wilson; where cases have several trials, with cases for trials."
    return Sheet("Slices", ("by", "is", "model", "passed", "rate", "95 %"), tuple(rows), names=3, note=note)


def soft(section: Section) -> Sheet:
    """Figures that never change a verdict. The oracle's are what a good answer has."""
    columns = [one for one in section.columns if one.kind in (Kind.TESTED, Kind.ORACLE)] or section.columns
    rows = [
        (name, column.label, *_spread(figure.passed, is_time), *_spread(figure.all, is_time), str(figure.all.count))
        for name, is_time in _figures(section)
        for column in columns
        if (figure := (column.standing.soft_s if is_time else column.standing.soft).get(name)) is not None
    ]
    head = ("figure", "model", "passed: median", "mean", "all: median", "mean", "entries")
    return Sheet(
        "Soft figures",
        head,
        tuple(rows),
        names=2,
        note="Of the entries that passed, and of all. They never change a verdict.",
    )


def verdicts(section: Section) -> Sheet:
    """Every case with every model: how many of its trials passed, and what is not decided."""
    by_case = [{case: list(of) for case, of in _by_case(column).items()} for column in section.columns]
    head = ("case", *(column.label for column in section.columns))
    rows = [(case, *(_verdict(of.get(case, [])) for of in by_case)) for case in section.cases]
    return Sheet("Cases", head, tuple(rows))


def _ends(ends: Ends) -> list[str]:
    columns = (ends.nop, ends.oracle)
    return [wording.NOTHING if one is None else wording.percent(one.standing.share.rate) for one in columns]


def _rate(column: Column, has_bounds: bool) -> tuple[str, ...]:
    standing = column.standing
    share = standing.share
    row = (column.label, wording.passed(share.counts), *_share(share.rate, standing.interval))
    if not has_bounds:
        return row
    bounds = standing.bounds if share.counts.undecided else None
    return (*row, wording.undecided(share.counts) or wording.NOTHING, wording.between(bounds))


def _cost(column: Column) -> tuple[str, ...]:
    standing, medians = column.standing, column.standing.medians
    return (
        column.label,
        wording.money(medians["usd"]),
        wording.money(standing.usage.usd),
        wording.seconds(standing.median_s),
        *(wording.number(medians[name]) for name in ("turns", "calls", "tokens")),
    )


def _escalated(column: Column) -> tuple[str, ...]:
    used = column.standing.usage
    return (str(used.escalated), wording.money(used.stronger_usd), wording.number(used.stronger_tokens))


def _share(rate: float | None, interval: Interval | None) -> tuple[str, str]:
    return wording.percent(rate), wording.between(interval)


def _at(found: Sequence[AtK], ks: Sequence[int]) -> list[str]:
    values = {one.k: one.value for one in found}
    return [wording.percent(values.get(k)) for k in ks]


def _left_out(column: Column) -> str:
    """How many cases lack trials for the largest k."""
    found = (*column.standing.pass_at, *column.standing.pass_hat)
    return str(max((len(one.left_out) for one in found), default=0) or wording.NOTHING)


def _places(section: Section) -> list[tuple[str, str]]:
    found = {(by, value) for column in section.columns for by, of in column.standing.slices.items() for value in of}
    return sorted(found)


def _figures(section: Section) -> list[tuple[str, bool]]:
    plain = {(name, False) for column in section.columns for name in column.standing.soft}
    times = {(name, True) for column in section.columns for name in column.standing.soft_s}
    return sorted(plain | times)


def _spread(spread: Spread, is_time: bool) -> tuple[str, str]:
    words = wording.seconds if is_time else wording.number
    return words(spread.median), words(spread.mean)


def _by_case(column: Column) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for entry in column.entries:
        found.setdefault(entry.case, []).append(entry.verdict.value if entry.verdict is not None else "missing")
    return found


def _verdict(found: Sequence[str]) -> str:
    """`pass`, or `2 of 3` with what else there is: `2 of 3, 1 error`."""
    if not found:
        return wording.NOTHING
    if len(found) == 1:
        return found[0]
    other = [f"{found.count(word)} {word}" for word in ("error", "invalid", "missing") if word in found]
    decided = found.count("pass") + found.count("fail")
    return ", ".join((f"{found.count('pass')} of {decided}", *other))
