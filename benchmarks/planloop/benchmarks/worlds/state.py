"""The state of a world: call a tool, store the changes, compare two final states. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from planloop.benchmarks.worlds.arguments import BadWorldArguments, fit_arguments
from planloop.benchmarks.worlds.world import (
    ABSENT,
    CallInProgress,
    SimulatedWorld,
    StepRefused,
    Tables,
    WorldAnswer,
    WorldRow,
    WorldTool,
)
from planloop.schemas.canonical_json import Json, JsonObject, canonical_bytes, encode_text, sha256_hex
from planloop.schemas.checks.matchers import fold_text


def call_tool(world: SimulatedWorld, tool: str, arguments: JsonObject) -> tuple[SimulatedWorld, WorldAnswer]:
    """Return the world after the call, and the answer. A failed call does not change the tables."""
    found = world.tools.get(tool)
    if found is None:
        return world, WorldAnswer(f"Unknown tool {tool}.", None, "UnknownTool")
    try:
        given = fit_arguments(found.parameters, arguments)
    except BadWorldArguments as fault:
        return world, WorldAnswer(str(fault), None, "BadArguments")
    if (late := _failing(world, found)) is not None:
        return late
    progress = CallInProgress(world, given)
    try:
        for step in found.does:
            step(progress)
        answer = _answer(found.returns.of(progress.scope))
    except StepRefused as refusal:
        return world, WorldAnswer(str(refusal), None, "ToolError")
    except (ArithmeticError, ValueError) as error:  # The agent chose the values, so this is not an internal error.
        return world, WorldAnswer(f"Cannot compute the result: {error}.", None, "ToolError")
    after = replace(world, tables=progress.tables, serials=progress.serials) if found.writes else world
    return after, answer


def _failing(world: SimulatedWorld, tool: WorldTool) -> tuple[SimulatedWorld, WorldAnswer] | None:
    """Return the world and the answer if this call is one of the tool's initial failures; else None."""
    count = world.failed.get(tool.name, 0)
    if tool.errors is None or count >= tool.errors.first:
        return None
    return replace(world, failed={**world.failed, tool.name: count + 1}), WorldAnswer(
        tool.errors.says, None, "ToolError"
    )


def _answer(found: Any) -> WorldAnswer:
    value: Json = None if found is ABSENT else found
    return WorldAnswer(value if isinstance(value, str) else encode_text(value), value)


# Only the difference to the world's file is stored, as merges: rows by table and id, each in a list, because merging
# rows as maps would mix old fields with new ones. An empty list stands for a deleted row, because a merge removes
# nulls.

_ROWS: Final = "rows"
_SERIALS: Final = "serials"
_FAILED: Final = "failed"


def restore_changes(world: SimulatedWorld, kept: JsonObject) -> SimulatedWorld:
    """Return the world with the stored changes of an agent."""
    if not kept:
        return world
    tables = dict(world.tables)
    for name, rows in kept.get(_ROWS, {}).items():
        changed = {id_: row[0] for id_, row in rows.items() if row}
        gone = {id_ for id_, row in rows.items() if not row}
        tables[name] = {id_: row for id_, row in tables.get(name, {}).items() if id_ not in gone} | changed
    serials = {**world.serials, **kept.get(_SERIALS, {})}
    return replace(world, tables=tables, serials=serials, failed={**world.failed, **kept.get(_FAILED, {})})


def changes_to_keep(before: SimulatedWorld, after: SimulatedWorld) -> JsonObject:
    """Return the merge that a call adds to the stored changes."""
    rows = {name: changed for name in after.tables if (changed := dict(_changed(before, after, name)))}
    serials = {name: n for name, n in after.serials.items() if before.serials.get(name) != n}
    failed = {name: n for name, n in after.failed.items() if before.failed.get(name) != n}
    parts: JsonObject = {_ROWS: rows, _SERIALS: serials, _FAILED: failed}
    return {name: part for name, part in parts.items() if part}


def count_kept_rows(kept: JsonObject) -> int:
    """Return the number of stored rows."""
    return sum(map(len, kept.get(_ROWS, {}).values()))


def _changed(before: SimulatedWorld, after: SimulatedWorld, table: str) -> Iterator[tuple[str, list[WorldRow]]]:
    old, new = before.tables[table], after.tables[table]
    if old is new:
        return
    for id_, row in new.items():
        if old.get(id_) is not row and old.get(id_) != row:
            yield id_, [row]
    for id_ in old:
        if id_ not in new:
            yield id_, []


# Initial rows, and rows whose id a call chose, are compared by id. The world numbers all other rows in order of
# creation, which must not matter: they are compared by content, and references to them by the content of their row.
# Case, spaces and the order of lists do not count.

_NUMBERED: Final = re.compile(
    r"(.*-)([1-9][0-9]{0,17})"
)  # The form of generated numbers. Longer numbers are not generated.
_ROUNDS: Final = 4  # Chains of new rows longer than this count as different.
_SHOWN_CHARS: Final = 200


