"""What a change touches: the paths that differ from the last landed commit, and the groups of tests that follow."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
BASE_FILE: Final = ".ci/base"
"""Holds the commit that landed last. An old one costs time only: more paths count as touched."""

EVERYTHING: Final = ("pyproject.toml", "Makefile", ".ci/run", "tests/conftest.py", "tests/suite/", "tests/sets.py")
"""A change here touches every group."""


@dataclass(frozen=True, slots=True)
class Group:
    """Expensive tests that run in *change* only if their sources are touched; otherwise their `smoke` tests run."""

    name: str
    tests: tuple[str, ...]
    sources: tuple[str, ...]

    def has(self, nodeid: str) -> bool:
        """Whether the test belongs to this group."""
        return nodeid.startswith(self.tests)

    def is_touched(self, paths: frozenset[str]) -> bool:
        """Whether one of the changed `paths` can change what the tests of this group find."""
        return any(path.startswith((*self.tests, *self.sources, *EVERYTHING)) for path in paths)


GROUPS: Final = (
    Group(
        "page",
        tests=("tests/e2e/page/",),
        sources=("web/", "server/"),
    ),
    Group(
        "sites",
        tests=("tests/controllers/task/web/",),
        sources=("controllers/planloop/controllers/task/checks/", "schemas/planloop/schemas/checks/web"),
    ),
    Group(
        "images",
        tests=("tests/containers/images/",),
        sources=("containers/planloop/containers/images/", "containers/planloop/containers/engine/docker_"),
    ),
)


def commit() -> str:
    """The hash of the commit that is checked out, or the empty string outside git."""
    return _git("rev-parse", "HEAD") or ""


def base() -> str | None:
    """The commit that the change is compared with: $PLANLOOP_BASE, or the newest of origin/main and `.ci/base`.

    None if this checkout lacks it, as in a shallow clone.
    """
    given = os.environ.get("PLANLOOP_BASE")  # noqa: TID251 - a setting of the run
    if given:
        return _git("rev-parse", "--verify", "--quiet", f"{given}^{{commit}}")
    origin, file = _git("merge-base", "HEAD", "origin/main"), ROOT / BASE_FILE
    if origin == commit():
        origin = None  # In a clone of the submitted branch, origin/main is the change itself.
    named = _git("merge-base", "HEAD", file.read_text().strip()) if file.exists() else None
    found = [each for each in (origin, named) if each]
    return max(found, key=lambda each: int(_git("rev-list", "--count", each) or 0), default=None)


def changed(since: str) -> frozenset[str] | None:
    """The paths that differ from `since`, in commits, in the working tree and among untracked files.

    None if git cannot compare, for example in a partial clone without the files of `since`.
    """
    # With -z, git does not quote paths such as `web/é.ts`.
    differing = _git("diff", "-z", "--name-only", "--no-renames", since)
    untracked = _git("ls-files", "-z", "--others", "--exclude-standard")
    if differing is None or untracked is None:
        return None
    return frozenset(filter(None, f"{differing}\0{untracked}".split("\0")))


def touched() -> tuple[str, ...]:
    """The names of the groups that the change touches; all of them if it is not known what changed."""
    since = base()
    paths = None if since is None else changed(since)
    return tuple(group.name for group in GROUPS if paths is None or group.is_touched(paths))


def _git(*words: str) -> str | None:
    try:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
