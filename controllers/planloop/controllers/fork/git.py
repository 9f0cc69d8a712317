"""Run git as a bounded, labelled process; find the repository that a fork branches from, and take snapshots of it."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import anyio.to_thread

from planloop.containers.sandbox import write_guard
from planloop.reconciler.clock import Ids
from planloop.reconciler.effects.processes import ExitCause, ProcessCommand, Processes
from planloop.schemas import limits
from planloop.schemas.frozen import frozen

# Git runs like every other process of the plan: with limits and labels, and it is stopped by the next owner.
#
# No hooks of the repository run, nothing is signed, and git asks for no password. Only a folder with a `.git` counts as
# a repository: commands could make another folder look like one. Warnings before the output are skipped.

_QUIET: Final = (
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.fsmonitor=false"),
    *("-c", "safe.bareRepository=explicit"),
    *("-c", "core.quotePath=false"),
    *("-c", "core.safecrlf=false"),
    *("-c", "commit.gpgSign=false"),
    *("-c", "merge.verifySignatures=false"),
    *("-c", "merge.conflictStyle=merge"),
    *("-c", "diff.orderFile=/dev/null"),
    *("-c", "rerere.enabled=false"),
    *("-c", "submodule.recurse=false"),
    *("-c", "gc.auto=0"),
    *("-c", "maintenance.auto=false"),
)
_OWN: Final = {
    "GIT_OPTIONAL_LOCKS": "0",  # Never refresh the user's own index.
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "true",
    "GIT_AUTHOR_NAME": "planloop",
    "GIT_AUTHOR_EMAIL": "planloop@localhost",
    "GIT_COMMITTER_NAME": "planloop",
    "GIT_COMMITTER_EMAIL": "planloop@localhost",
    "LC_ALL": "C",
}
_SUBMODULES: Final = re.compile(rb"submodule|\.gitmodules")
_WARNINGS: Final = re.compile(rb"\A(?:(?:warning|hint): .*\n)+")
_COMMIT: Final = re.compile(rb"^[0-9a-f]{40,64}$", re.MULTILINE)


class GitFailed(Exception):
    """Git failed. The message is the last lines of its output, or why it could not be run."""


@frozen
class GitOutput:
    """Exit code and output of a run of git."""

    code: int
    output: bytes

    @property
    def text(self) -> str:
        return self.output.decode(errors="replace").strip()

    @property
    def words(self) -> str:
        """The last lines of git's output as one line, with the fix if git does not name one."""
        last = "; ".join(self.text.splitlines()[-limits.GIT_WORDS_LINES :]) or f"exit {self.code}"
        is_about_submodules = self.code != 0 and _SUBMODULES.search(self.output) is not None
        return (
            f"{last}; correct or remove `.gitmodules` in the working tree of the fork" if is_about_submodules else last
        )


@frozen
class Git:
    """Runs git with a clean environment. `environment` holds the variables that commands inherit from the owner."""

    processes: Processes
    ids: Ids
    environment: Mapping[str, str]

    async def says(
        self, *arguments: str, cwd: str, more: Mapping[str, str] | None = None, stdin: bytes = b""
    ) -> GitOutput:
        """Run `git` in the folder `cwd`; return its output with any exit code. Raises GitFailed if it cannot run."""
        op = self.ids.mint()
        command = ProcessCommand(
            cwd=cwd,
            argv=("git", *_QUIET, *arguments),
            env={**self.environment, **_OWN, **(more or {})},
            stdin=stdin,
            timeout_s=limits.GIT_S,
            output_bytes_max=limits.OUTPUT_KEPT_BYTES_MAX,
        )
        try:
            exit_ = await self.processes.run(op, command)
        finally:
            self.processes.forget([op])
        if exit_.ending is ExitCause.NOT_STARTED:
            raise GitFailed(f"git could not be run: {exit_.output.decode(errors='replace').strip()}")
        if exit_.ending is not ExitCause.EXITED or exit_.code is None or exit_.code < 0:
            raise GitFailed(f"`git {arguments[0]}` did not end by itself: {exit_.ending.value}")
        return GitOutput(exit_.code, exit_.output if exit_.code else _WARNINGS.sub(b"", exit_.output))

    async def run(self, *arguments: str, cwd: str, more: Mapping[str, str] | None = None, stdin: bytes = b"") -> bytes:
        """Run `git` and return what it prints. Raises GitFailed if its exit code is not 0."""
        said = await self.says(*arguments, cwd=cwd, more=more, stdin=stdin)
        if said.code != 0:
            raise GitFailed(f"`git {arguments[0]}`: {said.words}")
        return said.output

    async def commit(self, *arguments: str, cwd: str, more: Mapping[str, str] | None = None) -> str:
        """Run `git` and return the object name in its output. Raises GitFailed."""
        found = _COMMIT.findall(await self.run(*arguments, cwd=cwd, more=more))
        if not found:
            raise GitFailed(f"`git {arguments[0]}` named no object")
        return str(found[-1].decode())


