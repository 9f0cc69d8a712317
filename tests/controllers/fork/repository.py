"""A folder in a real git repository, and what a person would ask git about it."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.controllers.agent.arena import ENV

AS_USER = {"GIT_AUTHOR_NAME": "U", "GIT_AUTHOR_EMAIL": "u@x", "GIT_COMMITTER_NAME": "U", "GIT_COMMITTER_EMAIL": "u@x"}


@dataclass(frozen=True, slots=True)
class Home:
    """A folder where a person works with git."""

    path: Path

    def git(self, *words: str, cwd: Path | None = None) -> str:
        """What git prints. Raises CalledProcessError."""
        done = subprocess.run(
            ["git", "-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always", *words],
            cwd=cwd or self.path,
            env={**ENV, **AS_USER},
            check=True,
            capture_output=True,
        )
        return done.stdout.decode()

    def begin(self, **files: str) -> Home:
        """A repository with one commit of `files` (`__` stands for a dot in their names)."""
        self.path.mkdir(parents=True, exist_ok=True)
        self.git("init", "-q")
        self.write(".gitignore", ".plan/\n")
        for name, content in files.items():
            self.write(name.replace("__", "."), content)
        self.git("add", ".")
        self.git("commit", "-q", "-m", "first")
        return self

    def write(self, name: str, content: str | bytes) -> Path:
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return file

    def read(self, name: str) -> str:
        return (self.path / name).read_bytes().decode()

    def branches(self) -> list[str]:
        """All branches, without the one that is checked out."""
        names = self.git("for-each-ref", "--format=%(refname:short)", "refs/heads").split()
        return [name for name in names if name != "main"]

    def trees(self) -> int:
        """Working trees that git knows of beside the person's own."""
        return len(self.git("worktree", "list").splitlines()) - 1

    def own(self) -> tuple[str, str, str]:
        """State that belongs to the user alone: index, HEAD, stash."""
        return self.git("ls-files", "-s"), self.git("rev-parse", "HEAD"), self.git("stash", "list")
