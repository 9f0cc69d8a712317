"""Copy the files that a fork changed into the folder, one atomic step a file, never over newer work.

A file is written only while it is as the fork last took it in; one that moved on meanwhile is left as it is and named,
and the fork takes it in first. A crash between two files changes nothing about that: what is written already is as it
should be. Files of the new state are unpacked below the state folder first, so that each gets there by one rename.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import anyio.to_thread

from planloop.controllers.fork.git import ForkedRepository, Git
from planloop.controllers.fork.worktree import FileChange
from planloop.reconciler.store import state_files
from planloop.schemas import limits
from planloop.schemas.frozen import frozen

_LINK: Final = "120000"
_EXECUTABLE: Final = "100755"
_NONE: Final = "0"
SHA1_DIGITS: Final = 40
_TYPE, _FULL = 3, 6  # Digits of a mode that say what it is: file or link; all of it: who may execute it, too.


@frozen
class FolderFile:
    """A file in the folder as it is now: its mode and object as git would have them, and what tells that it moved."""

    mode: str
    object: str
    mark: tuple[int, ...]


NO_FILE: Final = FolderFile("", "", ())


@frozen
class ChangeCopier:
    """Writes into the working tree of `repository`. `stage` is a folder of ours, made and removed."""

    repository: ForkedRepository
    stage: Path

    async def carry(
        self, new: str, differences: Sequence[FileChange], stop: Callable[[], None] = lambda: None
    ) -> tuple[str, ...]:
        """Makes the files of `differences` as they are in the commit `new`; returns those that moved on and were left.

        `stop` is called when all is ready and nothing is written yet: what it raises goes to the caller. Raises
        GitFailed and OSError.
        """
        if not differences:
            return ()
        found = await self._found([each.path for each in differences])
        types = _FULL if await self.repository.keeps_modes() else _TYPE
        moved = [each for each in differences if not _is(found[each.path], each.old_mode, each.old, types)]
        done = {each.path for each in moved if _is(found[each.path], each.new_mode, each.new, types)}
        left = tuple(each.path for each in moved if each.path not in done)
        if left:
            return left
        todo = [each for each in differences if each.path not in done]
        await self._unpack(new, [each.path for each in todo if not each.is_removed])
        try:
            await anyio.to_thread.run_sync(lambda: self._prepare(todo, found))
            # Nothing is awaited from here on: nobody can take a lock, and no agent of this owner can come, between the
            # look and the last rename.
            stop()
            return tuple(each.path for each in _in_order(todo) if not self._put(each, found[each.path]))
        finally:
            await anyio.to_thread.run_sync(lambda: shutil.rmtree(self.stage, ignore_errors=True))

    async def _found(self, paths: Sequence[str]) -> Mapping[str, FolderFile]:
        """What is at each path now, with the object that git would make of it."""
        marks = {path: _mark(self._at(path)) for path in paths}
        files = [path for path in paths if stat.S_ISREG(marks[path][0] if marks[path] else 0)]
        objects = await self._objects(files)
        found: dict[str, FolderFile] = {}
        for path in paths:
            mode = _mode(marks[path])
            name = objects.get(path, "")
            if mode == _LINK:
                name = await self._link_object(path)
            # One that was written while it was read is none that we know.
            found[path] = FolderFile(mode, name if _mark(self._at(path)) == marks[path] else "?", marks[path])
        return found

    async def _objects(self, paths: Sequence[str]) -> Mapping[str, str]:
        named: dict[str, str] = {}
        # What git reads line by line it takes for quoted, or for the end of a line of DOS.
        plain = [path for path in paths if "\n" not in path and path[0] != '"' and path[-1] != "\r"]
        git, top, more = self._git, self.repository.top, self.repository.environment
        if plain:
            lines = "".join(f"{path}\n" for path in plain).encode(errors="surrogateescape")
            said = await git.run("hash-object", "--stdin-paths", cwd=top, more=more, stdin=lines)
            named |= dict(zip(plain, said.decode().split()[-len(plain) :], strict=True))
        for path in paths:
            if path not in named:
                named[path] = await git.commit("hash-object", "--", path, cwd=top, more=more)
        return named

    async def _link_object(self, path: str) -> str:
        target = os.fsencode(self._at(path).readlink())
        said = await self._git.run("hash-object", "--stdin", cwd=self.repository.top, stdin=target)
        return said.decode().split()[-1]

    async def _unpack(self, new: str, paths: Sequence[str]) -> None:
        """Puts the files of `new` below the stage, as a checkout would write them here."""
        shutil.rmtree(self.stage, ignore_errors=True)
        state_files.make_folder(self.stage)
        index = self.stage / "index"
        more = {**self.repository.environment, "GIT_INDEX_FILE": str(index)}
        top = self.repository.top
        await self._git.run("read-tree", new, cwd=top, more=more)
        names = "\0".join(paths).encode(errors="surrogateescape")
        prefix = f"--prefix={self.stage}/files/"
        await self._git.run("checkout-index", "-q", "-z", "--stdin", prefix, cwd=top, more=more, stdin=names)

    def _prepare(self, todo: Iterable[FileChange], found: Mapping[str, FolderFile]) -> None:
        """Gives each unpacked file the permissions and the line ends of the one that it replaces, and flushes it."""
        for each in todo:
            staged = self.stage / "files" / each.path
            if each.is_removed or staged.is_symlink():
                continue
            now = self._at(each.path)
            if _mode(found[each.path].mark) not in ("", _LINK):
                keep_line_endings(now, staged, each.old)
                bits = stat.S_IMODE(now.lstat().st_mode)
                is_run = each.new_mode == _EXECUTABLE
                staged.chmod(bits | (bits & 0o444) >> 2 if is_run else bits & ~0o111)
            _flush(staged)

    def _put(self, each: FileChange, found: FolderFile) -> bool:
        """Makes one file as it is to be, if it still is as it was found; whether it did."""
        target = self._at(each.path)
        if _mark(target) != found.mark or self._is_led_astray(each.path):
            return False
        if each.is_removed:
            target.unlink(missing_ok=True)
            self._tidy(target.parent)
            return True
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            return self._renamed(self.stage / "files" / each.path, target, found)
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            return False  # A file stands where a folder is needed, or the other way round: newer work than ours.

    def _renamed(self, staged: Path, target: Path, found: FolderFile) -> bool:
        """Puts `staged` in the place of `target`; of a folder on another disk by way of a copy beside it."""
        try:
            staged.replace(target)
            return True
        except OSError as fault:
            if fault.errno != errno.EXDEV:
                raise
        beside = target.with_name(f".{target.name[:100]}.{self.stage.name}.tmp")
        try:
            shutil.copy2(staged, beside, follow_symlinks=False)
            if not beside.is_symlink():
                _flush(beside)
            if _mark(target) != found.mark:
                return False
            beside.replace(target)
        finally:
            beside.unlink(missing_ok=True)
        return True

    def _is_led_astray(self, path: str) -> bool:
        """Whether a folder on the way is a link: what lies behind it is not the file that git means."""
        at = Path(self.repository.top)
        for name in Path(path).parts[:-1]:
            at /= name
            if at.is_symlink():
                return True
        return False

    def _tidy(self, folder: Path) -> None:
        """Removes folders that have become empty, as git does."""
        while folder != Path(self.repository.top):
            try:
                folder.rmdir()
            except OSError:
                return
            folder = folder.parent

    def _at(self, path: str) -> Path:
        return Path(self.repository.top) / path

    @property
    def _git(self) -> Git:
        return self.repository.git


def _flush(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def keep_line_endings(now: Path, new: Path, known: str) -> None:
    """Gives `new` the line ends of `now` when that ends all its lines with CRLF and git keeps them without the CR.

    `known` is the object that git makes of `now`: where it is of the very bytes, the line ends are git's business.
    """
    if now.stat().st_size > limits.OUTPUT_KEPT_BYTES_MAX:
        return
    old, wanted = now.read_bytes(), new.read_bytes()
    ends = old.count(b"\r\n")
    if not ends or ends != old.count(b"\n") or b"\r\n" in wanted or b"\0" in wanted:
        return
    if _object_of(old, len(known)) != known:
        new.write_bytes(wanted.replace(b"\n", b"\r\n"))


def _object_of(content: bytes, digits: int) -> str:
    """The name of the object of these very bytes, in a repository whose names have so many digits."""
    made = hashlib.sha1(usedforsecurity=False) if digits == SHA1_DIGITS else hashlib.sha256()
    made.update(b"blob %d\0" % len(content) + content)
    return made.hexdigest()


def _in_order(todo: Iterable[FileChange]) -> list[FileChange]:
    """Removals first: a file may make way for a folder of its name."""
    return sorted(todo, key=lambda each: (not each.is_removed, each.path))


def _is(found: FolderFile, mode: str, name: str, digits: int) -> bool:
    """Whether a file is as git says: of its mode the first `digits` count."""
    if not name.strip(_NONE):
        return found == NO_FILE
    return found.object == name and found.mode[:digits] == mode[:digits]


def _mark(path: Path) -> tuple[int, ...]:
    """What changes when a file does; empty when there is none. The first number is its kind and permissions."""
    try:
        seen = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return ()
    if stat.S_ISDIR(seen.st_mode):
        return ()  # No file; if it is in the way of one, the rename will say so.
    return (seen.st_mode, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)


def _mode(mark: tuple[int, ...]) -> str:
    """The mode as git has it; empty for none."""
    if not mark:
        return ""
    if stat.S_ISLNK(mark[0]):
        return _LINK
    return _EXECUTABLE if mark[0] & stat.S_IXUSR else "100644"
