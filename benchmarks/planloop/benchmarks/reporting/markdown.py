"""Write a report as Markdown that is also readable in a terminal.

Names of models and cases are untrusted: they are escaped, so that they cannot contain markup, links or control
characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from planloop.benchmarks.reporting import report_text
from planloop.benchmarks.reporting.report import BenchReport, ReportSection, RunCaveats
from planloop.benchmarks.reporting.report_text import ReportTable
from planloop.schemas.quantities import cell_width, pad_cells, replace_control_chars, truncate_cells

NAME_MAX: Final = 28
"""Maximal width of a name in a table, in terminal cells."""

_MARKS: Final = re.compile(r"[\\`*<>\[\]|~#&@!]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|:(?=//)|(?<=www)\.")

_STARTS: Final = re.compile(r"^(\d*)([-+.)=])")
"""Characters that start a list or a heading."""


def write_markdown(report: BenchReport) -> str:
    """Render `report.md`."""
    parts = ["# Benchmark report", *_warnings(report.runs)]
    if len(report.sections) > 1:
        parts += _table(report_text.overview_table(report))
        total = report_text.totals_table(report)
        parts += [f"## {total.title}", *_table(total)]
    for section in report.sections:
        parts += _section(section)
    return "\n\n".join(parts) + "\n"


def escape_markdown(text: str) -> str:
    """Escape `text` so that it is literal anywhere in a line, also at the start."""
    marked = _MARKS.sub(r"\\\g<0>", replace_control_chars(text))
    # After a space at the start of a line, text can be a list or code.
    return f"&#32;{marked[1:]}" if marked.startswith(" ") else _STARTS.sub(r"\1\\\2", marked)


def _warnings(runs: Iterable[RunCaveats]) -> list[str]:
    found = [(run, trouble) for run in runs for trouble in report_text.describe_run_problems(run)]
    lines = [
        f"> - **{escape_markdown(run.suite)} / {escape_markdown(run.run.name)}** {trouble}." for run, trouble in found
    ]
    return ["\n".join(["> **Read this first**", ">", *lines])] if lines else []


def _section(section: ReportSection) -> list[str]:
    tables = report_text.section_tables(section)
    parts = [
        f"## {escape_markdown(section.suite)}",
        escape_markdown(report_text.describe_scale(section)),
        _runs(section),
        *_in_full(tables),
    ]
    for sheet in tables:
        parts += [f"### {sheet.title}", *_table(sheet)]
    if section.pairs:
        parts += [f"### {report_text.PAIRS_TITLE}", "\n".join(_pairs(section)), report_text.PAIRS]
    suspicions = report_text.describe_suspicions(section.suspects)
    if suspicions:
        parts += ["### Cases to look at", "\n".join(_suspicion(what, cases) for what, cases in suspicions)]
    return parts


def _runs(section: ReportSection) -> str:
    words = [
        f"{escape_markdown(one.run.name)} (seed {escape_markdown(str(one.run.seed))}, plan {one.run.plan[:12]})"
        for one in section.runs
    ]
    return f"Runs: {', '.join(words)}."


def _pairs(section: ReportSection) -> list[str]:
    return [
        f"- {escape_markdown(one.a)} compared with {escape_markdown(one.b)}: "
        f"{_compared(one.a, one.b, report_text.describe_comparison(one))}"
        for one in section.pairs
    ]


def _compared(a: str, b: str, text: str) -> str:
    """`text` with the names in its sentence escaped; the rest of it is trusted."""
    return escape_markdown(text) if a in text or b in text else text


def _suspicion(what: str, cases: Sequence[str]) -> str:
    return f"- {what}: {', '.join(map(escape_markdown, cases))}"


def _in_full(found: Iterable[ReportTable]) -> list[str]:
    """The full names that the tables truncate."""
    names = dict.fromkeys(cell for sheet in found for row in sheet.rows for cell in row[: sheet.names])
    long = [f"- {escape_markdown(_short(name))} is {escape_markdown(name)}" for name in names if _short(name) != name]
    return ["Names that are truncated below:\n\n" + "\n".join(long)] if long else []


def _table(sheet: ReportTable) -> list[str]:
    """The table and its note."""
    rows = [[*map(_name, row[: sheet.names]), *row[sheet.names :]] for row in sheet.rows]
    cells = [list(sheet.head), *rows]
    wide = [max(map(cell_width, column)) for column in zip(*cells, strict=True)]
    lines = [_line(row, wide, sheet.names) for row in cells]
    lines.insert(1, f"| {' | '.join(_rule(width, is_name=at < sheet.names) for at, width in enumerate(wide))} |")
    return ["\n".join(lines), *([sheet.note] if sheet.note else [])]


def _line(row: Sequence[str], wide: Sequence[int], names: int) -> str:
    cells = [_placed(cell, width, is_name=at < names) for at, (cell, width) in enumerate(zip(row, wide, strict=True))]
    return f"| {' | '.join(cells)} |"


def _placed(cell: str, width: int, *, is_name: bool) -> str:
    """Align names to the left, figures to the right."""
    return pad_cells(cell, width) if is_name else " " * (width - cell_width(cell)) + cell


def _rule(width: int, *, is_name: bool) -> str:
    return "-" * width if is_name else "-" * (width - 1) + ":"


def _name(name: str) -> str:
    return escape_markdown(_short(name))


def _short(name: str) -> str:
    return truncate_cells(replace_control_chars(name), NAME_MAX)
