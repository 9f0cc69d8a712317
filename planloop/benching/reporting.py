"""What `plan bench report` does: fold the events of runs, keep their summaries, and write one report over them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from benchmarks.events.reading import HINT, BadEvents, Torn, read
from benchmarks.events.writing import FILE as EVENTS
from benchmarks.reporting import combined, sheets, wording
from benchmarks.reporting.combined import Report
from benchmarks.reporting.html import html
from benchmarks.reporting.markdown import markdown
from benchmarks.scoring.folding import BadRun, Fold
from benchmarks.scoring.summary import Summary, printed, summarise
from compiler.naming import id_hint, is_id
from planloop.benching import folder as files
from planloop.exits import Exit, Halt
from planloop.rendering import printing
from planloop.rendering.tables import table
from schemas.encoding import digest_of
from schemas.frozen import frozen

INDEX: Final = "index"
FORMS: Final = ("json", "md", "html")


@frozen
class Asked:
    """The options of `plan bench report`. `name` is the folder of the report below `reports/index`."""

    runs: tuple[str, ...]
    is_all: bool
    name: str | None
    reports: Path
    output: str | None


def report(asked: Asked) -> None:
    """Writes the report over the runs that are asked for; with none, lists those that there are. Raises Halt."""
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
    found = combined.combine([_summary(folder) for folder in folders])
    forms = {"json": combined.printed(found), "md": markdown(found).encode(), "html": html(found).encode()}
    place = asked.reports / INDEX / (asked.name or _name(asked, folders))
    place.mkdir(parents=True, exist_ok=True)
    for form, content in forms.items():
        files.write_durably(place / f"report.{form}", content)
    if asked.output is not None:
        click.echo(forms[asked.output], nl=False)
        return
    show(found)
    for form in FORMS:
        click.echo(str(place / f"report.{form}"))


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
        hint = f"plan bench resume {folder} goes on with it"
        raise Halt(Exit.NOT_FOUND, f"{folder} has no {EVENTS}", hint) from None
    except (BadEvents, BadRun) as error:
        raise Halt(Exit.FAILED, f"{folder}: {error}", HINT) from None


def write_summary(folder: Path) -> Summary:
    """Makes `summary.json` of the run in `folder` say what its events say, and gives it. Raises Halt."""
    summary = summarise(folded(folder))
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


def _summary(folder: Path) -> Summary:
    files.compiled_of(folder)
    return write_summary(folder)


def _tell(folder: Path, torn: Torn | None) -> None:
    """What is left out is said."""
    if torn is not None:
        text = f"{folder / EVENTS}: line {torn.line} is torn and left out ({len(torn.content)} bytes)"
        click.echo(f"warning: {text}", err=True)


def _folders(asked: Asked) -> list[Path]:
    """The runs that are asked for, each once."""
    named = [folder_of(name, asked.reports) for name in asked.runs]
    every = [folder for folder in files.runs(asked.reports) if _has_begun(folder)] if asked.is_all else []
    found = {os.path.realpath(folder): folder for folder in (*named, *every)}
    if not found:
        raise Halt(Exit.NOT_FOUND, f"there are no runs in {asked.reports}", "plan bench run makes one; --reports DIR")
    return list(found.values())


def _has_begun(folder: Path) -> bool:
    """Whether there is something to report; that there is not is said."""
    has_begun = (folder / EVENTS).is_file()
    if not has_begun:
        click.echo(f"warning: {folder} has not begun and is left out", err=True)
    return has_begun


def _name(asked: Asked, folders: Sequence[Path]) -> str:
    """`all`, `SUITE-RUN`, or for several runs a name that the same runs give again."""
    if asked.is_all:
        return "all"
    if len(folders) == 1:
        folder = folders[0].resolve()
        return f"{folder.parent.name}-{folder.name}"
    return digest_of(sorted(os.path.realpath(folder) for folder in folders))[:12]


def _list(reports: Path) -> None:
    """A line a run."""
    rows = [(f"{folder.parent.name}/{folder.name}", *_standing(folder)) for folder in files.runs(reports)]
    if not rows:
        raise Halt(Exit.NOT_FOUND, f"there are no runs in {reports}", "plan bench run makes one; --reports DIR")
    click.echo(table(("run", "state", "passed"), rows, width=printing.width()))
    click.echo("\nplan bench report RUN... or --all writes a report over them")


def _standing(folder: Path) -> tuple[str, str]:
    if not (folder / EVENTS).is_file():
        return "not begun", ""
    summary = write_summary(folder)
    state = "complete" if summary.is_complete else wording.undecided(summary.counts)
    return state, ", ".join(f"{one.model} {wording.percent(one.share.rate)}" for one in summary.standings)
