"""`plan bench report`: fold the events of runs and write one report."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

import click

from planloop.benchmarks.events.projection import FILE as EVENTS
from planloop.benchmarks.events.projection import EventVerifier, RunProjection
from planloop.benchmarks.events.reader import HINT, BadEvents, TornEvent, read_events
from planloop.benchmarks.reporting import report, report_text
from planloop.benchmarks.reporting.markdown import write_markdown
from planloop.benchmarks.reporting.report import BenchReport
from planloop.benchmarks.runs.plan import PLAN
from planloop.benchmarks.runs.run_compiler import CompiledRun
from planloop.benchmarks.scoring.fold import BadRun, RunFold
from planloop.benchmarks.scoring.summary import RunSummary, print_summary, summarise_run
from planloop.client import error_report
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.plan_paths import paths_of_file
from planloop.client.render import printer
from planloop.client.render.tables import format_table
from planloop.compiler.names import id_hint, is_valid_id
from planloop.reconciler.errors import EngineError
from planloop.reconciler.store import backend, state_files
from planloop.reconciler.store.log_reader import verified_entries
from planloop.schemas.canonical_json import sha256_of_value
from planloop.schemas.frozen import frozen
from planloop.server.bench import run_folder as files

INDEX: Final = "index"
_Found = TypeVar("_Found")


@frozen
class ReportOptions:
    """The options of `plan bench report`. `name` is the folder of the report below `reports/index`."""

    runs: tuple[str, ...]
    is_all: bool
    name: str | None
    reports: Path
    output: str | None


def make_report(asked: ReportOptions) -> None:
    """Write the report on the given runs; without runs, list all runs. Raises CommandError.

    With --all, broken runs are skipped and listed at the end.
    """
    if not asked.runs and not asked.is_all:
        if asked.output is not None:
            raise CommandError(
                ExitCode.USAGE, f"-o {asked.output} prints a report, but no run is given", "give runs, or add --all"
            )
        _list(asked.reports)
        return
    if asked.name is not None and not is_valid_id(asked.name):
        raise CommandError(
            ExitCode.USAGE, f"invalid report name {asked.name!r}", f"--name takes an id: {id_hint(asked.name)}"
        )
    folders = _folders(asked)
    read_in = [_or_fault(_summary, folder) if asked.is_all else _summary(folder) for folder in folders]
    faults = [one for one in read_in if isinstance(one, CommandError)]
    if len(faults) == len(folders):
        raise _all_of(faults)
    found = report.combine_summaries(one for one in read_in if not isinstance(one, CommandError))
    place = asked.reports / INDEX / (asked.name or ("all" if asked.is_all else run_title(folders)))
    _give(found, place, asked.output)
    if faults:
        raise _all_of(faults)


def _give(found: BenchReport, place: Path, output: str | None) -> None:
    """Write the report to the folder `place`, and print it in the requested format, even if it cannot be written."""
    forms = report_forms(found)
    paths = write_report(forms, place)
    if output is not None:
        click.echo(forms[output], nl=False)
        return
    print_bench_summary(found)
    for path in paths:
        click.echo(str(path))


def report_forms(found: BenchReport) -> Mapping[str, bytes]:
    """The report in each of its forms, by how its file ends."""
    from planloop.benchmarks.reporting.html import write_html  # Loads jinja2.

    return {
        "json": report.print_report(found),
        "md": write_markdown(found).encode(),
        "html": write_html(found).encode(),
    }


def write_report(forms: Mapping[str, bytes], place: Path) -> tuple[Path, ...]:
    """Write a report to the folder `place` and return its files; if this fails, print a warning and return none."""
    paths = {place / f"report.{form}": content for form, content in forms.items()}
    try:
        place.mkdir(parents=True, exist_ok=True)
        for path, content in paths.items():
            files.write_durably(path, content)
    except OSError as error:
        _warn(f"cannot write the report to {place}: {error.strerror}")
        return ()
    return tuple(paths)


def run_folder(name: str, reports: Path) -> Path:
    """The folder of a run that is named by it, or as SUITE/RUN."""
    inside = reports / name
    return inside if (inside / files.PLAN_JSON).is_file() else Path(name)


def fold_events(folder: Path) -> RunFold:
    """The events of the run in `folder`. Raises CommandError when there are none, or they are no run."""
    try:
        reading = read_events((folder / EVENTS).read_bytes())
        _tell(folder, reading.torn)
        return RunFold().add_all(reading.events)
    except FileNotFoundError:
        raise _unbegun(f"{folder} has no {EVENTS}", folder) from None
    except (BadEvents, BadRun) as error:
        raise CommandError(ExitCode.FAILED, f"{folder}: {error}", HINT.format(folder=folder)) from None


def _unbegun(why: str, folder: Path) -> CommandError:
    return CommandError(ExitCode.NOT_FOUND, why, f"plan bench resume {folder} resumes it")


def write_summary(folder: Path, fold: RunFold | None = None) -> RunSummary:
    """Write `summary.json` of the run in `folder` from its events, and return it. Raises CommandError.

    `fold` is the fold of all its events, if the caller has it.
    """
    summary = summarise_run(fold or fold_events(folder))
    content, path = print_summary(summary), folder / files.SUMMARY
    if not path.is_file() or path.read_bytes() != content:
        files.write_durably(path, content)
    return summary


def print_bench_summary(found: BenchReport) -> None:
    """Print the warnings first, then the result of each model."""
    for run in found.runs:
        for trouble in report_text.describe_run_problems(run):
            click.echo(f"{run.suite}/{run.run.name}: {trouble}")
    sheet = report_text.overview_table(found)
    click.echo(format_table(sheet.head, sheet.rows, width=printer.terminal_width()))
    if len(found.sections) > 1:
        total = report_text.totals_table(found)
        click.echo(f"\n{total.title}")
        click.echo(format_table(total.head, total.rows, width=printer.terminal_width()))


def _summary(folder: Path) -> RunSummary:
    _hold(folder, files.read_compiled(folder))
    fold = fold_events(folder)
    if not fold.run.has_begun:
        raise _unbegun(f"{folder}: {EVENTS} has no start of a run", folder)
    try:
        return write_summary(folder, fold)
    except OSError as error:  # With read-only access the report is still printed.
        _warn(f"cannot write {folder / files.SUMMARY}: {error.strerror}")
        return summarise_run(fold)


def _hold(folder: Path, compiled: CompiledRun) -> None:
    """Raise CommandError if the events in `folder` differ from those of the run's log, if the log still exists."""
    place = paths_of_file(folder / files.PLAN_FILE, PLAN)
    if not ((folder / EVENTS).is_file() and state_files.has_log(place.folder)):
        return
    content = (folder / EVENTS).read_bytes()  # Before the log, which is ahead of the events of a run that goes on.
    try:
        torn = read_events(content).torn
        holding = EventVerifier(
            content[: torn.offset if torn else None].splitlines(), RunProjection(compiled, folder.name)
        )
        with backend.open_log(place.folder) as log:
            log.verify()
            for _ in holding.note(entry.record for entry in verified_entries(log)):
                pass  # Resuming the run writes the events of the records that the log has beyond them.
        holding.end()
    except BadEvents as error:
        raise CommandError(ExitCode.FAILED, f"{folder}: {error}", HINT.format(folder=folder)) from None


