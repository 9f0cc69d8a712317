"""Suites of `plan bench`: list them and their cases, and convert public cases into suites."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click

from planloop.benchmarks.importers import bfcl, exercism
from planloop.benchmarks.suite import Case, Suite
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.render import printer
from planloop.client.render.tables import format_table
from planloop.schemas import limits
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.quantities import pluralize
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
        read_in = {name: _read_suite(path) for name, path in known.all.items()}
        found = [one for one in read_in.values() if one is not None]
        broken = [name for name, one in read_in.items() if one is None]
    if output is not None:
        printer.print_structured([_suite_json(one, reports) for one in found], output)
    elif names:
        for one in found:
            cases = [(case.id, case.setting.image, _about(case)) for case in one.suite.cases.values()]
            click.echo(format_table(("case", "image", "about"), cases, width=printer.terminal_width()))
    else:
        rows = [_suite_row(one, reports) for one in found] + [(name, "", "broken", "", "") for name in broken]
        head = ("suite", "cases", "valid", "from", "about") if known.own else ("suite", "cases", "valid", "about")
        shown = rows if known.own else [(*row[:3], row[4]) for row in rows]
        click.echo(format_table(head, shown, width=printer.terminal_width()))
    if broken:
        raise CommandError(ExitCode.INVALID, f"these suites have errors: {', '.join(broken)}", "the errors are above")


def _read_suite(path: Path) -> suites.SuiteFile | None:
    """The suite; None for one with errors, which are printed."""
    try:
        return suites.require_suite(path)
    except CommandError:
        return None


def _suite_row(file: suites.SuiteFile, reports: Path) -> tuple[str, ...]:
    suite = file.suite
    return (suite.name, str(len(suite.cases)), STATES[_valid(suite, reports)], _suite_origin(file), suite.about)


def _suite_origin(file: suites.SuiteFile) -> str:
    """Return the file of a suite, or `planloop` for one that comes with it."""
    return "planloop" if file.path in suites.shipped_suites().values() else suites.path_shown(file.path)


def _suite_json(file: suites.SuiteFile, reports: Path) -> JsonObject:
    suite = file.suite
    cases = {
        case.id: {"about": case.about, "language": case.language, "image": case.setting.image}
        for case in suite.cases.values()
    }
    return {
        "suite": suite.name,
        "from": _suite_origin(file),
        "about": suite.about,
        "valid": _valid(suite, reports),
        "cases": cases,
    }


def _about(case: Case) -> str:
    """Return the purpose of a case; if it has none, its prompt."""
    return " ".join((case.about or case.prompts[0]).split())


def _valid(suite: Suite, reports: Path) -> bool | None:
    return run_folder.known_validation(suite, suite.cases, reports)


# `plan bench import`: convert public cases into suites.

_LEFT_OUT = frozenset({".git", "node_modules"})


def import_exercism(folder: Path, track: str, to: Path | None) -> None:
    """Writes the suite of a track. Raises CommandError."""
    made = exercism.convert_exercism(read_cases(folder), track)
    if not made.cases:
        hint = f"give the folder of a track; it contains {exercism.PRACTICE}"
        raise CommandError(ExitCode.INVALID, f"{folder} has no practice exercises of {track}", hint)
    target = to or Path(f"exercism-{track}")
    write_suites(target, made.files)
    _print_notes(made.notes)
    click.echo(f"{pluralize(made.cases, 'case')} in {target / 'suite.yaml'}")
    click.echo(f"next: plan bench validate {target}")


def import_bfcl(folder: Path, to: Path | None) -> None:
    """Writes the suites of the Berkeley Function Calling Leaderboard. Raises CommandError."""
    made = bfcl.convert_bfcl(read_cases(folder))
    if not made.counts:
        hint = f"give the folder with {bfcl.PREFIX}simple_python.json and similar files"
        raise CommandError(ExitCode.INVALID, f"{folder} has no BFCL cases", hint)
    target = to or Path("bfcl")
    write_suites(target, made.files)
    _print_notes(made.notes)
    for name, count in made.counts.items():
        click.echo(f"{name}: {pluralize(count, 'case')}")
    suites = sorted(path for path in made.files if path.endswith("suite.yaml"))
    click.echo(f"next: plan bench validate {target / Path(suites[0]).parent}")


def read_cases(folder: Path) -> Mapping[str, bytes]:
    """Every file below `folder` by its path in it; links and what is too large are left out. Raises CommandError."""
    if not folder.is_dir():
        raise CommandError(ExitCode.NOT_FOUND, f"{folder} is not a folder", "give the folder with the downloaded cases")
    return dict(_files_below(folder))


def _files_below(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        is_plain = _LEFT_OUT.isdisjoint(parts) and path.is_file() and not path.is_symlink()
        if is_plain and path.stat().st_size <= limits.IMPORTED_BYTES_MAX:
            yield "/".join(parts), path.read_bytes()


def write_suites(target: Path, files: Mapping[str, str]) -> None:
    """Writes a suite into a folder that is not there yet, or is empty. Raises CommandError."""
    if target.exists() and any(target.iterdir()):
        raise CommandError(ExitCode.CONFLICT, f"{target} already exists", "give another folder with --to, or remove it")
    for path, text in files.items():
        file = target / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def _print_notes(notes: tuple[str, ...]) -> None:
    for note in notes:
        click.echo(f"note: {note}", err=True)
