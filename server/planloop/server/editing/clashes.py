"""Where a text and the live plan both changed the same thing since the text was begun, and what a person chose there.

A choice names what it was made between, so it holds only as long as both sides say what they said then: when either
moves on, it is asked anew. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from planloop.compiler import formatting, merging
from planloop.compiler.merging import Absent, Conflict, Side
from planloop.schemas import encoding, pointer
from planloop.schemas.encoding import Json, JsonObject
from planloop.schemas.frozen import frozen

Choice: TypeAlias = Literal["mine", "live"]
CHOICES: Final = ("mine", "live")


@frozen
class Clash:
    """One conflict. The sides are YAML for people, None where nothing stands; `taken` is None until it is chosen."""

    id: str
    path: tuple[str, ...]
    base: str | None
    mine: str | None
    live: str | None
    taken: Choice | None


@frozen
class Settled:
    """`document` is both sides with every choice in it; where none was made yet it has mine, and may not be applied."""

    document: JsonObject
    clashes: tuple[Clash, ...]

    @property
    def is_open(self) -> bool:
        """Whether a choice is still to be made."""
        return any(one.taken is None for one in self.clashes)


def settle(base: JsonObject, mine: JsonObject, live: JsonObject, chosen: Mapping[str, str]) -> Settled:
    """The changes of `mine` since `base` on top of `live`, each conflict as `chosen` says by its id."""
    merged = merging.merge(base, mine, live)
    clashes = tuple(_clash(one, chosen) for one in merged.conflicts)
    theirs = [one for one, clash in zip(merged.conflicts, clashes, strict=True) if clash.taken == "live"]
    if not theirs:
        return Settled(merged.document, clashes)
    for one in theirs:
        mine = _with(mine, one.path, one.live)
    return Settled(merging.merge(base, mine, live).document, clashes)


def _clash(conflict: Conflict, chosen: Mapping[str, str]) -> Clash:
    mine, live = _text(conflict.file), _text(conflict.live)
    name = encoding.digest_of([pointer.render(conflict.path), mine, live])[:16]
    taken: Choice | None = "live" if chosen.get(name) == "live" else "mine" if chosen.get(name) == "mine" else None
    return Clash(name, conflict.path, _text(conflict.base), mine, live, taken)


def _text(side: Side) -> str | None:
    return None if isinstance(side, Absent) else formatting.to_yaml(side).rstrip("\n")


def _with(document: JsonObject, path: tuple[str, ...], value: Side) -> JsonObject:
    """`document` with `value` at `path`, the maps on the way made where they are not; without it for ABSENT."""
    head, rest = path[0], path[1:]
    if not rest and isinstance(value, Absent):
        return {key: each for key, each in document.items() if key != head}
    below: Json = document.get(head)
    inner = _with(below if isinstance(below, dict) else {}, rest, value) if rest else value
    assert not isinstance(inner, Absent), "that is the case above"
    return {**document, head: inner}
