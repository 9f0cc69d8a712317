"""Verbs of a world's tools, the conditions that they test and the values that `let` computes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from operator import add, mul, sub
from typing import Any, Final

from planloop.benchmarks.worlds import arguments
from planloop.benchmarks.worlds.world import (
    ABSENT,
    CallInProgress,
    Scope,
    StepRefused,
    ToolStep,
    WorldExpression,
    WorldRow,
    constant_expression,
    parse_expression,
)
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.predicates import Vocabulary, is_number, is_same, predicate

# A condition is the value itself, or a map of `is`, `not`, `any-of`, `contains`, `at-least` … An operator without an
# operand is ignored, so filters that were not given do not filter.


@frozen
class ValueCondition:
    """A condition. `names` are the names that it needs; `holds` tests a value that may be ABSENT."""

    names: frozenset[str]
    holds: Callable[[Any, Scope], bool]


def parse_condition(raw: Json) -> ValueCondition:
    """Parse the condition `raw`."""
    parts = [(test, parse_expression(operand)) for test, operand in _CONDITIONS.predicates(raw)]
    names = frozenset().union(*(operand.names for _, operand in parts))

    def holds(value: Any, scope: Scope) -> bool:
        operands = ((test, operand.of(scope)) for test, operand in parts)
        return all(operand is ABSENT or not test(operand, value, "") for test, operand in operands)

    return ValueCondition(names, holds)


@frozen
class ReferenceConditions:
    """Conditions by the reference that they test. All must be true."""

    parts: tuple[tuple[WorldExpression, ValueCondition], ...]

    @property
    def names(self) -> frozenset[str]:
        return frozenset().union(*(value.names | condition.names for value, condition in self.parts))

    def hold(self, scope: Scope) -> bool:
        return all(condition.holds(value.of(scope), scope) for value, condition in self.parts)


def parse_reference_conditions(raw: Mapping[str, Json]) -> ReferenceConditions:
    """Parse conditions whose keys are references, as in `$order.status: paid`."""
    return ReferenceConditions(tuple((parse_expression(about), parse_condition(each)) for about, each in raw.items()))


@frozen
class RowFilter:
    """Conditions by field, which select rows."""

    parts: tuple[tuple[str, ValueCondition], ...]

    @property
    def names(self) -> frozenset[str]:
        return frozenset().union(*(condition.names for _, condition in self.parts))

    def fits(self, row: Mapping[str, Json], scope: Scope) -> bool:
        return all(condition.holds(row.get(name, ABSENT), scope) for name, condition in self.parts)


def parse_row_filter(raw: Mapping[str, Json]) -> RowFilter:
    """Parse conditions whose keys are fields of rows."""
    return RowFilter(tuple((name, parse_condition(each)) for name, each in raw.items()))


def _contains(value: Any, part: Any) -> bool:
    if isinstance(value, str):
        return str(part).casefold() in value.casefold()
    return isinstance(value, list) and part in value


def _order(value: Any, other: Any) -> int | None:
    """Compare two values: -1, 0 or 1; None if they have no order. Times are compared as instants."""
    if is_number(value) and is_number(other):
        return int(value > other) - int(value < other)
    if not (isinstance(value, str) and isinstance(other, str)):
        return None
    one, two = arguments.parse_instant(value), arguments.parse_instant(other)
    if one is not None and two is not None:
        return int(one > two) - int(one < two)
    return int(value > other) - int(value < other)


OPERATORS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "is": is_same,
    "not": lambda operand, value: not is_same(value, operand),
    "any-of": lambda operand, value: isinstance(operand, list) and any(is_same(value, each) for each in operand),
    "contains": lambda operand, value: _contains(value, operand),
    "at-least": lambda operand, value: _order(value, operand) in (0, 1),
    "at-most": lambda operand, value: _order(value, operand) in (-1, 0),
    "above": lambda operand, value: _order(value, operand) == 1,
    "below": lambda operand, value: _order(value, operand) == -1,
    "given": lambda operand, value: (value is not ABSENT) is operand,
}
_CONDITIONS: Final = Vocabulary[Any]({name: predicate(holds) for name, holds in OPERATORS.items()}, predicate(is_same))


_DIGITS: Final = 9  # Floats are amounts of money and counts here, so 0.1 plus 0.2 must be 0.3.
_MOST: Final = sys.float_info.max


def parse_computed(raw: Json) -> WorldExpression:
    """Parse a map with one operation as its only key, or else an expression."""
    if not (isinstance(raw, dict) and len(raw) == 1 and next(iter(raw)) in OPERATIONS):
        return parse_expression(raw)
    ((name, operands),) = raw.items()
    given, operation = parse_expression(operands), OPERATIONS[name]

    def of(scope: Mapping[str, Any]) -> Any:
        found = given.of(scope)
        return ABSENT if found is ABSENT else operation(found)

    return WorldExpression(given.names, of)


def computed_problem(raw: Json) -> str:
    """The problem of an operation's operands; empty if they are valid."""
    if not (isinstance(raw, dict) and len(raw) == 1 and next(iter(raw)) in OPERATIONS):
        return ""
    ((name, operands),) = raw.items()
    wanted = _MEMBERS.get(name)
    if wanted is None:
        is_sound = isinstance(operands, list) or (isinstance(operands, str) and operands.startswith("$"))
        return "" if is_sound else f"`{name}` must be a list"
    is_sound = isinstance(operands, dict) and set(operands) == set(wanted)
    return "" if is_sound else f"`{name}` must be a map with {', '.join(wanted)}"


