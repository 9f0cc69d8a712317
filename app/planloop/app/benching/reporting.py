"""What `plan bench report` does: fold the events of runs, keep their summaries, and write one report over them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

import click

from planloop.app import cold, crash
from planloop.app.benching import folder as files
from planloop.app.exits import Exit, Halt
from planloop.app.places import of_file
from planloop.benchmarks.compiling.compiled import Compiled
from planloop.benchmarks.events.holding import Holding
from planloop.benchmarks.events.projecting import Projection
from planloop.benchmarks.events.reading import HINT, BadEvents, Torn, read
from planloop.benchmarks.events.writing import FILE as EVENTS
from planloop.benchmarks.planning import PLAN
from planloop.benchmarks.reporting import combined, sheets, wording
from planloop.benchmarks.reporting.combined import Report
from planloop.benchmarks.reporting.html import html
from planloop.benchmarks.reporting.markdown import markdown
from planloop.benchmarks.scoring.folding import BadRun, Fold
from planloop.benchmarks.scoring.summary import Summary, printed, summarise
from planloop.cli.rendering import printing
from planloop.cli.rendering.tables import table
from planloop.compiler.naming import id_hint, is_id
from planloop.reconciler.errors import EngineError
from planloop.reconciler.storing import layout
from planloop.schemas.encoding import digest_of
from planloop.schemas.frozen import frozen

INDEX: Final = "index"
_Found = TypeVar("_Found")


@frozen
class Asked:
    """The options of `plan bench report`. `name` is the folder of the report below `reports/index`."""

    runs: tuple[str, ...]
    is_all: bool
    name: str | None
    reports: Path
    output: str | None


def report(asked: Asked) -> None:
    """Writes the report over the runs that are asked for; with none, lists those that there are. Raises Halt.

    Of all that there are, those that are broken are left out, and told at the end.
    """
    if not asked.runs and not asked.is_all:
        if asked.output is not None:
            raise Halt(Exit.USAGE, f"-o {asked.output} prints a report, and no run is named", "name runs, or add --all")
        _list(asked.reports)
        return
    if asked.name is not None and not is_id(asked.name):
        raise Halt(
            Exit.USAGE, f"a report cannot be called {asked.name!r}", f"--name takes an id: {id_hint(asked.name)}"
        )
    folders = _folders(asked)
    read_in = [_or_fault(_summary, folder) if asked.is_all else _summary(folder) for folder in folders]
    faults = [one for one in read_in if isinstance(one, Halt)]
    if len(faults) == len(folders):
        raise _all_of(faults)
    found = combined.combine(one for one in read_in if not isinstance(one, Halt))
    place = asked.reports / INDEX / (asked.name or ("all" if asked.is_all else name_of(folders)))
    _give(found, place, asked.output)
    if faults:
        raise _all_of(faults)


def _give(found: Report, place: Path, output: str | None) -> None:
    """Writes the report into the folder `place`, and prints it as it is asked for, also where it cannot be written."""
    forms = forms_of(found)
    paths = write(forms, place)
    if output is not None:
        click.echo(forms[output], nl=False)
        return
    show(found)
    for path in paths:
        click.echo(str(path))


def forms_of(found: Report) -> Mapping[str, bytes]:
    """The report in each of its forms, by how its file ends."""
    return {"json": combined.printed(found), "md": markdown(found).encode(), "html": html(found).encode()}


def write(forms: Mapping[str, bytes], place: Path) -> tuple[Path, ...]:
    """Writes a report into the folder `place`; gives its files. Where that fails it is said, and there are none."""
    paths = {place / f"report.{form}": content for form, content in forms.items()}
    try:
        place.mkdir(parents=True, exist_ok=True)
        for path, content in paths.items():
            files.write_durably(path, content)
    except OSError as error:
        _warn(f"the report is not written into {place}: {error.strerror}")
        return ()
    return tuple(paths)


def folder_of(name: str, reports: Path) -> Path:
    """The folder of a run that is named by it, or as SUITE/RUN."""
    inside = reports / name
    return inside if (inside / files.PLAN_JSON).is_file() else Path(name)


def folded(folder: Path) -> Fold:
    """The events of the run in `folder`. Raises Halt when there are none, or they are no run."""
    try:
        reading = read((folder / EVENTS).read_bytes())
        _tell(folder, reading.torn)
        return Fold().add_all(reading.events)
    except FileNotFoundError:
        raise _unbegun(f"{folder} has no {EVENTS}", folder) from None
    except (BadEvents, BadRun) as error:
        raise Halt(Exit.FAILED, f"{folder}: {error}", HINT) from None


def _unbegun(why: str, folder: Path) -> Halt:
    return Halt(Exit.NOT_FOUND, why, f"plan bench resume {folder} goes on with it")


def write_summary(folder: Path, fold: Fold | None = None) -> Summary:
    """Makes `summary.json` of the run in `folder` say what its events say, and gives it. Raises Halt.

    `fold` is that of all its events, for who has it already.
    """
    summary = summarise(fold or folded(folder))
    content, path = printed(summary), folder / files.SUMMARY
    if not path.is_file() or path.read_bytes() != content:
        files.write_durably(path, content)
    return summary


def show(found: Report) -> None:
    """Prints what must be known first, and how each model stands."""
    for run in found.runs:
        for trouble in wording.troubles(run):
            click.echo(f"{run.suite}/{run.run.name}: {trouble}")
    sheet = sheets.overview(found)
    click.echo(table(sheet.head, sheet.rows, width=printing.width()))
    if len(found.sections) > 1:
        total = sheets.totals(found)
        click.echo(f"\n{total.title}")
        click.echo(table(total.head, total.rows, width=printing.width()))


def _summary(folder: Path) -> Summary:
    _hold(folder, files.compiled_of(folder))
    fold = folded(folder)
    if not fold.run.has_begun:
        raise _unbegun(f"{folder}: {EVENTS} does not say that it has begun", folder)
    try:
        return write_summary(folder, fold)
    except OSError as error:  # Who may only read is told what there is all the same.
        _warn(f"{folder / files.SUMMARY} is not written: {error.strerror}")
        return summarise(fold)


def _hold(folder: Path, compiled: Compiled) -> None:
    """Raises Halt when the events in `folder` are not those of the run's log, where that is still there."""
    place = of_file(folder / files.PLAN_FILE, PLAN)
    if not ((folder / EVENTS).is_file() and layout.log_file(place.folder).exists()):
        return
    content = (folder / EVENTS).read_bytes()  # Before the log, which is ahead of the events of a run that goes on.
    try:
        torn = read(content).torn
        holding = Holding(content[: torn.offset if torn else None].splitlines(), Projection(compiled, folder.name))
        for _ in holding.note(cold.records(place)):
            pass  # What the log has beyond the events is written by who goes on with the run.
        holding.end()
    except BadEvents as error:
        raise Halt(Exit.FAILED, f"{folder}: {error}", HINT) from None


