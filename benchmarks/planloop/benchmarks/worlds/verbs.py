"""The verbs of a world's tools: each is made of its map in the file, once, and then taken in every call.

A step works on a `Moment`; one that cannot be taken raises Refusal, and then nothing of the call has happened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from planloop.benchmarks.worlds import computing
from planloop.benchmarks.worlds.conditions import Conditions, Filter, about_rows, about_values
from planloop.benchmarks.worlds.values import ABSENT, constant, parse
from planloop.benchmarks.worlds.world import Moment, Refusal, Row, Step
from planloop.schemas.encoding import Json, JsonObject
from planloop.schemas.frozen import frozen

_NONE: Final = constant(ABSENT)


@frozen
class Written:
    """A step as it stands in a file: what it does, the names that it needs and gives, its table, what it writes."""

    step: Step
    needs: frozenset[str]
    gives: frozenset[str] = frozenset()
    writes: bool = False


Verb = Callable[[JsonObject], Written]


def written(raw: JsonObject) -> Written:
    """The step that `raw` describes; it has exactly one verb, and what that needs."""
    verb = next(name for name in VERBS if name in raw)
    made = VERBS[verb](raw[verb])
    if "when" not in raw:
        return made
    when = about_values(raw["when"])
    return Written(_only(when, made.step), made.needs | when.names, made.gives, made.writes)


def _only(when: Conditions, step: Step) -> Step:
    def take(moment: Moment) -> None:
        if when.hold(moment.scope):
            step(moment)

    return take


def _get(raw: JsonObject) -> Written:
    rows = _One(raw)

    def take(moment: Moment) -> None:
        wanted = rows.id.of(moment.scope)
        each = [rows.of(moment, str(id_)) for id_ in (wanted if isinstance(wanted, list) else [wanted])]
        _keep(moment, rows.name, each if isinstance(wanted, list) else each[0])

    return Written(take, rows.needs, rows.gives)


def _find(raw: JsonObject) -> Written:
    table, where, limit = raw["in"], about_rows(raw.get("where", {})), parse(raw.get("limit"))
    order, is_descending, shown = raw.get("order"), raw.get("descending", False), raw.get("show")

    def take(moment: Moment) -> None:
        found = list(_fitting(moment, table, where))
        if order is not None:
            found.sort(key=lambda row: _place(row.get(order)), reverse=is_descending)
        most = limit.of(moment.scope)
        found = found[: int(most)] if isinstance(most, int | float) else found
        moment.scope[raw["as"]] = found if shown is None else [_part(row, shown) for row in found]

    return Written(take, where.names | limit.names, frozenset((raw["as"],)))


def _insert(raw: JsonObject) -> Written:
    table, fields, name = raw["in"], parse(raw.get("with", {})), raw.get("as")
    prefix = raw["id"] if raw["id"].endswith("-") else ""
    id_, said = parse(raw["id"]), parse(raw.get("else", "There is one already."))

    def take(moment: Moment) -> None:
        key = moment.numbered(table, prefix) if prefix else str(id_.of(moment.scope))
        if key in moment.tables[table]:
            raise Refusal(str(said.of(moment.scope)))
        moment.write(table, key, fields.of(moment.scope))
        _keep(moment, name, moment.row(table, key))

    needs = fields.names | id_.names | said.names
    return Written(take, needs, frozenset((name,)) if name else frozenset(), writes=True)


def _update(raw: JsonObject) -> Written:
    fields, put = parse(raw.get("set", {})), raw.get("put")
    key, value = (parse(put["key"]), parse(put["value"])) if put else (_NONE, _NONE)

    def change(row: Row, moment: Moment) -> Row:
        after: Row = {**row, **fields.of(moment.scope)}
        name, entry = key.of(moment.scope), value.of(moment.scope)
        if put and name is not ABSENT and entry is not ABSENT:
            entries = row.get(put["field"])
            held = entries if isinstance(entries, dict) else {}
            after[put["field"]] = {**held, str(name): entry}
        return after

    return _changing(raw, change, fields.names | key.names | value.names)


def _delete(raw: JsonObject) -> Written:
    return _changing(raw, lambda _row, _moment: None, frozenset())


def _append(raw: JsonObject) -> Written:
    name, value = raw["to"], parse(raw["value"])

    def change(row: Row, moment: Moment) -> Row:
        held, added = _listed(row.get(name)), value.of(moment.scope)
        return row if added is ABSENT or added in held else {**row, name: [*held, added]}

    return _changing(raw, change, value.names)


def _remove(raw: JsonObject) -> Written:
    name, value = raw["from"], parse(raw["value"])

    def change(row: Row, moment: Moment) -> Row:
        taken = value.of(moment.scope)
        return {**row, name: [each for each in _listed(row.get(name)) if each != taken]}

    return _changing(raw, change, value.names)


def _require(raw: JsonObject) -> Written:
    that, said = about_values(raw["that"]), parse(raw["else"])

    def take(moment: Moment) -> None:
        if not that.hold(moment.scope):
            raise Refusal(str(said.of(moment.scope)))

    return Written(take, that.names | said.names)


def _let(raw: JsonObject) -> Written:
    computed = {name: computing.parse_computed(each) for name, each in raw.items()}
    needs = frozenset().union(*(value.names for value in computed.values()))

    def take(moment: Moment) -> None:
        made = {name: value.of(moment.scope) for name, value in computed.items()}
        moment.scope |= {name: value for name, value in made.items() if value is not ABSENT}

    return Written(take, needs, frozenset(computed))


VERBS: Final[Mapping[str, Verb]] = {
    "get": _get,
    "find": _find,
    "insert": _insert,
    "update": _update,
    "delete": _delete,
    "append": _append,
    "remove": _remove,
    "require": _require,
    "let": _let,
}


class _One:
    """The row that a step names by its id."""

    def __init__(self, raw: JsonObject) -> None:
        self.table: str = raw["in"]
        self.name: str | None = raw.get("as")
        self.id = parse(raw["id"])
        self._else = parse(raw["else"]) if "else" in raw else None
        said = frozenset() if self._else is None else self._else.names
        self.needs = self.id.names | said
        self.gives = frozenset((self.name,)) if self.name else frozenset()

    def of(self, moment: Moment, id_: str) -> Row:
        """The row, with its id in it. Raises Refusal when there is none."""
        found = moment.row(self.table, id_)
        if found is None:
            words = f"There is no {id_} in {self.table}." if self._else is None else self._else.of(moment.scope)
            raise Refusal(str(words))
        return found


def _changing(raw: JsonObject, change: Callable[[Row, Moment], Row | None], needs: frozenset[str]) -> Written:
    """A step that makes another row of each that is meant; None takes it away."""
    if "where" in raw:
        return _changing_all(raw, change, needs)
    one = _One(raw)

    def take(moment: Moment) -> None:
        id_ = str(one.id.of(moment.scope))
        one.of(moment, id_)
        moment.write(one.table, id_, change(moment.tables[one.table][id_], moment))
        _keep(moment, one.name, moment.row(one.table, id_))

    return Written(take, needs | one.needs, one.gives, writes=True)


def _changing_all(raw: JsonObject, change: Callable[[Row, Moment], Row | None], needs: frozenset[str]) -> Written:
    table, where, name = raw["in"], about_rows(raw["where"]), raw.get("as")

    def take(moment: Moment) -> None:
        ids = [row["id"] for row in _fitting(moment, table, where)]
        for id_ in ids:
            moment.write(table, id_, change(moment.tables[table][id_], moment))
        _keep(moment, name, len(ids))

    return Written(take, needs | where.names, frozenset((name,)) if name else frozenset(), writes=True)


def _fitting(moment: Moment, table: str, where: Filter) -> Iterator[Row]:
    for id_, row in moment.tables[table].items():
        shown = {"id": id_, **row}
        if where.fits(shown, moment.scope):
            yield shown


def _keep(moment: Moment, name: str | None, value: Json) -> None:
    if name is not None and value is not None:
        moment.scope[name] = value


def _listed(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _part(row: Row, names: list[str]) -> Row:
    return {name: row[name] for name in names if name in row}


def _place(value: Any) -> tuple[int, Any]:
    """Sorts what may be of any kind: numbers, then texts, then the rest as it stands."""
    if isinstance(value, int | float):
        return 0, value
    return (1, value) if isinstance(value, str) else (2, 0)