def _numbers(values: Any) -> list[Any]:
    found = _items(values)
    if not all(is_number(each) for each in found):
        raise StepRefused("Not a number.")
    return [_bounded(each) for each in found]


def _bounded(value: Any) -> Any:
    """Return the number if a float can hold it: JSON has no infinity, and larger integers cannot be mixed with
    floats."""
    if not abs(value) <= _MOST:  # Written this way because comparisons with NaN are false.
        raise StepRefused("The number is too large.")
    return value


def _items(values: Any) -> list[Any]:
    if not isinstance(values, list):
        raise StepRefused("Not a list.")
    return values


def _neat(value: Any) -> Any:
    return round(value, _DIGITS) if isinstance(value, float) else value


def _reduced(operation: Callable[[Any, Any], Any], values: Sequence[Any]) -> Any:
    """Combine the numbers from the left; 0 without numbers."""
    return _neat(reduce(lambda one, other: _bounded(operation(one, other)), values)) if values else 0


def _sum(given: JsonObject) -> Any:
    rows = (row for row in _items(given.get("of", [])) if isinstance(row, dict))
    name = str(given.get("field"))
    return _reduced(add, _numbers([row.get(name, 0) for row in rows]))


def _shifted(given: JsonObject) -> Any:
    """`time`, moved by the difference of `from` and `to`."""
    time, start, end = (arguments.parse_instant(given.get(name)) for name in ("time", "from", "to"))
    if time is None or start is None or end is None:
        return ABSENT
    moved = arguments.shift_time(time, end - start)
    if moved is None:
        raise StepRefused("Not a valid time, or outside of the years 1 to 9999.")
    return arguments.write_time(moved)


def _at(index: int) -> Callable[[Any], Any]:
    return lambda values: _items(values)[index] if _items(values) else ABSENT


OPERATIONS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "add": lambda values: _reduced(add, _numbers(values)),
    "subtract": lambda values: _reduced(sub, _numbers(values)),
    "multiply": lambda values: _reduced(mul, _numbers(values)),
    "count": lambda values: len(_items(values)),
    "sum": _sum,
    "first": _at(0),
    "last": _at(-1),
    "list": _items,
    "shifted": _shifted,
}
_MEMBERS: Final = {"sum": ("of", "field"), "shifted": ("time", "from", "to")}


# A verb is parsed once from its map in the file and runs in every call, on a `CallInProgress`. If a step raises
# StepRefused, the call changes nothing.

_NONE: Final = constant_expression(ABSENT)


