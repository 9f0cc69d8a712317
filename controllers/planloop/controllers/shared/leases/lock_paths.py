"""Paths of locks: whether two globs overlap, and whether a glob covers a path. Pure.

A plain path includes everything below it, `*` matches within one folder, `**` across folders, and `[` is an ordinary
character (as in rights). Paths are canonical and relative to the plan's folder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import takewhile
from typing import Final, Generic, TypeVar

from planloop.schemas.objects.fork import LOCK_PLACES
from planloop.schemas.patterns import path_matches

T = TypeVar("T")

_WILD: Final = frozenset("*?")
APART: Final = f"{LOCK_PLACES}/"
"""Prefix of files in forks: no glob of the plan's folder matches them."""


def paths_overlap(one: str, other: str) -> bool:
    """Whether some file may match both. Symmetric; never false if there is such a file."""
    if one == other:
        return True
    if "**" in (one, other):
        return not (one.startswith(APART) or other.startswith(APART))
    if "*" in one or "?" in one or "*" in other or "?" in other or "." in (one, other):
        return _overlap(one, other)
    return one.startswith(f"{other}/") or other.startswith(f"{one}/")


@lru_cache(maxsize=16384)
def _overlap(one: str, other: str) -> bool:
    if one.startswith(APART) != other.startswith(APART):
        return False
    mine, theirs = _names(one), _names(other)
    for left, right in zip(mine, theirs, strict=False):
        if "**" in (left, right):
            break
        if not _fit(left, right):
            return False
    return _meet(mine, theirs, "**", _fit)


def path_covers(lock: str, path: str) -> bool:
    """Whether `lock` covers all of `path`. If `path` is a glob, only simple cases are recognised; others are false."""
    if lock == path:
        return True
    if "*" in lock or "?" in lock or lock == ".":
        return _covers(lock, path)
    return path.startswith(f"{lock}/")


@lru_cache(maxsize=16384)
def _covers(lock: str, path: str) -> bool:
    if lock.startswith(APART) != path.startswith(APART):
        return False
    if lock in ("**", "."):
        return True
    stem = lock.removesuffix("/**")
    if _WILD.isdisjoint(stem) and (path == stem or path.startswith(f"{stem}/")):
        return True
    names = path.split("/")
    is_plain = _WILD.isdisjoint(path)
    return is_plain and any(path_matches((lock,), "/".join(names[:end])) for end in range(1, len(names) + 1))


def path_in_tree(name: str) -> tuple[str, str]:
    """Return the path of a lock relative to its working tree, and the fork of that tree (empty: the plan's folder)."""
    if not name.startswith(APART):
        return name, ""
    fork, _, path = name.removeprefix(APART).partition("/")
    return path, f"fork/{fork.replace('+', '/')}"


def _names(glob: str) -> tuple[str, ...]:
    """Return the names of a glob. After a final plain name follows `**`, for everything below it."""
    names = tuple(name for name in glob.split("/") if name not in (".", ""))
    return names if names and names[-1] == "**" else (*names, "**")


@lru_cache(maxsize=4096)
def _fit(one: str, other: str) -> bool:
    """Whether some name matches both."""
    if one == other:
        return True
    if _WILD.isdisjoint(one) and _WILD.isdisjoint(other):
        return False
    return _meet(one, other, "*", lambda mine, theirs: mine == theirs or "?" in (mine, theirs))


def _meet(one: Sequence[str], other: Sequence[str], run: str, fit: Callable[[str, str], bool]) -> bool:
    """Whether both can match the same sequence of parts; `run` matches any number of parts, including none.

    Walks the reachable pairs of positions: at most the product of the lengths.
    """
    seen = {(0, 0)}
    reached = [(0, 0)]
    while reached:
        left, right = reached.pop()
        if left == len(one) and right == len(other):
            return True
        mine = one[left] if left < len(one) else ""
        theirs = other[right] if right < len(other) else ""
        steps = set()
        if mine == run:
            steps |= {(left + 1, right)} | ({(left, right + 1)} if theirs else set())
        if theirs == run:
            steps |= {(left, right + 1)} | ({(left + 1, right)} if mine else set())
        if mine and theirs and run not in (mine, theirs) and fit(mine, theirs):
            steps.add((left + 1, right + 1))
        reached += steps - seen
        seen |= steps
    return False


class PathIndex(Generic[T]):
    """Values by path, to find those that overlap with a path without comparing all of them."""

    def __init__(self) -> None:
        self._at: dict[tuple[str, ...], list[tuple[str, T]]] = {}
        self._below: dict[tuple[str, ...], list[tuple[str, T]]] = {}

    def add(self, path: str, thing: T) -> None:
        """Add `thing` at `path`."""
        names = _fixed(path)
        self._at.setdefault(names, []).append((path, thing))
        for depth in range(len(names)):
            self._below.setdefault(names[:depth], []).append((path, thing))

    def near(self, path: str) -> Iterator[tuple[str, T]]:
        """Yield the values whose paths overlap with `path`, each with its path."""
        names = _fixed(path)
        for depth in range(len(names) + 1):
            yield from (each for each in self._at.get(names[:depth], ()) if paths_overlap(each[0], path))
        yield from (each for each in self._below.get(names, ()) if paths_overlap(each[0], path))


def _fixed(glob: str) -> tuple[str, ...]:
    """Return the names before the first one with a wildcard. Overlapping globs agree in these, as far as both go."""
    return tuple(takewhile(_WILD.isdisjoint, (name for name in glob.split("/") if name not in (".", ""))))