# The repository of the folder that a fork branches from, and snapshots of that folder.
#
# A snapshot is a commit of all files that git does not ignore, made with a separate index: the user's index, HEAD,
# branches, stash and hooks are not touched. A folder without a repository gets a private one below the plan's state
# folder, so that a fork works everywhere and no `.git` appears in the user's folder. The same holds for a repository
# that was created while sandboxed commands could write there: git would run what they may have configured in it. Git
# never runs in nested repositories.

PRIVATE_REPOSITORY: Final = "repository"
_IGNORED: Final = b"paths are ignored by one of your .gitignore files"
_SPARSE: Final = b"outside of your sparse-checkout definition"
_NO_COMMIT: Final = re.compile(rb"^error: '(.+)/' does not have a commit checked out$", re.MULTILINE)
_REJECTED: Final = re.compile(rb"^error: (?:invalid path '(.+)'|open\(\"(.+)\"\): Permission denied)$", re.MULTILINE)
_GITLINK: Final = b"160000 "  # Mode in the index of a nested repository.
_NO_REPOSITORY: Final = ("not a git repository (or any", "work tree", "bare repository")
ALL_FILES: Final = ("--", ":(top)", ":(top,exclude,glob)**/.plan/**", ":(top,exclude,glob).plan/**")


@frozen
class ForkedRepository:
    """Repository that a fork branches from.

    `top` is the root of its working tree, `prefix` the path from there to the plan's folder (empty or `a/b/`), `folder`
    the folder with its data. `is_private`: planloop created it.
    """

    git: Git
    top: str
    prefix: str
    folder: str
    is_private: bool = False

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables that name a private repository; empty for one that git finds by itself."""
        return {"GIT_DIR": self.folder, "GIT_WORK_TREE": self.top} if self.is_private else {}

    async def keeps_modes(self) -> bool:
        """Whether git tracks execute permissions, which some file systems do not have."""
        said = await self.git.says("config", "--type=bool", "core.fileMode", cwd=self.top, more=self.environment)
        return not said.text.endswith("false")

    async def head(self) -> str:
        """Return the commit that is checked out; empty before the first one."""
        said = await self.git.says("rev-parse", "--verify", "-q", "HEAD^{commit}", cwd=self.top, more=self.environment)
        return said.text.splitlines()[-1] if said.code == 0 and said.text else ""

    async def snapshot(self, index: Path, parent: str, words: str) -> str:
        """Commit the working tree as it is on top of `parent` (empty: none); return `parent` if nothing has changed.

        `index` is a path for the temporary index. Raises GitFailed.
        """
        _begin(index, Path(self.folder) / "index")
        try:
            more = {**self.environment, "GIT_INDEX_FILE": str(index)}
            await stage_all(self.git, self.top, more)
            tree = await self.git.commit("write-tree", cwd=self.top, more=more)
        finally:
            _forget(index)
        if parent and tree == await self.tree_of(parent):
            return parent
        after = ("-p", parent) if parent else ()
        return await self.git.commit("commit-tree", tree, *after, "-m", words, cwd=self.top, more=self.environment)

    async def tree_of(self, commit: str) -> str:
        """Return the tree of a commit."""
        return await self.git.commit("rev-parse", f"{commit}^{{tree}}", cwd=self.top, more=self.environment)

    async def branch(self, name: str) -> str:
        """Return the commit of a branch; empty if the branch does not exist."""
        said = await self.git.says(
            "rev-parse", "--verify", "-q", f"refs/heads/{name}", cwd=self.top, more=self.environment
        )
        return said.text.splitlines()[-1] if said.code == 0 and said.text else ""

    async def branches(self) -> frozenset[str]:
        """Return the names of all branches."""
        listing = await self.git.run(
            *("for-each-ref", "--format=%(refname)", "refs/heads/"), cwd=self.top, more=self.environment
        )
        refs = listing.decode(errors="surrogateescape").splitlines()
        return frozenset(ref.removeprefix("refs/heads/") for ref in refs)


async def stage_all(git: Git, folder: str, more: Mapping[str, str] | None = None) -> None:
    """Add all files of `folder` that git does not ignore to the index, except the state of plans. Raises GitFailed.

    Leaves out what git cannot add: a nested repository without a commit, an invalid path (a `.gitmodules` that is a
    link), an unreadable file. Nested repositories in the index are updated without `git add`, which would run a git
    inside them, with their configuration.
    """
    within = await _repositories_in(git, folder, more)
    if within:
        await git.run("update-index", "--remove", "-z", "--stdin", cwd=folder, more=more, stdin=_lines(within, b"\0"))
    left = list(within)
    sparse: tuple[str, ...] = ()
    while True:
        names = [*ALL_FILES[1:], *(f":(top,exclude,literal){name}" for name in left)]
        from_stdin = ("--pathspec-from-file=-", "--pathspec-file-nul")
        said = await git.says("add", "-A", *sparse, *from_stdin, cwd=folder, more=more, stdin=_lines(names, b"\0"))
        # Git also fails after it added everything, if an excluded path is ignored, too.
        if said.code == 0 or (said.code == 1 and _IGNORED in said.output):
            return
        rejected = [name for found in _REJECTED.findall(said.output) for name in found if name]
        refused = [os.fsdecode(name) for name in (*_NO_COMMIT.findall(said.output), *rejected)]
        if said.code == 1 and _SPARSE in said.output and not sparse:
            sparse = ("--sparse",)
        elif not refused or set(refused) <= set(left):
            raise GitFailed(f"`git add`: {said.words}")
        left += refused


def _lines(names: Iterable[str], end: bytes) -> bytes:
    return b"".join(os.fsencode(name) + end for name in names)


async def _repositories_in(git: Git, folder: str, more: Mapping[str, str] | None) -> tuple[str, ...]:
    """Return the nested repositories of `folder` that are in the index."""
    staged = await git.run("ls-files", "-s", "-z", cwd=folder, more=more)
    entries = (entry.partition(b"\t") for entry in staged.split(b"\0") if entry.startswith(_GITLINK))
    return tuple(dict.fromkeys(os.fsdecode(path) for _, _, path in entries))


def _begin(index: Path, used: Path) -> None:
    """Copy the index `used` to `index`, with its file times; without them git would read all files."""
    _forget(index)
    _forget(index.with_name(f"{index.name}.lock"))
    if used.is_file():
        shutil.copy2(used, index)  # With its time: git reads files again that changed at that time or later.


def _forget(file: Path) -> None:
    file.unlink(missing_ok=True)


async def find_repository(git: Git, folder: Path, state: Path) -> ForkedRepository:
    """Return the repository that contains `folder`, or a private one below `state`. Raises GitFailed."""
    if await anyio.to_thread.run_sync(write_guard.is_repository_untrusted, str(folder)):
        return await _private(git, folder, state)
    asked = ("--is-inside-work-tree", "--absolute-git-dir", "--show-toplevel", "--show-prefix")
    said = await git.says("rev-parse", *asked, cwd=str(folder))
    lines = said.output.decode(errors="surrogateescape").splitlines()
    if said.code != 0 and not any(words in said.text for words in _NO_REPOSITORY):
        raise GitFailed(f"`git rev-parse`: {said.text}")
    if said.code == 0 and lines[0] == "true" and not await _is_ignored(git, folder):
        return ForkedRepository(git, top=lines[2], prefix=lines[3] if len(lines) > 3 else "", folder=lines[1])
    return await _private(git, folder, state)


async def _is_ignored(git: Git, folder: Path) -> bool:
    """Whether the repository around `folder` ignores it, so that in effect it is in no repository."""
    return (await git.says("check-ignore", "-q", ".", cwd=str(folder))).code == 0


async def _private(git: Git, folder: Path, state: Path) -> ForkedRepository:
    where = state / PRIVATE_REPOSITORY
    # May run again after a crash: it creates what is missing and changes nothing else.
    await git.run("init", "-q", "--bare", str(where), cwd=str(folder))
    return ForkedRepository(git, top=str(folder), prefix="", folder=str(where), is_private=True)
