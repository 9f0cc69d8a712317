"""Folders of benchmark runs, read without following links."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from planloop.benchmarks.runs.plan import entries_max, entry_workspace, plan_document
from planloop.benchmarks.runs.run_compiler import CompiledRun, compiled_run_from_json, fill_for_entry, world_file
from planloop.benchmarks.suite import Suite
from planloop.benchmarks.validation import RECORD_FILE, CaseJudgement, is_validated, update_record
from planloop.client import plan_paths
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.compiler.names import is_valid_id
from planloop.schemas.canonical_json import Json, JsonObject, canonical_bytes, decode
from planloop.schemas.frozen import frozen

PLAN_JSON: Final = plan_paths.RUN_JSON
PLAN_FILE: Final = plan_paths.RUN_PLAN
SUMMARY: Final = "summary.json"
VALIDATION: Final = plan_paths.VALIDATION


def write_durably(path: Path, content: bytes) -> None:
    """Write `content` to `path`: whole or not at all, also across a crash."""
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


def create_run_folder(folder: Path, compiled: CompiledRun) -> None:
    """Create the folder of a new run, with its `plan.json` and the files of its worlds. Raises CommandError.

    It is created whole or not at all: a crash leaves no run that cannot be resumed.
    """
    _check_size(compiled)
    half = folder.with_name(f".{folder.name}.{os.getpid()}")
    try:
        require_new(folder)
        half.mkdir(parents=True)
    except OSError as error:
        where = f"{folder} cannot be made: {error.strerror}"
        raise CommandError(ExitCode.FAILED, where, "--reports gives another folder, --name another name") from None
    write_plan_json(half, compiled)
    half.rename(folder)


def require_new(folder: Path) -> None:
    """Raise CommandError if `folder` exists."""
    if folder.exists():
        hint = f"plan bench resume {folder} goes on with it; --name gives another name"
        raise CommandError(ExitCode.CONFLICT, f"{folder} is there already", hint)


def _check_size(compiled: CompiledRun) -> None:
    """Raise CommandError if the plan of the run would be too large."""
    count = len(compiled.entries)
    possible = entries_max(plan_document(compiled, dict.fromkeys(compiled.entries, 1), parallel=1))
    if count > possible:
        what = f"{compiled.suite} has {count:,} entries, and a run of such entries has {possible:,} at most"
        raise CommandError(ExitCode.USAGE, what, "take some of the cases with --cases, fewer trials or fewer models")


def write_plan_json(folder: Path, compiled: CompiledRun) -> None:
    """Write the `plan.json` of the run in `folder`, after the files of its worlds."""
    for name, world in compiled.worlds.items():
        path = folder / world_file(name)
        path.parent.mkdir(exist_ok=True)
        write_durably(path, canonical_bytes(world))
    write_durably(folder / PLAN_JSON, canonical_bytes(compiled.to_json()))


def read_compiled(folder: Path) -> CompiledRun:
    """Return the run in `folder`. Raises CommandError when there is none."""
    try:
        return compiled_run_from_json(decode((folder / PLAN_JSON).read_bytes()))
    except (FileNotFoundError, NotADirectoryError):
        hint = "plan bench report lists the runs that there are"
        raise CommandError(ExitCode.NOT_FOUND, f"{folder} is no run: it has no {PLAN_JSON}", hint) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        what = f"{folder / PLAN_JSON} is not what a run of this version writes: {error!r}"
        raise CommandError(ExitCode.INVALID, what, "put it back as it was, or begin another run") from None


def write_attempt_files(folder: Path, compiled: CompiledRun, attempts: Mapping[str, int]) -> None:
    """Write the initial files of attempts, unless their folders exist."""
    for name, attempt in attempts.items():
        place = folder / entry_workspace(name, attempt)
        if place.exists():
            continue
        half = place.with_name(f".{place.name}")
        half.mkdir(parents=True, exist_ok=True)
        entry = compiled.entries[name]
        files: JsonObject = fill_for_entry(compiled, entry, compiled.cases[entry.case]["files"])
        for path, text in files.items():
            file = half / path
            if "/" in path:
                file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text.encode())
        half.rename(place)


def write_plan(folder: Path, document: Json) -> Path:
    """Write the plan of the run as JSON, which is YAML."""
    path = folder / PLAN_FILE
    write_durably(path, canonical_bytes(document) + b"\n")
    return path


def run_folders(reports: Path) -> Iterator[Path]:
    """Yield the folders of all runs below `reports` by name, without validations."""
    for suite in sorted(reports.iterdir()) if reports.is_dir() else ():
        if suite.is_dir():
            found = (run for run in sorted(suite.iterdir()) if (run / PLAN_JSON).is_file())
            yield from (run for run in found if run.name != VALIDATION and not run.name.startswith("."))


def record_validation(suite: Suite, judgements: Iterable[CaseJudgement], reports: Path) -> None:
    """Record `judgements`, beside those of other cases."""
    path = reports / suite.name / RECORD_FILE
    write_durably(path, canonical_bytes(update_record(_read_validation(path), suite, judgements)) + b"\n")


def known_validation(suite: Suite, cases: Iterable[str], reports: Path) -> bool | None:
    """Return whether `cases` of `suite` are valid; None if that is not known of each in its present form."""
    return is_validated(_read_validation(reports / suite.name / RECORD_FILE), suite, cases)


def _read_validation(path: Path) -> JsonObject:
    try:
        found = decode(path.read_bytes())
    except (OSError, ValueError):
        return {}  # As good as never validated.
    return found if isinstance(found, dict) else {}


# Agents have worked in a run's folder, so it may have symbolic links to any file of this machine. Each part of a path
# is therefore opened by itself, below the one before, and must be a folder or file.

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # A pipe in its place must not hang us.
RUNS_HINT: Final = "plan bench report lists the runs that there are"


@frozen
class RunName:
    """The name of a run: `SUITE/RUN`."""

    suite: str
    run: str

    def __str__(self) -> str:
        return f"{self.suite}/{self.run}"


def run_name(suite: str, run: str) -> RunName:
    """Return the run's name. Raises CommandError for an invalid name, such as a path."""
    if not (is_valid_id(suite) and is_valid_id(run)):
        raise CommandError(ExitCode.NOT_FOUND, f"there is no run `{suite[:80]}/{run[:80]}`", RUNS_HINT)
    return RunName(suite, run)