def _tell(folder: Path, torn: TornEvent | None) -> None:
    """Print a warning for each skipped line."""
    if torn is not None:
        _warn(f"skipped line {torn.line} of {folder / EVENTS}: it is incomplete ({len(torn.content)} bytes)")


def _warn(text: str) -> None:
    click.echo(f"warning: {text}", err=True)


def _folders(asked: ReportOptions) -> list[Path]:
    """Return the requested runs, each once."""
    named = [run_folder(name, asked.reports) for name in asked.runs]
    every = [folder for folder in files.run_folders(asked.reports) if _can_be_reported(folder)] if asked.is_all else []
    found = {os.path.realpath(folder): folder for folder in (*named, *every)}
    if not found:
        raise CommandError(
            ExitCode.NOT_FOUND,
            f"no runs in {asked.reports}",
            "plan bench run starts one; --reports DIR uses another folder",
        )
    return list(found.values())


def _can_be_reported(folder: Path) -> bool:
    """Return whether the run has something to report; print a warning if it has not."""
    has_begun = _has_begun(folder)
    if not has_begun:
        _warn(f"{folder} has not started and was skipped")
    return has_begun


def run_title(folders: Sequence[Path]) -> str:
    """What a report over the runs in `folders` is called: `SUITE-RUN`, or a name that the same runs give again."""
    if len(folders) == 1:
        folder = folders[0].resolve()
        return f"{folder.parent.name}-{folder.name}"
    return sha256_of_value(sorted(os.path.realpath(folder) for folder in folders))[:12]


def _list(reports: Path) -> None:
    """A line a run. Raises CommandError after them, where some are broken."""
    found = {folder: _or_fault(_standing, folder) for folder in files.run_folders(reports)}
    if not found:
        raise CommandError(
            ExitCode.NOT_FOUND, f"no runs in {reports}", "plan bench run starts one; --reports DIR uses another folder"
        )
    rows = [
        (f"{folder.parent.name}/{folder.name}", *(("broken", "") if isinstance(one, CommandError) else one))
        for folder, one in found.items()
    ]
    click.echo(format_table(("run", "state", "passed"), rows, width=printer.terminal_width()))
    click.echo("\nplan bench report RUN... or --all writes a report on them")
    faults = [one for one in found.values() if isinstance(one, CommandError)]
    if faults:
        raise _all_of(faults)


def _has_begun(folder: Path) -> bool:
    """Whether there are events of the run."""
    events = folder / EVENTS
    return events.is_file() and events.stat().st_size > 0


def _standing(folder: Path) -> tuple[str, str]:
    if not _has_begun(folder):
        return "not started", ""
    summary = _summary(folder)
    state = "complete" if summary.is_complete else report_text.describe_undecided(summary.counts)
    return state, ", ".join(f"{one.model} {report_text.format_percent(one.share.rate)}" for one in summary.standings)


def _or_fault(read: Callable[[Path], _Found], folder: Path) -> _Found | CommandError:
    """What `read` finds in the folder of a run, or why that cannot be read: one of many does not hide the others."""
    try:
        return read(folder)
    except CommandError as fault:
        return fault
    except (OSError, EngineError) as error:
        known = error_report.explain_exception(error)
        if known is None:
            raise
        return CommandError(known.exit, f"{folder}: {known.summary}", known.hint)


def _all_of(faults: Iterable[CommandError]) -> CommandError:
    """Return one error with all of `faults`, and each fix once."""
    summaries, hints = zip(*((one.summary, one.hint) for one in faults), strict=True)
    return CommandError(ExitCode.FAILED, "\n".join(summaries), "\n".join(dict.fromkeys(hint for hint in hints if hint)))
