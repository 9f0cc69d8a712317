"""Write a report as one self-contained HTML file with SVG plots and no script.

Readable in light and dark, on paper and on narrow screens, and without seeing the plots: each has a title, a
description and a table with the same figures beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from planloop.benchmarks.reporting import plots, report_text
from planloop.benchmarks.reporting.markup import Markup, element, join_markup
from planloop.benchmarks.reporting.report import BenchReport, ModelComparison, ReportSection, RunCaveats
from planloop.benchmarks.reporting.report_text import ReportTable
from planloop.schemas import amounts

TITLE: Final = "Benchmark report"


def write_html(report: BenchReport) -> str:
    """The text of `report.html`."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content="default-src 'none'; style-src 'unsafe-inline'"),
        element("title", TITLE),
        element("style", Markup(STYLE)),
    )
    sections = [_section(section, f"s{number}") for number, section in enumerate(report.sections)]
    body = element("body", element("main", element("h1", TITLE), *_front(report), *sections))
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def _front(report: BenchReport) -> list[Markup | None]:
    """What is to be known first, and all suites at a glance where there are several."""
    glance = report_text.overview_table(report)
    tables = [_table(glance), _table(report_text.totals_table(report))] if len(report.sections) > 1 else []
    return [_warnings(report.runs), _contents(report), *tables]


def _warnings(runs: Iterable[RunCaveats]) -> Markup | None:
    found = [(run, trouble) for run in runs for trouble in report_text.describe_run_problems(run)]
    lines = [element("li", element("b", f"{run.suite} / {run.run.name}"), f" {trouble}.") for run, trouble in found]
    if not lines:
        return None
    return element("aside", element("h2", "Read this first"), element("ul", *lines), class_="warning", role="note")


def _contents(report: BenchReport) -> Markup | None:
    """Links to the suites, where there are several."""
    if len(report.sections) < 2:
        return None
    links = [element("a", section.suite, href=f"#s{number}") for number, section in enumerate(report.sections)]
    return element("nav", element("ul", *(element("li", link) for link in links)), aria_label="Suites")


def _section(section: ReportSection, ident: str) -> Markup:
    found = {sheet.title: _table(sheet) for sheet in report_text.section_tables(section)}
    rates, costs = found.pop("Pass rate", None), found.pop("Cost", None)
    cost_plot = plots.plot_costs(section, f"{ident}-costs")
    pair_plot = plots.plot_pairs(section, f"{ident}-pairs")
    parts = [
        element("h2", section.suite, id=ident),
        element("p", report_text.describe_scale(section)),
        element("p", _runs(section), class_="small"),
        _part("Pass rate", _figure(plots.plot_rates(section, f"{ident}-rates")), rates),
        _part("Cost", _figure(cost_plot, plots.cost_legend(section)) if cost_plot is not None else None, costs),
        _part("Models in pairs", _figure(pair_plot), _pairs(section.pairs)) if section.pairs else None,
        *(_part(title, table) for title, table in found.items()),
        _suspicions(section),
        _cases(section),
    ]
    return element("section", *parts, aria_labelledby=ident)


def _runs(section: ReportSection) -> str:
    words = [f"{one.run.name} (seed {one.run.seed}, plan {one.run.plan[:12]})" for one in section.runs]
    return f"Runs: {', '.join(words)}."


def _part(title: str, *parts: Markup | None) -> Markup | None:
    return join_markup(element("h3", title), *parts) if any(part is not None for part in parts) else None


def _figure(plot: Markup | None, *beside: Markup) -> Markup | None:
    return None if plot is None else element("figure", plot, *beside)


def _table(sheet: ReportTable) -> Markup:
    head = element("tr", *(_head(cell, is_name=at < sheet.names) for at, cell in enumerate(sheet.head)))
    rows = [element("tr", *(_cell(cell, at, sheet.names) for at, cell in enumerate(row))) for row in sheet.rows]
    table = element("table", element("caption", sheet.title), element("thead", head), element("tbody", *rows))
    note = element("p", sheet.note, class_="small") if sheet.note else None
    # Focus lets keyboards scroll what a narrow screen cuts.
    wide = element("div", table, class_="wide", role="region", tabindex="0", aria_label=sheet.title)
    return join_markup(wide, note)


def _head(text: str, *, is_name: bool) -> Markup:
    return element("th", text, scope="col", class_="name" if is_name else None)


