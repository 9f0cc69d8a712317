"""Steps of an `http` check with what earlier answers had in their blanks: `{{kept.id}}`.

Whoever is checked wrote that. So it is never read as a pattern, whatever it looks like: an answer that keeps `/.*/` or
`{any: true}` would else make the expectations that it is held to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from planloop.schemas.blanks import BLANK, fill
from planloop.schemas.encoding import Json, JsonObject, encode_text
from planloop.schemas.matchers import expression_in, is_matcher

LITERAL: Final = frozenset({"is", "verbatim", "same-instant"})
"""Matchers that read nothing below them as a pattern."""


def filled_step(written: JsonObject, kept: Mapping[str, Json]) -> JsonObject:
    """A step as it is written, with its blanks filled."""
    if not kept:
        return written
    send = written["send"]
    sent = (
        _texts(send, kept) if isinstance(send, str) else {name: _sent(name, item, kept) for name, item in send.items()}
    )
    step: JsonObject = written | {"send": sent}
    if "expect" in written:
        step["expect"] = {name: _expected(name, item, kept) for name, item in written["expect"].items()}
    return step


def _sent(name: str, item: Json, kept: Mapping[str, Json]) -> Json:
    return fill(item, kept) if name == "json" else _texts(item, kept)


def _expected(name: str, item: Json, kept: Mapping[str, Json]) -> Json:
    if name in ("body", "json"):
        return _pattern(item, kept)
    if name == "headers":
        return {_name(header, kept): _pattern(pattern, kept) for header, pattern in item.items()}
    return _texts(item, kept)


def _texts(value: Json, kept: Mapping[str, Json]) -> Json:
    """`value` with its blanks filled, of which each is in a text that has to stay one."""
    if isinstance(value, str):
        return _written(fill(value, kept))
    if isinstance(value, list):
        return [_texts(item, kept) for item in value]
    return {_name(name, kept): _texts(item, kept) for name, item in value.items()} if isinstance(value, dict) else value


def _pattern(pattern: Json, kept: Mapping[str, Json]) -> Json:
    if isinstance(pattern, str):
        return _text(pattern, kept)
    if isinstance(pattern, list):
        return [_pattern(item, kept) for item in pattern]
    if not isinstance(pattern, dict):
        return pattern
    if is_matcher(pattern):
        return {word: _below(word, item, kept) for word, item in pattern.items()}
    members = _members(pattern, kept)
    return members if members.keys() == pattern.keys() else {"subset": members}


def _below(word: str, item: Json, kept: Mapping[str, Json]) -> Json:
    if word in LITERAL:
        return fill(item, kept)
    return _members(item, kept) if word in ("subset", "exact") and isinstance(item, dict) else _pattern(item, kept)


def _members(members: JsonObject, kept: Mapping[str, Json]) -> JsonObject:
    return {_name(name, kept): _pattern(item, kept) for name, item in members.items()}


def _name(name: str, kept: Mapping[str, Json]) -> str:
    return _written(fill(name, kept))


def _text(text: str, kept: Mapping[str, Json]) -> Json:
    if expression_in(text) is not None:
        return BLANK.sub(lambda found: _escaped(kept[found[1]]) if found[1] in kept else found[0], text)
    value = fill(text, kept)
    if value == text:
        return text
    return {"is": value} if isinstance(value, list | dict) or expression_in(value) is not None else value


def _escaped(value: Json) -> str:
    return re.escape(_written(value))


def _written(value: Json) -> str:
    return value if isinstance(value, str) else encode_text(value)
