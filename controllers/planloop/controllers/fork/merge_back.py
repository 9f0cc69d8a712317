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
_TYPE, _FULL = 3, 6  # Leading digits of a mode: its type (file or link), or all of it, including permissions.


@frozen
class FolderFile:
    """A file in the folder as it is now: its mode and object in git, and a fingerprint that changes with the file."""

    mode: str
    object: str
    mark: tuple[int, ...]


NO_FILE: Final = FolderFile("", "", ())


@frozen
class ChangeCopier:
    """Copies files into the working tree of `repository`. `stage` is a temporary folder, created and removed."""

    repository: ForkedRepository
    stage: Path

    async def carry(
        self, new: str, differences: Sequence[FileChange], stop: Callable[[], None] = lambda: None
    ) -> tuple[str, ...]:
        """Write the files of `differences` as they are in the commit `new`; return those that changed meanwhile.

        `stop` is called when all is ready and nothing is written yet; its exceptions go to the caller. Raises GitFailed
        and OSError.
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
            # No await from here on: no lock can be granted and no agent of this owner can run between the check and the
            # last rename.
            stop()
            return tuple(each.path for each in _in_order(todo) if not self._put(each, found[each.path]))
        finally:
            await anyio.to_thread.run_sync(lambda: shutil.rmtree(self.stage, ignore_errors=True))

    async def _found(self, paths: Sequence[str]) -> Mapping[str, FolderFile]:
        """Return what is at each path now, with the git object of its content."""
        marks = {path: _file_mark(self._at(path)) for path in paths}
        files = [path for path in paths if stat.S_ISREG(marks[path][0] if marks[path] else 0)]
        objects = await self._objects(files)
        found: dict[str, FolderFile] = {}
        for path in paths:
            mode = _file_mode(marks[path])
            name = objects.get(path, "")
            if mode == _LINK:
                name = await self._link_object(path)
            # A file that changed while it was read has an unknown object.
            found[path] = FolderFile(mode, name if _file_mark(self._at(path)) == marks[path] else "?", marks[path])
        return found

    async def _objects(self, paths: Sequence[str]) -> Mapping[str, str]:
        named: dict[str, str] = {}
        # In its line-by-line input, git takes a leading quote and a trailing CR as syntax.
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
        """Write the files of `new` below the stage, as a checkout would."""
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
        """Give each unpacked file the permissions and line endings of the file that it replaces, and flush it."""
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
        """Write one file if it is still as it was found; return whether it was written."""
        target = self._at(each.path)
        if _file_mark(target) != found.mark or self._is_below_link(each.path):
            return False
        if each.is_removed:
            target.unlink(missing_ok=True)
            self._tidy(target.parent)
            return True
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            return self._renamed(self.stage / "files" / each.path, target, found)
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            return False  # A file is where a folder is needed, or the other way round: newer work.

    def _renamed(self, staged: Path, target: Path, found: FolderFile) -> bool:
        """Replace `target` by `staged`; on another file system, copy it next to `target` first."""
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

    def _is_below_link(self, path: str) -> bool:
        """Whether a folder in the path is a link: then it leads to another file than the one in git."""
        at = Path(self.repository.top)
        for name in Path(path).parts[:-1]:
            at /= name
            if at.is_symlink():
                return True
        return False

    def _tidy(self, folder: Path) -> None:
        """Remove empty folders, as git does."""
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
    """Give `new` CRLF line endings if all lines of `now` have them and git stores the file without CR.

    `known` is the git object of `now`: if it is of the unchanged bytes, git itself stores the CRs.
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
    """Return the git object name of these bytes, in a repository whose names have `digits` digits."""
    made = hashlib.sha1(usedforsecurity=False) if digits == SHA1_DIGITS else hashlib.sha256()
    made.update(b"blob %d\0" % len(content) + content)
    return made.hexdigest()


def _in_order(todo: Iterable[FileChange]) -> list[FileChange]:
    """Return the changes with removals first: a folder may replace a removed file of the same name."""
    return sorted(todo, key=lambda each: (not each.is_removed, each.path))


def _matches(found: FolderFile, mode: str, name: str, digits: int) -> bool:
    """Whether a file has this object and the first `digits` of this mode."""
    if not name.strip(_NONE):
        return found == NO_FILE
    return found.object == name and found.mode[:digits] == mode[:digits]


