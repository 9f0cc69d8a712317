"""A working tree that lost its way to its repository gets it back, with all that is in it.

Who works in a fork may remove its `.git`, or put a repository of its own there: what was written is work all the same,
and git, asked in such a tree, would answer for the folder around it. What stood there instead is put beside the tree.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import anyio.to_thread

from planloop.controllers.fork.worktree import Worktree


async def restore(worktree: Worktree) -> None:
    """Makes the working tree one that is whole, or one that is not there. Raises GitFailed and OSError."""
    folder, link = worktree.folder, worktree.folder / ".git"
    if not folder.exists() or _is_linked(link):
        return
    if not await _has_its_files(worktree):
        folder.rename(_beside(folder, "left"))  # Somebody removed it, and others wrote there since.
        return
    if _is_there(link):
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
    there = sum(_is_there(worktree.folder / name) for name in names)
    return there * 2 >= len(names) and any(worktree.folder.iterdir())


def _beside(folder: Path, what: str) -> Path:
    """A name beside `folder` that nobody has."""
    count = 1
    while _is_there(beside := folder.with_name(f"{folder.name}.{what}{count}")):
        count += 1
    return beside


def _is_there(path: Path) -> bool:
    return os.path.lexists(path)
