"""Write a report as one self-contained HTML file with SVG plots and no script.

The page supports light and dark mode, print, narrow screens and screen readers: each plot has a title, a description
and a table with the same figures. No meaning depends on colour alone. `report.html.j2` is the template; this module
prepares its values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, floor, log10
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, StrictUndefined

from planloop.benchmarks.reporting import report_text
from planloop.benchmarks.reporting.report import BenchReport, ModelComparison, ReportColumn, ReportSection
from planloop.benchmarks.scoring.statistics import Interval
from planloop.schemas import quantities
from planloop.schemas.frozen import frozen
from planloop.schemas.quantities import replace_control_chars, truncate_cells

TEMPLATE: Final = Path(__file__).with_name("report.html.j2")
ROW: Final = 44
"""Height of a row in pixels: the text, and below it the line."""
AXIS: Final = 26
HEAD: Final = 22
LINE: Final = 14
"""Height of a line of small text in pixels."""
FIELD: Final = 260
NAME_MAX: Final = 22
"""Characters of a name next to its figures on the narrowest screen."""
PAIR_NAME_MAX: Final = 11
LEVELS: Final = tuple((share, f"{100 * share:.0f} %") for share in (0, 0.25, 0.5, 0.75, 1))


@frozen
class PlotRow:
    """A row of a plot: a name, its figure, `more` text for wide screens, and an interval with a dot at `share`."""

    name: str
    figure: str
    more: str
    y: int
    kind: str
    share: float
    interval: Interval | None


@frozen
class PlotSpot:
    """A numbered dot in the cost plot, at `across` of its width, with the interval of its rate."""

    number: int
    kind: str
    words: str
    across: float
    rate: float
    interval: Interval | None


@frozen
class Plot:
    """An SVG plot. Shares are of its width (`ticks`, `crossings`) or of the field's height (`levels`).

    `crossings` are vertical lines, with the pixels by which their labels are moved down. With `has_sides` the middle is
    zero, and both sides have a label.
    """

    title: str
    about: str
    height: int
    ticks: Sequence[tuple[float, str]]
    top: int = HEAD
    levels: Sequence[tuple[float, str]] = ()
    crossings: Sequence[tuple[float, str, int]] = ()
    rows: Sequence[PlotRow] = ()
    spots: Sequence[PlotSpot] = ()
    legend: Sequence[str] = ()
    has_sides: bool = False

    @property
    def bottom(self) -> int:
        return self.height - AXIS


def write_html(report: BenchReport) -> str:
    """Render `report.html`."""
    page = Environment(
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
        finalize=_without_control_chars,
    )
    page.filters |= {"x": lambda share: f"{100 * share:.2f}%", "y": _field_y}
    return page.from_string(TEMPLATE.read_text("utf-8")).render(
        problems=[(run, problem) for run in report.runs for problem in report_text.describe_run_problems(run)],
        overview=report_text.overview_table(report),
        totals=report_text.totals_table(report),
        pages=[_section_page(section, f"s{number}") for number, section in enumerate(report.sections)],
    )


def _without_control_chars(value: object) -> object:
    is_markup = value is None or hasattr(value, "__html__")  # Macros return markup.
    return value if is_markup else replace_control_chars(str(value))


def _section_page(section: ReportSection, ident: str) -> dict[str, Any]:
    """The values that the template shows for a suite."""
    verdicts = report_text.verdicts_table(section)
    return {
        "section": section,
        "ident": ident,
        "scale": report_text.describe_scale(section),
        "tables": {sheet.title: sheet for sheet in report_text.section_tables(section)},
        "rates": plot_rates(section),
        "costs": plot_costs(section),
        "pair_plot": plot_pairs(section),
        "pairs": report_text.pairs_table(section.pairs) if section.pairs else None,
        "suspicions": report_text.describe_suspicions(section.suspects),
        "verdicts": verdicts,
        "case_count": quantities.pluralize(len(verdicts.rows), "case"),
    }


def plot_rates(section: ReportSection) -> Plot | None:
    """Plot pass rates with their intervals, and the scores of nop and oracle as vertical lines. None without a rate.

    If these scores differ between runs, each score has a line with the names of its runs.
    """
    columns = [column for column in section.columns if column.standing.share.rate is not None]
    if not columns:
        return None
    ends = [
        _levels([(one.run, one.nop) for one in section.ends], "nop"),
        _levels([(one.run, one.oracle) for one in section.ends], "oracle"),
    ]
    top = HEAD + LINE * (max(1, *map(len, ends)) - 1)
    about = "; ".join(f"{column.label} {report_text.format_percent(column.standing.share.rate)}" for column in columns)
    return Plot(
        f"Pass rates of {section.suite}",
        about,
        top + ROW * len(columns) + AXIS,
        LEVELS,
        top,
        crossings=[(share, words, LINE * at) for of in ends for at, (share, words) in enumerate(of)],
        rows=[_rate_row(column, top + ROW * place) for place, column in enumerate(columns)],
    )


def _levels(ends: Sequence[tuple[str, ReportColumn | None]], word: str) -> list[tuple[float, str]]:
    """Each rate once, with its label; if there are several, also the runs that have it."""
    runs: dict[float, list[str]] = {}
    for run, column in ends:
        if column is not None and (rate := column.standing.share.rate) is not None:
            runs.setdefault(rate, []).append(run)
    names = {
        rate: truncate_cells(f" ({', '.join(of)})", NAME_MAX) if len(runs) > 1 else "" for rate, of in runs.items()
    }
    return [(rate, f"{word}{name} {report_text.format_percent(rate)}") for rate, name in names.items()]


def _rate_row(column: ReportColumn, y: int) -> PlotRow:
    standing = column.standing
    rate, interval = standing.share.rate, standing.interval
    more = f" ({report_text.format_interval(interval)})"
    name = truncate_cells(column.label, NAME_MAX)
    return PlotRow(name, report_text.format_percent(rate), more, y, column.kind.value, rate or 0.0, interval)


def plot_costs(section: ReportSection) -> Plot | None:
    """Plot the median cost of an entry against the pass rate; None if no model was called.

    The cost is in dollars, or in tokens if nothing was paid.
    """
    for unit in ("usd", "tokens"):
        found = list(_costs(section, unit))
        most = max((amount for _, amount, _ in found), default=0.0)
        if most > 0:
            return _cost_plot(section, unit, found, most)
    return None


def _costs(section: ReportSection, unit: str) -> Iterator[tuple[int, float, float]]:
    """Yield the number of each column with a cost, its cost and its pass rate."""
    for number, column in enumerate(section.columns):
        amount, rate = column.standing.medians[unit], column.standing.share.rate
        if amount is not None and rate is not None:
            yield number, amount, rate


def _cost_plot(section: ReportSection, unit: str, found: Sequence[tuple[int, float, float]], most: float) -> Plot:
    end, step = _nice_axis(most)
    spots = []
    for at, amount, rate in found:
        column = section.columns[at]
        cost = report_text.format_usd(amount) if unit == "usd" else f"{report_text.format_number(amount)} tokens"
        words = f"{column.label} {cost}, {report_text.format_percent(rate)}"
        interval = column.standing.interval
        spots.append(PlotSpot(at + 1, column.kind.value, words, _inner(amount / end), rate, interval))
    about = f"Median {'cost in dollars' if unit == 'usd' else 'number of tokens'} of an entry. "
    return Plot(
        f"Cost and pass rate in {section.suite}",
        about + "; ".join(f"{spot.number}: {spot.words}" for spot in spots),
        FIELD + AXIS,
        [(_inner(tick * step / end), _tick(unit, tick * step, step)) for tick in range(round(end / step) + 1)],
        levels=LEVELS,
        spots=spots,
        legend=[column.label for column in section.columns],
    )


def _nice_axis(most: float) -> tuple[float, float]:
    """The end of an axis that holds `most`, and its step: 1, 2 or 5 of a power of ten, in at most five steps."""
    power = 10 ** floor(log10(most))
    step = next(power * unit for unit in (0.2, 0.5, 1, 2) if most <= 5 * power * unit)
    return step * ceil(most / step - 1e-9), step


def _tick(unit: str, amount: float, step: float) -> str:
    """The label of a tick, with enough digits to distinguish it from the next one."""
    return f"${amount:.{max(2, -floor(log10(step)))}f}" if unit == "usd" else report_text.format_number(amount)


def _inner(share: float) -> float:
    """Move a share inwards: space on the left for the labels of levels, on the right for a dot."""
    return 0.14 + 0.81 * share


def _field_y(share: float) -> float:
    return round(16 + (FIELD - 28) * (1 - share), 1)


def plot_pairs(section: ReportSection) -> Plot | None:
    """Plot for each pair of models how much more the first one passes, with the interval. None without pairs."""
    found = [pair for pair in section.pairs if pair.found.cases]
    if not found:
        return None
    about = "; ".join(
        f"{pair.a} compared with {pair.b}: {report_text.format_points(pair.found.difference)} points, {pair.sentence}"
        for pair in found
    )
    return Plot(
        f"Pairwise comparison of models in {section.suite}",
        about,
        HEAD + ROW * len(found) + AXIS,
        [((share + 1) / 2, f"{share * 100:+.0f}" if share else "0") for share in (-1, -0.5, 0, 0.5, 1)],
        rows=[_pair_row(pair, HEAD + ROW * place) for place, pair in enumerate(found)],
        has_sides=True,
    )


def _pair_row(pair: ModelComparison, y: int) -> PlotRow:
    found = pair.found
    half = None if found.interval is None else Interval((found.interval.low + 1) / 2, (found.interval.high + 1) / 2)
    name = f"{truncate_cells(pair.a, PAIR_NAME_MAX)} / {truncate_cells(pair.b, PAIR_NAME_MAX)}"
    more = f", {report_text.format_p_value(found.p)}"
    kind = "tested" if found.is_distinguishable else "nop"
    share = ((found.difference or 0.0) + 1) / 2
    return PlotRow(name, report_text.format_points(found.difference), more, y, kind, share, half)
