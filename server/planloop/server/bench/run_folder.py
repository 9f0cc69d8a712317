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
    """Write `content` to `path` atomically, even if the machine crashes."""
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

    The folder appears atomically, so that a crash leaves no run that cannot be resumed.
    """
    _check_size(compiled)
    half = folder.with_name(f".{folder.name}.{os.getpid()}")
    try:
        require_new(folder)
        half.mkdir(parents=True)
    except OSError as error:
        what = f"cannot create {folder}: {error.strerror}"
        hint = "choose another folder with --reports, or another name with --name"
        raise CommandError(ExitCode.FAILED, what, hint) from None
    write_plan_json(half, compiled)
    half.rename(folder)


def require_new(folder: Path) -> None:
    """Raise CommandError if `folder` exists."""
    if folder.exists():
        hint = f"resume it with plan bench resume {folder}, or choose another name with --name"
        raise CommandError(ExitCode.CONFLICT, f"{folder} exists already", hint)


def _check_size(compiled: CompiledRun) -> None:
    """Raise CommandError if the plan of the run would be too large."""
    count = len(compiled.entries)
    possible = entries_max(plan_document(compiled, dict.fromkeys(compiled.entries, 1), parallel=1))
    if count > possible:
        what = f"the run has {count:,} entries of {compiled.suite}; at most {possible:,} fit into one run"
        raise CommandError(ExitCode.USAGE, what, "select cases with --cases, or use fewer trials or models")


def write_plan_json(folder: Path, compiled: CompiledRun) -> None:
    """Write the `plan.json` of the run in `folder`, after the files of its worlds."""
    for name, world in compiled.worlds.items():
        path = folder / world_file(name)
        path.parent.mkdir(exist_ok=True)
        write_durably(path, canonical_bytes(world))
    write_durably(folder / PLAN_JSON, canonical_bytes(compiled.to_json()))


def read_compiled(folder: Path) -> CompiledRun:
    """Return the run in `folder`. Raises CommandError if it has none or an invalid one."""
    try:
        return compiled_run_from_json(decode((folder / PLAN_JSON).read_bytes()))
    except (FileNotFoundError, NotADirectoryError):
        what = f"{folder} is not the folder of a run: it has no {PLAN_JSON}"
        raise CommandError(ExitCode.NOT_FOUND, what, RUNS_HINT) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise invalid_plan_json(str(folder), error) from None


def invalid_plan_json(run: str, error: Exception) -> CommandError:
    """Return the error for a `plan.json` of `run` that cannot be read."""
    what = f"{run}: {PLAN_JSON} is invalid, or another version of planloop wrote it: {error!r}"
    return CommandError(ExitCode.INVALID, what, "restore the file, or start another run")


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
    """Record `judgements`, and keep those of other cases."""
    path = reports / suite.name / RECORD_FILE
    write_durably(path, canonical_bytes(update_record(_read_validation(path), suite, judgements)) + b"\n")


def known_validation(suite: Suite, cases: Iterable[str], reports: Path) -> bool | None:
    """Return whether `cases` of `suite` are valid; None if one of them was not validated in its current form."""
    return is_validated(_read_validation(reports / suite.name / RECORD_FILE), suite, cases)


def _read_validation(path: Path) -> JsonObject:
    try:
        found = decode(path.read_bytes())
    except (OSError, ValueError):
        return {}  # The same as never validated.
    return found if isinstance(found, dict) else {}


# Agents have worked in a run's folder, so it may have symbolic links to any file of this machine. Therefore each part
# of a path is opened relative to its parent, and links are not followed.

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # A named pipe must not block.
RUNS_HINT: Final = "plan bench report lists the runs"


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
        raise CommandError(ExitCode.NOT_FOUND, f"no run `{suite[:80]}/{run[:80]}`", RUNS_HINT)
    return RunName(suite, run)


@frozen
class RunFolderState:
    """The state of a file of a run; `mtime` in seconds since 1970."""

    inode: int
    size_bytes: int
    written_at: float


@frozen
class ReportsFolder:
    """The reports in `folder`, which may be missing."""

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
        """Return whether the run has the file or folder. Links are not followed."""
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
        """Open the path `parts` and yield a file descriptor. Raises OSError, also if a part is a link."""
        descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)  # The user chose this folder.
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
