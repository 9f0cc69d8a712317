"""Format figures as text, the same way in every format of a report."""

from __future__ import annotations

from decimal import Decimal

from planloop.benchmarks.reporting.report import ReportColumn, ReportSection, RunCaveats, ScaleEnds
from planloop.benchmarks.scoring.comparison import ModelComparison
from planloop.benchmarks.scoring.model_summary import EntryCounts
from planloop.benchmarks.scoring.statistics import Interval
from planloop.benchmarks.scoring.suspect_cases import SuspectCases
from planloop.schemas import amounts
from planloop.schemas.amounts import pluralize

NOTHING = "–"
"""Where there is no figure."""

PAIRS = (
    "On identical keys; a case is won by who passes more of its trials. Difference: cases won less cases lost, in "
    "points of 100, with the interval of Bonett and Price, 95 %. p: exact McNemar test, two-sided, not corrected for "
    "the number of pairs."
)
"""How models are compared."""


def format_percent(share: float | None) -> str:
    """`62.5 %`."""
    return NOTHING if share is None else f"{100 * share:.1f} %"


def format_interval(interval: Interval | None) -> str:
    """`45.1 to 77.3 %`."""
    return NOTHING if interval is None else f"{100 * interval.low:.1f} to {100 * interval.high:.1f} %"


def format_points(share: float | None) -> str:
    """A difference of shares in points of 100: `+12.5`."""
    return NOTHING if share is None else f"{100 * share:+.1f}"


def format_usd(usd: float | None) -> str:
    """`$0.0042`."""
    return NOTHING if usd is None else amounts.format_money(Decimal(repr(usd)))


def format_seconds(value: float | None) -> str:
    """`1m40s`."""
    return NOTHING if value is None else amounts.format_duration(value)


def format_number(value: float | None) -> str:
    """Three digits that matter."""
    return NOTHING if value is None else amounts.format_count(float(f"{value:.3g}"))


def describe_passed(counts: EntryCounts) -> str:
    """`12 of 20`: of those that are decided."""
    return f"{counts.passed} of {counts.decided}"


def describe_undecided(counts: EntryCounts) -> str:
    """`2 errors, 1 missing`; empty where all is decided."""
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
    """Where doing nothing and knowing the answer stand; in which runs, where that differs."""
    runs: dict[str, list[str]] = {}
    for ends in section.ends:
        runs.setdefault(_scale_ends_text(ends), []).append(ends.run)
    if len(runs) > 1:
        return " ".join(f"In {', '.join(of)}: {text}" for text, of in runs.items())
    return "".join(text[0].upper() + text[1:] for text in runs)


def describe_run_problems(state: RunCaveats) -> list[str]:
    """What must be known of a run before its figures are read; nothing for most."""
    found: list[str] = []
    if not state.is_complete:
        lacks = describe_undecided(state.counts)
        found.append(f"incomplete: {lacks}. Rates leave these out, bounds say what they could change")
    elif state.counts.invalid:
        found.append(
            f"{state.counts.invalid} invalid: a check passed without looking at anything, so the suite is wrong"
        )
    if state.touched:
        found.append(f"a person had a hand in {pluralize(state.touched, 'entry', 'entries')}")
    if state.run.is_validated is None:
        found.append("not validated: plan bench validate says whether the figures mean something")
    elif not state.run.is_validated:
        found.append("not for the record: plan bench validate found the suite not valid")
    return found


def describe_comparison(pair: ModelComparison) -> str:
    """What came of two models on the same keys, without their names."""
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
    """What to look at, and the cases (with the checks that always failed) that it is about."""
    failed = tuple(f"{case} ({', '.join(checks)})" if checks else case for case, checks in found.failed_by_all.items())
    every = [
        ("Failed by every model: too hard, or a check that is wrong", failed),
        ("Passed by cheats only: a check that can be fooled", found.passed_by_cheats_only),
        ("Failed by the oracle: a check that refuses a right answer", found.failed_by_oracle),
        ("Passed by doing nothing: a check that looks at nothing", found.passed_by_nop),
    ]
    return [(what, cases) for what, cases in every if cases]


def slice_name(by: str) -> str:
    """`tag:kind` as `kind`, `variant` as `prompt variant`."""
    return "prompt variant" if by == "variant" else by.removeprefix("tag:")


def _scale_ends_text(ends: ScaleEnds) -> str:
    nop = _stands(ends.nop, "doing nothing", "it is not known what doing nothing scores: add --model nop")
    oracle = _stands(ends.oracle, "the oracle", "the oracle was not run: add --model oracle")
    return f"{nop}; {oracle}."


def _stands(column: ReportColumn | None, who: str, otherwise: str) -> str:
    if column is None:
        return otherwise
    share = column.standing.share
    return f"{who} passes {format_percent(share.rate)} ({describe_passed(share.counts)})"


def _points_value(interval: Interval | None) -> str:
    return NOTHING if interval is None else f"{100 * interval.low:+.1f} to {100 * interval.high:+.1f}"
