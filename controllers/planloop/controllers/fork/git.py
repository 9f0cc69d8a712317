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

# Git, run as any other process of the plan: bounded, labelled, and stopped with its owner's successor.
#
# No hook of the repository runs, nothing is signed, and nobody is asked for a password: what git does for a fork is the
# plan's own book-keeping. A repository is what has a `.git`: a folder that merely looks like one is none, since
# commands may make it look so. What it prints on success is taken as it is; a warning before the answer is skipped.

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
    "GIT_OPTIONAL_LOCKS": "0",  # The user's own index is never refreshed by us.
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
    """Git did not do it. The message is its own last words, or why it could not be run."""


@frozen
class GitOutput:
    """How a run of git ended, and what it printed."""

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
    """Runs git with a clean environment. `environment` is the owner's, cut down to what commands inherit."""

    processes: Processes
    ids: Ids
    environment: Mapping[str, str]

    async def says(
        self, *arguments: str, cwd: str, more: Mapping[str, str] | None = None, stdin: bytes = b""
    ) -> GitOutput:
        """Runs `git` with these arguments in the folder `cwd`, whatever its exit code. Raises GitFailed."""
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
        """What git prints when it succeeds. Raises GitFailed with its last words."""
        said = await self.says(*arguments, cwd=cwd, more=more, stdin=stdin)
        if said.code != 0:
            raise GitFailed(f"`git {arguments[0]}`: {said.words}")
        return said.output

    async def commit(self, *arguments: str, cwd: str, more: Mapping[str, str] | None = None) -> str:
        """The object that git names in its answer. Raises GitFailed."""
        found = _COMMIT.findall(await self.run(*arguments, cwd=cwd, more=more))
        if not found:
            raise GitFailed(f"`git {arguments[0]}` named no object")
        return str(found[-1].decode())


# The folder that a fork leaves: its repository, and snapshots of it as it stands.
#
# A snapshot is a commit of everything that git does not ignore, made with an index of its own: the user's index, HEAD,
# branches, stash and hooks are not touched. A folder that is in no repository gets a private one below the plan's
# state, so that a fork works everywhere and nobody finds a `.git` that they did not make. So does one whose repository
# came when commands were enclosed in it already: git would run what one of them may have configured there. In
# repositories within it git is not run at all.

PRIVATE_REPOSITORY: Final = "repository"
_IGNORED: Final = b"paths are ignored by one of your .gitignore files"
_SPARSE: Final = b"outside of your sparse-checkout definition"
_NO_COMMIT: Final = re.compile(rb"^error: '(.+)/' does not have a commit checked out$", re.MULTILINE)
_REJECTED: Final = re.compile(rb"^error: (?:invalid path '(.+)'|open\(\"(.+)\"\): Permission denied)$", re.MULTILINE)
_GITLINK: Final = b"160000 "  # How the index begins to tell of the commit of a repository within.
_NO_REPOSITORY: Final = ("not a git repository (or any", "work tree", "bare repository")
ALL_FILES: Final = ("--", ":(top)", ":(top,exclude,glob)**/.plan/**", ":(top,exclude,glob).plan/**")


@frozen
class ForkedRepository:
    """`top` is the root of the working tree that is left, `prefix` leads from it to the plan's folder (`` or `a/b/`).

    `folder` is where the repository's data are; `is_private` says that it is ours.
    """

    git: Git
    top: str
    prefix: str
    folder: str
    is_private: bool = False

    @property
    def environment(self) -> Mapping[str, str]:
        """What tells git of it: found by itself in a user's folder, named for a private one."""
        return {"GIT_DIR": self.folder, "GIT_WORK_TREE": self.top} if self.is_private else {}

    async def keeps_modes(self) -> bool:
        """Whether git looks at who may execute a file: not on file systems that do not know."""
        said = await self.git.says("config", "--type=bool", "core.fileMode", cwd=self.top, more=self.environment)
        return not said.text.endswith("false")

    async def head(self) -> str:
        """The commit that is checked out; empty before the first one."""
        said = await self.git.says("rev-parse", "--verify", "-q", "HEAD^{commit}", cwd=self.top, more=self.environment)
        return said.text.splitlines()[-1] if said.code == 0 and said.text else ""

    async def snapshot(self, index: Path, parent: str, words: str) -> str:
        """A commit of the working tree as it is, after `parent` (empty: none); `parent` itself when nothing is new.

        `index` is a path for the index that is used meanwhile. Raises GitFailed.
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
        """The tree of a commit."""
        return await self.git.commit("rev-parse", f"{commit}^{{tree}}", cwd=self.top, more=self.environment)

    async def branch(self, name: str) -> str:
        """The commit that a branch is at; empty when there is no such branch."""
        said = await self.git.says(
            "rev-parse", "--verify", "-q", f"refs/heads/{name}", cwd=self.top, more=self.environment
        )
        return said.text.splitlines()[-1] if said.code == 0 and said.text else ""

    async def branches(self) -> frozenset[str]:
        """The names of all branches."""
        listing = await self.git.run(
            *("for-each-ref", "--format=%(refname)", "refs/heads/"), cwd=self.top, more=self.environment
        )
        refs = listing.decode(errors="surrogateescape").splitlines()
        return frozenset(ref.removeprefix("refs/heads/") for ref in refs)


async def stage_all(git: Git, folder: str, more: Mapping[str, str] | None = None) -> None:
    """Takes all of `folder` that git does not ignore into the index, but no state of plans. Raises GitFailed.

    What git cannot take is left out: a repository within it that has no commit yet, a path that it rejects as invalid
    (a `.gitmodules` that is a link), a file that may not be read. Repositories that the index has are told to it by
    their commits: of those `git add` would run a git inside, and with that what is configured there.
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
        # Git has added everything and still complains when what we leave out is ignored by the user as well.
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
    """The repositories within `folder` that the index has a commit of."""
    staged = await git.run("ls-files", "-s", "-z", cwd=folder, more=more)
    entries = (entry.partition(b"\t") for entry in staged.split(b"\0") if entry.startswith(_GITLINK))
    return tuple(dict.fromkeys(os.fsdecode(path) for _, _, path in entries))


def _begin(index: Path, used: Path) -> None:
    """Makes `index` what the index `used` is: what git knows of the files' times, else it would read them all."""
    _forget(index)
    _forget(index.with_name(f"{index.name}.lock"))
    if used.is_file():
        shutil.copy2(used, index)  # With its time: what was written in the very moment of it git reads again.


def _forget(file: Path) -> None:
    file.unlink(missing_ok=True)


async def find_repository(git: Git, folder: Path, state: Path) -> ForkedRepository:
    """The repository that `folder` is in, or a private one below `state`. Raises GitFailed."""
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
    """Whether the repository around `folder` wants to know nothing of it, so that it is in none in effect."""
    return (await git.says("check-ignore", "-q", ".", cwd=str(folder))).code == 0


async def _private(git: Git, folder: Path, state: Path) -> ForkedRepository:
    where = state / PRIVATE_REPOSITORY
    # Done again after a crash: it makes what is missing and changes nothing else.
    await git.run("init", "-q", "--bare", str(where), cwd=str(folder))
    return ForkedRepository(git, top=str(folder), prefix="", folder=str(where), is_private=True)
