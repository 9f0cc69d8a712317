"""The working tree and branch of a fork: create, commit, merge into, repair and remove them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import anyio.to_thread

from planloop.controllers.fork.git import ForkedRepository, GitFailed, GitOutput, stage_all
from planloop.reconciler.store import state_files
from planloop.schemas import limits
from planloop.schemas.canonical_json import printable_name
from planloop.schemas.frozen import frozen

# A fork's own working tree and branch: made, committed, merged into, removed.
#
# Everything here may have been cut off in the middle by a crash and is done again: each step looks at what is there,
# and only what nobody has worked in yet is thrown away.

_MARKS: Final = (b"<<<<<<< ", b">>>>>>> ")
_UNRELATED: Final = b"refusing to merge unrelated histories"
_SUBMODULE: Final = "160000"
_SUBMODULES_TOO: Final = ("--ignore-submodules=none",)  # Stated, so that git does not read `.gitmodules` for it.


@frozen
class FileChange:
    """One path that two snapshots do not have alike. Modes and objects as git has them; all zeros: not there."""

    path: str
    old_mode: str
    new_mode: str
    old: str
    new: str

    @property
    def is_submodule(self) -> bool:
        return _SUBMODULE in (self.old_mode, self.new_mode)

    @property
    def is_removed(self) -> bool:
        return not self.new.strip("0")


@frozen
class Worktree:
    """The working tree at the absolute `folder`, with `branch` checked out, of `repository`."""

    repository: ForkedRepository
    folder: Path
    branch: str

    async def make(self, base: str) -> None:
        """Makes the branch at `base`, unless it is there, and the working tree. What is half made is made anew."""
        repository = self.repository
        if not await repository.branch(self.branch):
            await self.around("update-ref", f"refs/heads/{self.branch}", base, "")
        await self.remove()
        state_files.make_folder(self.folder.parent)
        await self.around("worktree", "add", "-q", "--force", str(self.folder), self.branch)

    async def remove(self) -> None:
        """Takes the working tree away, with whatever is in it, and what git knows of it. The branch stays.

        Git deletes the files first: one killed then leaves a tree without a folder, which goes too. Raises GitFailed
        when git goes on to know it.
        """
        await self._forget()
        if self.folder.exists():
            # Its registration may be half made, or its files are no longer what git takes for its own.
            await anyio.to_thread.run_sync(lambda: shutil.rmtree(self.folder, ignore_errors=True))
            said = await self._forget()
            if said.code != 0 and await self._is_known():
                raise GitFailed(f"`git worktree remove`: {said.words}")

    async def _is_known(self) -> bool:
        """Whether git lists the working tree, under its own name or where its folder really lies."""
        listing = await self.around("worktree", "list", "--porcelain")
        names = (str(self.folder), str(self.folder.parent.resolve() / self.folder.name))
        return any(f"worktree {name}" in listing.decode(errors="surrogateescape").splitlines() for name in names)

    async def _forget(self) -> GitOutput:
        """Has git remove the working tree, if it knows it and takes it for one."""
        return await self.repository.git.says(
            *("worktree", "remove", "--force", "--force", str(self.folder)),
            cwd=self.repository.top,
            more=self.repository.environment,
        )

    async def drop_branch(self, at: str) -> None:
        """Deletes the branch if it still is at the commit `at`."""
        if await self.repository.branch(self.branch) == at:
            await self.around("update-ref", "-d", f"refs/heads/{self.branch}", at)

    async def unlock(self) -> None:
        """Takes away the locks that a git left which was killed in the working tree; none runs there now."""
        where = Path(await self._text("rev-parse", "--absolute-git-dir"))
        for name in ("index.lock", "HEAD.lock", "MERGE_HEAD.lock", "ORIG_HEAD.lock"):
            (where / name).unlink(missing_ok=True)
        (await self.shared() / f"refs/heads/{self.branch}.lock").unlink(missing_ok=True)

    async def shared(self) -> Path:
        """The absolute folder of the data that all working trees of the repository share."""
        said = await self.around("rev-parse", "--git-common-dir")
        return Path(self.repository.top, said.decode(errors="surrogateescape").strip().splitlines()[-1])

    async def names(self) -> tuple[str, ...]:
        """The files that the branch has; none when there is no such branch."""
        if not await self.repository.branch(self.branch):
            return ()
        listing = await self.around("ls-tree", "-r", "-z", "--name-only", "--full-tree", f"refs/heads/{self.branch}")
        return tuple(name for name in listing.decode(errors="surrogateescape").split("\0") if name)

    async def forget_index(self) -> None:
        """Has git look at every file anew, as if none of them had been added."""
        await self._run("reset", "-q")

    async def head(self) -> str:
        """The commit that is checked out."""
        return await self.repository.git.commit("rev-parse", "HEAD", cwd=str(self.folder))

    async def is_merging(self) -> bool:
        """Whether a merge stands open."""
        return (await self._says("rev-parse", "--verify", "-q", "MERGE_HEAD")).code == 0

    async def open(self) -> tuple[str, ...]:
        """The files in conflict, in an open merge or in whatever else of git's was begun there."""
        return tuple(sorted(await self._unmerged()))

    async def has(self, commit: str) -> bool:
        """Whether `commit` is among what the branch has taken in."""
        return (await self._says("merge-base", "--is-ancestor", commit, "HEAD")).code == 0

    async def commit(self, words: str) -> str:
        """Commits all that git does not ignore, an open merge with it; returns the newest commit of the branch."""
        await stage_all(self.repository.git, str(self.folder))
        is_same = (await self._says("diff-index", "--cached", "--quiet", *_SUBMODULES_TOO, "HEAD")).code == 0
        if not is_same or await self.is_merging():
            await self._run("commit", "-q", "--no-verify", "--allow-empty", "-m", words)
        head = await self.head()
        if await self.repository.branch(self.branch) != head:  # Whoever works there may have gone to another branch.
            await self._run("update-ref", f"refs/heads/{self.branch}", head)
        return head

    async def merge(self, commit: str, words: str) -> tuple[str, ...]:
        """Merges `commit` in. Returns the files in conflict, whose merge is then open. Raises GitFailed."""
        merge = ("merge", "-q", "--no-ff", "--no-edit", "--no-verify", "-m", words, commit)
        said = await self._says(*merge)
        if _UNRELATED in said.output:  # Who works there began a history of its own.
            said = await self._says(*merge, "--allow-unrelated-histories")
        if said.code == 0:
            return ()
        files = await self.open()
        if not files and not await self._merged_apart(commit, words):
            raise GitFailed(f"`git merge`: {said.words}")
        return files

    async def _merged_apart(self, commit: str, words: str) -> bool:
        """Merges `commit` in without the working tree, if git can and there is no conflict.

        `git merge` looks for changed files first and stops at what it rejects in the working tree, as a `.gitmodules`
        with a value that it does not allow. Nothing is lost by not looking: all of it was committed.
        """
        tree = await self._says("merge-tree", "--write-tree", "--allow-unrelated-histories", "HEAD", commit)
        if tree.code != 0:  # A conflict, or a git before 2.38.
            return False
        git, parents = self.repository.git, ("-p", "HEAD", "-p", commit)
        made = await git.commit("commit-tree", tree.text.split()[0], *parents, "-m", words, cwd=str(self.folder))
        await self.back_to(made)
        return True

    async def keep_beside(self, suffix: str, words: str) -> None:
        """Puts the working tree as it stands, an open merge with its marks, on the branch with `suffix` to its name."""
        await stage_all(self.repository.git, str(self.folder))
        tree = await self.repository.git.commit("write-tree", cwd=str(self.folder))
        parents = ("-p", "HEAD", "-p", "MERGE_HEAD")
        made = await self.repository.git.commit("commit-tree", tree, *parents, "-m", words, cwd=str(self.folder))
        await self._run("update-ref", f"refs/heads/{self.branch}{suffix}", made)

    async def back_to(self, commit: str) -> None:
        """Gives up an open merge, or one that was cut off: all work was committed in `commit` before it began."""
        await self._run("reset", "-q", "--hard", commit)

    async def unmended(self, files: tuple[str, ...], *, is_claimed: bool) -> tuple[str, ...]:
        """Those of `files`, named as in the log, that are still in conflict.

        Text is mended when no mark of git is left in it. What has no marks (binary files, a file that one side
        removed) is mended when it is added to the index, or when whoever works there says so (`is_claimed`).
        """
        stages = await self._unmerged()
        real = {printable_name(path): path for path in stages}
        known = [real.get(path, path) for path in files]
        return tuple(path for path in known if self._is_unmended(path, stages.get(path, ()), is_claimed))

    def _is_unmended(self, path: str, stages: tuple[str, ...], is_claimed: bool) -> bool:
        content = self._content(path)
        if content is not None and b"\0" not in content:
            lines = content.splitlines()
            if all(any(line.startswith(mark) for line in lines) for mark in _MARKS):
                return True
            had_marks = {"2", "3"} <= set(stages)
            return bool(stages) and not had_marks and not is_claimed
        return bool(stages) and not is_claimed

    def _content(self, path: str) -> bytes | None:
        file = self.folder / path
        if file.is_symlink() or not file.is_file():
            return None
        with file.open("rb") as opened:
            return opened.read(limits.OUTPUT_KEPT_BYTES_MAX)

    async def _unmerged(self) -> Mapping[str, tuple[str, ...]]:
        """The stages that the index has of each path in conflict."""
        found: dict[str, tuple[str, ...]] = {}
        for entry in (await self._run("ls-files", "-u", "-z")).decode(errors="surrogateescape").split("\0"):
            head, _, path = entry.partition("\t")
            if path:
                found[path] = (*found.get(path, ()), head.split()[-1])
        return found

    async def differences(self, old: str, new: str) -> tuple[FileChange, ...]:
        """What has to change for a tree that is as `old` to be as `new`; renames are a removal and a new file."""
        raw = await self._run(
            "diff-tree", "-r", "-z", "--raw", "--no-renames", "--full-index", *_SUBMODULES_TOO, old, new
        )
        parts = raw[raw.find(b":") :].decode(errors="surrogateescape").split("\0") if b":" in raw else []
        pairs = zip(parts[::2], parts[1::2], strict=False)
        return tuple(FileChange(path, *head[1:].split(" ")[:4]) for head, path in pairs)

    async def beyond(self) -> tuple[str, ...]:
        """Files and folders in it that no commit has: what git ignores, and what lies in repositories within it."""
        listing = await self._run("ls-files", "-o", "--directory", "--no-empty-directory", "-z")
        others = [name for name in listing.decode(errors="surrogateescape").split("\0") if name]
        staged = (await self._run("ls-files", "-s", "-z")).decode(errors="surrogateescape").split("\0")
        within = [entry.partition("\t")[2] for entry in staged if entry.startswith(_SUBMODULE)]
        return (*others, *(f"{name}/" for name in within if self._has_files(name)))

    def _has_files(self, name: str) -> bool:
        folder = self.folder / name
        return folder.is_dir() and not folder.is_symlink() and any(folder.iterdir())

    async def _text(self, *arguments: str) -> str:
        said = await self._run(*arguments)
        return said.decode(errors="surrogateescape").strip().splitlines()[-1]

    async def _run(self, *arguments: str) -> bytes:
        return await self.repository.git.run(*arguments, cwd=str(self.folder))

    async def _says(self, *arguments: str) -> GitOutput:
        return await self.repository.git.says(*arguments, cwd=str(self.folder))

    async def around(self, *arguments: str) -> bytes:
        """Runs git in the folder that is left, not in the fork."""
        return await self.repository.git.run(*arguments, cwd=self.repository.top, more=self.repository.environment)


