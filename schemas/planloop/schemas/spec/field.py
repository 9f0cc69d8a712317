"""A field of a plan: name, type, meaning, example, and what a change of it does to running work.

The tables themselves (`planloop.schemas.spec.plan`, `planloop.schemas.spec.task`, `planloop.schemas.spec.agent`
and others beside it) are plain data. From them come the checks and their advice, `plan explain`, the JSON Schema and
the classes of edits, so none of these can drift. How a written value becomes a canonical one is
`planloop.compiler.normalise`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal, TypeAlias

from planloop.schemas.canonical_json import Json
from planloop.schemas.frozen import frozen


class ChangeClass(StrEnum):
    """What a change of a field does to work that is running."""

    HOT = "hot"  # Used from the next step on.
    TAIL = "tail"  # Told to the running agent as a message.
    PREFIX = "prefix"  # Used from the next turn on: prompt, tools, rights.
    RESTART = "restart"  # A new incarnation.
    REPLACE = "replace"  # The old object goes, a new one comes.
    IMMUTABLE = "immutable"  # Refused while the plan lives.
    NONE = "none"  # Bookkeeping: nothing that runs reads it.


ScalarKind: TypeAlias = Literal[
    "text", "word", "id", "pattern", "flag", "integer", "number", "count", "duration", "size", "money", "loose", "any"
]


@frozen
class ScalarType:
    """One plain value. `count` takes 2M, `duration` 2h (kept in seconds), `size` 512MB (bytes), `money` exact decimals.

    `word` is a name that EDN may write as a symbol or keyword, whose namespace is dropped; an `id` is a word that can
    be part of an address and of a path; a `pattern` keeps its namespace, as in `ollama/*`; `loose` is text that may be
    written as a whole number; `any` is JSON that is passed on as it stands. `choices` close the set of a text or word.
    A `settable` one may also be `$name`, which stands for the setting `name` of the mixin that it is written in.
    """

    kind: ScalarKind
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    settable: bool = False


@frozen
class ListType:
    """A list, replaced as a whole. One value standing alone is read as a list of one."""

    item: FieldType


@frozen
class MapType:
    """A map by id. A list of maps that carry their id (`id` or `name`) is read as one.

    `is_id` holds the keys to the rules of ids; without it any text will do.
    """

    value: FieldType
    is_id: bool = True


@frozen
class TableType:
    """A map with the fields of the named table. `short` is the field that a plain value standing alone is read as."""

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
"""How a step of a mixin names one of its settings."""

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
    """One row. `example` is a canonical value that a reader visibly uses (a test applies it).

    `lowered` names the fields of the object's spec that it ends up in; `read_in` is the module that reads it from the
    document where nothing of it is lowered. `default` is shown in the docs; None means that there is none.
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
    """The fields of one map, and a sentence on what the map is. Of each group in `one_of` exactly one must be there.

    `form` shows to whom wrote something else what such a map looks like.
    """

    name: str
    doc: str
    fields: tuple[Field, ...]
    one_of: tuple[tuple[str, ...], ...] = ()
    form: str = ""
