"""Working tree and branch of a fork: create, commit, merge, repair and remove them."""

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

# A crash may interrupt everything here, and it is done again: each step looks at what exists, and deletes only what no
# task or agent has worked in yet.

_MARKS: Final = (b"<<<<<<< ", b">>>>>>> ")
_UNRELATED: Final = b"refusing to merge unrelated histories"
_SUBMODULE: Final = "160000"
_SUBMODULES_TOO: Final = ("--ignore-submodules=none",)  # Stated, so that git does not read `.gitmodules` for it.


@frozen
class FileChange:
    """A path that differs between two snapshots, with its modes and objects in git; all zeros: it does not exist."""

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
        """Create the branch at `base`, unless it exists, and the working tree. A partly created tree is recreated."""
        repository = self.repository
        if not await repository.branch(self.branch):
            await self.around("update-ref", f"refs/heads/{self.branch}", base, "")
        await self.remove()
        state_files.make_folder(self.folder.parent)
        await self.around("worktree", "add", "-q", "--force", str(self.folder), self.branch)

    async def remove(self) -> None:
        """Remove the working tree with all its files, and its registration in git. The branch stays.

        Git deletes the files first, so a killed git may leave a registration without a folder, which is removed too.

        Raises:
            GitFailed: git still lists the working tree.
        """
        await self._forget()
        if self.folder.exists():
            # Its registration may be incomplete, or git does not recognise its files any more.
            await anyio.to_thread.run_sync(lambda: shutil.rmtree(self.folder, ignore_errors=True))
            said = await self._forget()
            if said.code != 0 and await self._is_known():
                raise GitFailed(f"`git worktree remove`: {said.words}")

    async def _is_known(self) -> bool:
        """Whether git lists the working tree, under its path or its path without links."""
        listing = await self.around("worktree", "list", "--porcelain")
        names = (str(self.folder), str(self.folder.parent.resolve() / self.folder.name))
        return any(f"worktree {name}" in listing.decode(errors="surrogateescape").splitlines() for name in names)

    async def _forget(self) -> GitOutput:
        """Let git remove the working tree, if git knows it."""
        return await self.repository.git.says(
            *("worktree", "remove", "--force", "--force", str(self.folder)),
            cwd=self.repository.top,
            more=self.repository.environment,
        )

    async def drop_branch(self, at: str) -> None:
        """Delete the branch if it is still at the commit `at`."""
        if await self.repository.branch(self.branch) == at:
            await self.around("update-ref", "-d", f"refs/heads/{self.branch}", at)

    async def unlock(self) -> None:
        """Remove lock files that a killed git left in the working tree; no git is running there now."""
        where = Path(await self._text("rev-parse", "--absolute-git-dir"))
        for name in ("index.lock", "HEAD.lock", "MERGE_HEAD.lock", "ORIG_HEAD.lock"):
            (where / name).unlink(missing_ok=True)
        (await self.shared() / f"refs/heads/{self.branch}.lock").unlink(missing_ok=True)

    async def shared(self) -> Path:
        """Return the absolute folder of the data that all working trees of the repository share."""
        said = await self.around("rev-parse", "--git-common-dir")
        return Path(self.repository.top, said.decode(errors="surrogateescape").strip().splitlines()[-1])

    async def names(self) -> tuple[str, ...]:
        """Return the files on the branch; none if the branch does not exist."""
        if not await self.repository.branch(self.branch):
            return ()
        listing = await self.around("ls-tree", "-r", "-z", "--name-only", "--full-tree", f"refs/heads/{self.branch}")
        return tuple(name for name in listing.decode(errors="surrogateescape").split("\0") if name)

    async def forget_index(self) -> None:
        """Reset the index, so that git compares every file again."""
        await self._run("reset", "-q")

    async def head(self) -> str:
        """Return the commit that is checked out."""
        return await self.repository.git.commit("rev-parse", "HEAD", cwd=str(self.folder))

    async def is_merging(self) -> bool:
        """Whether there is an open merge."""
        return (await self._says("rev-parse", "--verify", "-q", "MERGE_HEAD")).code == 0

    async def open(self) -> tuple[str, ...]:
        """Return the files in conflict, in an open merge, rebase or other operation of git."""
        return tuple(sorted(await self._unmerged()))

    async def has(self, commit: str) -> bool:
        """Whether the branch contains `commit`."""
        return (await self._says("merge-base", "--is-ancestor", commit, "HEAD")).code == 0

    async def commit(self, words: str) -> str:
        """Commit all files that git does not ignore, and an open merge; return the newest commit of the branch."""
        await stage_all(self.repository.git, str(self.folder))
        is_same = (await self._says("diff-index", "--cached", "--quiet", *_SUBMODULES_TOO, "HEAD")).code == 0
        if not is_same or await self.is_merging():
            await self._run("commit", "-q", "--no-verify", "--allow-empty", "-m", words)
        head = await self.head()
        if await self.repository.branch(self.branch) != head:  # An agent may have checked out another branch.
            await self._run("update-ref", f"refs/heads/{self.branch}", head)
        return head

    async def merge(self, commit: str, words: str) -> tuple[str, ...]:
        """Merge `commit` into the branch; return the files in conflict, for an open merge. Raises GitFailed."""
        merge = ("merge", "-q", "--no-ff", "--no-edit", "--no-verify", "-m", words, commit)
        said = await self._says(*merge)
        if _UNRELATED in said.output:  # An agent began a new history there.
            said = await self._says(*merge, "--allow-unrelated-histories")
        if said.code == 0:
            return ()
        files = await self.open()
        if not files and not await self._merged_apart(commit, words):
            raise GitFailed(f"`git merge`: {said.words}")
        return files

    async def _merged_apart(self, commit: str, words: str) -> bool:
        """Merge `commit` without the working tree, if git can and there is no conflict; return whether it did.

        `git merge` looks for changed files first and stops at files that it rejects, such as a `.gitmodules` with an
        invalid value. Skipping that loses nothing, because all changes are committed.
        """
        tree = await self._says("merge-tree", "--write-tree", "--allow-unrelated-histories", "HEAD", commit)
        if tree.code != 0:  # A conflict, or a git before 2.38.
            return False
        git, parents = self.repository.git, ("-p", "HEAD", "-p", commit)
        made = await git.commit("commit-tree", tree.text.split()[0], *parents, "-m", words, cwd=str(self.folder))
        await self.back_to(made)
        return True

    async def keep_beside(self, suffix: str, words: str) -> None:
        """Commit the working tree, including conflict markers, on the branch with `suffix` appended to its name."""
        await stage_all(self.repository.git, str(self.folder))
        tree = await self.repository.git.commit("write-tree", cwd=str(self.folder))
        parents = ("-p", "HEAD", "-p", "MERGE_HEAD")
        made = await self.repository.git.commit("commit-tree", tree, *parents, "-m", words, cwd=str(self.folder))
        await self._run("update-ref", f"refs/heads/{self.branch}{suffix}", made)

    async def back_to(self, commit: str) -> None:
        """Abort an open or interrupted merge: all work was committed in `commit` before it began."""
        await self._run("reset", "-q", "--hard", commit)

    async def unresolved(self, files: tuple[str, ...], *, is_claimed: bool) -> tuple[str, ...]:
        """Return those of `files`, named as in the log, that are still in conflict.

        A text file is resolved when it has no conflict markers. A file without markers (binary, or removed on one side)
        is resolved when it is added to the index, or when the agent claims that it is (`is_claimed`).
        """
        stages = await self._unmerged()
        real = {printable_name(path): path for path in stages}
        known = [real.get(path, path) for path in files]
        return tuple(path for path in known if self._is_unresolved(path, stages.get(path, ()), is_claimed))

    def _is_unresolved(self, path: str, stages: tuple[str, ...], is_claimed: bool) -> bool:
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
        """Return the stages in the index of each path in conflict."""
        found: dict[str, tuple[str, ...]] = {}
        for entry in (await self._run("ls-files", "-u", "-z")).decode(errors="surrogateescape").split("\0"):
            head, _, path = entry.partition("\t")
            if path:
                found[path] = (*found.get(path, ()), head.split()[-1])
        return found

    async def differences(self, old: str, new: str) -> tuple[FileChange, ...]:
        """Return the changes from the tree of `old` to that of `new`; a rename is a removal and a new file."""
        raw = await self._run(
            "diff-tree", "-r", "-z", "--raw", "--no-renames", "--full-index", *_SUBMODULES_TOO, old, new
        )
        parts = raw[raw.find(b":") :].decode(errors="surrogateescape").split("\0") if b":" in raw else []
        pairs = zip(parts[::2], parts[1::2], strict=False)
        return tuple(FileChange(path, *head[1:].split(" ")[:4]) for head, path in pairs)

    async def beyond(self) -> tuple[str, ...]:
        """Return the files and folders that are in no commit: ignored files, and files in nested repositories."""
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
        """Run git in the folder that the fork branches from, not in the fork."""
        return await self.repository.git.run(*arguments, cwd=self.repository.top, more=self.repository.environment)