# A working tree that lost its way to its repository gets it back, with all that is in it.
#
# Who works in a fork may remove its `.git`, or put a repository of its own there: what was written is work all the
# same, and git, asked in such a tree, would answer for the folder around it. What stood there instead is put beside the
# tree.


async def restore_worktree(worktree: Worktree) -> None:
    """Makes the working tree one that is whole, or one that is not there. Raises GitFailed and OSError."""
    folder, link = worktree.folder, worktree.folder / ".git"
    if not folder.exists() or _is_linked(link):
        return
    if not await _has_its_files(worktree):
        folder.rename(_beside(folder, "left"))  # Somebody removed it, and others wrote there since.
        return
    if _exists(link):
        link.rename(_beside(folder, "git"))
    known = await anyio.to_thread.run_sync(_registration, await worktree.shared(), link)
    if known is not None:
        link.write_text(f"gitdir: {known}\n")
        return
    await _register(worktree, link)


def _is_linked(link: Path) -> bool:
    """Whether git, asked in the tree, finds the registration of this tree and of no other."""
    try:
        where = link.parent / link.read_text().removeprefix("gitdir:").strip()
        return _names(where / "gitdir", link)
    except (OSError, UnicodeDecodeError):
        return False


def _registration(common: Path, link: Path) -> Path | None:
    found = (each.parent for each in sorted((common / "worktrees").glob("*/gitdir")) if _names(each, link))
    return next(found, None)


