"""`plan bench run` and `resume`: compile, lay out, run, report."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import anyio
import click

from planloop.benchmarks.events.projection import FILE as EVENTS
from planloop.benchmarks.reporting.report import combine_summaries
from planloop.benchmarks.runs.contestants import EVERY_CASE, Contestant, contestant_from_name, proofs_as_contestants
from planloop.benchmarks.runs.plan import PLAN
from planloop.benchmarks.runs.run_compiler import SCORING, CompiledRun, RunRequest, compile_run
from planloop.benchmarks.scoring.fold import RunFold
from planloop.benchmarks.scoring.summary import RunSummary
from planloop.benchmarks.suite import Case, Suite
from planloop.cli.bench_report import (
    INDEX,
    fold_events,
    print_bench_summary,
    report_forms,
    run_title,
    write_report,
    write_summary,
)
from planloop.cli.bench_runner import BenchScreen, RunningBench, attempts_of, run_bench
from planloop.client import engine_access, process
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.plan_paths import paths_of_file
from planloop.compiler.names import id_hint, is_valid_id, nearest_name
from planloop.compiler.plan_compiler import read_scripts
from planloop.containers.engine.engine import EngineFailed
from planloop.containers.images.stock import PREFIX, STOCK
from planloop.controllers.agent.models import router
from planloop.controllers.agent.models.port import ModelFailed
from planloop.controllers.agent.models.router import RouteContext
from planloop.reconciler.store import owner_lock
from planloop.reconciler.store.backend import ReadOnlyStore
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.model import ModelTable, parse_model_name
from planloop.schemas.quantities import format_money, pluralize
from planloop.server.bench import run_folder, suites

# Whether the models that a run is to ask can be asked at all: told once before it, not once for every entry.

ELSEWHERE: Final = "name@http://host/v1 uses any server with the OpenAI chat API"


def check_models(contestants: Iterable[Contestant], table: ModelTable, env: Mapping[str, str], folder: Path) -> None:
    """Raise CommandError for the first model that is not available: no key, no adapter, or an unknown name."""
    for who in contestants:
        if who.kind == "model" and not (name := parse_model_name(who.ref)).tape:
            try:
                found = router.find_route(name.real, table, RouteContext(env, folder))
            except ModelFailed as problem:
                raise CommandError(ExitCode.USAGE, f"--model {who.ref}: {problem}", ELSEWHERE) from None
            if "/" not in who.ref and (near := get_close_matches(who.ref, ("oracle", "nop"), n=1)):
                raise CommandError(ExitCode.USAGE, f"unknown model `{who.ref}`", f"did you mean --model {near[0]}?")
            if found.is_litellm and find_spec("litellm") is None:
                what = f"--model {who.ref} requires litellm, which is not installed"
                raise CommandError(ExitCode.USAGE, what, f"pip install 'planloop[litellm]' · {ELSEWHERE}")


# The images that a suite names, as the engine has them: a run records their ids, since names change their meaning.

_STOCK: Final = frozenset(f"{PREFIX}{name}" for name in STOCK)


def image_ids(cases: Iterable[Case]) -> dict[str, str]:
    """The ids of all images that `cases` work in. Raises CommandError when one is not there."""
    names = sorted({case.setting.image for case in cases if case.setting.image})
    return anyio.run(_ids, names) if names else {}


async def _ids(names: list[str]) -> dict[str, str]:
    engine = engine_access.container_engine()
    try:
        found = {name: await engine.image(name) for name in names}
    except EngineFailed as failed:
        raise CommandError(ExitCode.FAILED, f"the suite works in containers: {failed}", failed.hint) from None
    missing = [name for name, image in found.items() if image is None]
    if missing:
        raise CommandError(ExitCode.FAILED, f"image not found: {', '.join(missing)}", image_fix(missing))
    return {name: image.id for name, image in found.items() if image is not None}


def image_fix(missing: Sequence[str]) -> str:
    """Return the commands that provide the images in `missing`."""
    stock = [name.removeprefix(PREFIX) for name in missing if name in _STOCK]
    made = [f"plan image make {' '.join(stock)}"] if stock else []
    return " · ".join([*made, *map(_own_image_fix, (name for name in missing if name not in _STOCK))])


def _own_image_fix(name: str) -> str:
    """Return the command that provides an image that is not a stock image. Our prefix is not published anywhere."""
    built = f"docker build -t {name} DIR"
    return built if name.startswith(PREFIX) else f"docker pull {name}, or {built}"


SCRIPT: Final = "script:"


@frozen
class BenchRunOptions:
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
class EndedRun:
    """A run that has ended, and its result."""

    folder: Path
    summary: RunSummary


def run_suites(asked: BenchRunOptions, name: str | None, reports: Path) -> None:
    """Run the given suites one after the other. Raises CommandError."""
    _check_name(name)
    paths = suites.select_suites(asked.names, is_all=asked.is_all, folders=asked.folders)
    if not paths:
        raise CommandError(ExitCode.USAGE, "no suite given", "plan bench list lists the suites; --all runs all of them")
    contestants = _contestants(asked.models)
    check_models(contestants, ModelTable(), process.environment(), Path.cwd())
    read_in = [
        suites.require_suite(path) for path in paths
    ]  # Report all errors, and what is missing, before anything runs.
    _check_folders([each.suite.name for each in read_in], name, reports)
    for line in _strays(contestants, [each.suite for each in read_in]):
        click.echo(line, err=True)
    found = [image_ids(each.suite.chosen(asked.cases)) for each in read_in]
    ended = [_run_one(each, ids, contestants, asked, name, reports) for each, ids in zip(read_in, found, strict=True)]
    _tell(ended, reports / INDEX if len(ended) > 1 else None)


def _check_folders(names: Sequence[str], name: str | None, reports: Path) -> None:
    """Raise CommandError if the folder of a run cannot be created, before the first run starts and costs money."""
    twice = next((one for one in names if names.count(one) > 1), None)
    if twice is not None:
        raise CommandError(
            ExitCode.USAGE, f"the suite {twice} is given more than once", "use --trials to run each case several times"
        )
    if name is not None:
        for one in names:
            run_folder.require_new(reports / one / name)


def _strays(contestants: Sequence[Contestant], of: Sequence[Suite]) -> Iterator[str]:
    """Return a note for each script that names an unknown case: misspelt, or of another suite."""
    cases = {name: None for suite in of for case in suite.cases.values() for name in (case.id, case.base)}
    for who in contestants:
        strays = [name for name in who.steps or {} if name not in cases and name != EVERY_CASE]
        if strays:
            what, which = ("a script", "is not a case") if len(strays) == 1 else ("scripts", "are not cases")
            near = [f"`{one}`" for one in (nearest_name(name, cases) for name in strays) if one is not None]
            meant = f"; did you mean {', '.join(near)}?" if near else ""
            named, where = ", ".join(f"`{name}`" for name in strays), ", ".join(suite.name for suite in of)
            yield f"note: {who.name} has {what} for {named}, which {which} of {where}{meant}"


def resume_run(folder: Path, parallel: int, suite: str | None = None) -> None:
    """Resume the run in `folder`, with the present cases of `suite` if it is given. Raises CommandError."""
    compiled = run_folder.read_compiled(folder)
    if compiled.scoring != SCORING:  # One rate must not mix verdicts of two sets of rules.
        what = f"{folder} uses scoring rules {compiled.scoring}; this version has {SCORING}"
        raise CommandError(
            ExitCode.CONFLICT, what, "start another run with plan bench run; plan bench report still reads this one"
        )
    place = paths_of_file(folder / run_folder.PLAN_FILE, PLAN)
    if owner_lock.current_owner(place.folder) is not None:  # Before anything is read or written that is theirs.
        raise CommandError(
            ExitCode.CONFLICT, f"another process runs {folder}", f"plan tree --plan {place.root / run_folder.PLAN_FILE}"
        )
    if not place.exists and (folder / EVENTS).exists():
        hint = "start another run with plan bench run; plan bench report still reads the events"
        raise CommandError(ExitCode.FAILED, f"the log of {folder} is missing, so the run cannot continue", hint)
    if suite is not None:
        compiled = _edited(compiled, suite, folder.parent.parent)
        run_folder.write_plan_json(folder, compiled)
    view = ReadOnlyStore(place.folder).view if place.exists else None
    attempts = attempts_of(compiled, view)
    _tell(
        [
            _run_entries(
                RunningBench(
                    folder, compiled, attempts, 1 if compiled.settings.deterministic else parallel, _resume(folder)
                )
            )
        ]
    )


def _edited(before: CompiledRun, name: str, reports: Path) -> CompiledRun:
    """The run `before` with its cases as they are in the suite now. Raises CommandError when some of its entries are
    gone.
    """
    read = suites.require_suite(suites.find_suites(name, Path.cwd())).suite
    suite = replace(read, cases={id_: case for id_, case in read.cases.items() if id_ in before.cases})
    asked = before.settings
    wish = RunRequest(asked.seed, asked.trials, "*", asked.deterministic, image_ids(suite.cases.values()))
    compiled = compile_run(suite, [Contestant(**model) for model in before.models.values()], wish)
    gone = [entry for entry in before.entries if entry not in compiled.entries]
    if suite.name != before.suite or gone:
        what = f"no longer has {gone[0]}" if suite.name == before.suite else f"is not the suite `{before.suite}`"
        raise CommandError(ExitCode.CONFLICT, f"{name} {what}", "start another run with plan bench run")
    return replace(compiled, is_validated=run_folder.known_validation(read, compiled.cases, reports))


def _run_one(
    suite: suites.SuiteFile,
    ids: Mapping[str, str],
    contestants: Sequence[Contestant],
    asked: BenchRunOptions,
    name: str | None,
    reports: Path,
) -> EndedRun:
    wish = RunRequest(asked.seed, asked.trials, asked.cases, asked.deterministic, ids)
    compiled = compile_run(suite.suite, contestants, wish)
    compiled = replace(compiled, is_validated=run_folder.known_validation(suite.suite, compiled.cases, reports))
    cases = suite.suite.chosen(asked.cases)
    if not cases:
        hint = f"plan bench list {suite.asked}"
        raise CommandError(ExitCode.USAGE, f"no case of {suite.suite.name} matches `{asked.cases}`", hint)
    idle = [who for who in contestants if all(who.name != entry.model for entry in compiled.entries.values())]
    if not compiled.entries:
        raise CommandError(
            ExitCode.USAGE, f"{idle[0].name} has no case in {suite.suite.name}", _why_idle(idle[0], cases)
        )
    for who in idle:
        click.echo(f"note: {who.name} has no case in {suite.suite.name}; {_why_idle(who, cases)}", err=True)
    folder = reports / compiled.suite / (name or _free_name(reports / compiled.suite))
    run_folder.create_run_folder(folder, compiled)
    click.echo(announce(compiled, folder), err=True)
    try:
        return _run_entries(
            RunningBench(folder, compiled, attempts_of(compiled, None), asked.parallel, _resume(folder))
        )
    except CommandError as halt:
        if halt.exit is not ExitCode.FAILED and not paths_of_file(folder / run_folder.PLAN_FILE, PLAN).exists:
            shutil.rmtree(folder)  # Its plan was refused: there is nothing to resume, and the name stays free.
        raise


def _why_idle(who: Contestant, cases: Sequence[Case]) -> str:
    """What would have a part in `cases`."""
    if who.kind == "script":
        return "a script lists its cases; `*` means all"
    proofs = sorted({one.ref for case in cases for one in proofs_as_contestants(case) if one.kind == who.kind})
    return f"its {who.kind}s: {', '.join(proofs) or 'none'}"


def announce(compiled: CompiledRun, folder: Path) -> str:
    """Print what is about to run, its cost limit, and its folder."""
    models = [model for model in compiled.models.values() if model["kind"] == "model"]
    entries = pluralize(len(compiled.entries), "entry", "entries")
    of = f"{pluralize(len(compiled.cases), 'case')} × {pluralize(len(compiled.models), 'model')}"
    cost = f" · {_at_most(compiled, {model['name'] for model in models})}" if models else ""
    return f"{compiled.suite}: {entries}, {of} × {pluralize(compiled.settings.trials, 'trial')}{cost} · {folder}"


def _at_most(compiled: CompiledRun, models: set[str]) -> str:
    """The sum of what the entries of `models` may spend."""
    budgets = [
        compiled.cases[one.case]["budget"].get("usd") for one in compiled.entries.values() if one.model in models
    ]
    if any(usd is None for usd in budgets):
        return "no cost limit: set `budget: {usd: …}` in a case"
    return f"at most {format_money(sum((Decimal(str(usd)) for usd in budgets), Decimal(0)))}"


def _run_entries(going: RunningBench) -> EndedRun:
    before = fold_events(going.folder) if (going.folder / EVENTS).exists() else RunFold()
    screen = BenchScreen(_tried(going.compiled, before), before, going.parallel)
    run_bench(going, screen)
    return EndedRun(going.folder, write_summary(going.folder, screen.fold))


def _tried(compiled: CompiledRun, before: RunFold) -> int:
    """Return how many entries have no verdict on their present attempt."""
    keys = {(one.case, one.model, one.trial): one.key for one in compiled.entries.values()}
    kept = sum(
        one.is_decided and keys.get((one.case, one.model, one.trial)) == one.given.key for one in before.entries()
    )
    return len(compiled.entries) - kept


def _tell(ended: Sequence[EndedRun], index: Path | None = None) -> None:
    """Print the results and the folders; with `index`, the folder of reports, also write a report on all runs.

    Raises CommandError if a trial ended in an error and should be retried.
    """
    found = combine_summaries(one.summary for one in ended)
    print_bench_summary(found)
    for one in ended:
        if not one.summary.is_complete:
            click.echo(f"{_resume(one.folder)}  # retries cases without a verdict", err=True)
        click.echo(str(one.folder))
    for path in (
        () if index is None else write_report(report_forms(found), index / run_title([one.folder for one in ended]))
    ):
        click.echo(str(path))
    if not all(one.summary.is_complete for one in ended):
        raise CommandError(ExitCode.FINISHED_WITH_FAILURES)


def _free_name(folder: Path) -> str:
    """The date with the first number that is free."""
    day = time.strftime("%Y-%m-%d", time.gmtime(process.now()))
    number = 1
    while (folder / f"{day}-{number}").exists():
        number += 1
    return f"{day}-{number}"


def _check_name(name: str | None) -> None:
    """Raises CommandError when no run may be called `name`."""
    if name == run_folder.VALIDATION:
        raise CommandError(
            ExitCode.USAGE, f"the name `{name}` is reserved for plan bench validate", "choose another --name"
        )
    if name is not None and not is_valid_id(name):
        raise CommandError(ExitCode.USAGE, f"invalid run name {name!r}", f"--name takes an id: {id_hint(name)}")


def _contestants(names: Sequence[str]) -> list[Contestant]:
    """Return each contestant once. Raises CommandError if two have the same name in reports."""
    found: dict[str, Contestant] = {}
    for one in map(_contestant, dict.fromkeys(names)):
        if found.setdefault(one.name, one) != one:
            raise CommandError(
                ExitCode.USAGE, f"two models have the name `{one.name}`", "rename the script file of one"
            )
    return list(found.values())


def _contestant(name: str) -> Contestant:
    if not name.startswith(SCRIPT):
        return contestant_from_name(name)
    path = Path(name.removeprefix(SCRIPT))
    try:
        read = read_scripts(path.read_bytes(), file=str(path))
    except OSError as error:
        raise CommandError(
            ExitCode.NOT_FOUND, f"{path} cannot be read: {error.strerror}", "script: names a file of scripts"
        ) from None
    suites.print_suite_errors(read.diagnostics, {str(path): read.text})
    if read.scripts is None:
        raise CommandError(ExitCode.INVALID, "")
    return Contestant(path.stem, "script", str(path), read.scripts)


def _resume(folder: Path) -> str:
    return f"plan bench resume {folder}"