def _tell(folder: Path, torn: Torn | None) -> None:
    """What is left out is said."""
    if torn is not None:
        _warn(f"{folder / EVENTS}: line {torn.line} is torn and left out ({len(torn.content)} bytes)")


def _warn(text: str) -> None:
    click.echo(f"warning: {text}", err=True)


def _folders(asked: Asked) -> list[Path]:
    """The runs that are asked for, each once."""
    named = [folder_of(name, asked.reports) for name in asked.runs]
    every = [folder for folder in files.runs(asked.reports) if _can_be_reported(folder)] if asked.is_all else []
    found = {os.path.realpath(folder): folder for folder in (*named, *every)}
    if not found:
        raise Halt(Exit.NOT_FOUND, f"there are no runs in {asked.reports}", "plan bench run makes one; --reports DIR")
    return list(found.values())


def _can_be_reported(folder: Path) -> bool:
    """Whether there is something to report; that there is not is said."""
    has_begun = _has_begun(folder)
    if not has_begun:
        _warn(f"{folder} has not begun and is left out")
    return has_begun


def name_of(folders: Sequence[Path]) -> str:
    """What a report over the runs in `folders` is called: `SUITE-RUN`, or a name that the same runs give again."""
    if len(folders) == 1:
        folder = folders[0].resolve()
        return f"{folder.parent.name}-{folder.name}"
    return digest_of(sorted(os.path.realpath(folder) for folder in folders))[:12]


def _list(reports: Path) -> None:
    """A line a run. Raises Halt after them, where some are broken."""
    found = {folder: _or_fault(_standing, folder) for folder in files.runs(reports)}
    if not found:
        raise Halt(Exit.NOT_FOUND, f"there are no runs in {reports}", "plan bench run makes one; --reports DIR")
    rows = [
        (f"{folder.parent.name}/{folder.name}", *(("broken", "") if isinstance(one, Halt) else one))
        for folder, one in found.items()
    ]
    click.echo(table(("run", "state", "passed"), rows, width=printing.width()))
    click.echo("\nplan bench report RUN... or --all writes a report over them")
    faults = [one for one in found.values() if isinstance(one, Halt)]
    if faults:
        raise _all_of(faults)


def _has_begun(folder: Path) -> bool:
    """Whether there are events of the run."""
    events = folder / EVENTS
    return events.is_file() and events.stat().st_size > 0


def _standing(folder: Path) -> tuple[str, str]:
    if not _has_begun(folder):
        return "not begun", ""
    summary = _summary(folder)
    state = "complete" if summary.is_complete else wording.undecided(summary.counts)
    return state, ", ".join(f"{one.model} {wording.percent(one.share.rate)}" for one in summary.standings)


def _or_fault(read: Callable[[Path], _Found], folder: Path) -> _Found | Halt:
    """What `read` finds in the folder of a run, or why that cannot be read: one of many does not hide the others."""
    try:
        return read(folder)
    except Halt as fault:
        return fault
    except (OSError, EngineError) as error:
        known = crash.explained(error)
        if known is None:
            raise
        return Halt(known.exit, f"{folder}: {known.summary}", known.hint)


def _all_of(faults: Iterable[Halt]) -> Halt:
    """One ending that says all of `faults`, and each cure once."""
    summaries, hints = zip(*((one.summary, one.hint) for one in faults), strict=True)
    return Halt(Exit.FAILED, "\n".join(summaries), "\n".join(dict.fromkeys(hint for hint in hints if hint)))
