"""Resolve a task's workspace from its `cwd`, and refuse links that lead an agent out of it.

An agent puts links into its workspace, and adds tasks that work below it, where others may work as well. So a link in
the workspace of any agent leads nowhere out of that, whoever wrote the task; what is wrong with a `cwd` as a text is
the gate's to say. The state of plans is nobody's folder. What is looked at may be another a moment later: commands and
tools hold to what was found.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final

from planloop.reconciler.store.store import View
from planloop.schemas import limits
from planloop.schemas.frozen import frozen

_OF_USER: Final = ("", ".gitconfig", ".config/git/config")  # Where git looks in the user's home, and that itself.

FOLDER_LEADS_OUT: Final = "FolderLeadsOut"
"""The reason of a task that ends because its folder is not one to work in."""

_STATE: Final = ".plan"
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@frozen
class WorkspaceFault:
    """A folder that is not worked in: why, and what helps."""

    words: str
    cure: str


@frozen
class _Way:
    """What a `cwd` leads to, and the links on the way there, each by its place without links; None after too many."""

    root: str | None
    links: tuple[str, ...]


def resolve_workspace(view: View, cwd: str, folder: Path) -> Path | WorkspaceFault:
    """The folder `cwd` of a task that an agent does or is above, without links.

    `folder` has none: the plan's, or a fork's.
    """
    if cwd == ".":
        return folder
    root = _plain(folder, cwd)
    if root is None:
        way = _walked(str(folder), cwd)
        if way.root is None or not _is_in(way.root, str(folder)):
            where = "behind links that lead in a ring" if way.root is None else "outside the plan's folder"
            cure = "give the task a `cwd` in the plan's folder, without a link that leads out of it"
            return WorkspaceFault(f"the task's folder `{cwd}` is {where}", cure)
        if (astray := _led_out(view, cwd, folder, way)) is not None:
            return astray
        root = Path(way.root)
    if _STATE in (name.casefold() for name in root.parts[len(folder.parts) :]):
        return WorkspaceFault(f"the task's folder `{cwd}` is in the state of a plan", "give the task another `cwd`")
    return root


def workspace_fault(view: View, cwd: str, folder: Path) -> WorkspaceFault | None:
    """What keeps a task with no agent above from its folder: a link that an agent may have put there.

    Where people's own links lead is theirs to say.
    """
    if cwd == "." or _plain(folder, cwd) is not None:
        return None
    return _led_out(view, cwd, folder, _walked(str(folder), cwd))


def make_folder(top: Path, path: str) -> None:
    """Makes the folder `path`, below `top`, and those on the way, following no link. Raises OSError."""
    opened = [os.open(top, _FOLDER)]
    try:
        for name in Path(path).relative_to(top).parts:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=opened[-1])
            opened.append(os.open(name, _FOLDER, dir_fd=opened[-1]))
    finally:
        for number in opened:
            os.close(number)


@lru_cache(maxsize=64)
def real_folder(folder: Path) -> Path:
    """`folder`, the plan's or a fork's, without links: found once, for it stays where it is while the owner runs."""
    return folder.resolve()


def is_git_outside(env: Mapping[str, str], folder: Path) -> bool:
    """Whether git's configuration of the user in `env` lies outside `folder`, which has no links."""
    home = env.get("HOME", "")
    found = [os.path.realpath(f"{home}/{name}") for name in _OF_USER] if home else []
    return not any(path == str(folder) or path.startswith(f"{folder}/") for path in found)


def _plain(folder: Path, cwd: str) -> Path | None:
    """The folder where no link and no step back is on the way to it: so with nearly all, at every look; else None."""
    place = str(folder)
    for name in cwd.split("/"):
        place = f"{place}/{name}"
        if name in ("", ".", "..") or os.path.islink(place):  # noqa: PTH114 - asked at every call
            return None
    return path_in_folder(folder, cwd)  # Resolving would look at every folder from the top on.


def _walked(folder: str, cwd: str) -> _Way:
    """The way of `cwd` from `folder` on, as the system goes it; what is not there is no link."""
    links: list[str] = []
    at, waiting = ("/" if cwd.startswith("/") else folder), cwd.split("/")[::-1]
    while waiting:
        name = waiting.pop()
        if name in ("", "."):
            continue
        if name == "..":
            at = os.path.dirname(at)  # noqa: PTH120 - as text
            continue
        place = f"{at.rstrip('/')}/{name}"
        target = _target(place)
        if not target:
            at = place
            continue
        links.append(place)
        if len(links) > limits.WAY_LINKS_MAX:
            return _Way(None, tuple(links))
        at = "/" if target.startswith("/") else at
        waiting += target.split("/")[::-1]
    return _Way(at, tuple(links))


def _target(place: str) -> str:
    try:
        return os.readlink(place)  # noqa: PTH115 - a text, asked step by step
    except OSError:
        return ""


def _led_out(view: View, cwd: str, folder: Path, way: _Way) -> WorkspaceFault | None:
    """Why a folder is not worked in that a link leads to out of the workspace of an agent in which the link lies."""
    if not way.links:
        return None
    for bound, owner in _workspaces(view).items():
        home = _walked(str(folder), bound).root
        # Who works outside, by its `cwd` or led there, does not work at all.
        if home is None or not _is_in(home, str(folder)) or not any(_is_in(link, home) for link in way.links):
            continue
        if way.root is None or not _is_in(way.root, home):
            words = f"the task's folder `{cwd}` is a link, or behind one, out of `{bound}`, where {owner} works"
            return WorkspaceFault(
                words, f"give the task a `cwd` without such a link, or take the link away below `{bound}`"
            )
    return None


def _workspaces(view: View) -> dict[str, str]:
    """Where agents work, as written, each with the first of those that do."""
    found: dict[str, str] = {}
    for agent in view.list("agent"):
        task = view.get(f"task/{agent.address.partition('/')[2]}")
        if task is not None:
            found.setdefault(str(task.spec.get("cwd") or "."), agent.address)
    return found


def _is_in(place: str, folder: str) -> bool:
    return place == folder or place.startswith(f"{folder.rstrip('/')}/")


@lru_cache(maxsize=1024)
def path_in_folder(folder: Path, name: str) -> Path:
    """`folder / name`, made once: this is asked at every call."""
    return folder / name
