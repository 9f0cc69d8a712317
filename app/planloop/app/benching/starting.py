"""What `plan bench run` and `resume` do: compile, lay out, run, and say how it ended."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Final

import click

from planloop.app import wiring
from planloop.app.benching import folder as files
from planloop.app.benching import images, models, suites, validity
from planloop.app.benching.reporting import INDEX, folded, forms_of, name_of, show, write, write_summary
from planloop.app.benching.running import Going, attempts_of, run
from planloop.app.benching.screen import BenchScreen
from planloop.app.cold import ColdStore
from planloop.app.exits import Exit, Halt
from planloop.app.places import of_file
from planloop.benchmarks.compiling.compiled import SCORING, Compiled
from planloop.benchmarks.compiling.compiling import Wish, compile_run
from planloop.benchmarks.compiling.contestants import EVERY_CASE, Contestant, contestant, provers_of
from planloop.benchmarks.events.writing import FILE as EVENTS
from planloop.benchmarks.planning import PLAN
from planloop.benchmarks.reading.suite import Case, Suite
from planloop.benchmarks.reporting.combined import combine
from planloop.benchmarks.scoring.folding import Fold
from planloop.benchmarks.scoring.summary import Summary
from planloop.compiler.naming import id_hint, is_id
from planloop.compiler.scripts import read_scripts
from planloop.compiler.suggesting import nearest
from planloop.reconciler.storing import owning
from planloop.schemas.amounts import money, plural
from planloop.schemas.frozen import frozen
from planloop.schemas.model import ModelTable

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
    folders: tuple[Path, ...] = ()


@frozen
class Ended:
    """A run that is over, and what came of it."""

    folder: Path
    summary: Summary


def run_all(asked: Asked, name: str | None, reports: Path) -> None:
    """Runs every suite that is asked for, one after the other. Raises Halt."""
    _check_name(name)
    paths = suites.named(asked.names, is_all=asked.is_all, folders=asked.folders)
    if not paths:
        raise Halt(Exit.USAGE, "no suite is named", "plan bench list; --all runs them all")
    contestants = _contestants(asked.models)
    models.check(contestants, ModelTable(), wiring.environment(), Path.cwd())
    read_in = [suites.required(path) for path in paths]  # All faults before anything runs, and what is missing.
    _check_folders([each.suite.name for each in read_in], name, reports)
    for line in _strays(contestants, [each.suite for each in read_in]):
        click.echo(line, err=True)
    found = [images.ids_of(each.suite.chosen(asked.cases)) for each in read_in]
    ended = [_run_one(each, ids, contestants, asked, name, reports) for each, ids in zip(read_in, found, strict=True)]
    _tell(ended, reports / INDEX if len(ended) > 1 else None)


def _check_folders(names: Sequence[str], name: str | None, reports: Path) -> None:
    """Raises Halt when a run could not have its folder: before the first begins, which may cost money."""
    twice = next((one for one in names if names.count(one) > 1), None)
    if twice is not None:
        raise Halt(Exit.USAGE, f"the suite {twice} is named twice", "--trials tries each of its cases more often")
    if name is not None:
        for one in names:
            files.must_be_new(reports / one / name)


def _strays(contestants: Sequence[Contestant], of: Sequence[Suite]) -> Iterator[str]:
    """A line for each script that names what is no case of the suites: by a slip, or for another suite."""
    cases = {name: None for suite in of for case in suite.cases.values() for name in (case.id, case.base)}
    for who in contestants:
        strays = [name for name in who.steps or {} if name not in cases and name != EVERY_CASE]
        if strays:
            what, which = ("a script", "is no case") if len(strays) == 1 else ("scripts", "are no cases")
            near = [f"`{one}`" for one in (nearest(name, cases) for name in strays) if one is not None]
            meant = f"; did you mean {', '.join(near)}?" if near else ""
            named, where = ", ".join(f"`{name}`" for name in strays), ", ".join(suite.name for suite in of)
            yield f"note: {who.name} has {what} for {named}, which {which} of {where}{meant}"


def resume_run(folder: Path, parallel: int, suite: str | None = None) -> None:
    """Goes on with the run in `folder`, by what is in the suite now where one is named. Raises Halt."""
    compiled = files.compiled_of(folder)
    if compiled.scoring != SCORING:  # Verdicts by two sets of rules would stand in one rate.
        what = f"{folder} is judged by the rules of scoring {compiled.scoring}, and this version has {SCORING}"
        raise Halt(Exit.CONFLICT, what, "plan bench run begins another run; plan bench report still reads this one")
    place = of_file(folder / files.PLAN_FILE, PLAN)
    if owning.look(place.folder) is not None:  # Before anything is read or written that is theirs.
        raise Halt(Exit.CONFLICT, f"another process runs {folder}", f"plan tree --plan {place.root / files.PLAN_FILE}")
    if not place.exists and (folder / EVENTS).exists():
        hint = "plan bench report still reads its events; plan bench run begins another run"
        raise Halt(Exit.FAILED, f"the log of {folder} is gone: nobody knows what has ended", hint)
    if suite is not None:
        compiled = _edited(compiled, suite, folder.parent.parent)
        files.write(folder, compiled)
    view = ColdStore(place).view if place.exists else None
    attempts = attempts_of(compiled, view)
    _tell([_go(Going(folder, compiled, attempts, 1 if compiled.deterministic else parallel, _resume(folder)))])


def _edited(before: Compiled, name: str, reports: Path) -> Compiled:
    """The run `before` with its cases as they are in the suite now. Raises Halt when some of its entries are gone."""
    read = suites.required(suites.find(name, Path.cwd())).suite
    suite = replace(read, cases={id_: case for id_, case in read.cases.items() if id_ in before.cases})
    wish = Wish(before.seed, before.trials, "*", before.deterministic, images.ids_of(suite.cases.values()))
    compiled = compile_run(suite, [Contestant(**model) for model in before.models.values()], wish)
    gone = [entry for entry in before.entries if entry not in compiled.entries]
    if suite.name != before.suite or gone:
        what = f"has no {gone[0]} any more" if suite.name == before.suite else f"is no suite `{before.suite}`"
        raise Halt(Exit.CONFLICT, f"{name} {what}", "plan bench run begins another run")
    return replace(compiled, is_validated=validity.known(read, compiled.cases, reports))


def _run_one(
    suite: suites.SuiteFile,
    ids: Mapping[str, str],
    contestants: Sequence[Contestant],
    asked: Asked,
    name: str | None,
    reports: Path,
) -> Ended:
    wish = Wish(asked.seed, asked.trials, asked.cases, asked.deterministic, ids)
    compiled = compile_run(suite.suite, contestants, wish)
    compiled = replace(compiled, is_validated=validity.known(suite.suite, compiled.cases, reports))
    cases = suite.suite.chosen(asked.cases)
    if not cases:
        hint = f"plan bench list {suite.asked}"
        raise Halt(Exit.USAGE, f"no case of {suite.suite.name} matches `{asked.cases}`", hint)
    idle = [who for who in contestants if all(who.name != entry.model for entry in compiled.entries.values())]
    if not compiled.entries:
        raise Halt(Exit.USAGE, f"{idle[0].name} has no part in {suite.suite.name}", _why_idle(idle[0], cases))
    for who in idle:
        click.echo(f"note: {who.name} has no part in {suite.suite.name}; {_why_idle(who, cases)}", err=True)
    folder = reports / compiled.suite / (name or _free_name(reports / compiled.suite))
    files.begin(folder, compiled)
    click.echo(announced(compiled, folder), err=True)
    try:
        return _go(Going(folder, compiled, attempts_of(compiled, None), asked.parallel, _resume(folder)))
    except Halt as halt:
        if halt.exit is not Exit.FAILED and not of_file(folder / files.PLAN_FILE, PLAN).exists:
            shutil.rmtree(folder)  # Its plan was refused: there is nothing to go on with, and the name stays free.
        raise


def _why_idle(who: Contestant, cases: Sequence[Case]) -> str:
    """What would have a part in `cases`."""
    if who.kind == "script":
        return "a script says for which cases it is, `*` for all"
    proofs = sorted({one.ref for case in cases for one in provers_of(case) if one.kind == who.kind})
    return f"its {who.kind}s: {', '.join(proofs) or 'none'}"


def announced(compiled: Compiled, folder: Path) -> str:
    """What is about to run, at most for how much money, and where it is kept."""
    models = [model for model in compiled.models.values() if model["kind"] == "model"]
    entries = plural(len(compiled.entries), "entry", "entries")
    of = f"{plural(len(compiled.cases), 'case')} × {plural(len(compiled.models), 'model')}"
    cost = f" · {_at_most(compiled, {model['name'] for model in models})}" if models else ""
    return f"{compiled.suite}: {entries}, {of} × {plural(compiled.trials, 'trial')}{cost} · {folder}"


def _at_most(compiled: Compiled, models: set[str]) -> str:
    """The sum of what the entries of `models` may spend."""
    budgets = [
        compiled.cases[one.case]["budget"].get("usd") for one in compiled.entries.values() if one.model in models
    ]
    if any(usd is None for usd in budgets):
        return "no bound on what it costs: `budget: {usd: …}` of a case sets one"
    return f"at most {money(sum((Decimal(str(usd)) for usd in budgets), Decimal(0)))}"


def _go(going: Going) -> Ended:
    before = folded(going.folder) if (going.folder / EVENTS).exists() else Fold()
    screen = BenchScreen(_tried(going.compiled, before), before, going.parallel)
    run(going, screen)
    return Ended(going.folder, write_summary(going.folder, screen.fold))


def _tried(compiled: Compiled, before: Fold) -> int:
    """How many entries have no verdict on what is asked now."""
    keys = {(one.case, one.model, one.trial): one.key for one in compiled.entries.values()}
    kept = sum(one.is_decided and keys.get((one.case, one.model, one.trial)) == one.key for one in before.entries())
    return len(compiled.entries) - kept


def _tell(ended: Sequence[Ended], index: Path | None = None) -> None:
    """What came of it, then the folders, and a report over all of them where `index` is the folder of reports.

    Raises Halt when something ended in an error and is to be tried again.
    """
    found = combine(one.summary for one in ended)
    show(found)
    for one in ended:
        if not one.summary.is_complete:
            click.echo(f"{_resume(one.folder)}  # tries again what has no verdict", err=True)
        click.echo(str(one.folder))
    for path in () if index is None else write(forms_of(found), index / name_of([one.folder for one in ended])):
        click.echo(str(path))
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
        read = read_scripts(path.read_bytes(), file=str(path))
    except OSError as error:
        raise Halt(
            Exit.NOT_FOUND, f"{path} cannot be read: {error.strerror}", "script: names a file of scripts"
        ) from None
    suites.tell(read.diagnostics, {str(path): read.text})
    if read.scripts is None:
        raise Halt(Exit.INVALID, "")
    return Contestant(path.stem, "script", str(path), read.scripts)


def _resume(folder: Path) -> str:
    return f"plan bench resume {folder}"
