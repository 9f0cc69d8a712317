"""Whether two worlds that began as one are the same now, whatever their new rows are called.

Rows that were there from the start, or whose id a call has named, are compared by their ids. What the world numbers, it
does in the order of the making, which is nobody's concern: such rows are compared by what is in them, and a reference
to one by what it refers to. Texts are the same after case and spaces are folded; the order of lists does not count.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from planloop.benchmarks.worlds.world import Row, Tables, World
from planloop.schemas.encoding import Json, canonical, digest, encode_text
from planloop.schemas.matchers import fold

_NUMBERED: Final = re.compile(r"(.*-)([1-9][0-9]{0,17})")  # As they are given: more digits count nothing.
_ROUNDS: Final = 4  # New rows that refer to new rows that refer to … so deep they are told apart.
_SHOWN_CHARS: Final = 200


def differences(world: World, end: World, golden: World, ignore: Collection[str] = ()) -> list[str]:
    """What `end` has otherwise than `golden`, both come of `world`; empty when they are the same.

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


def _new_rows(world: World, end: World) -> frozenset[tuple[str, str]]:
    """The rows that the world gave a number since it was as in `world`."""
    return frozenset(
        (table, id_)
        for table, rows in end.tables.items()
        for id_ in rows.keys() - world.tables.get(table, {}).keys()
        if _is_given(world, end, table, id_)
    )


def _known(tables: Tables, table: str, new: Collection[tuple[str, str]]) -> Mapping[str, Row]:
    """The rows of a table that are compared by their ids."""
    return {id_: row for id_, row in tables.get(table, {}).items() if (table, id_) not in new}


def _is_given(world: World, end: World, table: str, id_: str) -> bool:
    """Whether the id is one of the numbers that were counted up to since; one that a call has named need be none."""
    parts = _NUMBERED.fullmatch(id_)
    if parts is None:
        return False
    key = f"{table}/{parts[1]}"
    return world.serials.get(key, 0) < int(parts[2]) <= end.serials.get(key, 0)


def _named(new: frozenset[tuple[str, str]], tables: Tables, ignore: Collection[str]) -> dict[tuple[str, str], str]:
    """A name for each new row that depends on what is in it, and in those that it refers to, and on nothing else."""
    names = dict.fromkeys(new, "new")
    for _ in range(_ROUNDS):
        names = {
            (table, id_): digest(canonical([table, _plain(tables[table][id_], table, names, ignore)]))
            for table, id_ in new
            if table not in ignore
        }
    return names


def _plain(value: Json, table: str, names: Mapping[tuple[str, str], str], ignore: Collection[str]) -> Json:
    """A row as it is compared."""
    if value is None:
        return None
    by_id = {id_: f"{other}:{name}" for (other, id_), name in names.items()}
    return {name: _folded(each, by_id) for name, each in sorted(value.items()) if f"{table}.{name}" not in ignore}


def _folded(value: Json, by_id: Mapping[str, str]) -> Json:
    match value:
        case str():
            return by_id.get(value) or fold(value)
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
        yield f"{name} is gone"
    elif there is None:
        yield f"{name} is there"
    else:
        for key in sorted({*here, *there}):
            one, other = here.get(key), there.get(key)
            if not _is_same(one, other):
                yield f"{name}: {key} is {_shown(one)}, not {_shown(other)}"


def _is_same(one: Json, other: Json) -> bool:
    """Whether two values as they are compared are one: true is no 1, as it would be to Python."""
    return canonical(one) == canonical(other)


def _new_differences(
    here: tuple[Mapping[tuple[str, str], str], Tables],
    there: tuple[Mapping[tuple[str, str], str], Tables],
    ignore: Collection[str],
) -> Iterator[str]:
    one, other = (Counter(names.values()) for names, _ in (here, there))
    for (names, tables), surplus, words in ((here, one - other, "too much"), (there, other - one, "missing")):
        for (table, id_), name in sorted(names.items()):
            if surplus.get(name, 0) > 0:
                surplus[name] -= 1
                kept = {key: each for key, each in tables[table][id_].items() if f"{table}.{key}" not in ignore}
                yield f"{table}: a new row is {words}: {_shown(kept)}"


def _shown(value: Json) -> str:
    text = "not there" if value is None else encode_text(value)
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"
