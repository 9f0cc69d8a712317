"""Conditions on a value: the value that it must be, or a map of `is`, `not`, `any-of`, `contains`, `at-least` …

An operator whose operand is not there drops out, so that filters which nobody gave do not filter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from planloop.benchmarks.worlds import times
from planloop.benchmarks.worlds.values import ABSENT, Scope, Value, parse
from planloop.schemas.encoding import Json
from planloop.schemas.frozen import frozen


@frozen
class Condition:
    """`names` are those that it needs; `holds` says whether it does, of a value that may be ABSENT."""

    names: frozenset[str]
    holds: Callable[[Any, Scope], bool]


def parse_condition(raw: Json) -> Condition:
    """The condition that `raw` stands for."""
    if isinstance(raw, dict) and raw and OPERATORS.keys() >= raw.keys():
        parts = [(OPERATORS[name], parse(operand)) for name, operand in raw.items()]
    else:
        parts = [(equal, parse(raw))]
    names = frozenset().union(*(operand.names for _, operand in parts))

    def holds(value: Any, scope: Scope) -> bool:
        return all(_holds(operator, value, operand.of(scope)) for operator, operand in parts)

    return Condition(names, holds)


def _holds(operator: Callable[[Any, Any], bool], value: Any, operand: Any) -> bool:
    return operand is ABSENT or operator(value, operand)


@frozen
class Conditions:
    """Conditions by what they are about: all must hold."""

    parts: tuple[tuple[Value, Condition], ...]

    @property
    def names(self) -> frozenset[str]:
        return frozenset().union(*(value.names | condition.names for value, condition in self.parts))

    def hold(self, scope: Scope) -> bool:
        return all(condition.holds(value.of(scope), scope) for value, condition in self.parts)


def about_values(raw: Mapping[str, Json]) -> Conditions:
    """Conditions whose keys are references, as in `$order.status: paid`."""
    return Conditions(tuple((parse(about), parse_condition(each)) for about, each in raw.items()))


@frozen
class Filter:
    """Conditions by field: which rows are meant."""

    parts: tuple[tuple[str, Condition], ...]

    @property
    def names(self) -> frozenset[str]:
        return frozenset().union(*(condition.names for _, condition in self.parts))

    def fits(self, row: Mapping[str, Json], scope: Scope) -> bool:
        return all(condition.holds(row.get(name, ABSENT), scope) for name, condition in self.parts)


def about_rows(raw: Mapping[str, Json]) -> Filter:
    """Conditions whose keys are fields of rows."""
    return Filter(tuple((name, parse_condition(each)) for name, each in raw.items()))


def equal(value: Any, other: Any) -> bool:
    """Whether two values are the same: 1 is 1.0, and true is no number."""
    return isinstance(value, bool) is isinstance(other, bool) and bool(value == other)


def _contains(value: Any, part: Any) -> bool:
    if isinstance(value, str):
        return str(part).casefold() in value.casefold()
    return isinstance(value, list) and part in value


def _order(value: Any, other: Any) -> int | None:
    """-1, 0 or 1; None for values of which neither comes first. Times are compared as instants."""
    if _is_number(value) and _is_number(other):
        return int(value > other) - int(value < other)
    if not (isinstance(value, str) and isinstance(other, str)):
        return None
    one, two = times.instant(value), times.instant(other)
    if one is not None and two is not None:
        return int(one > two) - int(one < two)
    return int(value > other) - int(value < other)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


OPERATORS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "is": equal,
    "not": lambda value, other: not equal(value, other),
    "any-of": lambda value, others: isinstance(others, list) and any(equal(value, each) for each in others),
    "contains": _contains,
    "at-least": lambda value, other: _order(value, other) in (0, 1),
    "at-most": lambda value, other: _order(value, other) in (-1, 0),
    "above": lambda value, other: _order(value, other) == 1,
    "below": lambda value, other: _order(value, other) == -1,
    "given": lambda value, wanted: (value is not ABSENT) is wanted,
}
