"""What `plan bench validate` does: run every proof of a suite as a run like any other, and judge it by its events."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from planloop.app import parting, wiring
from planloop.app.benching import folder as files
from planloop.app.benching import images, suites, validity
from planloop.app.benching.reporting import folded, write_summary
from planloop.app.benching.running import Going, attempts_of, run
from planloop.app.benching.screen import ProofScreen
from planloop.app.cold import ColdStore
from planloop.app.exits import Exit, Halt
from planloop.app.hosting import Leaving
from planloop.app.places import of_file
from planloop.app.streams import styled
from planloop.benchmarks.compiling.compiling import Wish, compile_run
from planloop.benchmarks.compiling.contestants import Contestant, provers_of
from planloop.benchmarks.planning import PLAN
from planloop.benchmarks.reading.suite import Case
from planloop.benchmarks.scoring.kinds import Kind
from planloop.benchmarks.validating import matrix
from planloop.benchmarks.validating.judging import Judgement, judge
from planloop.benchmarks.validating.page import Part, page
from planloop.benchmarks.validating.placing import in_text
from planloop.cli.rendering import diagnostics as rendering
from planloop.cli.rendering import printing
from planloop.reconciler.storing import owning
from planloop.schemas.amounts import plural
from planloop.schemas.diagnostic import Diagnostic
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import frozen

PAGE: Final = "md"


@frozen
class Validated:
    """A suite and what came of its proofs. `faults` are those of all cases, placed in its text."""

    suite: suites.SuiteFile
    folder: Path
    judgements: tuple[Judgement, ...]
    faults: tuple[Diagnostic, ...]

    @property
    def is_valid(self) -> bool:
        return all(judged.is_valid for judged in self.judgements)

    def part(self) -> Part:
        """The suite on a page."""
        return Part(self.suite.suite.name, self.suite.suite.about, self.judgements)

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
            **rendering.report(self.faults),
        }


@frozen
class Asked:
    """The options of `plan bench validate`."""

    names: tuple[str, ...]
    is_all: bool
    cases: str
    parallel: int
    reports: Path
    folders: tuple[Path, ...] = ()


def validate_all(asked: Asked, output: str | None) -> None:
    """Validates every suite that is asked for, one after the other, and prints what came of it. Raises Halt."""
    paths = suites.named(asked.names, is_all=asked.is_all, folders=asked.folders)
    if not paths:
        raise Halt(Exit.USAGE, "no suite is named", "plan bench list; --all validates them all")
    read_in = [suites.required(path) for path in paths]  # All faults of the texts before anything runs.
    found = []
    for suite in read_in:
        found.append(_validated(suite, asked))
        if output is None:
            _print(found[-1])
    is_valid = all(one.is_valid for one in found)
    if output == PAGE:
        click.echo(page([one.part() for one in found]))
    elif output is not None:
        printing.structured({"valid": is_valid, "suites": [one.to_json() for one in found]}, output)
    if not is_valid:
        raise Halt(Exit.FAILED)


def _validated(suite: suites.SuiteFile, asked: Asked) -> Validated:
    cases = suite.suite.chosen(asked.cases)
    if not cases:
        raise Halt(
            Exit.USAGE, f"no case of {suite.suite.name} matches `{asked.cases}`", f"plan bench list {suite.asked}"
        )
    wish = Wish(trials=1, cases=asked.cases, images=images.ids_of(cases))
    compiled = compile_run(suite.suite, _everybody(cases), wish)
    folder = asked.reports / suite.suite.name / files.VALIDATION
    _make_room(folder)
    files.begin(folder, compiled)
    screen = ProofScreen(len(compiled.entries), parallel=asked.parallel)
    command = f"plan bench validate {suite.path}"
    leaving = run(Going(folder, compiled, attempts_of(compiled, None), asked.parallel, command), screen)
    write_summary(folder)
    if leaving is not Leaving.FINISHED:
        raise Halt(Exit.CANCELLED, f"{suite.suite.name} is not validated: it was stopped", "")
    judgements = judge(cases, folded(folder).entries())
    validity.record(suite.suite, judgements, asked.reports)
    file = suites.near(suite.path)
    faults = in_text((fault for judged in judgements for fault in judged.faults), suite.read.texts[file], file)
    return Validated(suite, folder, judgements, tuple(faults))


def _everybody(cases: Sequence[Case]) -> list[Contestant]:
    """All who prove anything in one of `cases`, each once."""
    return list({who.name: who for case in cases for who in provers_of(case)}.values())


def _make_room(folder: Path) -> None:
    """Removes the validation before, with what an owner that died left of it: all it said can be had again."""
    place = of_file(folder / files.PLAN_FILE, PLAN)
    if place.exists:
        if owning.look(place.folder) is not None:
            hint = "wait for it, or validate into other --reports"
            raise Halt(Exit.CONFLICT, f"another process validates into {folder}", hint)
        wiring.stop_strays(place)
        if ColdStore(place).view.list("container"):
            parting.without_owner(place, with_volumes=True)
    shutil.rmtree(folder, ignore_errors=True)


def _print(found: Validated) -> None:
    width = printing.width()
    for judged in found.judgements:
        printing.lines(matrix.lines(judged, width))
    if any(judged.of(Kind.MUTANT) for judged in found.judgements):
        click.echo(matrix.LEGEND)
    sys.stdout.flush()
    texts = found.suite.read.texts
    styled(rendering.render(found.faults, dict(texts), color=sys.stderr.isatty()), sys.stderr)
    bad = sum(not judged.is_valid for judged in found.judgements)
    of = plural(len(found.judgements), "case")
    word = "valid" if not bad else f"{bad} not valid"
    click.echo(f"{found.suite.suite.name}: {of}, {word}")
