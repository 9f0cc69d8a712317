"""Where a task works: what its `cwd` leads to, which is in the workspace of every agent above it or is not worked in.

An agent puts links into its workspace, and adds tasks that work below it. So of a folder that a link stands before it
counts where that leads, whoever wrote the task; what is wrong with a `cwd` as a text is the gate's to say. The state of
plans is nobody's folder. What is looked at may be another a moment later: commands and tools hold to what was found.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from posixpath import normpath
from typing import Final

from reconciler.storing.store import View
from schemas.frozen import frozen

LEADS_OUT: Final = "FolderLeadsOut"
"""The reason of a task that ends because its folder is not one to work in."""

_STATE: Final = ".plan"


@frozen
class Astray:
    """A folder that is not worked in: why, and what helps."""

    words: str
    cure: str


def ground(view: View, task: str, cwd: str, folder: Path) -> Path | Astray:
    """The folder `cwd` of the task at the address `task`, without links; `folder` has none, the plan's or a fork's."""
    if cwd == ".":
        return folder
    root = _plain(folder, cwd)
    if root is None:
        # Unlike `resolve`, `realpath` bears links that lead in a ring.
        root = Path(os.path.realpath(folder / cwd))
        if not root.is_relative_to(folder):
            cure = "give the task a `cwd` in the plan's folder, without a link that leads out of it"
            return Astray(f"the task's folder `{cwd}` is outside the plan's folder", cure)
        for owner, bound in _above(view, task):
            if _is_below(cwd, bound) and not root.is_relative_to(os.path.realpath(folder / bound)):
                words = f"the task's folder `{cwd}` is a link, or behind one, out of `{bound}`, where {owner} works"
                return Astray(
                    words, f"give the task a `cwd` without such a link, or take the link away below `{bound}`"
                )
    if _STATE in (name.casefold() for name in root.parts[len(folder.parts) :]):
        return Astray(f"the task's folder `{cwd}` is in the state of a plan", "give the task another `cwd`")
    return root


def without_links(folder: Path) -> Path:
    """`folder` without links, found once: the plan's is where the owner was started, and stays there while it runs."""
    return _resolved(folder)


def _plain(folder: Path, cwd: str) -> Path | None:
    """The folder where no link and no step back is on the way to it: so with nearly all, at every look; else None."""
    place = str(folder)
    for name in cwd.split("/"):
        place = f"{place}/{name}"
        if name in ("", ".", "..") or os.path.islink(place):  # noqa: PTH114 - asked at every call
            return None
    return _beside(folder, cwd)  # Resolving would look at every folder from the top on.


def _above(view: View, task: str) -> Iterator[tuple[str, str]]:
    """The agents above the task and where they work."""
    path = task.partition("/")[2]
    names = [] if path == "." else path.split("/")
    for depth in range(len(names)):
        at = "/".join(names[:depth]) or "."
        home = view.get(f"task/{at}")
        if home is not None and view.get(f"agent/{at}") is not None:
            yield f"agent/{at}", str(home.spec.get("cwd") or ".")


def _is_below(cwd: str, bound: str) -> bool:
    """Whether `cwd` is a folder in `bound` as they are written."""
    one, other = normpath(cwd), normpath(bound)
    return other in (".", one) or one.startswith(f"{other}/")


@lru_cache(maxsize=1024)
def _beside(folder: Path, name: str) -> Path:
    return folder / name


@lru_cache(maxsize=64)
def _resolved(folder: Path) -> Path:
    return folder.resolve()
