"""Which files a lock covers: whether two globs overlap, and whether one covers a path. Pure.

A plain path is about what lies below it as well, `*` stays within one folder, `**` crosses them, and `[` is a letter as
any other (as in rights). Paths are canonical and relative to the plan's folder.
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
"""How files of forks begin: no glob of the plan's folder leads there."""


def paths_overlap(one: str, other: str) -> bool:
    """Whether some file may be meant by both. Symmetric; never no when there is one."""
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
    """Whether who holds `lock` has all of `path`, which may be a glob itself: then only what is plain to see is yes."""
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
    """A lock's path as those who work in its tree name it, and the fork that this is; empty: the plan's folder."""
    if not name.startswith(APART):
        return name, ""
    fork, _, path = name.removeprefix(APART).partition("/")
    return path, f"fork/{fork.replace('+', '/')}"


def _names(glob: str) -> tuple[str, ...]:
    """The glob's names; one that ends in a plain name goes on with `**`, for what is below."""
    names = tuple(name for name in glob.split("/") if name not in (".", ""))
    return names if names and names[-1] == "**" else (*names, "**")


@lru_cache(maxsize=4096)
def _fit(one: str, other: str) -> bool:
    """Whether some name fits both."""
    if one == other:
        return True
    if _WILD.isdisjoint(one) and _WILD.isdisjoint(other):
        return False
    return _meet(one, other, "*", lambda mine, theirs: mine == theirs or "?" in (mine, theirs))


def _meet(one: Sequence[str], other: Sequence[str], run: str, fit: Callable[[str, str], bool]) -> bool:
    """Whether both can be the same row of parts; `run` is any number of parts, none included.

    Walks the pairs of places that can be reached; there are no more than the product of the lengths.
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
    """Things by their paths, so that those which overlap with a path are found without looking at all of them."""

    def __init__(self) -> None:
        self._at: dict[tuple[str, ...], list[tuple[str, T]]] = {}
        self._below: dict[tuple[str, ...], list[tuple[str, T]]] = {}

    def add(self, path: str, thing: T) -> None:
        """One more thing at `path`."""
        names = _fixed(path)
        self._at.setdefault(names, []).append((path, thing))
        for depth in range(len(names)):
            self._below.setdefault(names[:depth], []).append((path, thing))

    def near(self, path: str) -> Iterator[tuple[str, T]]:
        """The things whose paths overlap with `path`, each with its path."""
        names = _fixed(path)
        for depth in range(len(names) + 1):
            yield from (each for each in self._at.get(names[:depth], ()) if paths_overlap(each[0], path))
        yield from (each for each in self._below.get(names, ()) if paths_overlap(each[0], path))


def _fixed(glob: str) -> tuple[str, ...]:
    """The names before the first one with a wildcard: globs that overlap have equal ones, as far as both go."""
    return tuple(takewhile(_WILD.isdisjoint, (name for name in glob.split("/") if name not in (".", ""))))
