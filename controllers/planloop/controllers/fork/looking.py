"""Whether a person has mended a merge that stands open: looked at now and then, at the price of a few stats.

Git is asked only when something in the files in conflict, or in git's index, is other than at the last look.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

from planloop.controllers.fork.desk import Fork
from planloop.schemas.fork import ForkState

Print: TypeAlias = tuple[tuple[int, int, int], ...]


def print_of(folder: Path, files: Iterable[str]) -> Print:
    """What changes when one of `files` in the working tree at `folder`, or its index, does."""
    try:
        index = Path((folder / ".git").read_text().removeprefix("gitdir:").strip()) / "index"
    except OSError:
        index = folder
    return tuple(_mark(path) for path in (index, *(folder / file for file in files)))


async def look(fork: Fork) -> None:
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
