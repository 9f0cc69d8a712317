"""Merge a fork's work back into the folder that it left: commit, merge, and copy the changed files one by one."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import anyio.to_thread

from planloop.controllers.fork import context
from planloop.controllers.fork.context import ForkHandle
from planloop.controllers.fork.git import ForkedRepository, Git, GitFailed
from planloop.controllers.fork.worktree import FileChange, Worktree, restore_worktree
from planloop.reconciler.store import state_files
from planloop.schemas import limits
from planloop.schemas.canonical_json import Json, JsonObject, printable_name
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.fork import ForkState, fork_request
from planloop.schemas.objects.plan import plan_file_name

# Copy the files that a fork changed into the folder, one atomic step a file, never over newer work.
#
# A file is written only if it is unchanged since the fork last merged the folder. A file that changed meanwhile is
# reported instead, and the fork merges it first. A crash between two files loses nothing, since written files are
# complete. New contents are unpacked below the state folder first, so that each file arrives by one rename.

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
        moved = [each for each in differences if not _matches(found[each.path], each.old_mode, each.old, types)]
        done = {each.path for each in moved if _matches(found[each.path], each.new_mode, each.new, types)}
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
        marks = {path: _file_mark(self._at(path)) for path in paths}
        files = [path for path in paths if stat.S_ISREG(marks[path][0] if marks[path] else 0)]
        objects = await self._objects(files)
        found: dict[str, FolderFile] = {}
        for path in paths:
            mode = _file_mode(marks[path])
            name = objects.get(path, "")
            if mode == _LINK:
                name = await self._link_object(path)
            # One that was written while it was read is none that we know.
            found[path] = FolderFile(mode, name if _file_mark(self._at(path)) == marks[path] else "?", marks[path])
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
            if _file_mode(found[each.path].mark) not in ("", _LINK):
                keep_line_endings(now, staged, each.old)
                bits = stat.S_IMODE(now.lstat().st_mode)
                is_run = each.new_mode == _EXECUTABLE
                staged.chmod(bits | (bits & 0o444) >> 2 if is_run else bits & ~0o111)
            _flush(staged)

    def _put(self, each: FileChange, found: FolderFile) -> bool:
        """Makes one file as it is to be, if it still is as it was found; whether it did."""
        target = self._at(each.path)
        if _file_mark(target) != found.mark or self._is_led_astray(each.path):
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
            if _file_mark(target) != found.mark:
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


def _matches(found: FolderFile, mode: str, name: str, digits: int) -> bool:
    """Whether a file is as git says: of its mode the first `digits` count."""
    if not name.strip(_NONE):
        return found == NO_FILE
    return found.object == name and found.mode[:digits] == mode[:digits]


def _file_mark(path: Path) -> tuple[int, ...]:
    """What changes when a file does; empty when there is none. The first number is its kind and permissions."""
    try:
        seen = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return ()
    if stat.S_ISDIR(seen.st_mode):
        return ()  # No file; if it is in the way of one, the rename will say so.
    return (seen.st_mode, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)


def _file_mode(mark: tuple[int, ...]) -> str:
    """The mode as git has it; empty for none."""
    if not mark:
        return ""
    if stat.S_ISLNK(mark[0]):
        return _LINK
    return _EXECUTABLE if mark[0] & stat.S_IXUSR else "100644"


# What a fork's tasks did comes back: the folder is merged into the fork, then what differs is written into the folder.
#
# Git itself merges, in the fork's working tree: any version of git will do, and a conflict looks as usual (marks in the
# files, an open merge) without touching the folder that others work in. A file that changes between the snapshot and
# the write is not written: the fork merges that change first.

_UNSEEN: Final = "something stands there that git does not look at (ignored, or kept out of its index): move it away"
_WELL: Final[JsonObject] = {"tries": None, "fault": None, "retry_at": None}


async def merge_back(fork: ForkHandle) -> None:
    """Brings a fork in state `merging` or `writing` in, or says which files conflict. Raises GitFailed and OSError."""
    repository = await fork.repository()
    worktree = fork.worktree(repository)
    async with fork.desk.turns:
        await restore_worktree(worktree)
    if not (worktree.folder / ".git").exists():
        async with fork.desk.turns:
            await worktree.make(fork.status.base)  # Somebody removed it: what was committed is on the branch.
    await worktree.unlock()
    if fork.status.state is ForkState.WRITING:
        if not await _written(fork, worktree):
            return
    elif not await _committed(fork, worktree):
        return
    moved: tuple[str, ...] = ()
    for _ in range(limits.FORK_ROUNDS_MAX):
        base = fork.status.base
        if not await _merged(fork, worktree) or await _checked_anew(fork):
            return
        if moved and fork.status.base == base:
            raise GitFailed(f"{', '.join(map(printable_name, moved[: limits.FORK_FILES_SHOWN]))}: {_UNSEEN}")
        if not (moved := await _written(fork, worktree)):
            return
    raise GitFailed("the files that it changed are being changed by others all the time")


async def _committed(fork: ForkHandle, worktree: Worktree) -> bool:
    """Commits what was done in the fork. False: an open merge is not mended, which is then said."""
    status, open_ = fork.status, await worktree.open()
    if open_ or await worktree.is_merging():
        if status.incoming and not status.files:
            await worktree.back_to(status.head)  # A crash cut the merge off: it is made anew.
        # Without that, it is a merge (a rebase, a stash) that was begun by who works there.
        elif left := await worktree.unmended(status.files or open_, is_claimed=_is_claimed(fork)):
            await _conflict(fork, left)
            return False
    elif status.incoming and status.head and not status.files:
        # Cut off too, but before git noted that it merges, or after it had ended: both are as if it had not begun.
        await worktree.back_to(status.head)
    head = await worktree.commit(f"{fork.desk.plan}: work of {fork.spec.task}")
    base = status.incoming if status.incoming and await worktree.has(status.incoming) else status.base
    await fork.note("fork.merging", {"base": base, "head": head, "incoming": None, "files": None})
    return True


def _is_claimed(fork: ForkHandle) -> bool:
    """Whether an agent says that it has mended what it was told of."""
    task = fork.desk.store.view.get(fork.spec.task)
    if task is None or task.spec["work"]["kind"] != "agent":
        return False
    return fork_request(task.status).bring > fork.status.answered


async def _merged(fork: ForkHandle, worktree: Worktree) -> bool:
    """Takes in what the folder has become since; False when that does not merge, which is then said."""
    status, desk = fork.status, fork.desk
    words = f"{desk.plan}: the folder as it is"
    incoming = await worktree.repository.snapshot(fork.index, status.base, words)
    if incoming == status.base:
        return True
    merge: JsonObject = {"state": str(ForkState.MERGING), "incoming": incoming, "head": await worktree.head()}
    await fork.note("fork.merging", merge)
    files = await worktree.merge(incoming, f"{desk.plan}: {fork.spec.task} takes in what changed meanwhile")
    if files:
        await _conflict(fork, files)
        return False
    took_in: JsonObject = {"base": incoming, "incoming": None, "head": await worktree.head(), "unchecked": True}
    await fork.note("fork.merging", took_in)
    return True


async def _checked_anew(fork: ForkHandle) -> bool:
    """Has the checks run once more on what both made together, before it goes to where others work.

    So often in a row, and no oftener: where somebody is always busy it would never come back.
    """
    status, task = fork.status, fork.desk.store.view.get(fork.spec.task)
    if not status.unchecked or status.rounds >= limits.FORK_CHECKS_MAX or task is None or not task.spec["acceptance"]:
        return False
    merge: JsonObject = {"state": str(ForkState.READY), "answered": _asked(fork), "unchecked": None, **_WELL}
    merge |= {"rounds": status.rounds + 1, **context.NO_WISH}
    await fork.note("fork.merged", merge, {"branch": status.branch}, context.release_fork_locks(fork))
    return True


async def _conflict(fork: ForkHandle, files: Sequence[str]) -> None:
    named: list[Json] = [printable_name(path) for path in files]
    merge: JsonObject = {"state": str(ForkState.CONFLICT), "files": named, "answered": _asked(fork), **_WELL}
    # Whoever mends it takes their time: what was locked for the write is free for others until then.
    merge |= context.NO_WISH
    await fork.note(
        "fork.conflict", merge, {"files": named, "branch": fork.status.branch}, context.release_fork_locks(fork)
    )


def _asked(fork: ForkHandle) -> int:
    task = fork.desk.store.view.get(fork.spec.task)
    return max(fork.status.answered, fork_request(task.status).bring if task is not None else 0)


async def _written(fork: ForkHandle, worktree: Worktree) -> tuple[str, ...]:
    """Writes what differs into the folder, under locks, or waits for those.

    Returns what moved on first, which is then to be taken in.
    """
    status, repository = fork.status, worktree.repository
    differences = await worktree.differences(status.base, status.head)
    left_out = [each.path for each in differences if not _is_brought(fork, repository, each)]
    todo = [each for each in differences if each.path not in left_out]
    named_out: list[Json] = [printable_name(path) for path in left_out]
    wants = context.wanted_locks(fork, repository.prefix, [each.path for each in todo])
    if status.state is not ForkState.WRITING:
        grants = context.take_locks(fork, wants)
        if grants is None:
            await context.wait_for_locks(fork, wants)
            return ()
        merge: JsonObject = {"state": str(ForkState.WRITING), "left_out": named_out, **context.NO_WISH}
        await fork.note("fork.writing", merge, more=grants)
    carrier = ChangeCopier(repository, fork.desk.forks / f"{fork.name}.out")
    try:
        moved = await carrier.carry(status.head, todo, lambda: context.require_locks(fork, wants))
    except context.ForkLocksLost:
        # It takes in what is there by then, and asks for the locks anew, behind whoever has them.
        lost: JsonObject = {"message": "its locks were taken from it before it wrote"}
        await fork.note("fork.merging", {"state": str(ForkState.MERGING)}, lost, context.release_fork_locks(fork))
        return await _written(fork, worktree)
    if moved:
        await fork.note("fork.merging", {"state": str(ForkState.MERGING)}, more=context.release_fork_locks(fork))
        return moved
    paths: list[Json] = [printable_name(each.path) for each in todo]
    data: JsonObject = {"branch": status.branch, "files": paths[: limits.FORK_FILES_SHOWN], "count": len(paths)}
    if left_out:
        data["left_out"] = named_out
    merge = {"state": str(ForkState.IN), "answered": _asked(fork), "files": None, "incoming": None, **_WELL}
    merge |= {"unchecked": None, "rounds": None}
    await fork.note("fork.brought", merge, data, context.release_fork_locks(fork))
    return ()


def _is_brought(fork: ForkHandle, repository: ForkedRepository, each: FileChange) -> bool:
    """Whether a difference may be written: the plan file is a person's (law 9), and submodules are no files."""
    file = plan_file_name(fork.desk.store.view.get(f"plan/{fork.desk.plan}"))
    return not (each.is_submodule or (file and each.path == repository.prefix + file))


# Whether a person has mended a merge that stands open: looked at now and then, at the price of a few stats.
#
# Git is asked only when something in the files in conflict, or in git's index, is other than at the last look.

FilesFingerprint: TypeAlias = tuple[tuple[int, int, int], ...]


def files_fingerprint(folder: Path, files: Iterable[str]) -> FilesFingerprint:
    """What changes when one of `files` in the working tree at `folder`, or its index, does."""
    try:
        index = Path((folder / ".git").read_text().removeprefix("gitdir:").strip()) / "index"
    except OSError:
        index = folder
    return tuple(_mark(path) for path in (index, *(folder / file for file in files)))


async def check_conflict_resolved(fork: ForkHandle) -> None:
    """Goes on with a merge that a person has mended; leaves one that is not mended as it is."""
    worktree = fork.worktree(await fork.repository())
    if not await worktree.unmended(fork.status.files, is_claimed=False):
        await fork.note("fork.merging", {"state": str(ForkState.MERGING)})


def _mark(path: Path) -> tuple[int, int, int]:
    try:
        seen = path.lstat()
    except OSError:
        return (0, 0, 0)
    return (seen.st_ino, seen.st_size, seen.st_mtime_ns)