def _cell(text: str, at: int, names: int) -> Markup:
    if at == 0:
        return element("th", text, scope="row", class_="name")
    return element("td", text, class_="name" if at < names else _VERDICTS.get(text))


_VERDICTS: Final = {"pass": "pass", "fail": "fail"}
"""Coloured beside being said."""


def _pairs(pairs: Sequence[ModelComparison]) -> Markup:
    rows = tuple((pair.a, pair.b, report_text.describe_comparison(pair)) for pair in pairs)
    head = ("first", "second", "first beside second")
    return _table(ReportTable("Models in pairs", head, rows, names=3, note=report_text.PAIRS))


def _suspicions(section: ReportSection) -> Markup | None:
    found = report_text.describe_suspicions(section.suspects)
    lines = [element("li", f"{what}: ", element("b", ", ".join(cases))) for what, cases in found]
    return _part("Cases to look at", element("ul", *lines)) if lines else None


def _cases(section: ReportSection) -> Markup:
    """Folded in: a suite can have a thousand."""
    sheet = report_text.verdicts_table(section)
    count = amounts.pluralize(len(sheet.rows), "case")
    return element("details", element("summary", f"Every verdict ({count})"), _table(sheet))


STYLE: Final = """
:root { color-scheme: light dark; --page: #fff; --ink: #1c2024; --faint: #5b636b; --line: #d5d9de; --shade: #f3f5f7;
  --tested: #1a5fb4; --oracle: #1b7a3d; --nop: #6b6f75; --cheat: #a4510b; --warn: #fff4d6; --edge: #b58105;
  --fail: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --page: #14171a; --ink: #e4e7ea; --faint: #a3abb3; --line: #3a4047;
  --shade: #1e2226; --tested: #78aeff; --oracle: #67cf8c; --nop: #a3a8ae; --cheat: #f0a35e; --warn: #33290d;
  --edge: #d9a520; --fail: #ff9187; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 1rem 1rem 4rem; overflow-wrap: anywhere; }
h1 { font-size: 1.7rem; } h2 { font-size: 1.35rem; margin-top: 2.5rem; border-bottom: 1px solid var(--line); }
h3 { font-size: 1.05rem; margin: 1.8rem 0 .4rem; }
a { color: var(--tested); }
.small { font-size: .85rem; color: var(--faint); }
.warning { background: var(--warn); border-left: 4px solid var(--edge); padding: .2rem 1rem; }
.warning h2 { margin-top: .5rem; border: 0; font-size: 1.1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
caption { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
th, td { padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
.name { text-align: left; font-weight: normal; white-space: normal; min-width: 7rem; }
thead th { font-weight: 600; color: var(--faint); }
td.pass { color: var(--oracle); } td.fail { color: var(--fail); }
summary { cursor: pointer; margin-top: 1.5rem; }
figure { margin: .5rem 0 1rem; padding: .8rem 1rem; background: var(--shade); border-radius: 6px; }
svg { display: block; overflow: visible; font: 14px system-ui, sans-serif; }
svg text { fill: var(--ink); paint-order: stroke; stroke: var(--shade); stroke-width: 4; }
svg text.small { font-size: 12px; fill: var(--faint); }
svg .end { text-anchor: end; } svg .middle { text-anchor: middle; }
svg .track, svg .zero { stroke: var(--line); } svg .zero { stroke: var(--faint); }
svg .across line { stroke: var(--faint); stroke-dasharray: 4 4; }
svg .interval { stroke-width: 5; stroke-opacity: .45; } svg .thin { stroke-width: 2; }
svg .tested { --mark: var(--tested); } svg .oracle { --mark: var(--oracle); } svg .nop { --mark: var(--nop); }
svg .cheat, svg .mutant { --mark: var(--cheat); }
svg .dot circle { fill: var(--mark); } svg .dot .interval { stroke: var(--mark); }
svg text.number { fill: var(--page); stroke: none; font-weight: 600; }
.legend { display: flex; flex-wrap: wrap; gap: 0 2.2rem; margin: .6rem 0 0; padding-left: 1.4rem; font-size: .85rem; }
@media (max-width: 32rem) { svg .more { display: none; } }
@media print { figure { background: none; border: 1px solid var(--line); break-inside: avoid; } }
"""
