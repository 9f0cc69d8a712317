"""`plan bench list`: the suites, or the cases of some."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from planloop.benchmarks.suite import Case, Suite
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.render import printer
from planloop.client.render.tables import format_table
from planloop.schemas.canonical_json import JsonObject
from planloop.server.bench import run_folder, suites

STATES = {True: "yes", False: "no", None: "unknown"}


def list_suites(names: Sequence[str], reports: Path, output: str | None, folders: Sequence[Path] = ()) -> None:
    """Lists the suites that are known, or the cases of those in `names`.

    `reports` is where validations are looked for, `folders` where one's own suites are. Raises CommandError, at the end
    for suites that cannot be read.
    """
    known = suites.known_suites(folders)
    if names:
        found = [suites.require_suite(suites.find_suites(name, Path.cwd(), folders)) for name in names]
        broken: list[str] = []
    else:
        read_in = {name: _read(path) for name, path in known.all.items()}
        found = [one for one in read_in.values() if one is not None]
        broken = [name for name, one in read_in.items() if one is None]
    if output is not None:
        printer.print_structured([_shown(one, reports) for one in found], output)
    elif names:
        for one in found:
            cases = [(case.id, case.setting.image, _about(case)) for case in one.suite.cases.values()]
            click.echo(format_table(("case", "image", "about"), cases, width=printer.terminal_width()))
    else:
        rows = [_row(one, reports) for one in found] + [(name, "", "broken", "", "") for name in broken]
        head = ("suite", "cases", "valid", "from", "about") if known.own else ("suite", "cases", "valid", "about")
        shown = rows if known.own else [(*row[:3], row[4]) for row in rows]
        click.echo(format_table(head, shown, width=printer.terminal_width()))
    if broken:
        raise CommandError(ExitCode.INVALID, f"these suites have errors: {', '.join(broken)}", "the errors are above")


def _read(path: Path) -> suites.SuiteFile | None:
    """The suite; None for one with errors, which are printed."""
    try:
        return suites.require_suite(path)
    except CommandError:
        return None


def _row(file: suites.SuiteFile, reports: Path) -> tuple[str, ...]:
    suite = file.suite
    return (suite.name, str(len(suite.cases)), STATES[_valid(suite, reports)], _from(file), suite.about)


def _from(file: suites.SuiteFile) -> str:
    """Its file, or `planloop` where it comes with that."""
    return "planloop" if file.path in suites.shipped_suites().values() else suites.path_shown(file.path)


def _shown(file: suites.SuiteFile, reports: Path) -> JsonObject:
    suite = file.suite
    cases = {
        case.id: {"about": case.about, "language": case.language, "image": case.setting.image}
        for case in suite.cases.values()
    }
    return {
        "suite": suite.name,
        "from": _from(file),
        "about": suite.about,
        "valid": _valid(suite, reports),
        "cases": cases,
    }


def _about(case: Case) -> str:
    """What a case is there for; where nobody says, what is asked."""
    return " ".join((case.about or case.prompts[0]).split())


def _valid(suite: Suite, reports: Path) -> bool | None:
    return run_folder.known_validation(suite, suite.cases, reports)
