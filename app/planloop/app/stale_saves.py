"""Tells which earlier content of the plan file a save was made from, when the editor had not seen our own writes.

After `plan pull` or `--sync` wrote the file, an editor that still shows the old text overwrites it with the next save.
Taken literally that would undo what was written; taken as edits of the text it was made from, nothing is lost. What a
person saved before their own last save is no such text: going back to it is an undo, and is meant.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from planloop.compiler import merging
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import frozen

KEPT_MAX: Final = 8  # Contents that are remembered; an editor is rarely more than one write behind.


@frozen
class Base:
    """A content that the file once had, and what it says."""

    content: bytes
    document: JsonObject


class Bases:
    """The contents that an editor may show: the person's last save and what was written since, the newest last."""

    def __init__(self) -> None:
        self._bases: list[Base] = []

    def saved(self, base: Base) -> None:
        """A person saved this content, so that is what their editor shows."""
        self._bases = [base]

    def written(self, base: Base) -> None:
        """This content was written for the person, whose editor may not show it yet."""
        others = [one for one in self._bases if one.content != base.content]
        self._bases = [*others[1 - KEPT_MAX :], base]

    def nearest(self, content: bytes) -> Base | None:
        """The base that differs from `content` in the fewest lines, the newest of equals; None when there is none."""
        return min(reversed(self._bases), key=lambda base: lines_between(base.content, content), default=None)


def meant(base: Base | None, saved: JsonObject, filed: JsonObject) -> JsonObject:
    """What a save means: its changes since `base`, on top of `filed`, the document that counts as applied."""
    if base is None or base.document == filed:
        return saved
    return merging.merge(base.document, saved, filed).document


def lines_between(one: bytes, other: bytes) -> int:
    """How many lines are in one and not in the other, counted with repeats."""
    left, right = Counter(one.splitlines()), Counter(other.splitlines())
    return (left - right).total() + (right - left).total()
