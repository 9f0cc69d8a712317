"""The folder of a run: what lies in it, and how its files are written."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from planloop.app import going_on
from planloop.app.exits import Exit, Halt
from planloop.benchmarks.compiling.compiled import Compiled, compiled_from_json
from planloop.benchmarks.compiling.compiling import for_entry
from planloop.benchmarks.compiling.worlds import world_file
from planloop.benchmarks.planning import entries_max, plan_document, workspace
from planloop.schemas.encoding import Json, JsonObject, canonical, decode

PLAN_JSON: Final = going_on.RUN_JSON
PLAN_FILE: Final = going_on.RUN_PLAN
SUMMARY: Final = "summary.json"
VALIDATION: Final = going_on.VALIDATION


def write_durably(path: Path, content: bytes) -> None:
    """Puts `content` at `path`: whole or not at all, whatever happens meanwhile."""
    half = path.with_name(f".{path.name}.{os.getpid()}")
    with half.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    half.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def begin(folder: Path, compiled: Compiled) -> None:
    """Makes the folder of a new run, with its `plan.json` and the files of its worlds. Raises Halt when it cannot.

    It comes whole or not at all: what is killed in between leaves no run that nobody can go on with.
    """
    _check_size(compiled)
    half = folder.with_name(f".{folder.name}.{os.getpid()}")
    try:
        must_be_new(folder)
        half.mkdir(parents=True)
    except OSError as error:
        where = f"{folder} cannot be made: {error.strerror}"
        raise Halt(Exit.FAILED, where, "--reports gives another folder, --name another name") from None
    write(half, compiled)
    half.rename(folder)


def must_be_new(folder: Path) -> None:
    """Raises Halt when there is a run in `folder`, or anything else."""
    if folder.exists():
        hint = f"plan bench resume {folder} goes on with it; --name gives another name"
        raise Halt(Exit.CONFLICT, f"{folder} is there already", hint)


def _check_size(compiled: Compiled) -> None:
    """Raises Halt when the plan of the run would be larger than a plan may be."""
    count = len(compiled.entries)
    possible = entries_max(plan_document(compiled, dict.fromkeys(compiled.entries, 1), parallel=1))
    if count > possible:
        what = f"{compiled.suite} has {count:,} entries, and a run of such entries has {possible:,} at most"
        raise Halt(Exit.USAGE, what, "take some of the cases with --cases, fewer trials or fewer models")


def write(folder: Path, compiled: Compiled) -> None:
    """Writes the `plan.json` of the run in `folder`, after the files of its worlds."""
    for name, world in compiled.worlds.items():
        path = folder / world_file(name)
        path.parent.mkdir(exist_ok=True)
        write_durably(path, canonical(world))
    write_durably(folder / PLAN_JSON, canonical(compiled.to_json()))


def compiled_of(folder: Path) -> Compiled:
    """The run in `folder`. Raises Halt when there is none."""
    try:
        return compiled_from_json(decode((folder / PLAN_JSON).read_bytes()))
    except (FileNotFoundError, NotADirectoryError):
        hint = "plan bench report lists the runs that there are"
        raise Halt(Exit.NOT_FOUND, f"{folder} is no run: it has no {PLAN_JSON}", hint) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        what = f"{folder / PLAN_JSON} is not what a run of this version writes: {error!r}"
        raise Halt(Exit.INVALID, what, "put it back as it was, or begin another run") from None


def lay_out(folder: Path, compiled: Compiled, attempts: Mapping[str, int]) -> None:
    """Writes the files that the attempts begin with, where nothing is yet."""
    for name, attempt in attempts.items():
        place = folder / workspace(name, attempt)
        if place.exists():
            continue
        half = place.with_name(f".{place.name}")
        half.mkdir(parents=True, exist_ok=True)
        entry = compiled.entries[name]
        files: JsonObject = for_entry(compiled, entry, compiled.cases[entry.case]["files"])
        for path, text in files.items():
            file = half / path
            if "/" in path:
                file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text.encode())
        half.rename(place)


def write_plan(folder: Path, document: Json) -> Path:
    """Writes the plan of the run; JSON is YAML."""
    path = folder / PLAN_FILE
    write_durably(path, canonical(document) + b"\n")
    return path


def runs(reports: Path) -> Iterator[Path]:
    """The folders of all runs below `reports`, by name, but for validations."""
    for suite in sorted(reports.iterdir()) if reports.is_dir() else ():
        if suite.is_dir():
            found = (run for run in sorted(suite.iterdir()) if (run / PLAN_JSON).is_file())
            yield from (run for run in found if run.name != VALIDATION and not run.name.startswith("."))
