"""Runs and comparisons of runs as JSON for the web page.

`planloop.benchmarks.scoring` computes the numbers, and `planloop.benchmarks.reporting` the tables and sentences. Pure,
except that `RunLibrary` reads files.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from planloop.benchmarks.events.projection import FILE as EVENTS
from planloop.benchmarks.reporting import report_text
from planloop.benchmarks.reporting.report import (
    ModelComparison,
    ReportColumn,
    ReportSection,
    RunCaveats,
    combine_summaries,
)
from planloop.benchmarks.reporting.report_text import ReportTable
from planloop.benchmarks.scoring.fold import EntryResult, model_kind
from planloop.benchmarks.scoring.statistics import Interval
from planloop.benchmarks.scoring.summary import ModelSummary, RunSummary
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.limits import RUNS_COMPARED_MAX, RUNS_TOLD_MAX
from planloop.server.bench import run_folder
from planloop.server.bench.run_folder import RunName, run_name
from planloop.server.bench.run_library import RunBrief, RunLibrary, run_brief


def runs_json(library: RunLibrary) -> JsonObject:
    """Return the list of the newest runs, and the number of older runs that are not listed."""
    every = library.reports.runs()
    newest = sorted(every, key=lambda name: -_written_at(library, name))[:RUNS_TOLD_MAX]
    found = [_line(library, name) for name in newest]
    ordered = sorted(found, key=lambda one: (-(one["last_ts"] or 0.0), one["suite"], one["run"]))
    return {"runs": ordered, "left": len(every) - len(newest)}


def _written_at(library: RunLibrary, name: RunName) -> float:
    state = library.reports.state(name, EVENTS)
    return 0.0 if state is None else state.written_at


def run_json(library: RunLibrary, name: RunName) -> JsonObject:
    """Return one run: its progress and its report. Raises CommandError."""
    growing = library.run(name)
    with growing.lock:
        seq = growing.seq
        summary = growing.summary() if seq else None
    brief = None if summary is None else run_brief(summary)
    base: JsonObject = {**_state(library, name, brief), "seq": seq}
    base["commands"] = _commands(library, name)
    return base | {"report": None if summary is None else report_json([summary])}


def comparison_json(library: RunLibrary, wanted: str) -> JsonObject:
    """Return the report on the runs in `wanted`, written as `SUITE/RUN,SUITE/RUN`. Raises CommandError."""
    names = list(dict.fromkeys(_named(one) for one in wanted.split(",") if one))
    if not names:
        raise CommandError(ExitCode.USAGE, "`runs` names no run", "set runs=SUITE/RUN,SUITE/RUN")
    if len(names) > RUNS_COMPARED_MAX:
        raise CommandError(
            ExitCode.USAGE, f"{len(names)} runs are too many to compare", f"choose at most {RUNS_COMPARED_MAX}"
        )
    return {"runs": [str(name) for name in names], "report": report_json([library.summary(name) for name in names])}


def report_json(summaries: Iterable[RunSummary]) -> JsonObject:
    """Return the report on `summaries`, with one section per suite."""
    found = combine_summaries(summaries)
    at_once = (report_text.overview_table(found), report_text.totals_table(found)) if len(found.sections) > 1 else ()
    glance = [_sheet(each) for each in at_once]
    return {"glance": glance, "sections": [_section(section) for section in found.sections]}


def _named(text: str) -> RunName:
    suite, _, run = text.partition("/")
    return run_name(suite, run)


def _line(library: RunLibrary, name: RunName) -> JsonObject:
    brief = library.brief(name)
    models = () if brief is None else brief.standings
    return {**_state(library, name, brief), "models": [_model(one) for one in models]}


_NOTHING: Final[JsonObject] = {"first_ts": None, "last_ts": None, "done": 0, "total": 0, "usd": ""}
"""The progress of a run without events."""


def _state(library: RunLibrary, name: RunName, brief: RunBrief | None) -> JsonObject:
    """Return the state and the progress of a run."""
    is_live = library.is_live(name)
    about: JsonObject = {"suite": name.suite, "run": name.run}
    if brief is None:
        word = "live" if is_live else "not begun"
        return about | {"state": word, "words": word} | _NOTHING
    if brief.error:
        return about | {"state": "broken", "words": brief.error} | _NOTHING
    counts, history = brief.counts, brief.history
    done = counts.total - counts.missing
    lacks = report_text.describe_undecided(counts)
    word = "live" if is_live else "complete" if brief.is_complete else "incomplete"
    words = f"{done} of {counts.total} ended" if is_live else lacks or "all decided"
    times: JsonObject = {"first_ts": history.first_ts, "last_ts": history.last_ts}
    so_far: JsonObject = {"done": done, "total": counts.total, "usd": report_text.format_usd(history.usd)}
    return about | {"state": word, "words": words} | times | so_far


def _commands(library: RunLibrary, name: RunName) -> JsonObject:
    """Return the commands that resume a run, report on it, and show its plan."""
    folder = library.reports.path(name)
    return {
        "resume": f"plan bench resume {folder}",
        "report": f"plan bench report {folder}",
        "plan": f"plan serve --plan {folder / run_folder.PLAN_FILE}" if library.place(name) is not None else "",
    }


def _model(standing: ModelSummary) -> JsonObject:
    share = standing.share
    return {
        "model": standing.model,
        "kind": model_kind(standing.model).value,
        "rate": share.rate,
        "interval": _interval(standing.interval),
        "words": f"{report_text.format_percent(share.rate)} ({report_text.format_interval(standing.interval)})",
        "passed": report_text.describe_passed(share.counts),
    }


def _section(section: ReportSection) -> JsonObject:
    tables = [
        *report_text.section_tables(section),
        *([report_text.pairs_table(section.pairs)] if section.pairs else []),
    ]
    return {
        "suite": section.suite,
        "scale": report_text.describe_scale(section),
        "runs": [_run(state) for state in section.runs],
        "sheets": [_sheet(sheet) for sheet in tables],
        "columns": [_column(column) for column in section.columns],
        "nop": None if section.nop is None else section.nop.standing.share.rate,
        "oracle": None if section.oracle is None else section.oracle.standing.share.rate,
        "pairs": [_pair(pair) for pair in section.pairs],
        "suspicions": [
            {"what": what, "cases": list(cases)} for what, cases in report_text.describe_suspicions(section.suspects)
        ],
        "cases": _cases(section),
    }


def _run(state: RunCaveats) -> JsonObject:
    return {
        "run": state.run.name,
        "seed": state.run.seed,
        "plan": state.run.plan,
        "complete": state.is_complete,
        "validated": state.run.is_validated,
        "troubles": report_text.describe_run_problems(state),
    }


def _sheet(sheet: ReportTable) -> JsonObject:
    rows: list[Json] = [list(row) for row in sheet.rows]
    return {"title": sheet.title, "head": list(sheet.head), "rows": rows, "names": sheet.names, "note": sheet.note}


def _column(column: ReportColumn) -> JsonObject:
    medians = column.standing.medians
    return {
        "label": column.label,
        "run": column.run,
        **_model(column.standing),
        "median_usd": medians["usd"],
        "median_tokens": medians["tokens"],
        "usd_words": report_text.format_usd(medians["usd"]),
        "tokens_words": report_text.format_number(medians["tokens"]),
    }


def _pair(pair: ModelComparison) -> JsonObject:
    found = pair.found
    words = f"{report_text.format_points(found.difference)} points, {report_text.format_p_value(found.p)}"
    about: JsonObject = {"a": pair.a, "b": pair.b, "cases": found.cases, "words": words, "sentence": pair.sentence}
    figures: JsonObject = {"difference": found.difference, "interval": _interval(found.interval)}
    return about | figures | {"is_distinguishable": found.is_distinguishable}


def _interval(interval: Interval | None) -> Json:
    return None if interval is None else [interval.low, interval.high]


def _cases(section: ReportSection) -> JsonObject:
    """Return, for each case, one map per column: verdict by trial. Compact, because a suite may have many cases."""
    found: JsonObject = {case: [{} for _ in section.columns] for case in section.cases}
    for place, column in enumerate(section.columns):
        for entry in column.entries:
            found[entry.case][place][str(entry.trial)] = entry_verdict(entry)
    return found


def entry_verdict(entry: EntryResult) -> str:
    """Return the verdict of an entry; `running` or `missing` if it has none."""
    if entry.verdict is not None:
        return entry.verdict.value
    return "running" if entry.times.began is not None else "missing"
