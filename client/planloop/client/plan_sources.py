"""Read the files that a plan refers to: beside the plan, and in the library that comes with the product.

Remembers which local files were read, because saving one of them also edits the plan.
"""

from __future__ import annotations

import errno
import shutil
import stat
from pathlib import Path
from typing import Final

from planloop.schemas.limits import PLAN_FILE_BYTES_MAX


def plans() -> Path:
    """The folder with examples and library: beside the installed packages, or at the top of a checkout."""
    here = Path(__file__)
    beside = here.parents[1] / "plans"
    return beside if beside.is_dir() else here.parents[3] / "plans"


LIBRARY: Final = "lib:"


class FolderSources:
    """A `planloop.compiler.graph.Sources` for plan files in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.read_files: set[Path] = set()
        """Local files that were asked for, the missing ones too: one that appears changes the plan."""

    def read(self, reference: str) -> bytes:
        """The bytes behind `lib:name` or a path relative to the folder. Raises OSError."""
        if reference.startswith(LIBRARY):
            return _library().joinpath(*reference.removeprefix(LIBRARY).split("/")).read_bytes()
        path = self._folder / reference
        self.read_files.add(path)
        return read_bounded(path, PLAN_FILE_BYTES_MAX)

    def names(self, kind: str) -> tuple[str, ...]:
        """The names that the library holds of a kind."""
        try:
            return tuple(sorted(Path(entry.name).stem for entry in _library().joinpath(kind).iterdir()))
        except OSError:
            return ()

    def has_file(self, path: str) -> bool:
        """Return whether the file exists. This does not count as reading it."""
        return (self._folder / path).is_file()

    def has_program(self, word: str, cwd: str) -> bool:
        """Whether the operating system finds something to run, here and now."""
        return shutil.which(str(self._folder / cwd / word) if "/" in word else word) is not None


def read_bounded(path: Path, size_max: int) -> bytes:
    """The bytes of a regular file, one more than `size_max` at most, so that the caller can tell. Raises OSError."""
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "is a folder", str(path))
    if not stat.S_ISREG(mode):
        # Reading a pipe or a device could wait, or go on, for ever.
        raise OSError(errno.EINVAL, "is not a regular file", str(path))
    with path.open("rb") as file:
        return file.read(size_max + 1)


def _library() -> Path:
    return plans() / "library"
