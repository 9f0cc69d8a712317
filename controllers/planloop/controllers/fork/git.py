"""Git, run as any other process of the plan: bounded, labelled, and stopped with its owner's successor.

No hook of the repository runs, nothing is signed, and nobody is asked for a password: what git does for a fork is the
plan's own book-keeping. A repository is what has a `.git`: a folder that merely looks like one is none, since commands
may make it look so. What it prints on success is taken as it is; a warning before the answer is skipped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from planloop.reconciler.clock import Ids
from planloop.reconciler.effects.processes import Command, Ending, Processes
from planloop.schemas import limits
from planloop.schemas.frozen import frozen

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
class Said:
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

    async def says(self, *arguments: str, cwd: str, more: Mapping[str, str] | None = None, stdin: bytes = b"") -> Said:
        """Runs `git` with these arguments in the folder `cwd`, whatever its exit code. Raises GitFailed."""
        op = self.ids.mint()
        command = Command(
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
        if exit_.ending is Ending.NOT_STARTED:
            raise GitFailed(f"git could not be run: {exit_.output.decode(errors='replace').strip()}")
        if exit_.ending is not Ending.EXITED or exit_.code is None or exit_.code < 0:
            raise GitFailed(f"`git {arguments[0]}` did not end by itself: {exit_.ending.value}")
        return Said(exit_.code, exit_.output if exit_.code else _WARNINGS.sub(b"", exit_.output))

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
