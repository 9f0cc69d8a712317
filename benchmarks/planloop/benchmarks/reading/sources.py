"""The files beside a suite, as its reader asks for them: a port, and folders on disk."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

FILES_MAX: Final = 2000
BYTES_MAX: Final = 16 << 20


class SuiteSources(Protocol):
    """What a suite names is read through this; reading a suite touches no file itself."""

    def read(self, path: str) -> bytes:
        """The bytes of a file beside the suite. Raises OSError."""
        ...

    def tree(self, path: str) -> Mapping[str, bytes]:
        """Every file below a folder beside the suite, by its path in it, sorted. Raises OSError."""
        ...


class FolderSuiteSources:
    """A `SuiteSources` for a suite in `folder`; nothing outside of it is read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()

    def read(self, path: str) -> bytes:
        return _bounded(self._inside(path))

    def tree(self, path: str) -> Mapping[str, bytes]:
        top = self._inside(path)
        if not top.is_dir():
            raise NotADirectoryError(f"{path} is not a folder")
        names = sorted(one for one in top.rglob("*") if one.is_file() and "__pycache__" not in one.parts)
        if len(names) > FILES_MAX:
            raise OSError(f"{path} has more than {FILES_MAX} files")
        return {one.relative_to(top).as_posix(): _bounded(self._inside(one)) for one in names}

    def _inside(self, path: str | Path) -> Path:
        found = (self._folder / path).resolve()
        if not found.is_relative_to(self._folder):
            raise PermissionError(f"{path} is outside of the suite's folder")
        return found


def _bounded(path: Path) -> bytes:
    if path.stat().st_size > BYTES_MAX:
        raise OSError(f"{path.name} has more than {BYTES_MAX >> 20} MiB")
    return path.read_bytes()