@frozen
class ToolStepSpec:
    """A parsed step: its verb, the names that it needs and sets, its table, and whether it writes."""

    step: ToolStep
    needs: frozenset[str]
    gives: frozenset[str] = frozenset()
    writes: bool = False


StepFactory = Callable[[JsonObject], ToolStepSpec]


def parse_step(raw: JsonObject) -> ToolStepSpec:
    """Parse a step, which must have exactly one verb with its required fields."""
    verb = next(name for name in VERBS if name in raw)
    made = VERBS[verb](raw[verb])
    if "when" not in raw:
        return made
    when = parse_reference_conditions(raw["when"])
    return ToolStepSpec(_only(when, made.step), made.needs | when.names, made.gives, made.writes)


def _only(when: ReferenceConditions, step: ToolStep) -> ToolStep:
    def take(call: CallInProgress) -> None:
        if when.hold(call.scope):
            step(call)

    return take


def _get(raw: JsonObject) -> ToolStepSpec:
    rows = _One(raw)

    def take(call: CallInProgress) -> None:
        wanted = rows.id.of(call.scope)
        each = [rows.of(call, str(id_)) for id_ in (wanted if isinstance(wanted, list) else [wanted])]
        _keep(call, rows.name, each if isinstance(wanted, list) else each[0])

    return ToolStepSpec(take, rows.needs, rows.gives)


def _find(raw: JsonObject) -> ToolStepSpec:
    table, where, limit = raw["in"], parse_row_filter(raw.get("where", {})), parse_expression(raw.get("limit"))
    order, is_descending, shown = raw.get("order"), raw.get("descending", False), raw.get("show")

    def take(call: CallInProgress) -> None:
        found = list(_fitting(call, table, where))
        if order is not None:
            found.sort(key=lambda row: _place(row.get(order)), reverse=is_descending)
        most = limit.of(call.scope)
        found = found[: int(most)] if isinstance(most, int | float) else found
        call.scope[raw["as"]] = found if shown is None else [_part(row, shown) for row in found]

    return ToolStepSpec(take, where.names | limit.names, frozenset((raw["as"],)))


def _insert(raw: JsonObject) -> ToolStepSpec:
    table, fields, name = raw["in"], parse_expression(raw.get("with", {})), raw.get("as")
    prefix = raw["id"] if raw["id"].endswith("-") else ""
    id_, refusal = parse_expression(raw["id"]), parse_expression(raw.get("else", "The id already exists."))

    def take(call: CallInProgress) -> None:
        key = call.numbered(table, prefix) if prefix else str(id_.of(call.scope))
        if key in call.tables[table]:
            raise StepRefused(str(refusal.of(call.scope)))
        call.write(table, key, fields.of(call.scope))
        _keep(call, name, call.row(table, key))

    needs = fields.names | id_.names | refusal.names
    return ToolStepSpec(take, needs, frozenset((name,)) if name else frozenset(), writes=True)


def _update(raw: JsonObject) -> ToolStepSpec:
    fields, put = parse_expression(raw.get("set", {})), raw.get("put")
    key, value = (parse_expression(put["key"]), parse_expression(put["value"])) if put else (_NONE, _NONE)

    def change(row: WorldRow, call: CallInProgress) -> WorldRow:
        after: WorldRow = {**row, **fields.of(call.scope)}
        name, entry = key.of(call.scope), value.of(call.scope)
        if put and name is not ABSENT and entry is not ABSENT:
            entries = row.get(put["field"])
            held = entries if isinstance(entries, dict) else {}
            after[put["field"]] = {**held, str(name): entry}
        return after

    return _changing(raw, change, fields.names | key.names | value.names)


def _delete(raw: JsonObject) -> ToolStepSpec:
    return _changing(raw, lambda _row, _moment: None, frozenset())


def _append(raw: JsonObject) -> ToolStepSpec:
    name, value = raw["to"], parse_expression(raw["value"])

    def change(row: WorldRow, call: CallInProgress) -> WorldRow:
        held, added = _listed(row.get(name)), value.of(call.scope)
        return row if added is ABSENT or added in held else {**row, name: [*held, added]}

    return _changing(raw, change, value.names)