def _file_mark(path: Path) -> tuple[int, ...]:
    """Return a fingerprint that changes with the file, or empty. The first number is its mode."""
    try:
        seen = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return ()
    if stat.S_ISDIR(seen.st_mode):
        return ()  # Not a file. If a file must be written here, the rename fails.
    return (seen.st_mode, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)


def _file_mode(mark: tuple[int, ...]) -> str:
    """Return the mode in git; empty if the file does not exist."""
    if not mark:
        return ""
    if stat.S_ISLNK(mark[0]):
        return _LINK
    return _EXECUTABLE if mark[0] & stat.S_IXUSR else "100644"


# The changes of a fork come back in two steps: the folder is merged into the fork, then the differing files are written
# into the folder.
#
# Git merges in the fork's working tree: any version of git will do, and a conflict looks as usual (markers in the
# files, an open merge) without touching the folder that others work in. A file that changes between the snapshot and
# the write is not written: the fork merges that change first.

_UNSEEN: Final = "a file that git ignores, or that is not in its index, already exists there: move it away"
_WELL: Final[JsonObject] = {"tries": None, "fault": None, "retry_at": None}


async def merge_back(fork: ForkHandle) -> None:
    """Merge back a fork in state `merging` or `writing`, or record the conflicts. Raises GitFailed and OSError."""
    repository = await fork.repository()
    worktree = fork.worktree(repository)
    async with fork.services.turns:
        await restore_worktree(worktree)
    if not (worktree.folder / ".git").exists():
        async with fork.services.turns:
            await worktree.make(fork.status.base)  # The tree was removed; its commits are on the branch.
    await worktree.unlock()
    if fork.status.state is ForkState.WRITING:
        if not await _write_changes(fork, worktree):
            return
    elif not await _commit_changes(fork, worktree):
        return
    moved: tuple[str, ...] = ()
    for _ in range(limits.FORK_ROUNDS_MAX):
        base = fork.status.base
        if not await _merge_folder(fork, worktree) or await _request_checks(fork):
            return
        if moved and fork.status.base == base:
            raise GitFailed(f"{', '.join(map(printable_name, moved[: limits.FORK_FILES_SHOWN]))}: {_UNSEEN}")
        if not (moved := await _write_changes(fork, worktree)):
            return
    raise GitFailed("other tasks keep changing the files that it changed")


async def _commit_changes(fork: ForkHandle, worktree: Worktree) -> bool:
    """Commit the changes in the fork. Return False, and record the conflicts, if an open merge is not resolved."""
    status, open_ = fork.status, await worktree.open()
    if open_ or await worktree.is_merging():
        if status.incoming and not status.files:
            await worktree.back_to(status.head)  # A crash interrupted the merge: start it again.
        # Otherwise it is a merge (or a rebase, or a stash) that a task or agent of the fork began.
        elif left := await worktree.unresolved(status.files or open_, is_claimed=_is_claimed(fork)):
            await _conflict(fork, left)
            return False
    elif status.incoming and status.head and not status.files:
        # Interrupted before git had written that it merges, or after the merge had ended: start it again, too.
        await worktree.back_to(status.head)
    head = await worktree.commit(f"{fork.services.plan}: work of {fork.spec.task}")
    base = status.incoming if status.incoming and await worktree.has(status.incoming) else status.base
    await fork.note("fork.merging", {"base": base, "head": head, "incoming": None, "files": None})
    return True


def _is_claimed(fork: ForkHandle) -> bool:
    """Whether the agent of the task claims that it resolved the conflicts."""
    task = fork.services.store.view.get(fork.spec.task)
    if task is None or task.spec["work"]["kind"] != "agent":
        return False
    return fork_request(task.status).bring > fork.status.answered


