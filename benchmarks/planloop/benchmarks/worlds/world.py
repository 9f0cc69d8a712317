"""A simulated world as a frozen value: tables, tools, and expressions that calls evaluate."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from enum import Enum
from typing import Any, Final, Protocol, TypeAlias

from planloop.schemas.canonical_json import Json, JsonObject, encode_text
from planloop.schemas.frozen import frozen

# Expressions are evaluated when a tool is called: `$name`, `$row.field`, `text with ${name}`. They are parsed once,
# when the file is read. A missing value is ABSENT: it is omitted from maps and lists, and is empty in text. `$$` is a
# dollar sign.

_NAME: Final = r"[A-Za-z_][\w-]*(?:\.[\w-]+)*"
_WHOLE: Final = re.compile(rf"\$({_NAME})")
_INSIDE: Final = re.compile(rf"\$\$|\$\{{({_NAME})\}}")


class _Absent(Enum):
    ABSENT = "absent"


ABSENT: Final = _Absent.ABSENT
"""The value of a missing argument or field."""

Scope: TypeAlias = Mapping[str, Any]
"""The values of a call so far by name."""


@frozen
class WorldExpression:
    """An expression. `names` are the names that it needs; `of` returns its value, or ABSENT."""

    names: frozenset[str]
    of: Callable[[Scope], Any]


def parse_expression(raw: Json) -> WorldExpression:
    """Parse the expression `raw`."""
    match raw:
        case str():
            return _text(raw)
        case list():
            return _list([parse_expression(each) for each in raw])
        case dict():
            return _map({name: parse_expression(each) for name, each in raw.items()})
        case _:
            return constant_expression(raw)


def constant_expression(value: Json) -> WorldExpression:
    """A constant value."""
    return WorldExpression(frozenset(), lambda _scope: value)


def reference_expression(path: str) -> WorldExpression:
    """The value at `name.field.field`."""
    head, *below = path.split(".")

    def find(scope: Scope) -> Any:
        found = scope.get(head, ABSENT)
        for name in below:
            found = _below(found, name)
        return found

    return WorldExpression(frozenset((head,)), find)


def _below(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return value.get(name, ABSENT)
    if isinstance(value, list) and name.isdigit() and int(name) < len(value):
        return value[int(name)]
    return ABSENT


def _text(raw: str) -> WorldExpression:
    if "$" not in raw:
        return constant_expression(raw)
    if (whole := _WHOLE.fullmatch(raw)) is not None:
        return reference_expression(whole[1])
    parts: list[WorldExpression] = []
    end = 0
    for found in _INSIDE.finditer(raw):
        parts += [
            constant_expression(raw[end : found.start()]),
            constant_expression("$") if found[1] is None else reference_expression(found[1]),
        ]
        end = found.end()
    parts.append(constant_expression(raw[end:]))
    return WorldExpression(_names(parts), lambda scope: "".join(expression_text(part.of(scope)) for part in parts))


def _list(items: list[WorldExpression]) -> WorldExpression:
    def of(scope: Scope) -> Json:
        return [value for item in items if (value := item.of(scope)) is not ABSENT]

    return WorldExpression(_names(items), of)


def _map(items: Mapping[str, WorldExpression]) -> WorldExpression:
    def of(scope: Scope) -> Json:
        return {name: value for name, item in items.items() if (value := item.of(scope)) is not ABSENT}

    return WorldExpression(_names(items.values()), of)


def _names(values: Iterable[WorldExpression]) -> frozenset[str]:
    return frozenset().union(*(value.names for value in values))


def expression_text(value: Any) -> str:
    """Format a value for use in a text."""
    if value is ABSENT or value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return ", ".join(value)
    return encode_text(value)


WorldRow: TypeAlias = JsonObject
Tables: TypeAlias = Mapping[str, Mapping[str, WorldRow]]
"""Table → id → row. Stored rows do not contain their id; rows that tools return do."""


class StepRefused(Exception):
    """A step cannot run. The call fails with this message and changes nothing."""


class ToolStep(Protocol):
    """One step of a tool. Changes the call in progress, or raises StepRefused."""

    def __call__(self, call: CallInProgress) -> None: ...


@frozen
class InitialErrors:
    """How many of the first calls of a tool fail, and with which text."""

    first: int
    says: str


@frozen
class WorldTool:
    """A tool of a world. `writes`: whether it changes tables."""

    name: str
    about: str
    parameters: JsonObject
    does: tuple[ToolStep, ...] = ()
    returns: WorldExpression = constant_expression({"ok": True})
    errors: InitialErrors | None = None
    writes: bool = False


@frozen
class SimulatedWorld:
    """A world. `start` are the tables before the first call.

    `serials` are the highest numbers of rows by table and prefix (`events/evt-`). `failed` counts the initial failures
    of tools so far.
    """

    name: str
    tables: Tables
    tools: Mapping[str, WorldTool]
    values: JsonObject = field(default_factory=dict)
    start: Tables = field(default_factory=dict)
    serials: Mapping[str, int] = field(default_factory=dict)
    failed: Mapping[str, int] = field(default_factory=dict)


@frozen
class WorldAnswer:
    """The answer of a tool. `error` is empty, UnknownTool, BadArguments, or ToolError for any other refusal."""

    text: str
    value: Json = None
    error: str = ""


class CallInProgress:
    """A call in progress: values by name, and the changed tables, which other calls do not see."""

    def __init__(self, world: SimulatedWorld, arguments: JsonObject) -> None:
        self.scope: JsonObject = {**world.values, **arguments}
        self.tables: dict[str, Mapping[str, WorldRow]] = dict(world.tables)
        self.serials: dict[str, int] = dict(world.serials)
        self._own: dict[str, dict[str, WorldRow]] = {}

    def row(self, table: str, id_: str) -> WorldRow | None:
        """Return the row, including its id; None if it does not exist."""
        found = self.tables[table].get(id_)
        return None if found is None else {"id": id_, **found}

    def write(self, table: str, id_: str, row: WorldRow | None) -> None:
        """Write a row, or delete it (None)."""
        if table not in self._own:
            self._own[table] = dict(self.tables[table])
            self.tables[table] = self._own[table]
        if row is None:
            self._own[table].pop(id_, None)
        else:
            self._own[table][id_] = row

    def numbered(self, table: str, prefix: str) -> str:
        """Return the next free id with `prefix`."""
        key = f"{table}/{prefix}"
        self.serials[key] = self.serials.get(key, 0) + 1
        return f"{prefix}{self.serials[key]}"
