"""Values in a world's file that are known only when a tool is called: `$name`, `$row.field`, `text with ${name}`.

Parsed once, when the file is read. What was not given is ABSENT: it drops out of maps and lists, and is empty in text.
`$$` is a dollar sign.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, Final, TypeAlias

from planloop.schemas.encoding import Json, encode_text
from planloop.schemas.frozen import frozen

_NAME: Final = r"[A-Za-z_][\w-]*(?:\.[\w-]+)*"
_WHOLE: Final = re.compile(rf"\$({_NAME})")
_INSIDE: Final = re.compile(rf"\$\$|\$\{{({_NAME})\}}")


class _Absent(Enum):
    ABSENT = "absent"


ABSENT: Final = _Absent.ABSENT
"""What stands for an argument, or a field of a row, that is not there."""

Scope: TypeAlias = Mapping[str, Any]
"""What is known so far in a call, by name."""


@frozen
class Value:
    """`names` are those that it needs; `of` gives its value, or ABSENT."""

    names: frozenset[str]
    of: Callable[[Scope], Any]


def parse(raw: Json) -> Value:
    """The value that `raw` stands for."""
    match raw:
        case str():
            return _text(raw)
        case list():
            return _list([parse(each) for each in raw])
        case dict():
            return _map({name: parse(each) for name, each in raw.items()})
        case _:
            return constant(raw)


def constant(value: Json) -> Value:
    """A value that is what it is."""
    return Value(frozenset(), lambda _scope: value)


def reference(path: str) -> Value:
    """The value at `name.field.field`."""
    head, *below = path.split(".")

    def find(scope: Scope) -> Any:
        found = scope.get(head, ABSENT)
        for name in below:
            found = _below(found, name)
        return found

    return Value(frozenset((head,)), find)


def _below(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return value.get(name, ABSENT)
    if isinstance(value, list) and name.isdigit() and int(name) < len(value):
        return value[int(name)]
    return ABSENT


def _text(raw: str) -> Value:
    if "$" not in raw:
        return constant(raw)
    if (whole := _WHOLE.fullmatch(raw)) is not None:
        return reference(whole[1])
    parts: list[Value] = []
    end = 0
    for found in _INSIDE.finditer(raw):
        parts += [constant(raw[end : found.start()]), constant("$") if found[1] is None else reference(found[1])]
        end = found.end()
    parts.append(constant(raw[end:]))
    return Value(_names(parts), lambda scope: "".join(shown(part.of(scope)) for part in parts))


def _list(items: list[Value]) -> Value:
    def of(scope: Scope) -> Json:
        return [value for item in items if (value := item.of(scope)) is not ABSENT]

    return Value(_names(items), of)


def _map(items: Mapping[str, Value]) -> Value:
    def of(scope: Scope) -> Json:
        return {name: value for name, item in items.items() if (value := item.of(scope)) is not ABSENT}

    return Value(_names(items.values()), of)


def _names(values: Iterable[Value]) -> frozenset[str]:
    return frozenset().union(*(value.names for value in values))


def shown(value: Any) -> str:
    """A value within a text."""
    if value is ABSENT or value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return ", ".join(value)
    return encode_text(value)
