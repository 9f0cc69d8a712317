"""Choices without chance: names are ranked by SHA-256(seed, case, name), so that a seed means the same for ever. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from schemas.encoding import Json, canonical, digest
from schemas.frozen import frozen

_WORDS: Final = re.compile(r"[A-Za-z0-9]+")


@frozen
class Drawn:
    """The decoys of a case: those that share a word with a tool that is needed, and those that do not."""

    near: Sequence[str]
    far: Sequence[str]


def rank(seed: int, case: str, name: str) -> str:
    """What `name` is sorted by."""
    return digest(canonical([seed, case, name]))


def draw(seed: int, case: str, pool: Json, needed: Iterable[str], *, pick: int, near: int) -> Drawn:
    """`pick` tools of `pool` that are not `needed`, `near` of them near ones as far as there are so many."""
    needed = set(needed)
    names = sorted(
        (name for name in pool.get("tools", {}) if name not in needed), key=lambda name: rank(seed, case, name)
    )
    words = {word for name in needed for word in _WORDS.findall(name)}
    close = [name for name in names if words.intersection(_WORDS.findall(name))]
    chosen = close[: min(near, pick)]
    distant = [name for name in names if name not in close]
    return Drawn(chosen, distant[: pick - len(chosen)])