def world_differences(
    world: SimulatedWorld, end: SimulatedWorld, golden: SimulatedWorld, ignore: Collection[str] = ()
) -> list[str]:
    """Return the differences between `end` and `golden`, two final states of `world`; empty if they are equal.

    `ignore` names tables (`messages`) and fields of tables (`messages.body`) that do not count.
    """
    new_here, new_there = _new_rows(world, end), _new_rows(world, golden)
    found, wanted = end.tables, golden.tables
    names_here, names_there = _named(new_here, found, ignore), _named(new_there, wanted, ignore)
    out: list[str] = []
    for table in sorted({*found, *wanted} - set(ignore)):
        here, there = _known(found, table, new_here), _known(wanted, table, new_there)
        for id_ in sorted({*here, *there}):
            out += _row_differences(
                f"{table}/{id_}",
                _plain(here.get(id_), table, names_here, ignore),
                _plain(there.get(id_), table, names_there, ignore),
            )
    return [*out, *_new_differences((names_here, found), (names_there, wanted), ignore)]


def _new_rows(world: SimulatedWorld, end: SimulatedWorld) -> frozenset[tuple[str, str]]:
    """The rows that the world numbered after the state `world`."""
    return frozenset(
        (table, id_)
        for table, rows in end.tables.items()
        for id_ in rows.keys() - world.tables.get(table, {}).keys()
        if _is_given(world, end, table, id_)
    )


def _known(tables: Tables, table: str, new: Collection[tuple[str, str]]) -> Mapping[str, WorldRow]:
    """The rows of a table that are compared by their ids."""
    return {id_: row for id_, row in tables.get(table, {}).items() if (table, id_) not in new}


def _is_given(world: SimulatedWorld, end: SimulatedWorld, table: str, id_: str) -> bool:
    """Whether the world generated the id after the state `world`. If a call chose an id, it did not."""
    parts = _NUMBERED.fullmatch(id_)
    if parts is None:
        return False
    key = f"{table}/{parts[1]}"
    return world.serials.get(key, 0) < int(parts[2]) <= end.serials.get(key, 0)


def _named(new: frozenset[tuple[str, str]], tables: Tables, ignore: Collection[str]) -> dict[tuple[str, str], str]:
    """Names of the new rows that depend only on their content and the rows that they refer to."""
    names = dict.fromkeys(new, "new")
    for _ in range(_ROUNDS):
        names = {
            (table, id_): sha256_hex(canonical_bytes([table, _plain(tables[table][id_], table, names, ignore)]))
            for table, id_ in new
            if table not in ignore
        }
    return names


def _plain(value: Json, table: str, names: Mapping[tuple[str, str], str], ignore: Collection[str]) -> Json:
    """A row in the form for comparison."""
    if value is None:
        return None
    by_id = {id_: f"{other}:{name}" for (other, id_), name in names.items()}
    return {name: _folded(each, by_id) for name, each in sorted(value.items()) if f"{table}.{name}" not in ignore}


def _folded(value: Json, by_id: Mapping[str, str]) -> Json:
    match value:
        case str():
            return by_id.get(value) or fold_text(value)
        case list():
            return sorted((_folded(each, by_id) for each in value), key=encode_text)
        case dict():
            return {name: _folded(each, by_id) for name, each in sorted(value.items())}
        case float() if value.is_integer():
            return int(value)
        case _:
            return value


def _row_differences(name: str, here: Json, there: Json) -> Iterator[str]:
    if _is_same(here, there):
        return
    if here is None:
        yield f"{name} is missing"
    elif there is None:
        yield f"{name} is unexpected"
    else:
        for key in sorted({*here, *there}):
            one, other = here.get(key), there.get(key)
            if not _is_same(one, other):
                yield f"{name}: {key} is {_shown(one)}, not {_shown(other)}"


def _is_same(one: Json, other: Json) -> bool:
    """Whether two compared values are equal; unlike in Python, true is not 1."""
    return canonical_bytes(one) == canonical_bytes(other)


def _new_differences(
    here: tuple[Mapping[tuple[str, str], str], Tables],
    there: tuple[Mapping[tuple[str, str], str], Tables],
    ignore: Collection[str],
) -> Iterator[str]:
    one, other = (Counter(names.values()) for names, _ in (here, there))
    for (names, tables), surplus, words in ((here, one - other, "unexpected"), (there, other - one, "missing")):
        for (table, id_), name in sorted(names.items()):
            if surplus.get(name, 0) > 0:
                surplus[name] -= 1
                kept = {key: each for key, each in tables[table][id_].items() if f"{table}.{key}" not in ignore}
                yield f"{table}: {words} new row: {_shown(kept)}"


def _shown(value: Json) -> str:
    text = "missing" if value is None else encode_text(value)
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"