def _remove(raw: JsonObject) -> ToolStepSpec:
    name, value = raw["from"], parse_expression(raw["value"])

    def change(row: WorldRow, call: CallInProgress) -> WorldRow:
        taken = value.of(call.scope)
        return {**row, name: [each for each in _listed(row.get(name)) if each != taken]}

    return _changing(raw, change, value.names)


def _require(raw: JsonObject) -> ToolStepSpec:
    that, said = parse_reference_conditions(raw["that"]), parse_expression(raw["else"])

    def take(call: CallInProgress) -> None:
        if not that.hold(call.scope):
            raise StepRefused(str(said.of(call.scope)))

    return ToolStepSpec(take, that.names | said.names)


def _let(raw: JsonObject) -> ToolStepSpec:
    computed = {name: parse_computed(each) for name, each in raw.items()}
    needs = frozenset().union(*(value.names for value in computed.values()))

    def take(call: CallInProgress) -> None:
        made = {name: value.of(call.scope) for name, value in computed.items()}
        call.scope |= {name: value for name, value in made.items() if value is not ABSENT}

    return ToolStepSpec(take, needs, frozenset(computed))


VERBS: Final[Mapping[str, StepFactory]] = {
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
    """A row that a step names by its id."""

    def __init__(self, raw: JsonObject) -> None:
        self.table: str = raw["in"]
        self.name: str | None = raw.get("as")
        self.id = parse_expression(raw["id"])
        self._else = parse_expression(raw["else"]) if "else" in raw else None
        said = frozenset() if self._else is None else self._else.names
        self.needs = self.id.names | said
        self.gives = frozenset((self.name,)) if self.name else frozenset()

    def of(self, call: CallInProgress, id_: str) -> WorldRow:
        """Return the row, including its id. Raises StepRefused if it does not exist."""
        found = call.row(self.table, id_)
        if found is None:
            words = f"{self.table} has no {id_}." if self._else is None else self._else.of(call.scope)
            raise StepRefused(str(words))
        return found


def _changing(
    raw: JsonObject, change: Callable[[WorldRow, CallInProgress], WorldRow | None], needs: frozenset[str]
) -> ToolStepSpec:
    """A step that replaces each selected row; None deletes the row."""
    if "where" in raw:
        return _changing_all(raw, change, needs)
    one = _One(raw)

    def take(call: CallInProgress) -> None:
        id_ = str(one.id.of(call.scope))
        one.of(call, id_)
        call.write(one.table, id_, change(call.tables[one.table][id_], call))
        _keep(call, one.name, call.row(one.table, id_))

    return ToolStepSpec(take, needs | one.needs, one.gives, writes=True)


def _changing_all(
    raw: JsonObject, change: Callable[[WorldRow, CallInProgress], WorldRow | None], needs: frozenset[str]
) -> ToolStepSpec:
    table, where, name = raw["in"], parse_row_filter(raw["where"]), raw.get("as")

    def take(call: CallInProgress) -> None:
        ids = [row["id"] for row in _fitting(call, table, where)]
        for id_ in ids:
            call.write(table, id_, change(call.tables[table][id_], call))
        _keep(call, name, len(ids))

    return ToolStepSpec(take, needs | where.names, frozenset((name,)) if name else frozenset(), writes=True)


def _fitting(call: CallInProgress, table: str, where: RowFilter) -> Iterator[WorldRow]:
    for id_, row in call.tables[table].items():
        shown = {"id": id_, **row}
        if where.fits(shown, call.scope):
            yield shown


def _keep(call: CallInProgress, name: str | None, value: Json) -> None:
    if name is not None and value is not None:
        call.scope[name] = value


def _listed(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _part(row: WorldRow, names: list[str]) -> WorldRow:
    return {name: row[name] for name in names if name in row}


def _place(value: Any) -> tuple[int, Any]:
    """Sort key for values of any kind: numbers, then texts, then all others in their order."""
    if isinstance(value, int | float):
        return 0, value
    return (1, value) if isinstance(value, str) else (2, 0)
