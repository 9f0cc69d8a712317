"""What is kept of an agent's world: only what is otherwise than in its file, as merges add up to it. Pure.

Rows by table and id, each in a list, where an empty one stands for a row that is gone: a merge takes no null, and would
mix the old fields of a row with the new ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from planloop.benchmarks.worlds.world import Row, World
from planloop.schemas.encoding import JsonObject

_ROWS: Final = "rows"
_SERIALS: Final = "serials"
_FAILED: Final = "failed"


def with_kept(world: World, kept: JsonObject) -> World:
    """The world with what is kept of an agent's."""
    if not kept:
        return world
    tables = dict(world.tables)
    for name, rows in kept.get(_ROWS, {}).items():
        changed = {id_: row[0] for id_, row in rows.items() if row}
        gone = {id_ for id_, row in rows.items() if not row}
        tables[name] = {id_: row for id_, row in tables.get(name, {}).items() if id_ not in gone} | changed
    serials = {**world.serials, **kept.get(_SERIALS, {})}
    return replace(world, tables=tables, serials=serials, failed={**world.failed, **kept.get(_FAILED, {})})


def kept_of(before: World, after: World) -> JsonObject:
    """What a call merges into what is kept."""
    rows = {name: changed for name in after.tables if (changed := dict(_changed(before, after, name)))}
    serials = {name: n for name, n in after.serials.items() if before.serials.get(name) != n}
    failed = {name: n for name, n in after.failed.items() if before.failed.get(name) != n}
    parts: JsonObject = {_ROWS: rows, _SERIALS: serials, _FAILED: failed}
    return {name: part for name, part in parts.items() if part}


def rows_kept(kept: JsonObject) -> int:
    """How many rows are kept."""
    return sum(map(len, kept.get(_ROWS, {}).values()))


def _changed(before: World, after: World, table: str) -> Iterator[tuple[str, list[Row]]]:
    old, new = before.tables[table], after.tables[table]
    if old is new:
        return
    for id_, row in new.items():
        if old.get(id_) is not row and old.get(id_) != row:
            yield id_, [row]
    for id_ in old:
        if id_ not in new:
            yield id_, []
