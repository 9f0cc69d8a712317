"""Draw the plots of a report as SVG, without a library.

Widths are shares of the page and heights are pixels, so that text keeps its size on a narrow screen. Colours come from
the page's style, which knows light and dark; nothing is told by colour alone, and a table says the same beside each.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, log10
from typing import Final

from planloop.benchmarks.reporting import report_text
from planloop.benchmarks.reporting.markup import Markup, element, join_markup
from planloop.benchmarks.reporting.report import ModelComparison, ReportColumn, ReportSection
from planloop.benchmarks.scoring.statistics import Interval
from planloop.schemas.amounts import truncate_cells
from planloop.schemas.frozen import frozen

ROW: Final = 44
"""Pixels of a row: its words, and below them its line."""

AXIS: Final = 26
HEAD: Final = 22
LINE: Final = 14
"""Of small text."""

FIELD: Final = 260
NAME_MAX: Final = 22
"""Cells of a name beside its figures, on the narrowest screen."""
PAIR_NAME_MAX: Final = 11


def plot_rates(section: ReportSection, ident: str) -> Markup | None:
    """Pass rates with their intervals; what doing nothing and the oracle score are lines across. None without any.

    Where runs differ in what these score, each rate has its line, with the runs that it is of.
    """
    columns = [column for column in section.columns if column.standing.share.rate is not None]
    if not columns:
        return None
    ends = [
        _levels([(one.run, one.nop) for one in section.ends], "nop"),
        _levels([(one.run, one.oracle) for one in section.ends], "oracle"),
    ]
    head = HEAD + LINE * (max(1, *map(len, ends)) - 1)
    height = head + ROW * len(columns) + AXIS
    marks = [_across(share, words, LINE * at, head, height) for of in ends for at, (share, words) in enumerate(of)]
    rows = [_rate_row(column, head + ROW * place) for place, column in enumerate(columns)]
    said = "; ".join(f"{column.label} {report_text.format_percent(column.standing.share.rate)}" for column in columns)
    ticks = [(share, f"{share:.0%}".replace("%", " %")) for share in (0, 0.25, 0.5, 0.75, 1)]
    return _svg(ident, height, f"Pass rates of {section.suite}", said, [_axis(ticks, height), *marks, *rows])


def plot_costs(section: ReportSection, ident: str) -> Markup | None:
    """Cost against quality: what an entry takes in the middle, and how many pass; None where no model was asked.

    In dollars, or in tokens where nothing was paid.
    """
    by_unit = [(unit, _spots(section, unit)) for unit in ("usd", "tokens")]
    unit, spots = next(((unit, of) for unit, of in by_unit if any(spot.amount > 0 for spot in of)), ("", []))
    if not spots:
        return None
    end, step = _nice(max(spot.amount for spot in spots))
    height = FIELD + AXIS
    grid = [_level(share) for share in (0, 0.25, 0.5, 0.75, 1)]
    ticks = [(_inner(tick * step / end), _tick(unit, tick * step, step)) for tick in range(round(end / step) + 1)]
    dots = [_dot(spot, _inner(spot.amount / end)) for spot in spots]
    said = f"By the median of {'dollars' if unit == 'usd' else 'tokens'} an entry. " + "; ".join(
        f"{spot.number}: {spot.words}" for spot in spots
    )
    title = f"Cost against quality in {section.suite}"
    return _svg(ident, height, title, said, [*grid, _axis(ticks, height), *dots])


@frozen
class _Spot:
    """A model in the plot of costs."""

    number: int
    column: ReportColumn
    amount: float
    rate: float
    words: str


def _spots(section: ReportSection, unit: str) -> list[_Spot]:
    return [
        _Spot(
            number, column, amount, rate, f"{column.label} {_amount(unit, amount)}, {report_text.format_percent(rate)}"
        )
        for number, column in enumerate(section.columns, 1)
        if (amount := column.standing.medians[unit]) is not None and (rate := column.standing.share.rate) is not None
    ]


def _amount(unit: str, amount: float) -> str:
    return report_text.format_usd(amount) if unit == "usd" else f"{report_text.format_number(amount)} tokens"


def _tick(unit: str, amount: float, step: float) -> str:
    """As many digits as tell it from the next."""
    return f"${amount:.{max(2, -floor(log10(step)))}f}" if unit == "usd" else report_text.format_number(amount)


def plot_pairs(section: ReportSection, ident: str) -> Markup | None:
    """How much more of two models the first passes, with the interval. None without pairs."""
    found = [pair for pair in section.pairs if pair.found.cases]
    if not found:
        return None
    height = HEAD + ROW * len(found) + AXIS
    rows = [_pair_row(pair, HEAD + ROW * place) for place, pair in enumerate(found)]
    zero = element("line", x1="50%", x2="50%", y1=HEAD - 6, y2=height - AXIS + 4, class_="zero")
    ends = join_markup(
        element("text", "second is better", x="0%", y=12, class_="small"),
        element("text", "first is better", x="100%", y=12, class_="small end"),
    )
    said = "; ".join(
        f"{pair.a} beside {pair.b}: {report_text.format_points(pair.found.difference)} points, {pair.sentence}"
        for pair in found
    )
    ticks = [((share + 1) / 2, f"{share * 100:+.0f}" if share else "0") for share in (-1, -0.5, 0, 0.5, 1)]
    return _svg(ident, height, f"Models of {section.suite} in pairs", said, [ends, _axis(ticks, height), zero, *rows])


def cost_legend(section: ReportSection) -> Markup:
    """Which number is whom in the plot of costs."""
    shown = [(number, column) for number, column in enumerate(section.columns, 1)]
    return element("ol", *(element("li", column.label, value=number) for number, column in shown), class_="legend")


def _svg(ident: str, height: int, title: str, said: str, parts: Sequence[Markup | None]) -> Markup:
    heading, about = f"{ident}-title", f"{ident}-about"
    return element(
        "svg",
        element("title", title, id=heading),
        element("desc", said, id=about),
        *parts,
        width="100%",
        height=height,
        role="img",
        aria_labelledby=f"{heading} {about}",
        xmlns="http://www.w3.org/2000/svg",
    )


def _rate_row(column: ReportColumn, y: int) -> Markup:
    standing = column.standing
    words = (report_text.format_percent(standing.share.rate), f" ({report_text.format_interval(standing.interval)})")
    rate = standing.share.rate or 0.0
    line = y + 26
    return _row(
        truncate_cells(column.label, NAME_MAX),
        words,
        y,
        f"dot {column.kind.value}",
        _bar(standing.interval, rate, line),
    )


def _pair_row(pair: ModelComparison, y: int) -> Markup:
    found = pair.found
    half = None if found.interval is None else Interval((found.interval.low + 1) / 2, (found.interval.high + 1) / 2)
    words = (report_text.format_points(found.difference), f", {report_text.format_p_value(found.p)}")
    kind = "dot tested" if found.is_distinguishable else "dot nop"
    name = f"{truncate_cells(pair.a, PAIR_NAME_MAX)} / {truncate_cells(pair.b, PAIR_NAME_MAX)}"
    return _row(name, words, y, kind, _bar(half, ((found.difference or 0.0) + 1) / 2, y + 26))


def _row(name: str, words: tuple[str, str], y: int, class_: str, bar: Sequence[Markup]) -> Markup:
    """Of `words` the second part is only for those who have room for it."""
    first, more = words
    return element(
        "g",
        element("title", f"{name}: {first}{more}"),
        element("text", name, x="0%", y=y + 14),
        element("text", first, element("tspan", more, class_="more"), x="100%", y=y + 14, class_="end small"),
        element("line", x1="0%", x2="100%", y1=y + 26, y2=y + 26, class_="track"),
        *bar,
        class_=class_,
    )


def _bar(interval: Interval | None, share: float, y: int) -> list[Markup]:
    dot = element("circle", cx=_x(share), cy=y, r=5)
    if interval is None:
        return [dot]
    line = element("line", x1=_x(interval.low), x2=_x(interval.high), y1=y, y2=y, class_="interval")
    return [line, dot]


def _levels(ends: Sequence[tuple[str, ReportColumn | None]], word: str) -> list[tuple[float, str]]:
    """Each rate once, in words; where there are several, with the runs that it is of."""
    runs: dict[float, list[str]] = {}
    for run, column in ends:
        if column is not None and (rate := column.standing.share.rate) is not None:
            runs.setdefault(rate, []).append(run)
    names = {
        rate: truncate_cells(f" ({', '.join(of)})", NAME_MAX) if len(runs) > 1 else "" for rate, of in runs.items()
    }
    return [(rate, f"{word}{name} {report_text.format_percent(rate)}") for rate, name in names.items()]


def _across(share: float, words: str, down: int, head: int, height: int) -> Markup:
    """A line from top to bottom, its words above it and `down` pixels below the top."""
    anchor = "end small" if share > 0.5 else "small"
    return element(
        "g",
        element("line", x1=_x(share), x2=_x(share), y1=head - 6, y2=height - AXIS + 4),
        element("text", words, x=_x(share), y=12 + down, class_=anchor),
        class_="across",
    )


def _dot(spot: _Spot, across: float) -> Markup:
    """A dot with its number and the interval of its rate."""
    interval = spot.column.standing.interval
    whisker = (
        element("line", x1=_x(across), x2=_x(across), y1=_y(interval.low), y2=_y(interval.high), class_="interval thin")
        if interval is not None
        else None
    )
    return element(
        "g",
        element("title", spot.words),
        whisker,
        element("circle", cx=_x(across), cy=_y(spot.rate), r=9),
        element("text", str(spot.number), x=_x(across), y=_y(spot.rate) + 4, class_="middle small number"),
        class_=f"dot {spot.column.kind.value}",
    )


def _level(share: float) -> Markup:
    """A line across the field, its words at its left."""
    y = _y(share)
    return join_markup(
        element("line", x1="0%", x2="100%", y1=y, y2=y, class_="track"),
        element("text", f"{share:.0%}".replace("%", " %"), x="0%", y=y - 3, class_="small"),
    )


def _axis(ticks: Sequence[tuple[float, str]], height: int) -> Markup:
    """Words below; the outermost end where the plot ends."""
    y = height - 6
    return join_markup(
        *(element("text", text, x=_x(share), y=y, class_=f"small {_anchor(share)}") for share, text in ticks)
    )


def _anchor(share: float) -> str:
    return "start" if share <= 0 else "end" if share >= 1 else "middle"


def _inner(share: float) -> float:
    """Leaves room at the left for the words of the levels, and at the right for a dot."""
    return 0.14 + 0.81 * share


def _x(share: float) -> str:
    return f"{100 * share:.2f}%"


def _y(share: float) -> float:
    return round(16 + (FIELD - 28) * (1 - share), 1)


def _nice(most: float) -> tuple[float, float]:
    """The end of an axis that holds `most`, and its step: 1, 2 or 5 of a power of ten, in at most five steps."""
    power = 10 ** floor(log10(most))
    step = next(power * unit for unit in (0.2, 0.5, 1, 2) if most <= 5 * power * unit)
    return step * ceil(most / step - 1e-9), step