def _names(registered: Path, link: Path) -> bool:
    return (registered.parent / registered.read_text().strip()).resolve() == link.resolve()


async def _register(worktree: Worktree, link: Path) -> None:
    """Has git, which has forgotten the tree, know it again: as one of its branch in which everything is changed."""
    new = worktree.folder.with_name(f"{worktree.folder.name}.new")
    await anyio.to_thread.run_sync(lambda: shutil.rmtree(new, ignore_errors=True))
    await worktree.around("worktree", "add", "-q", "--force", "--no-checkout", str(new), worktree.branch)
    where = Path((new / ".git").read_text().removeprefix("gitdir:").strip())
    (new / ".git").rename(link)
    new.rmdir()
    (where / "gitdir").write_text(f"{link}\n")
    await worktree.forget_index()


async def _has_its_files(worktree: Worktree) -> bool:
    """Whether at least half of what its branch has is there: else what is left is not what somebody worked in."""
    names = await worktree.names()
    there = sum(_exists(worktree.folder / name) for name in names)
    return there * 2 >= len(names) and any(worktree.folder.iterdir())


def _beside(folder: Path, what: str) -> Path:
    """A name beside `folder` that nobody has."""
    count = 1
    while _exists(beside := folder.with_name(f"{folder.name}.{what}{count}")):
        count += 1
    return beside


def _exists(path: Path) -> bool:
    return os.path.lexists(path)