# Repair of a working tree that lost its connection to its repository, with all its files.
#
# A task or agent may remove the `.git` file of a fork, or create a repository there. Its files are still work, and git
# in such a tree would act on the folder around it. A `.git` that replaced ours is moved next to the tree.


async def restore_worktree(worktree: Worktree) -> None:
    """Repair the working tree, or move it away if it is not the fork's any more. Raises GitFailed and OSError."""
    folder, link = worktree.folder, worktree.folder / ".git"
    if not folder.exists() or _is_linked(link):
        return
    if not await _has_its_files(worktree):
        folder.rename(_free_name(folder, "left"))  # The tree was removed, and other files were written there since.
        return
    if _exists(link):
        link.rename(_free_name(folder, "git"))
    known = await anyio.to_thread.run_sync(_registration, await worktree.shared(), link)
    if known is not None:
        link.write_text(f"gitdir: {known}\n")
        return
    await _register(worktree, link)


def _is_linked(link: Path) -> bool:
    """Whether git, run in the tree, finds the registration of this tree."""
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
    """Register the tree in git again, on its branch; git then sees all files as changed."""
    new = worktree.folder.with_name(f"{worktree.folder.name}.new")
    await anyio.to_thread.run_sync(lambda: shutil.rmtree(new, ignore_errors=True))
    await worktree.around("worktree", "add", "-q", "--force", "--no-checkout", str(new), worktree.branch)
    where = Path((new / ".git").read_text().removeprefix("gitdir:").strip())
    (new / ".git").rename(link)
    new.rmdir()
    (where / "gitdir").write_text(f"{link}\n")
    await worktree.forget_index()


async def _has_its_files(worktree: Worktree) -> bool:
    """Whether at least half of the branch's files exist: otherwise this is not the tree of the fork any more."""
    names = await worktree.names()
    there = sum(_exists(worktree.folder / name) for name in names)
    return there * 2 >= len(names) and any(worktree.folder.iterdir())


def _free_name(folder: Path, what: str) -> Path:
    """Return an unused name next to `folder`."""
    count = 1
    while _exists(found := folder.with_name(f"{folder.name}.{what}{count}")):
        count += 1
    return found


def _exists(path: Path) -> bool:
    return os.path.lexists(path)
