"""`plan bench validate`: run every proof of a suite and judge it by its events."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from planloop.benchmarks import validation
from planloop.benchmarks.runs.contestants import Contestant, proofs_as_contestants
from planloop.benchmarks.runs.plan import PLAN
from planloop.benchmarks.runs.run_compiler import RunRequest, compile_run
from planloop.benchmarks.scoring.fold import ModelKind
from planloop.benchmarks.suite import Case
from planloop.benchmarks.validation import CaseJudgement, SuiteMatrix, judge_cases, matrix_page, place_in_text
from planloop.cli import bench_run
from planloop.cli.bench_report import fold_events, write_summary
from planloop.cli.bench_runner import ProofScreen, RunningBench, attempts_of, run_bench
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.plan_paths import paths_of_file
from planloop.client.process import write_styled
from planloop.client.render import diagnostics, printer
from planloop.owner import container_teardown, stop_commands
from planloop.owner.owner_process import ExitReason
from planloop.reconciler.store import owner_lock
from planloop.reconciler.store.backend import ReadOnlyStore
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.diagnostic import Diagnostic
from planloop.schemas.frozen import frozen
from planloop.schemas.quantities import pluralize
from planloop.server.bench import run_folder, suites

PAGE: Final = "md"


@frozen
class ValidatedSuite:
    """A suite and the results of its proofs. `faults` are the errors of all cases, with positions in its text."""

    suite: suites.SuiteFile
    folder: Path
    judgements: tuple[CaseJudgement, ...]
    faults: tuple[Diagnostic, ...]

    @property
    def is_valid(self) -> bool:
        return all(judged.is_valid for judged in self.judgements)

    def part(self) -> SuiteMatrix:
        """The suite on a page."""
        return SuiteMatrix(self.suite.suite.name, self.suite.suite.about, self.judgements)

    def to_json(self) -> JsonObject:
        return {
            "suite": self.suite.suite.name,
            "file": str(self.suite.path),
            "run": str(self.folder),
            "valid": self.is_valid,
            "cases": {
                judged.case: {
                    "valid": judged.is_valid,
                    "checks": list(judged.checks),
                    "proofs": [proof.to_json() for proof in judged.proofs],
                }
                for judged in self.judgements
            },
            **diagnostics.diagnostics_text(self.faults),
        }


@frozen
class ValidateOptions:
    """The options of `plan bench validate`."""

    names: tuple[str, ...]
    is_all: bool
    cases: str
    parallel: int
    reports: Path
    folders: tuple[Path, ...] = ()


def validate_suites(asked: ValidateOptions, output: str | None) -> None:
    """Validate the given suites one after the other, and print the results. Raises CommandError."""
    paths = suites.select_suites(asked.names, is_all=asked.is_all, folders=asked.folders)
    if not paths:
        raise CommandError(
            ExitCode.USAGE, "no suite given", "plan bench list lists the suites; --all validates all of them"
        )
    read_in = [suites.require_suite(path) for path in paths]  # Report all errors of the texts before anything runs.
    found = []
    for suite in read_in:
        found.append(_validated(suite, asked))
        if output is None:
            _print(found[-1])
    is_valid = all(one.is_valid for one in found)
    if output == PAGE:
        click.echo(matrix_page([one.part() for one in found]))
    elif output is not None:
        printer.print_structured({"valid": is_valid, "suites": [one.to_json() for one in found]}, output)
    if not is_valid:
        raise CommandError(ExitCode.FAILED)


def _validated(suite: suites.SuiteFile, asked: ValidateOptions) -> ValidatedSuite:
    cases = suite.suite.chosen(asked.cases)
    if not cases:
        raise CommandError(
            ExitCode.USAGE, f"no case of {suite.suite.name} matches `{asked.cases}`", f"plan bench list {suite.asked}"
        )
    wish = RunRequest(trials=1, cases=asked.cases, images=bench_run.image_ids(cases))
    compiled = compile_run(suite.suite, _all_proofs(cases), wish)
    folder = asked.reports / suite.suite.name / run_folder.VALIDATION
    _make_room(folder)
    run_folder.create_run_folder(folder, compiled)
    screen = ProofScreen(len(compiled.entries), parallel=asked.parallel)
    command = f"plan bench validate {suite.path}"
    leaving = run_bench(RunningBench(folder, compiled, attempts_of(compiled, None), asked.parallel, command), screen)
    write_summary(folder)
    if leaving is not ExitReason.FINISHED:
        raise CommandError(ExitCode.CANCELLED, f"{suite.suite.name} was not validated: the run was stopped", "")
    judgements = judge_cases(cases, fold_events(folder).entries())
    run_folder.record_validation(suite.suite, judgements, asked.reports)
    file = suites.path_shown(suite.path)
    faults = place_in_text(
        (problem for judged in judgements for problem in judged.problems), suite.read.texts[file], file
    )
    return ValidatedSuite(suite, folder, judgements, tuple(faults))


def _all_proofs(cases: Sequence[Case]) -> list[Contestant]:
    """All who prove anything in one of `cases`, each once."""
    return list({who.name: who for case in cases for who in proofs_as_contestants(case)}.values())


def _make_room(folder: Path) -> None:
    """Removes the validation before, with what an owner that died left of it: all it said can be had again."""
    place = paths_of_file(folder / run_folder.PLAN_FILE, PLAN)
    if place.exists:
        if owner_lock.current_owner(place.folder) is not None:
            hint = "wait until it ends, or use another folder with --reports"
            raise CommandError(ExitCode.CONFLICT, f"another process validates into {folder}", hint)
        stop_commands.stop_strays(place)
        if ReadOnlyStore(place.folder).view.list("container"):
            container_teardown.take_down_offline(place, with_volumes=True)
    shutil.rmtree(folder, ignore_errors=True)


def _print(found: ValidatedSuite) -> None:
    width = printer.terminal_width()
    for judged in found.judgements:
        printer.print_lines(validation.matrix_lines(judged, width))
    if any(judged.of(ModelKind.MUTANT) for judged in found.judgements):
        click.echo(validation.LEGEND)
    sys.stdout.flush()
    texts = found.suite.read.texts
    write_styled(diagnostics.diagnostic_text(found.faults, dict(texts), color=sys.stderr.isatty()), sys.stderr)
    bad = sum(not judged.is_valid for judged in found.judgements)
    of = pluralize(len(found.judgements), "case")
    word = "valid" if not bad else f"{bad} invalid"
    click.echo(f"{found.suite.suite.name}: {of}, {word}")
