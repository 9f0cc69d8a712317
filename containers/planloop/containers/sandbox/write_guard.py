"""Paths that a sandbox or container may never write, although they are in a writable folder.

These are files that make others run code, or that define a plan: the repositories of the plan's folder and of each
writable folder (git and similar tools run what is configured there), those of registered submodules; the files of all
plans in the folder; everything else that the plan names, is made from, or that answers hooks; and our own programs, if
they are installed in the folder. Each folder on the way to one is a mount too: a mount cannot be renamed, so no command
can put another folder in its place.

A repository that does not exist cannot be guarded, and commands may create one. So its absence is noted when a command
first gets access; planloop then never runs git in one that appears later (`planloop.controllers.fork.git`).
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
_PLANS: Final = Path(__file__).parents[4] / "plans"  # Of a checkout; of an installation they are in the package.


HOLDS_HOME: Final = "the plan's folder {} holds your home, whose files run as you and hold your keys"
ELSEWHERE: Final = "put the plan into a folder of its own"
"""Why no command gets access to a plan's folder, and what to do about it."""


class SandboxUnfit(Exception):
    """The requested sandbox is impossible; `str()` says why and what to do."""


@frozen
class WriteGuard:
    """A mount of an existing `path`. If not `is_read_only`, it only keeps a folder in its place."""

    path: str
    is_read_only: bool


def write_guards(
    writable: Sequence[str], folder: str, files: Iterable[str], held: Iterable[str] = ()
) -> Iterator[WriteGuard]:
    """What is mounted over the folders `writable`, outer before inner, in the plan of `folder`.

    `files` are those that the plan names, perhaps with stars; `held` are folders that only have to stay where they are:
    what mounts one must not find a link there. All paths are absolute and without links. Raises SandboxUnfit for a link
    on the way to a file.
    """
    ours = [os.path.realpath(path) for path in (sys.prefix, *sys.modules["planloop"].__path__, str(_PLANS))]
    if where := next((path for path in writable if path in ours), None):
        raise SandboxUnfit(
            f"planloop itself is installed in {where}, and would be written: give the task another folder"
        )
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
                raise SandboxUnfit(
                    f"{step} is a link, which a command could put another file behind: put the file there"
                )
            if step not in done:
                done.add(step)
                yield WriteGuard(step, is_read_only=step in read_only)
            if step in read_only:
                break  # The whole subtree is read only with it; a mount of its own would open it again.


def _repositories(folders: Iterable[str]) -> Iterator[str]:
    for folder in folders:
        yield from (f"{folder}/{name}" for name in _STEERING)
        for inner in _submodules(Path(folder, ".gitmodules")):
            path = os.path.normpath(f"{folder}/{inner}")
            if is_below(path, folder) and os.path.realpath(path) == path:
                yield f"{path}/{REPOSITORY}"


def _found(folder: str, files: Iterable[str]) -> Iterator[str]:
    """`files`, and the matches in `folder` of names with a star: a plan knows some names only as patterns."""
    for path in files:
        yield path
        inner = path.removeprefix(f"{folder}/")
        if "*" in inner and inner != path:
            yield from map(str, Path(folder).glob(inner))


def _plans(folder: str) -> Iterator[str]:
    """The files of all plans in the folder: what one may not do, it must not have another do. And state that is a link,
    which could be put elsewhere."""
    state = Path(folder, STATE)
    if state.is_symlink():
        yield str(state)
        return
    with suppress(OSError):
        yield from (f"{folder}/{name}" for one in state.iterdir() if (name := state_files.noted_plan_file(one)))


def _submodules(file: Path) -> list[str]:
    """The folders of submodules: git in the outer repository runs git in them, too."""
    if file.is_symlink() or not file.is_file():
        return []
    with file.open(errors="surrogateescape") as opened:
        return [path.strip('"') for path in _SUBMODULE.findall(opened.read(limits.PLAN_FILE_BYTES_MAX))]


def note_outside_access(folder: str) -> None:
    """Note that a command that could create a repository gets access to the plan's `folder`, if there is none."""
    state = Path(folder, STATE)
    if state.is_dir() and not os.path.lexists(f"{folder}/{REPOSITORY}"):
        (state / _NOTE).touch(mode=0o600)


def is_repository_untrusted(folder: str) -> bool:
    """Whether a command may have created the repository of the plan's `folder`."""
    return Path(folder, STATE, _NOTE).exists() and os.path.lexists(f"{folder}/{REPOSITORY}")


def search_path_outside(path: str, folder: str) -> str:
    """`path`, as in PATH, without folders inside the plan's `folder`: commands may have put their own `git` there."""
    real = os.path.realpath(folder)
    kept = [one for one in path.split(os.pathsep) if one.startswith("/") and not is_below(os.path.realpath(one), real)]
    return os.pathsep.join(kept)


def is_below(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or in it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _between(outer: str, inner: str) -> list[str]:
    """The folders below `outer` on the way to `inner`, from outside inwards."""
    names = inner[len(outer) :].strip("/").split("/")[:-1]
    return ["/".join((outer, *names[: depth + 1])) for depth in range(len(names))]
