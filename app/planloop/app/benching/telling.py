"""Runs and comparisons of runs as the API says them: figures, their words, and where each one leads.

Every figure is made by `planloop.benchmarks.scoring`, every table and sentence by `planloop.benchmarks.reporting`; here
they only get the names by which a page finds its way. Pure, but for `Library`, which reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from planloop.app.benching import folder as files
from planloop.app.benching.library import Brief, Library, brief_of
from planloop.app.benching.shelf import RunName, run_name
from planloop.app.exits import Exit, Halt
from planloop.benchmarks.events.writing import FILE as EVENTS
from planloop.benchmarks.reporting import sheets, wording
from planloop.benchmarks.reporting.combined import Column, Section, State, combine
from planloop.benchmarks.reporting.sheets import Sheet
from planloop.benchmarks.scoring.folding import Entry
from planloop.benchmarks.scoring.kinds import kind_of
from planloop.benchmarks.scoring.pairing import Pair
from planloop.benchmarks.scoring.standing import Standing
from planloop.benchmarks.scoring.statistics import Interval
from planloop.benchmarks.scoring.summary import Summary
from planloop.schemas.encoding import Json, JsonObject
from planloop.schemas.limits import RUNS_COMPARED_MAX, RUNS_TOLD_MAX


def runs(library: Library) -> JsonObject:
    """The newest runs in a line each, and how many older ones are left out."""
    every = library.shelf.runs()
    newest = sorted(every, key=lambda name: -_written_at(library, name))[:RUNS_TOLD_MAX]
    found = [_line(library, name) for name in newest]
    ordered = sorted(found, key=lambda one: (-(one["last_ts"] or 0.0), one["suite"], one["run"]))
    return {"runs": ordered, "left": len(every) - len(newest)}


def _written_at(library: Library, name: RunName) -> float:
    state = library.shelf.state(name, EVENTS)
    return 0.0 if state is None else state.written_at


def run(library: Library, name: RunName) -> JsonObject:
    """One run: how far it is, and the report over it alone. Raises Halt."""
    growing = library.run(name)
    with growing.lock:
        seq = growing.seq
        summary = growing.summary() if seq else None
    brief = None if summary is None else brief_of(summary)
    base: JsonObject = {**_state(library, name, brief), "seq": seq}
    base["commands"] = _commands(library, name)
    return base | {"report": None if summary is None else report([summary])}


def comparison(library: Library, wanted: str) -> JsonObject:
    """The report over the runs in `wanted`, as `SUITE/RUN,SUITE/RUN`. Raises Halt."""
    names = list(dict.fromkeys(_named(one) for one in wanted.split(",") if one))
    if not names:
        raise Halt(Exit.USAGE, "no run is named", "say runs=SUITE/RUN,SUITE/RUN")
    if len(names) > RUNS_COMPARED_MAX:
        raise Halt(Exit.USAGE, f"{len(names)} runs are too many for one page", f"take {RUNS_COMPARED_MAX} at most")
    return {"runs": [str(name) for name in names], "report": report([library.summary(name) for name in names])}


def report(summaries: Iterable[Summary]) -> JsonObject:
    """The report over `summaries`: a section a suite."""
    found = combine(summaries)
    at_once = (sheets.overview(found), sheets.totals(found)) if len(found.sections) > 1 else ()
    glance = [_sheet(each) for each in at_once]
    return {"glance": glance, "sections": [_section(section) for section in found.sections]}


def _named(text: str) -> RunName:
    suite, _, run = text.partition("/")
    return run_name(suite, run)


def _line(library: Library, name: RunName) -> JsonObject:
    brief = library.brief(name)
    models = () if brief is None else brief.standings
    return {**_state(library, name, brief), "models": [_model(one) for one in models]}


_NOTHING: Final[JsonObject] = {"first_ts": None, "last_ts": None, "done": 0, "total": 0, "usd": ""}
"""Of a run without an event."""


def _state(library: Library, name: RunName, brief: Brief | None) -> JsonObject:
    """How far a run is, in one word and in several."""
    is_live = library.is_live(name)
    about: JsonObject = {"suite": name.suite, "run": name.run}
    if brief is None:
        word = "live" if is_live else "not begun"
        return about | {"state": word, "words": word} | _NOTHING
    if brief.fault:
        return about | {"state": "broken", "words": brief.fault} | _NOTHING
    counts, history = brief.counts, brief.history
    done = counts.total - counts.missing
    lacks = wording.undecided(counts)
    word = "live" if is_live else "complete" if brief.is_complete else "incomplete"
    words = f"{done} of {counts.total} ended" if is_live else lacks or "all decided"
    times: JsonObject = {"first_ts": history.first_ts, "last_ts": history.last_ts}
    so_far: JsonObject = {"done": done, "total": counts.total, "usd": wording.money(history.usd)}
    return about | {"state": word, "words": words} | times | so_far


def _commands(library: Library, name: RunName) -> JsonObject:
    """What a person types to go on with it, and to look into its plan."""
    folder = library.shelf.path(name)
    return {
        "resume": f"plan bench resume {folder}",
        "report": f"plan bench report {folder}",
        "plan": f"plan serve --plan {folder / files.PLAN_FILE}" if library.place(name) is not None else "",
    }


def _model(standing: Standing) -> JsonObject:
    share = standing.share
    return {
        "model": standing.model,
        "kind": kind_of(standing.model).value,
        "rate": share.rate,
        "interval": _interval(standing.interval),
        "words": f"{wording.percent(share.rate)} ({wording.between(standing.interval)})",
        "passed": wording.passed(share.counts),
    }


def _section(section: Section) -> JsonObject:
    tables = [*sheets.sheets(section), *([pairs_sheet(section.pairs)] if section.pairs else [])]
    return {
        "suite": section.suite,
        "scale": wording.scale(section),
        "runs": [_run(state) for state in section.runs],
        "sheets": [_sheet(sheet) for sheet in tables],
        "columns": [_column(column) for column in section.columns],
        "nop": None if section.nop is None else section.nop.standing.share.rate,
        "oracle": None if section.oracle is None else section.oracle.standing.share.rate,
        "pairs": [_pair(pair) for pair in section.pairs],
        "suspicions": [{"what": what, "cases": list(cases)} for what, cases in wording.suspicions(section.suspects)],
        "cases": _cases(section),
    }


def _run(state: State) -> JsonObject:
    return {
        "run": state.run.name,
        "seed": state.run.seed,
        "plan": state.run.plan,
        "complete": state.is_complete,
        "validated": state.run.is_validated,
        "troubles": wording.troubles(state),
    }


def _sheet(sheet: Sheet) -> JsonObject:
    rows: list[Json] = [list(row) for row in sheet.rows]
    return {"title": sheet.title, "head": list(sheet.head), "rows": rows, "names": sheet.names, "note": sheet.note}


def pairs_sheet(pairs: Sequence[Pair]) -> Sheet:
    """The comparisons as a table: what a plot of them shows, in words."""
    rows = tuple((pair.a, pair.b, wording.comparison(pair)) for pair in pairs)
    head = ("first", "second", "first beside second")
    return Sheet("Models in pairs", head, rows, names=3, note=wording.PAIRS)


def _column(column: Column) -> JsonObject:
    medians = column.standing.medians
    return {
        "label": column.label,
        "run": column.run,
        **_model(column.standing),
        "median_usd": medians["usd"],
        "median_tokens": medians["tokens"],
        "usd_words": wording.money(medians["usd"]),
        "tokens_words": wording.number(medians["tokens"]),
    }


def _pair(pair: Pair) -> JsonObject:
    found = pair.found
    words = f"{wording.points(found.difference)} points, {wording.p_value(found.p)}"
    about: JsonObject = {"a": pair.a, "b": pair.b, "cases": found.cases, "words": words, "sentence": pair.sentence}
    figures: JsonObject = {"difference": found.difference, "interval": _interval(found.interval)}
    return about | figures | {"is_distinguishable": found.is_distinguishable}


def _interval(interval: Interval | None) -> Json:
    return None if interval is None else [interval.low, interval.high]


def _cases(section: Section) -> JsonObject:
    """Case → a list a column → verdict by trial: short, since a suite can have thousands."""
    found: JsonObject = {case: [{} for _ in section.columns] for case in section.cases}
    for place, column in enumerate(section.columns):
        for entry in column.entries:
            found[entry.case][place][str(entry.trial)] = verdict(entry)
    return found


def verdict(entry: Entry) -> str:
    """How an entry ended; `running` while it has begun and has not."""
    if entry.verdict is not None:
        return entry.verdict.value
    return "running" if entry.began is not None else "missing"
