"""Choices without chance: names are ranked by SHA-256(seed, case, name), so that a seed means the same for ever. Pure.

A tool that is added to a pool takes the place of at most one of those that were picked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from planloop.schemas.encoding import canonical, digest
from planloop.schemas.frozen import frozen

_WORDS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")


@frozen
class Drawn:
    """The decoys of a case: those that share a word with a tool that is needed, and those that do not."""

    near: Sequence[str]
    far: Sequence[str]


def rank(seed: int, case: str, name: str) -> str:
    """What `name` is sorted by."""
    return digest(canonical([seed, case, name]))


def words_of(tool: str) -> frozenset[str]:
    """The verbs and nouns of a tool's name; `events` is `event`."""
    return frozenset(word.lower().removesuffix("s") for word in _WORDS.findall(tool))


def draw(seed: int, case: str, pool: Iterable[str], needed: Iterable[str], *, pick: int, near: int) -> Drawn:
    """`pick` tools of `pool` that are not `needed`, `near` of them near ones.

    Where there are too few of one kind, those of the other are taken.
    """
    needed = frozenset(needed)
    names = [name for name in pool if name not in needed]
    names.sort(key=lambda name: rank(seed, case, name))
    words = frozenset().union(*map(words_of, needed))
    close = [name for name in names if words & words_of(name)]
    distant = [name for name in names if not words & words_of(name)]
    far_count = min(max(pick - near, pick - len(close), 0), len(distant))
    return Drawn(close[: pick - far_count], distant[:far_count])
