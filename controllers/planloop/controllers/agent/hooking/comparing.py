"""Tests of texts and numbers in rules: pure. What each word means is `planloop.schemas.rule`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Final

from planloop.schemas import limits, patterns
from planloop.schemas.encoding import Json, encode
from planloop.schemas.regular import NotRegular, regular

Number = float | int

COMPARED: Final[Mapping[str, Callable[[Number, Number], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}


class CannotTell(Exception):
    """A rule that cannot be judged: it says what rules cannot say, or a text is too long to look through."""


def fits(value: Json, test: Json) -> bool:
    """Whether a value passes a test: an equal value, a list of them, or a map of comparisons that all hold."""
    if not isinstance(test, dict):
        return _is(value, test, fold=False)
    fold = test.get("any-case") is True
    return all(_passes(value, name, wanted, fold=fold) for name, wanted in test.items() if name != "any-case")


def _passes(value: Json, name: str, wanted: Json, *, fold: bool) -> bool:
    if name in COMPARED:
        return isinstance(value, int | float) and is_so(value, {name: wanted})
    match name:
        case "given":
            return (value is not None and value != "") is wanted
        case "length":
            return isinstance(value, str | list | dict) and is_so(len(value), wanted)
        case "is":
            return _is(value, wanted, fold=fold)
        case "not":
            return not _is(value, wanted, fold=fold)
    if value is None:
        return False
    text = text_of(value)
    if name == "matches":
        return _matches(text, f"(?i){wanted}" if fold and not wanted.startswith("(?i)") else wanted)
    folded = text.casefold() if fold else text
    sought = [one.casefold() if fold else one for one in many(wanted)]
    return any(_TEXTS[name](folded, one) for one in sought)


_TEXTS: Final[Mapping[str, Callable[[str, str], bool]]] = {
    "like": lambda text, wanted: patterns.starred(wanted).fullmatch(text) is not None,
    "contains": operator.contains,
    "starts": str.startswith,
    "ends": str.endswith,
}


def _matches(text: str, pattern: str) -> bool:
    if len(text) > limits.RULE_TEXT_CHARS_MAX:
        most = limits.RULE_TEXT_CHARS_MAX
        raise CannotTell(f"a text of {len(text)} characters is longer than `matches` looks through ({most})")
    try:
        return regular(pattern).found_in(text)
    except NotRegular as fault:
        raise CannotTell(f"`{pattern}`: {fault}") from None


def _is(value: Json, wanted: Json, *, fold: bool) -> bool:
    if isinstance(wanted, list):
        return any(_is(value, one, fold=fold) for one in wanted) or value == wanted
    if fold and isinstance(value, str) and isinstance(wanted, str):
        return value.casefold() == wanted.casefold()
    return bool(value == wanted) and isinstance(value, bool) is isinstance(wanted, bool)


def is_so(number: Number, test: Json) -> bool:
    """Whether a number is as a test of numbers says."""
    if not isinstance(test, dict):
        return bool(number == test)
    try:
        return all(COMPARED[name](number, wanted) for name, wanted in test.items())
    except (KeyError, TypeError):
        raise CannotTell(f"numbers cannot be tested with {test}") from None


def text_of(value: Json) -> str:
    """A value as text: itself, or its JSON."""
    return value if isinstance(value, str) else encode(value).decode()


def many(value: Json) -> list[str]:
    """One text or several, as a list."""
    return [str(one) for one in (value if isinstance(value, list) else [value])]
