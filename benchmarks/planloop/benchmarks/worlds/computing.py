"""What `let` computes: sums and differences, counts, lists, and times that move with others."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import add, mul, sub
from typing import Any, Final

from planloop.benchmarks.worlds import times
from planloop.benchmarks.worlds.values import ABSENT, Value, parse
from planloop.benchmarks.worlds.world import Refusal
from planloop.schemas.encoding import Json, JsonObject

_DIGITS: Final = 9  # What floats add up to is money and counts here: 0.1 and 0.2 are 0.3.
_MOST: Final = sys.float_info.max


def parse_computed(raw: Json) -> Value:
    """The value of a map with one operation as its only key, else what `raw` stands for."""
    if not (isinstance(raw, dict) and len(raw) == 1 and next(iter(raw)) in OPERATIONS):
        return parse(raw)
    ((name, operands),) = raw.items()
    given, operation = parse(operands), OPERATIONS[name]

    def of(scope: Mapping[str, Any]) -> Any:
        found = given.of(scope)
        return ABSENT if found is ABSENT else operation(found)

    return Value(given.names, of)


def faults_in(raw: Json) -> str:
    """What is wrong with the operands of an operation, in a few words; empty when nothing is."""
    if not (isinstance(raw, dict) and len(raw) == 1 and next(iter(raw)) in OPERATIONS):
        return ""
    ((name, operands),) = raw.items()
    wanted = _MEMBERS.get(name)
    if wanted is None:
        is_sound = isinstance(operands, list) or (isinstance(operands, str) and operands.startswith("$"))
        return "" if is_sound else f"`{name}` takes a list"
    is_sound = isinstance(operands, dict) and set(operands) == set(wanted)
    return "" if is_sound else f"`{name}` takes a map of {', '.join(wanted)}"


def _numbers(values: Any) -> list[Any]:
    found = _items(values)
    if not all(isinstance(each, int | float) and not isinstance(each, bool) for each in found):
        raise Refusal("That is no number.")
    return [_bounded(each) for each in found]


def _bounded(value: Any) -> Any:
    """The number, if a float can hold it: JSON has no infinity, and whole numbers beyond mix with no float."""
    if not abs(value) <= _MOST:  # This way around, since what is no number at all compares as false.
        raise Refusal("That number is too large.")
    return value


def _items(values: Any) -> list[Any]:
    if not isinstance(values, list):
        raise Refusal("That is no list.")
    return values


def _neat(value: Any) -> Any:
    return round(value, _DIGITS) if isinstance(value, float) else value


def _reduced(operation: Callable[[Any, Any], Any], values: Sequence[Any]) -> Any:
    """The numbers taken together, from the left; 0 for none."""
    return _neat(reduce(lambda one, other: _bounded(operation(one, other)), values)) if values else 0


def _sum(given: JsonObject) -> Any:
    rows = (row for row in _items(given.get("of", [])) if isinstance(row, dict))
    name = str(given.get("field"))
    return _reduced(add, _numbers([row.get(name, 0) for row in rows]))


def _shifted(given: JsonObject) -> Any:
    """`time`, moved as far as it is from `from` to `to`."""
    time, start, end = (times.instant(given.get(name)) for name in ("time", "from", "to"))
    if time is None or start is None or end is None:
        return ABSENT
    moved = times.moved(time, end - start)
    if moved is None:
        raise Refusal("That is no time that a calendar has.")
    return times.written(moved)


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
