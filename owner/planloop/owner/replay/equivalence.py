"""Compare two values except for ids, times and revisions.

Ids are learned: a new id of one value is paired with the id at the same place of the other value, for the whole
comparison. Integers and texts must be equal. Fractions are durations or times and are not compared, and neither is
whether a wait was long enough to be recorded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from planloop.reconciler.admission.field_ownership import STAMP
from planloop.reconciler.clock import MINTED
from planloop.schemas.canonical_json import Json, encode_text
from planloop.schemas.frozen import frozen

REVISION: Final = re.compile(r"\b(rev|revision) \d+")
STAMPED: Final = re.compile(r"@\d+(?:\.\d{6}\b|(?=:))")
"""The time or revision in an id that has one: `conflict/1@1700000000.000000`, `lock@12:path`."""
REVISIONS: Final = frozenset({"rev", "base_rev", "document_rev", "created_rev", "cause", "generation"})
REVISIONS_ALSO: Final = frozenset({"observed_generation", "epoch", "pid"})
SHOWN: Final = 80  # Characters of a value in a difference.


@frozen
class ValueDifference:
    """A place where two values differ, with both values, shortened."""

    path: str
    before: str
    after: str

    def words(self) -> str:
        return f"{self.path or '/'}: {self.before} → {self.after}"


class Equivalence:
    """The ids of a replay, paired with those of the original."""

    def __init__(self) -> None:
        self._ours: dict[str, str] = {}
        self._theirs: dict[str, str] = {}

    def theirs(self, text: str) -> str:
        """Return a text of the replay with the ids of the original, as far as they are known."""
        return MINTED.sub(lambda found: self._theirs.get(found[0], found[0]), text)

    def ours(self, value: Json) -> Json:
        """Return a value of the original with the ids of the replay. A new id is the same in both from now on."""
        match value:
            case str():
                return MINTED.sub(lambda found: self._meet(found[0]), value)
            case dict():
                return {self.ours(key): self.ours(item) for key, item in value.items()}
            case list() | tuple():
                return [self.ours(item) for item in value]
            case _:
                return value

    def may_be_same(self, original: str, replayed: str) -> bool:
        """Return whether two texts may be equal, given the known ids. Learns nothing."""
        original, replayed = STAMPED.sub("@", original), STAMPED.sub("@", replayed)
        mine, other = MINTED.findall(original), MINTED.findall(replayed)
        if MINTED.sub("", original) != MINTED.sub("", replayed) or len(mine) != len(other):
            return False
        return all(self._may_meet(a, b) for a, b in zip(mine, other, strict=True))

    def compared(self, original: Json, replayed: Json) -> list[ValueDifference]:
        """Return all differences between the two, and learn the ids where they agree."""
        return list(self._walk("", original, replayed))

    def timed(self, original: Json, replayed: Json) -> Json:
        """Return `replayed` with the fractions of `original` (times), where the two have the same shape."""
        match original, replayed:
            case dict(), dict():
                mine = {self.ours(key): value for key, value in original.items()}
                return {key: self.timed(mine.get(key), value) for key, value in replayed.items()}
            case ((list() | tuple()), (list() | tuple())) if len(original) == len(replayed):
                return [self.timed(one, other) for one, other in zip(original, replayed, strict=True)]
            case ((int() | float()), float()) if not isinstance(original, bool):
                return original
            case _:
                return replayed

    def _meet(self, theirs: str) -> str:
        ours = self._ours.setdefault(theirs, theirs)
        self._theirs.setdefault(ours, theirs)
        return ours

    def _may_meet(self, theirs: str, ours: str) -> bool:
        return self._ours.get(theirs, ours) == ours and self._theirs.get(ours, theirs) == theirs

    def _learn(self, original: str, replayed: str) -> bool:
        if original == replayed:
            return True
        plain = [REVISION.sub(r"\1", text) for text in (original, replayed)]
        if not self.may_be_same(*plain):
            return False
        for theirs, ours in zip(MINTED.findall(plain[0]), MINTED.findall(plain[1]), strict=True):
            if not self._may_meet(theirs, ours):
                return False
            self._ours[theirs] = ours
            self._theirs[ours] = theirs
        return True

    def _walk(self, path: str, original: Json, replayed: Json) -> Iterator[ValueDifference]:
        match original, replayed:
            case dict(), dict():
                yield from self._maps(path, original, replayed)
            case ((list() | tuple()), (list() | tuple())) if len(original) == len(replayed):
                for index, (one, other) in enumerate(zip(original, replayed, strict=True)):
                    yield from self._walk(f"{path}/{index}", one, other)
            case str(), str():
                if not self._learn(original, replayed):
                    yield _difference(path, original, replayed)
            case _ if not _is_same_plain(original, replayed):
                yield _difference(path, original, replayed)

    def _maps(self, path: str, original: Mapping[str, Json], replayed: Mapping[str, Json]) -> Iterator[ValueDifference]:
        left = dict(replayed)
        for key, value in original.items():
            other = self._key(key, left)
            if other is None:
                if not isinstance(value, float):
                    yield _difference(f"{path}/{key}", value, None)
                continue
            found = left.pop(other)
            if key in REVISIONS or key in REVISIONS_ALSO:
                continue
            skipped = 1 if key == STAMP else None
            yield from self._walk(f"{path}/{key}", _from(value, skipped), _from(found, skipped))
        for key, value in left.items():
            if not isinstance(value, float):
                yield _difference(f"{path}/{key}", None, value)

    def _key(self, key: str, among: Mapping[str, Json]) -> str | None:
        known = MINTED.sub(lambda found: self._ours.get(found[0], found[0]), key)
        if known in among:
            return known
        others = (each for each in among if MINTED.search(each) or STAMPED.search(each))
        return next((each for each in others if self._learn(key, each)), None)


def _from(value: Json, start: int | None) -> Json:
    return value if start is None or not isinstance(value, list | tuple) else value[start:]


def _is_same_plain(one: Json, other: Json) -> bool:
    numbers = (int, float)
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, numbers) and isinstance(other, numbers):
        return one == other or isinstance(one, float) or isinstance(other, float)
    return bool(one == other)


def _difference(path: str, before: Json, after: Json) -> ValueDifference:
    return ValueDifference(path, _short(before), _short(after))


def _short(value: Json) -> str:
    text = "nothing" if value is None else encode_text(value)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"