async def _merge_folder(fork: ForkHandle, worktree: Worktree) -> bool:
    """Merge the current folder into the fork. Return False, and record the conflicts, if there are any."""
    status, services = fork.status, fork.services
    words = f"{services.plan}: the folder as it is"
    incoming = await worktree.repository.snapshot(fork.index, status.base, words)
    if incoming == status.base:
        return True
    merge: JsonObject = {"state": str(ForkState.MERGING), "incoming": incoming, "head": await worktree.head()}
    await fork.note("fork.merging", merge)
    files = await worktree.merge(incoming, f"{services.plan}: {fork.spec.task} takes in what changed meanwhile")
    if files:
        await _conflict(fork, files)
        return False
    took_in: JsonObject = {"base": incoming, "incoming": None, "head": await worktree.head(), "unchecked": True}
    await fork.note("fork.merging", took_in)
    return True


async def _request_checks(fork: ForkHandle) -> bool:
    """Ask for the task's checks on the merged result, before it is written into the folder; return whether it did.

    At most FORK_CHECKS_MAX times in a row: in a busy folder, the fork would otherwise never be merged back.
    """
    status, task = fork.status, fork.services.store.view.get(fork.spec.task)
    if not status.unchecked or status.rounds >= limits.FORK_CHECKS_MAX or task is None or not task.spec["acceptance"]:
        return False
    merge: JsonObject = {"state": str(ForkState.READY), "answered": _asked(fork), "unchecked": None, **_WELL}
    merge |= {"rounds": status.rounds + 1, **context.NO_WISH}
    await fork.note("fork.merged", merge, {"branch": status.branch}, context.release_fork_locks(fork))
    return True


async def _conflict(fork: ForkHandle, files: Sequence[str]) -> None:
    named: list[Json] = [printable_name(path) for path in files]
    merge: JsonObject = {"state": str(ForkState.CONFLICT), "files": named, "answered": _asked(fork), **_WELL}
    # Resolving may take long, so the locks for the write are released until then.
    merge |= context.NO_WISH
    await fork.note(
        "fork.conflict", merge, {"files": named, "branch": fork.status.branch}, context.release_fork_locks(fork)
    )


def _asked(fork: ForkHandle) -> int:
    task = fork.services.store.view.get(fork.spec.task)
    return max(fork.status.answered, fork_request(task.status).bring if task is not None else 0)


async def _write_changes(fork: ForkHandle, worktree: Worktree) -> tuple[str, ...]:
    """Write the differing files into the folder, under locks, or wait for the locks.

    Returns the files that changed meanwhile, which must be merged first.
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
    copier = ChangeCopier(repository, fork.services.forks / f"{fork.name}.out")
    try:
        moved = await copier.carry(status.head, todo, lambda: context.require_locks(fork, wants))
    except context.ForkLocksLost:
        # Merge the newer folder, and request the locks again, behind their new holders.
        lost: JsonObject = {"message": "it lost its locks before it wrote a file"}
        await fork.note("fork.merging", {"state": str(ForkState.MERGING)}, lost, context.release_fork_locks(fork))
        return await _write_changes(fork, worktree)
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
    """Whether a change may be written: not the plan file, which belongs to a person (law 9), and not submodules."""
    file = plan_file_name(fork.services.store.view.get(f"plan/{fork.services.plan}"))
    return not (each.is_submodule or (file and each.path == repository.prefix + file))


# Whether a person has resolved an open merge: checked at intervals. Git runs only if the files in conflict, or its
# index, have changed since the last check.

FilesFingerprint: TypeAlias = tuple[tuple[int, int, int], ...]


def files_fingerprint(folder: Path, files: Iterable[str]) -> FilesFingerprint:
    """Return a fingerprint that changes with `files` in the working tree at `folder`, or with its index."""
    try:
        index = Path((folder / ".git").read_text().removeprefix("gitdir:").strip()) / "index"
    except OSError:
        index = folder
    return tuple(_mark(path) for path in (index, *(folder / file for file in files)))


async def check_conflict_resolved(fork: ForkHandle) -> None:
    """Continue with a merge that a person has resolved; leave an unresolved one alone."""
    worktree = fork.worktree(await fork.repository())
    if not await worktree.unresolved(fork.status.files, is_claimed=False):
        await fork.note("fork.merging", {"state": str(ForkState.MERGING)})


def _mark(path: Path) -> tuple[int, int, int]:
    try:
        seen = path.lstat()
    except OSError:
        return (0, 0, 0)
    return (seen.st_ino, seen.st_size, seen.st_mtime_ns)
