"""Paths in writable folders that a sandbox or container must never write.

These are files that make other programs run code, or that define a plan: the repositories of the plan's folder and of
each writable folder (git and similar tools run commands that are configured there), and those of registered submodules;
the files of all plans in the folder; all other files that the plan names or includes, and programs that answer hooks;
and planloop itself, if it is installed in the folder. Each folder on the path to such a file is also a mount: a mount
cannot be renamed, so no command can replace the folder.

A repository that does not exist cannot be guarded, and commands may create one. So when a command first gets access,
its absence is recorded, and planloop never runs git in a repository that appears later
(`planloop.controllers.fork.git`).
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from planloop.reconciler.store import state_files
from planloop.schemas import limits
from planloop.schemas.frozen import frozen

STATE: Final = state_files.STATE
REPOSITORY: Final = ".git"
_STEERING: Final = (REPOSITORY, ".gitmodules", ".hg", ".jj")
_SUBMODULE: Final = re.compile(r"^\s*path\s*=\s*(.*?)\s*$", re.MULTILINE)
_NOTE: Final = "without-repository"
_PLANS: Final = Path(__file__).parents[4] / "plans"  # In a checkout. In an installation, they are in the package.


HOLDS_HOME: Final = (
    "planloop gives no sandbox or container access to the plan's folder {}: it contains your home directory, with your "
    "keys and files that run when you log in"
)
ELSEWHERE: Final = "move the plan to its own folder"
"""Why no command gets access to a plan's folder, and what to do about it."""


class SandboxUnfit(Exception):
    """The requested sandbox is not possible; `str()` is the reason and the fix."""


@frozen
class WriteGuard:
    """A mount of an existing `path`. If not `is_read_only`, it only prevents that a folder is replaced."""

    path: str
    is_read_only: bool


def write_guards(
    writable: Sequence[str], folder: str, files: Iterable[str], held: Iterable[str] = ()
) -> Iterator[WriteGuard]:
    """Return the mounts over the folders `writable`, outer before inner, for the plan in `folder`.

    `files` are files that the plan names, possibly with stars. `held` are folders that must not be replaced by links,
    because they are mounted later. All paths are absolute and without links. Raises SandboxUnfit if the path to a file
    has a link.
    """
    ours = [os.path.realpath(path) for path in (sys.prefix, *sys.modules["planloop"].__path__, str(_PLANS))]
    if where := next((path for path in writable if path in ours), None):
        raise SandboxUnfit(f"planloop is installed in {where}, which would be writable. Give the task another folder")
    steering = (*_repositories(dict.fromkeys((folder, *writable))), *_plans(folder), *_found(folder, files), *ours)
    named = {os.path.normpath(path) for path in steering}
    inside_named = {root for root in writable if any(is_below(root, path) for path in named)}
    only_held = {path for path in held if os.path.realpath(path) == path and Path(path).is_dir()}
    read_only, done = named | inside_named, set(writable) - inside_named
    for path in sorted(read_only | only_held):
        root = max((each for each in writable if is_below(path, each)), key=len, default=None)
        if root is None or not os.path.lexists(path):
            continue
        for step in (*_between(root, path), path):
            if Path(step).is_symlink():
                raise SandboxUnfit(f"{step} is a link that a command could change. Replace it by the file")
            if step not in done:
                done.add(step)
                yield WriteGuard(step, is_read_only=step in read_only)
            if step in read_only:
                break  # Its whole subtree is read-only. Another mount inside would make it writable again.


def _repositories(folders: Iterable[str]) -> Iterator[str]:
    for folder in folders:
        yield from (f"{folder}/{name}" for name in _STEERING)
        for inner in _submodules(Path(folder, ".gitmodules")):
            path = os.path.normpath(f"{folder}/{inner}")
            if is_below(path, folder) and os.path.realpath(path) == path:
                yield f"{path}/{REPOSITORY}"


def _found(folder: str, files: Iterable[str]) -> Iterator[str]:
    """`files`, and for names with a star their matches in `folder`: a plan has some names only as patterns."""
    for path in files:
        yield path
        inner = path.removeprefix(f"{folder}/")
        if "*" in inner and inner != path:
            yield from map(str, Path(folder).glob(inner))


def _plans(folder: str) -> Iterator[str]:
    """The files of all plans in the folder, so that a command cannot make another plan act for it.

    Also state folders that are links, whose targets could be replaced.
    """
    state = Path(folder, STATE)
    if state.is_symlink():
        yield str(state)
        return
    with suppress(OSError):
        yield from (f"{folder}/{name}" for one in state.iterdir() if (name := state_files.noted_plan_file(one)))


def _submodules(file: Path) -> list[str]:
    """The folders of submodules: git in the outer repository also runs git in them."""
    if file.is_symlink() or not file.is_file():
        return []
    with file.open(errors="surrogateescape") as opened:
        return [path.strip('"') for path in _SUBMODULE.findall(opened.read(limits.PLAN_FILE_BYTES_MAX))]


def note_outside_access(folder: str) -> None:
    """If the plan's `folder` has no repository, record that a command gets access that could create one."""
    state = Path(folder, STATE)
    if state.is_dir() and not os.path.lexists(f"{folder}/{REPOSITORY}"):
        (state / _NOTE).touch(mode=0o600)


def is_repository_untrusted(folder: str) -> bool:
    """Whether a command may have created the repository in the plan's `folder`."""
    return Path(folder, STATE, _NOTE).exists() and os.path.lexists(f"{folder}/{REPOSITORY}")


def search_path_outside(path: str, folder: str) -> str:
    """Remove folders inside the plan's `folder` from `path`, a value of PATH: they may contain a fake `git`."""
    real = os.path.realpath(folder)
    kept = [one for one in path.split(os.pathsep) if one.startswith("/") and not is_below(os.path.realpath(one), real)]
    return os.pathsep.join(kept)


def is_below(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or inside it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _between(outer: str, inner: str) -> list[str]:
    """The folders between `outer` and `inner`, the outermost first."""
    names = inner[len(outer) :].strip("/").split("/")[:-1]
    return ["/".join((outer, *names[: depth + 1])) for depth in range(len(names))]
