"""The workspace of an ended attempt, copied to where nobody who worked in it can reach: what is graded is the copy.

Whoever runs in a container may write to the copy: programs keep files beside them. Left out are links that lead out of
it, whatever is neither file nor folder, names that are no UTF-8, and `.git`, whose history is no work.
"""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from typing import Final

from schemas import limits
from schemas.encoding import printable

GRADED: Final = "graded"
DROPPED: Final = frozenset({".git", ".plan"})


class TooLarge(Exception):
    """The workspace holds more than is graded, or holds it too deep."""


def export(source: Path, target: Path) -> None:
    """Copies `source`, which may not be there, to `target`, where nothing of an earlier try stays.

    Raises OSError, TooLarge. Blocks: for a thread.
    """
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    target.chmod(0o777)
    copy = _Copy(os.path.realpath(source))
    if source.is_dir() and not source.is_symlink():
        copy.folder(source, target, limits.GRADED_DEPTH_MAX)
        copy.prune(target)


class _Copy:
    """One copy under way."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.entries = 0
        self.size_bytes = 0
        self.links: list[Path] = []

    def folder(self, source: Path, target: Path, depth_left: int) -> None:
        if depth_left == 0:
            raise TooLarge(f"the workspace is more than {limits.GRADED_DEPTH_MAX} folders deep")
        for entry in sorted(os.scandir(source), key=lambda each: each.name):
            place = target / entry.name
            info = entry.stat(follow_symlinks=False)
            self._count(info)
            if entry.name in DROPPED or not _is_text(entry.name):
                continue
            if stat.S_ISLNK(info.st_mode):
                self._link(Path(entry.path), place)
            elif stat.S_ISDIR(info.st_mode):
                place.mkdir()
                place.chmod(0o777)
                self.folder(Path(entry.path), place, depth_left - 1)
            elif stat.S_ISREG(info.st_mode):
                shutil.copyfile(entry.path, place, follow_symlinks=False)
                place.chmod(0o777 if info.st_mode & 0o111 else 0o666)

    def _count(self, info: os.stat_result) -> None:
        """Folders and links count as files do: each of them takes room."""
        self.entries += 1
        self.size_bytes += info.st_size if stat.S_ISREG(info.st_mode) else 0
        if self.entries > limits.GRADED_ENTRIES_MAX or self.size_bytes > limits.GRADED_BYTES_MAX:
            bound = f"{limits.GRADED_ENTRIES_MAX:,} files or {limits.GRADED_BYTES_MAX >> 30} GiB"
            raise TooLarge(f"the workspace has more than {bound}")

    def _link(self, source: Path, place: Path) -> None:
        text = source.readlink()
        leads_to = os.path.normpath(source.parent.resolve() / text)
        if not text.is_absolute() and f"{leads_to}/".startswith(f"{self.root}/"):
            place.symlink_to(text)
            self.links.append(place)

    def prune(self, target: Path) -> None:
        """Takes away links that lead in circles, or out of the copy by way of others. Nobody changes it meanwhile."""
        root = target.resolve()
        for place in [one for one in self.links if not _leads_within(one, root)]:
            place.unlink()


def _leads_within(link: Path, root: Path) -> bool:
    leads_to = Path(os.path.realpath(link))  # Of a circle it is a link still; `resolve` would raise.
    return leads_to.is_relative_to(root) and not leads_to.is_symlink()


def _is_text(name: str) -> bool:
    """Whether a log and a command line can hold it, which bytes that are no UTF-8 cannot be in."""
    return name == printable(name)
