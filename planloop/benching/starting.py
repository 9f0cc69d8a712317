"""What `plan bench run` and `resume` do: compile, lay out, run, and say how it ended."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import click

from benchmarks.compiling.compiling import Wish, compile_run
from benchmarks.compiling.contestants import Contestant, contestant
from benchmarks.events.writing import FILE as EVENTS
from benchmarks.planning import PLAN
from benchmarks.reporting.combined import combine
from benchmarks.scoring.folding import Fold
from benchmarks.scoring.summary import Summary
from compiler.naming import id_hint, is_id
from compiler.reading import read_source
from planloop import wiring
from planloop.benching import folder as files
from planloop.benching import images, suites, validity
from planloop.benching.reporting import folded, show, write_summary
from planloop.benching.running import Going, attempts_of, run
from planloop.benching.screen import BenchScreen
from planloop.cold import ColdStore
from planloop.exits import Exit, Halt
from planloop.places import of_file
from reconciler.storing import owning
from schemas.frozen import frozen

SCRIPT: Final = "script:"


@frozen
class Asked:
    """The options of `plan bench run`."""

    names: tuple[str, ...]
    is_all: bool
    models: tuple[str, ...]
    trials: int | None = None
    seed: int | None = None
    cases: str = "*"
    parallel: int = 4
    deterministic: bool = False


@frozen
class Ended:
    """A run that is over, and what came of it."""

    folder: Path
    summary: Summary


def run_all(asked: Asked, name: str | None, reports: Path) -> None:
    """Runs every suite that is asked for, one after the other. Raises Halt."""
    _check_name(name)
    paths = list(suites.shipped().values()) if asked.is_all else [suites.find(each, Path.cwd()) for each in asked.names]
    if not paths:
        raise Halt(Exit.USAGE, "no suite is named", "plan bench list; --all runs them all")
    contestants = _contestants(asked.models)
    read_in = [suites.required(path) for path in paths]  # All faults before anything runs.
    _tell([_run_one(each, contestants, asked, name, reports) for each in read_in])


def resume_run(folder: Path, parallel: int) -> None:
    """Goes on with the run in `folder`. Raises Halt."""
    compiled = files.compiled_of(folder)
    place = of_file(folder / files.PLAN_FILE, PLAN)
    if owning.look(place.folder) is not None:  # Before anything is read or written that is theirs.
        raise Halt(Exit.CONFLICT, f"another process runs {folder}", f"plan tree --plan {place.root / files.PLAN_FILE}")
    if not place.exists and (folder / EVENTS).exists():
        hint = "plan bench report still reads its events; plan bench run begins another run"
        raise Halt(Exit.FAILED, f"the log of {folder} is gone: nobody knows what has ended", hint)
    view = ColdStore(place).view if place.exists else None
    attempts = attempts_of(compiled, view)
    _tell([_go(Going(folder, compiled, attempts, 1 if compiled.deterministic else parallel, _resume(folder)))])


def _run_one(
    suite: suites.SuiteFile, contestants: Sequence[Contestant], asked: Asked, name: str | None, reports: Path
) -> Ended:
    wish = Wish(
        asked.seed, asked.trials, asked.cases, asked.deterministic, images.ids_of(suite.suite.chosen(asked.cases))
    )
    compiled = compile_run(suite.suite, contestants, wish)
    compiled = replace(compiled, is_validated=validity.known(suite.suite, compiled.cases, reports))
    if not compiled.entries:
        raise Halt(Exit.USAGE, f"nothing to run in {compiled.suite}", "look at --cases and --model")
    folder = reports / compiled.suite / (name or _free_name(reports / compiled.suite))
    files.begin(folder, compiled)
    try:
        return _go(Going(folder, compiled, attempts_of(compiled, None), asked.parallel, _resume(folder)))
    except Halt:
        if not of_file(folder / files.PLAN_FILE, PLAN).exists:
            shutil.rmtree(folder)  # Its plan was refused: there is nothing to go on with, and the name stays free.
        raise


def _go(going: Going) -> Ended:
    before = folded(going.folder) if (going.folder / EVENTS).exists() else Fold()
    run(going, BenchScreen(len(going.compiled.entries), before, going.parallel))
    return Ended(going.folder, write_summary(going.folder))


def _tell(ended: Sequence[Ended]) -> None:
    """What came of it, then the folders. Raises Halt when something ended in an error and is to be tried again."""
    show(combine(one.summary for one in ended))
    for one in ended:
        if not one.summary.is_complete:
            click.echo(f"{_resume(one.folder)}  # tries again what has no verdict", err=True)
        click.echo(str(one.folder))
    if not all(one.summary.is_complete for one in ended):
        raise Halt(Exit.FINISHED_WITH_FAILURES)


def _free_name(folder: Path) -> str:
    """The date with the first number that is free."""
    day = time.strftime("%Y-%m-%d", time.gmtime(wiring.now()))
    number = 1
    while (folder / f"{day}-{number}").exists():
        number += 1
    return f"{day}-{number}"


def _check_name(name: str | None) -> None:
    """Raises Halt when no run may be called `name`."""
    if name == files.VALIDATION:
        raise Halt(Exit.USAGE, f"`{name}` is the run of plan bench validate", "give another --name")
    if name is not None and not is_id(name):
        raise Halt(Exit.USAGE, f"a run cannot be called {name!r}", f"--name takes an id: {id_hint(name)}")


def _contestants(names: Sequence[str]) -> list[Contestant]:
    """Everybody who is named, once. Raises Halt when reports could not tell two of them apart."""
    found: dict[str, Contestant] = {}
    for one in map(_contestant, dict.fromkeys(names)):
        if found.setdefault(one.name, one) != one:
            raise Halt(Exit.USAGE, f"two models are called `{one.name}`", "rename the file of a script")
    return list(found.values())


def _contestant(name: str) -> Contestant:
    if not name.startswith(SCRIPT):
        return contestant(name)
    path = Path(name.removeprefix(SCRIPT))
    try:
        tree = read_source(path.read_bytes(), file=str(path))
    except OSError as error:
        raise Halt(
            Exit.NOT_FOUND, f"{path} cannot be read: {error.strerror}", "script: names a file of scripts"
        ) from None
    if not isinstance(tree.value, dict):
        raise Halt(Exit.INVALID, f"{path} holds no scripts", "write `case: [steps]`, or `*: [steps]` for all cases")
    return Contestant(path.stem, "script", str(path), tree.value)


def _resume(folder: Path) -> str:
    return f"plan bench resume {folder}"
