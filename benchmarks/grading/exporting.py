"""The workspace of an ended attempt, copied to where nobody who worked in it can reach: what is graded is the copy.

Whoever runs in a container may write to the copy: programs keep files beside them. Left out are links that lead out of
it, whatever is neither file nor folder, and `.git`, whose history is no work.
"""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from typing import Final

from schemas.frozen import frozen

GRADED: Final = "graded"
DROPPED: Final = frozenset({".git", ".plan"})
FILES_MAX: Final = 50_000
BYTES_MAX: Final = 2 << 30


class TooLarge(Exception):
    """The workspace holds more than is graded."""


@frozen
class Exported:
    """The copy in `folder`, of so many files and bytes; `dropped` are the paths that were left out."""

    folder: Path
    files: int
    size_bytes: int
    dropped: tuple[str, ...]


def export(source: Path, target: Path) -> Exported:
    """Copies `source`, which may not be there, to `target`, where nothing of an earlier try stays.

    Raises OSError, TooLarge. Blocks: for a thread.
    """
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    target.chmod(0o777)
    copy = _Copy(os.path.realpath(source))
    if source.is_dir() and not source.is_symlink():
        copy.folder(source, target)
        copy.prune(target)
    return Exported(target, copy.files, copy.size_bytes, tuple(copy.dropped))


class _Copy:
    """One copy under way."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.files = 0
        self.size_bytes = 0
        self.dropped: list[str] = []
        self.links: list[tuple[Path, str]] = []

    def folder(self, source: Path, target: Path) -> None:
        for entry in sorted(os.scandir(source), key=lambda each: each.name):
            place = target / entry.name
            info = entry.stat(follow_symlinks=False)
            if entry.name in DROPPED:
                self.dropped.append(self._said(entry.path))
            elif stat.S_ISLNK(info.st_mode):
                self._link(Path(entry.path), place)
            elif stat.S_ISDIR(info.st_mode):
                place.mkdir()
                place.chmod(0o777)
                self.folder(Path(entry.path), place)
            elif stat.S_ISREG(info.st_mode):
                self._file(Path(entry.path), place, info)
            else:
                self.dropped.append(self._said(entry.path))

    def _file(self, source: Path, place: Path, info: os.stat_result) -> None:
        self.files += 1
        self.size_bytes += info.st_size
        if self.files > FILES_MAX or self.size_bytes > BYTES_MAX:
            raise TooLarge(f"the workspace has more than {FILES_MAX:,} files or {BYTES_MAX >> 30} GiB")
        shutil.copyfile(source, place, follow_symlinks=False)
        place.chmod(0o777 if info.st_mode & 0o111 else 0o666)

    def _link(self, source: Path, place: Path) -> None:
        text = source.readlink()
        leads_to = os.path.normpath(source.parent.resolve() / text)
        if text.is_absolute() or not f"{leads_to}/".startswith(f"{self.root}/"):
            self.dropped.append(self._said(str(source)))
        else:
            place.symlink_to(text)
            self.links.append((place, self._said(str(source))))

    def prune(self, target: Path) -> None:
        """Takes away links that lead out of the copy by way of others. Nobody changes it meanwhile."""
        root = target.resolve()
        for place, said in self.links:
            if not place.resolve().is_relative_to(root):
                place.unlink()
                self.dropped.append(said)

    def _said(self, path: str) -> str:
        return os.path.relpath(path, self.root)
