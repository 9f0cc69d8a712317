"""`plan bench import`: convert public cases into suites."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from planloop.benchmarks.importers import bfcl, exercism
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.schemas import limits
from planloop.schemas.quantities import pluralize

_LEFT_OUT = frozenset({".git", "node_modules"})


def import_exercism(folder: Path, track: str, to: Path | None) -> None:
    """Writes the suite of a track. Raises CommandError."""
    made = exercism.convert_exercism(read_cases(folder), track)
    if not made.cases:
        hint = f"give the folder of a track: one that has {exercism.PRACTICE}"
        raise CommandError(ExitCode.INVALID, f"{folder} has no practice exercises of {track}", hint)
    target = to or Path(f"exercism-{track}")
    write_suites(target, made.files)
    _tell(made.notes)
    click.echo(f"{pluralize(made.cases, 'case')} in {target / 'suite.yaml'}")
    click.echo(f"next: plan bench validate {target}")


def import_bfcl(folder: Path, to: Path | None) -> None:
    """Writes the suites of the Berkeley Function Calling Leaderboard. Raises CommandError."""
    made = bfcl.convert_bfcl(read_cases(folder))
    if not made.counts:
        hint = f"give the folder that has {bfcl.PREFIX}simple_python.json and the like"
        raise CommandError(ExitCode.INVALID, f"{folder} has no rows of BFCL", hint)
    target = to or Path("bfcl")
    write_suites(target, made.files)
    _tell(made.notes)
    for name, count in made.counts.items():
        click.echo(f"{name}: {pluralize(count, 'case')}")
    suites = sorted(path for path in made.files if path.endswith("suite.yaml"))
    click.echo(f"next: plan bench validate {target / Path(suites[0]).parent}")


def read_cases(folder: Path) -> Mapping[str, bytes]:
    """Every file below `folder` by its path in it; links and what is too large are left out. Raises CommandError."""
    if not folder.is_dir():
        raise CommandError(
            ExitCode.NOT_FOUND, f"{folder} is no folder", "give the folder that the cases were fetched to"
        )
    return dict(_files(folder))


def _files(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        is_plain = _LEFT_OUT.isdisjoint(parts) and path.is_file() and not path.is_symlink()
        if is_plain and path.stat().st_size <= limits.IMPORTED_BYTES_MAX:
            yield "/".join(parts), path.read_bytes()


def write_suites(target: Path, files: Mapping[str, str]) -> None:
    """Writes a suite into a folder that is not there yet, or is empty. Raises CommandError."""
    if target.exists() and any(target.iterdir()):
        raise CommandError(
            ExitCode.CONFLICT, f"{target} is there already", "give another folder with --to, or remove it"
        )
    for path, text in files.items():
        file = target / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def _tell(notes: tuple[str, ...]) -> None:
    for note in notes:
        click.echo(f"note: {note}", err=True)
