"""What `plan bench list` prints: the suites that there are, or the cases of some."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from benchmarks.reading.suite import Case, Suite
from planloop.benching import suites, validity
from planloop.rendering import printing
from planloop.rendering.tables import table
from schemas.encoding import JsonObject

STATES = {True: "yes", False: "no", None: "unknown"}


def listed(names: Sequence[str], reports: Path, output: str | None) -> None:
    """Lists the shipped suites, or the cases of those in `names`. `reports` is where validations are looked for."""
    paths = suites.named(names, is_all=not names)
    found = [suites.required(path).suite for path in paths]
    if output is not None:
        printing.structured([_shown(suite, reports) for suite in found], output)
    elif names:
        for suite in found:
            cases = [(case.id, case.image, _about(case)) for case in suite.cases.values()]
            click.echo(table(("case", "image", "about"), cases, width=printing.width()))
    else:
        rows = [(suite.name, str(len(suite.cases)), STATES[_valid(suite, reports)], suite.about) for suite in found]
        click.echo(table(("suite", "cases", "valid", "about"), rows, width=printing.width()))


def _shown(suite: Suite, reports: Path) -> JsonObject:
    cases = {
        case.id: {"about": case.about, "language": case.language, "image": case.image} for case in suite.cases.values()
    }
    return {"suite": suite.name, "about": suite.about, "valid": _valid(suite, reports), "cases": cases}


def _about(case: Case) -> str:
    """What a case is there for; where nobody says, what is asked."""
    return " ".join((case.about or case.prompts[0]).split())


def _valid(suite: Suite, reports: Path) -> bool | None:
    return validity.known(suite, suite.cases, reports)
