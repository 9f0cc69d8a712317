"""A simulated world as a value: tables of rows, and tools that read and change them. Frozen; a call makes a new one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Protocol, TypeAlias

from planloop.benchmarks.worlds.values import Value, constant
from planloop.schemas.encoding import Json, JsonObject
from planloop.schemas.frozen import frozen

Row: TypeAlias = JsonObject
Tables: TypeAlias = Mapping[str, Mapping[str, Row]]
"""Rows by id, by table. No row has its own id in it; those that tools find have."""


class Refusal(Exception):
    """A step cannot be taken: the call fails with these words, and nothing of it has happened."""


class Step(Protocol):
    """One step of a tool, from one moment of a call to the next. Raises Refusal."""

    def __call__(self, moment: Moment) -> None: ...


@frozen
class Errors:
    """The first calls of a tool fail, and are told so."""

    first: int
    says: str


@frozen
class WorldTool:
    """`writes` says that it changes tables."""

    name: str
    about: str
    parameters: JsonObject
    does: tuple[Step, ...] = ()
    returns: Value = constant({"ok": True})
    errors: Errors | None = None
    writes: bool = False


@frozen
class World:
    """`start` are the tables as they were when nothing had been called yet.

    `serials` are the highest numbers that rows were given, by table and prefix (`events/evt-`); `failed` counts the
    calls that failed because a tool fails at first.
    """

    name: str
    tables: Tables
    tools: Mapping[str, WorldTool]
    values: JsonObject = field(default_factory=dict)
    start: Tables = field(default_factory=dict)
    serials: Mapping[str, int] = field(default_factory=dict)
    failed: Mapping[str, int] = field(default_factory=dict)


@frozen
class Answer:
    """What a tool says. `error` is empty, or one word: UnknownTool, BadArguments, or ToolError for any other no."""

    text: str
    value: Json = None
    error: str = ""


class Moment:
    """A call under way: what is known by name, and the tables as far as they were changed. Nobody else sees it."""

    def __init__(self, world: World, arguments: JsonObject) -> None:
        self.scope: JsonObject = {**world.values, **arguments}
        self.tables: dict[str, Mapping[str, Row]] = dict(world.tables)
        self.serials: dict[str, int] = dict(world.serials)
        self._own: dict[str, dict[str, Row]] = {}

    def row(self, table: str, id_: str) -> Row | None:
        """The row with its id, as tools are shown it."""
        found = self.tables[table].get(id_)
        return None if found is None else {"id": id_, **found}

    def write(self, table: str, id_: str, row: Row | None) -> None:
        """Puts a row, or takes it away (None)."""
        if table not in self._own:
            self._own[table] = dict(self.tables[table])
            self.tables[table] = self._own[table]
        if row is None:
            self._own[table].pop(id_, None)
        else:
            self._own[table][id_] = row

    def numbered(self, table: str, prefix: str) -> str:
        """The next id that begins with `prefix`."""
        key = f"{table}/{prefix}"
        self.serials[key] = self.serials.get(key, 0) + 1
        return f"{prefix}{self.serials[key]}"
