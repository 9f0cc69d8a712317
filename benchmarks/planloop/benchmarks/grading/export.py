"""Copy the workspace of an ended attempt to a place that the agent cannot reach. The copy is graded.

Programs in containers may write to the copy. The copy omits links that point outside of it, anything that is neither a
file nor a folder, names that are not UTF-8, and `.git`, whose history does not count as work.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from itertools import islice
from pathlib import Path
from typing import Final

from planloop.schemas import limits
from planloop.schemas.canonical_json import printable_name

GRADED: Final = "graded"
LIGHT_ENTRIES: Final = 4
LIGHT_BYTES: Final = 16 << 10
CHUNK_BYTES: Final = 256 << 10
DROPPED: Final = frozenset({".git", ".plan"})


OF_THE_WORK: Final = frozenset(
    {errno.ENAMETOOLONG, errno.ELOOP, errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR}
)
"""Read errors that the agent can cause. All others (no space, a broken disk) are failures of the machine."""
_SHOWN_CHARS: Final = 80


class Ungradable(Exception):
    """The workspace cannot be graded because of what the agent did to it."""


class WorkspaceTooLarge(Ungradable):
    """The workspace has too many bytes or files, or its folders are nested too deep."""


class WorkspaceUnreadable(Ungradable):
    """The workspace contains files that cannot be read, or paths that are too long."""


def is_light(source: Path) -> bool:
    """Whether copying `source` is as fast as starting a thread for it: it has a few small files and no folder."""
    try:
        with os.scandir(source) as found:
            first = list(islice(found, LIGHT_ENTRIES + 1))
        infos = [entry.stat(follow_symlinks=False) for entry in first]
    except OSError:
        return False
    is_plain = all(stat.S_ISREG(info.st_mode) for info in infos)
    return is_plain and len(infos) <= LIGHT_ENTRIES and sum(info.st_size for info in infos) <= LIGHT_BYTES


def export_workspace(source: Path, target: Path) -> None:
    """Copy `source`, which may be missing, to `target`, and delete an earlier copy there.

    Raises OSError for failures of the machine, and Ungradable. Blocks: call in a thread, unless `is_light`.
    """
    if target.exists():
        shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    target.chmod(0o777)
    copy = _Copy(source)
    if source.is_dir() and not source.is_symlink():
        try:
            copy.folder(source, target, limits.GRADED_DEPTH_MAX)
        except OSError as error:
            if (why := _caused_by_agent(error, source)) is None:
                raise
            raise WorkspaceUnreadable(f"the workspace cannot be copied: {why}") from error
        copy.prune(target)


def _caused_by_agent(error: OSError, source: Path) -> str | None:
    """Why `source` cannot be copied if the agent caused it; None if the machine failed."""
    place = Path(os.fsdecode(error.filename or ""))
    if place.is_relative_to(source) and error.errno in OF_THE_WORK:
        shown = printable_name(str(place.relative_to(source)))
        return f"{error.strerror}: {shown if len(shown) <= _SHOWN_CHARS else f'{shown[:_SHOWN_CHARS]}…'}"
    # The path of the copy is longer: a path of the maximal length can be read, but not copied.
    return error.strerror if error.errno == errno.ENAMETOOLONG else None


class _Copy:
    """A copy in progress: counts what it copies, and remembers links."""

    def __init__(self, source: Path) -> None:
        self.source = source
        self.entries = 0
        self.size_bytes = 0
        self.links: list[Path] = []

    def folder(self, source: Path, target: Path, depth_left: int) -> None:
        if depth_left == 0:
            raise WorkspaceTooLarge(f"the workspace is more than {limits.GRADED_DEPTH_MAX} folders deep")
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
                _copy_file(entry.path, place, 0o777 if info.st_mode & 0o111 else 0o666)

    def _count(self, info: os.stat_result) -> None:
        """Count an entry against the limits. Folders and links count like files, because they use space too."""
        self.entries += 1
        self.size_bytes += info.st_size if stat.S_ISREG(info.st_mode) else 0
        if self.entries > limits.GRADED_ENTRIES_MAX or self.size_bytes > limits.GRADED_BYTES_MAX:
            bound = f"{limits.GRADED_ENTRIES_MAX:,} files or {limits.GRADED_BYTES_MAX >> 30} GiB"
            raise WorkspaceTooLarge(f"the workspace has more than {bound}")

    def _link(self, source: Path, place: Path) -> None:
        text = source.readlink()
        leads_to, root = os.path.normpath(source.parent.resolve() / text), os.path.realpath(self.source)
        if not text.is_absolute() and f"{leads_to}/".startswith(f"{root}/"):
            place.symlink_to(text)
            self.links.append(place)

    def prune(self, target: Path) -> None:
        """Remove links that are dangling, or point outside of the copy through other links. The copy must not
        change."""
        root = target.resolve() if self.links else target
        for place in [one for one in self.links if not _leads_within(one, root)]:
            place.unlink()


def _copy_file(source: str, place: Path, mode: int) -> None:
    """Copy a file to a new path. Does not use `shutil`, which makes ten system calls for values that are known here."""
    reading = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        writing = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            os.fchmod(writing, mode)
            while content := os.read(reading, CHUNK_BYTES):
                while content:
                    content = content[os.write(writing, content) :]
        finally:
            os.close(writing)
    finally:
        os.close(reading)


def _leads_within(link: Path, root: Path) -> bool:
    """Whether the link points below `root`, also if the target is missing, and the system can resolve it."""
    try:
        link.stat()
    except (FileNotFoundError, NotADirectoryError):
        pass  # A program under test may still create the target.
    except OSError:
        return False  # A loop, too many links, or an invalid file name.
    return Path(os.path.realpath(link)).is_relative_to(root)


def _is_text(name: str) -> bool:
    """Whether the name is valid UTF-8: logs and command lines cannot contain other bytes."""
    return name == printable_name(name)
