"""Resolve a task's workspace from its `cwd`, and refuse symbolic links that lead out of an agent's workspace.

An agent can create links in its workspace, and add tasks that work below it, where others may work as well. So a link
in the workspace of any agent must not lead out of it, even if a person wrote the task. (The gate checks the text of a
`cwd`.) No task may work in the state folder of plans. A folder may be replaced after this check: commands and tools use
the resolved path.
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

_OF_USER: Final = ("", ".gitconfig", ".config/git/config")  # The user's home, and git's configuration in it.

FOLDER_LEADS_OUT: Final = "FolderLeadsOut"
"""Reason of a task that fails because it may not work in its folder."""

_STATE: Final = ".plan"
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@frozen
class WorkspaceFault:
    """Why a task may not work in its folder, and how to fix it."""

    words: str
    cure: str


@frozen
class _Way:
    """The folder that a `cwd` resolves to (None after too many links), and the resolved paths of the links in it."""

    root: str | None
    links: tuple[str, ...]


def resolve_workspace(view: View, cwd: str, folder: Path) -> Path | WorkspaceFault:
    """Return the workspace, without links, of a task with an agent at or above it, or why it may not work there.

    `folder` is the folder of the plan or of a fork, without links.
    """
    if cwd == ".":
        return folder
    root = _plain(folder, cwd)
    if root is None:
        way = _walk(str(folder), cwd)
        if way.root is None or not _is_in(way.root, str(folder)):
            where = "contains a loop of links" if way.root is None else "is outside the plan's folder"
            fix = "give the task a `cwd` in the plan's folder, without a link that points outside it"
            return WorkspaceFault(f"the task's folder `{cwd}` {where}", fix)
        if (problem := _escape(view, cwd, folder, way)) is not None:
            return problem
        root = Path(way.root)
    if _STATE in (name.casefold() for name in root.parts[len(folder.parts) :]):
        words = f"the task's folder `{cwd}` is in the state folder of a plan (`{_STATE}`)"
        return WorkspaceFault(words, "give the task another `cwd`")
    return root


def workspace_fault(view: View, cwd: str, folder: Path) -> WorkspaceFault | None:
    """Return why a task without an agent above it may not work in its folder: a link that an agent may have created.

    Links that people created may lead anywhere.
    """
    if cwd == "." or _plain(folder, cwd) is not None:
        return None
    return _escape(view, cwd, folder, _walk(str(folder), cwd))


def make_folder(top: Path, path: str) -> None:
    """Create the folder `path` below `top`, and missing parents, without following links. Raises OSError."""
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
    """Return the folder of the plan or of a fork without links. Cached: it does not move while the owner runs."""
    return folder.resolve()


def is_git_outside(env: Mapping[str, str], folder: Path) -> bool:
    """Whether the user's git configuration (by HOME in `env`) is outside `folder`, which has no links."""
    home = env.get("HOME", "")
    found = [os.path.realpath(f"{home}/{name}") for name in _OF_USER] if home else []
    return not any(path == str(folder) or path.startswith(f"{folder}/") for path in found)


def _plain(folder: Path, cwd: str) -> Path | None:
    """Return the folder if its path has no link and no `..`, as nearly all have; else None."""
    place = str(folder)
    for name in cwd.split("/"):
        place = f"{place}/{name}"
        if name in ("", ".", "..") or os.path.islink(place):  # noqa: PTH114 - asked at every call
            return None
    return path_in_folder(folder, cwd)  # `resolve` would look at every folder from the root on.


def _walk(folder: str, cwd: str) -> _Way:
    """Resolve `cwd` from `folder` on, as the system does. Names that do not exist count as plain folders."""
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


def _escape(view: View, cwd: str, folder: Path, way: _Way) -> WorkspaceFault | None:
    """Return the problem if a link in the workspace of an agent leads the path out of that workspace."""
    if not way.links:
        return None
    for bound, owner in _workspaces(view).items():
        home = _walk(str(folder), bound).root
        # An agent whose own workspace is outside the folder cannot work at all.
        if home is None or not _is_in(home, str(folder)) or not any(_is_in(link, home) for link in way.links):
            continue
        if way.root is None or not _is_in(way.root, home):
            link = f"goes through a symbolic link that leaves `{bound}`, the workspace of {owner}"
            words = f"the task's folder `{cwd}` {link}"
            return WorkspaceFault(words, f"give the task a `cwd` without this link, or remove the link below `{bound}`")
    return None


def _workspaces(view: View) -> dict[str, str]:
    """Return the `cwd` of each agent's task as written, with the first agent that works there."""
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
    """Return `folder / name`. Cached: it is used at every call."""
    return folder / name
