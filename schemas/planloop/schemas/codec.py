"""Convert between JSON and the values that `@frozen` and `tagged` make, field by field.

A key is a field's name. Writing leaves out the fields that its caller calls rare where they have their default. Reading
takes the default for a missing key and ignores an unknown one, so that logs of older and newer versions are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from enum import StrEnum
from functools import cache
from typing import Any, Final, TypeVar

import msgspec
from msgspec import structs

from planloop.schemas.canonical_json import Json, JsonObject

T = TypeVar("T")

_ALWAYS: Final = object()
"""In the place of a default: the field is always written."""


def to_json(value: Any, *rare: str) -> JsonObject:
    """The fields of `value` as JSON, those named in `rare` only if they differ from their defaults.

    A value that `tagged` made begins with its `kind`. Dicts and lists are JSON already and are not copied.
    """
    out, fields = _plan(value.__class__, rare)
    out = out.copy()
    for name, default in fields:
        member = getattr(value, name)
        if default is _ALWAYS or member != default:
            out[name] = member if type(member) in _PLAIN else _converted(member)
    return out


@cache
def _plan(cls: Any, rare: tuple[str, ...]) -> tuple[JsonObject, tuple[tuple[str, Any], ...]]:
    """What the JSON of `cls` begins with, and its fields, each with the default that leaves it out."""
    config, defaults = cls.__struct_config__, _defaults(cls)
    tag: JsonObject = {} if config.tag is None else {config.tag_field: config.tag}
    return tag, tuple(
        (name, defaults.get(name, _ALWAYS) if name in rare else _ALWAYS) for name in cls.__struct_fields__
    )


def from_json(cls: type[T], raw: Json) -> T:
    """Inverse of `to_json`. Raises msgspec.ValidationError for a value of another type."""
    return msgspec.convert(raw, cls)


def _defaults(cls: Any) -> Mapping[str, Any]:
    """The defaults of fields, for those that have one."""
    found: dict[str, Any] = {}
    for field in structs.fields(cls):
        if field.default_factory is not msgspec.NODEFAULT:
            found[field.name] = field.default_factory()
        elif field.default is not msgspec.NODEFAULT:
            found[field.name] = field.default
    return found


def _converted(value: Any) -> Json:
    if isinstance(value, tuple):
        return [one if type(one) in _PLAIN else _converted(one) for one in value]
    if isinstance(value, StrEnum | Decimal):
        return str(value)
    if isinstance(value, msgspec.Struct):
        return value.to_json() if hasattr(value, "to_json") else to_json(value)
    return dict(value) if isinstance(value, Mapping) else value


_PLAIN: Final = frozenset({str, int, float, bool, type(None), dict, list})
"""The types that are JSON already."""
