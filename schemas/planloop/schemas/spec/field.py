"""A field of a plan: name, type, description, example, and the effect of a change on running work.

The tables themselves (`planloop.schemas.spec.plan`, `planloop.schemas.spec.task`, `planloop.schemas.spec.agent`
and others in this package) are plain data. The type checks and their hints, `plan explain`, the JSON Schema and the
classes of edits are generated from them, so they always agree. `planloop.compiler.normalise` turns written values into
canonical ones.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal, TypeAlias

from planloop.schemas.canonical_json import Json
from planloop.schemas.frozen import frozen


class ChangeClass(StrEnum):
    """The effect that a change of a field has on running work."""

    HOT = "hot"  # Used from the next step on.
    TAIL = "tail"  # Sent to the running agent as a message.
    PREFIX = "prefix"  # Used from the next turn on: prompt, tools, rights.
    RESTART = "restart"  # A new incarnation.
    REPLACE = "replace"  # The old object is removed, a new one is created.
    IMMUTABLE = "immutable"  # Refused while the plan lives.
    NONE = "none"  # Bookkeeping: running work does not read it.


ScalarKind: TypeAlias = Literal[
    "text", "word", "id", "pattern", "flag", "integer", "number", "count", "duration", "size", "money", "loose", "any"
]


@frozen
class ScalarType:
    """One plain value. `count` takes 2M, `duration` 2h (kept in seconds), `size` 512MB (bytes), `money` exact decimals.

    `word` is a name that EDN may write as a symbol or keyword; its namespace is dropped. An `id` is a word that can be
    part of an address and of a path. A `pattern` keeps its namespace, as in `ollama/*`. `loose` is text that may be
    written as a whole number. `any` is JSON that is passed on unchanged. `choices` lists the allowed values of a text
    or word. A `settable` value may also be `$name`, which refers to the setting `name` of the enclosing mixin or hook.
    """

    kind: ScalarKind
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    settable: bool = False


@frozen
class ListType:
    """A list, replaced as a whole. A single value is read as a list of one."""

    item: FieldType


@frozen
class MapType:
    """A map by id. A list of maps that carry their id (`id` or `name`) is read as one.

    `is_id`: the keys must be valid ids. Otherwise any text is a valid key.
    """

    value: FieldType
    is_id: bool = True


@frozen
class TableType:
    """A map with the fields of the named table. A plain value is read as the field `short`."""

    name: str
    short: str = ""


@frozen
class EitherType:
    """A plain value, a list or a map, each with its own type; None where that shape is not allowed."""

    plain: ScalarType | None = None
    items: ListType | None = None
    map: TableType | MapType | None = None


FieldType: TypeAlias = ScalarType | ListType | MapType | TableType | EitherType

SETTING_PATTERN: Final = r"\$([a-z][a-z0-9-]*)"
"""A reference to a setting in a step of a mixin."""

TEXT = ScalarType("text")
WORD = ScalarType("word")
FLAG = ScalarType("flag")
COUNT = ScalarType("count", minimum=0)
DURATION = ScalarType("duration", minimum=0)
ANY = ScalarType("any")
PATTERN = ScalarType("pattern")
TEXTS = ListType(TEXT)
PATTERNS = ListType(PATTERN)
WORDS = ListType(WORD)
COMMAND = EitherType(plain=TEXT, items=ListType(ScalarType("loose")))
"""A shell line as text, or a program and its arguments as a list."""


@frozen
class Field:
    """One row. `example` is a canonical value with a visible effect (a test applies it).

    `lowered` names the fields of the object's spec that it is compiled into; `read_in` is the module that reads it from
    the document if it is not compiled. `default` is shown in the docs; None means no default.
    """

    name: str
    type: FieldType
    doc: str
    example: Json
    change: ChangeClass = ChangeClass.HOT
    aliases: tuple[str, ...] = ()
    default: Json = None
    lowered: tuple[str, ...] = ()
    read_in: str = ""


@frozen
class FieldTable:
    """The fields of one map, and its description. Of each group in `one_of`, exactly one field is required.

    `form` is a sample of the map for error messages.
    """

    name: str
    doc: str
    fields: tuple[Field, ...]
    one_of: tuple[tuple[str, ...], ...] = ()
    form: str = ""