@frozen
class RunFolderState:
    """The state of a file of a run; `mtime` in seconds since 1970."""

    inode: int
    size_bytes: int
    written_at: float


@frozen
class ReportsFolder:
    """The reports in `folder`, which need not be there."""

    folder: Path

    def runs(self) -> list[RunName]:
        """Return all runs by name, without validations."""
        suites = [name for name in self._names() if is_valid_id(name)]
        found = [RunName(suite, run) for suite in suites for run in self._names(suite) if is_valid_id(run)]
        return [name for name in found if name.run != VALIDATION and self.has(name, PLAN_JSON)]

    def path(self, name: RunName) -> Path:
        """Return the path of the run. Check it with `has` first."""
        return self.folder / name.suite / name.run

    def has(self, name: RunName, *parts: str) -> bool:
        """Return whether the run has such a file or folder, with no link on the way."""
        try:
            with self._opened(name.suite, name.run, *parts):
                return True
        except OSError:
            return False

    def state(self, name: RunName, *parts: str) -> RunFolderState | None:
        """Return the state of a file of the run; None if it is missing."""
        try:
            with self._opened(name.suite, name.run, *parts) as descriptor:
                found = os.fstat(descriptor)
                return RunFolderState(found.st_ino, found.st_size, found.st_mtime)
        except OSError:
            return None

    @contextmanager
    def opened(self, name: RunName, *parts: str) -> Iterator[BinaryIO]:
        """Open a file of the run for reading. Raises CommandError: NOT_FOUND."""
        try:
            with self._opened(name.suite, name.run, *parts) as descriptor:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise FileNotFoundError
                with os.fdopen(os.dup(descriptor), "rb") as file:
                    yield file
        except OSError:
            raise CommandError(ExitCode.NOT_FOUND, f"{name} has no {'/'.join(parts) or 'folder'}", RUNS_HINT) from None

    @contextmanager
    def _opened(self, *parts: str) -> Iterator[int]:
        """Return a file descriptor for the path `parts`. Raises OSError, also for a link on the way."""
        descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)  # A person named this one.
        try:
            for place, part in enumerate(parts):
                below = os.open(part, _FOLDER if place < len(parts) - 1 else _FILE, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = below
            yield descriptor
        finally:
            os.close(descriptor)

    def _names(self, *parts: str) -> list[str]:
        try:
            with self._opened(*parts) as descriptor, os.scandir(descriptor) as entries:
                return sorted(entry.name for entry in entries)
        except OSError:
            return []
