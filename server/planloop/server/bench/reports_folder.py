"""Read the reports folder by checked names, never through a symbolic link.

A run's folder is where agents have worked, so a link may lie there that leads to anything of this machine. Each part of
a path is opened by itself, below the one before, and must be what it is taken for.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from planloop.client.exit_codes import CommandError, ExitCode
from planloop.compiler.names import is_valid_id
from planloop.schemas.frozen import frozen
from planloop.server.bench.run_folder import PLAN_JSON, VALIDATION

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # A pipe in its place must not hang us.
RUNS_HINT: Final = "plan bench report lists the runs that there are"


@frozen
class RunName:
    """A run, as people name it: `SUITE/RUN`."""

    suite: str
    run: str

    def __str__(self) -> str:
        return f"{self.suite}/{self.run}"


def run_name(suite: str, run: str) -> RunName:
    """The run called so. Raises CommandError for what no run can be called, as for a path."""
    if not (is_valid_id(suite) and is_valid_id(run)):
        raise CommandError(ExitCode.NOT_FOUND, f"there is no run `{suite[:80]}/{run[:80]}`", RUNS_HINT)
    return RunName(suite, run)


@frozen
class RunFolderState:
    """Which file it is, how long, and when it was written to last, in seconds since 1970."""

    inode: int
    size_bytes: int
    written_at: float


@frozen
class ReportsFolder:
    """The reports in `folder`, which need not be there."""

    folder: Path

    def runs(self) -> list[RunName]:
        """All runs by name, but for validations."""
        suites = [name for name in self._names() if is_valid_id(name)]
        found = [RunName(suite, run) for suite in suites for run in self._names(suite) if is_valid_id(run)]
        return [name for name in found if name.run != VALIDATION and self.has(name, PLAN_JSON)]

    def path(self, name: RunName) -> Path:
        """Where the run is, for who needs a path: `has` first."""
        return self.folder / name.suite / name.run

    def has(self, name: RunName, *parts: str) -> bool:
        """Whether the run has such a file or folder, with no link on the way."""
        try:
            with self._opened(name.suite, name.run, *parts):
                return True
        except OSError:
            return False

    def state(self, name: RunName, *parts: str) -> RunFolderState | None:
        """How a file of the run is now; None when there is none."""
        try:
            with self._opened(name.suite, name.run, *parts) as descriptor:
                found = os.fstat(descriptor)
                return RunFolderState(found.st_ino, found.st_size, found.st_mtime)
        except OSError:
            return None

    @contextmanager
    def opened(self, name: RunName, *parts: str) -> Iterator[BinaryIO]:
        """A file of the run, to be read. Raises CommandError NOT_FOUND."""
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
        """The descriptor of what lies at `parts`. Raises OSError, also for a link on the way."""
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
