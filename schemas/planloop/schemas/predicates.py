"""Predicates on values, as plans write them: the engine under every pattern language. Pure.

A language is a `Vocabulary`: its words, and how it reads any pattern that is not a map of these words. All words of a
map must hold. A test returns the reason why a value does not fit, and an empty text if it fits. The operand of a word
and the value under test are whatever the language works with:

- `planloop.schemas.checks.matchers`: patterns of checks for JSON values;
- `planloop.controllers.agent.hooks.rules`: conditions of hook rules, over the facts of a hook;
- `planloop.controllers.agent.deciders.script`: `when` and `expect` of scripts, over a turn and its results;
- `planloop.controllers.task.checks.files`: the `json` check;
- `planloop.benchmarks.worlds.verbs`: conditions of simulated worlds, with operands that each call computes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, Generic, TypeAlias, TypeGuard, TypeVar

from planloop.schemas import limits
from planloop.schemas.canonical_json import Json, encode_text
from planloop.schemas.frozen import frozen

V = TypeVar("V")
Predicate: TypeAlias = Callable[[Json, V, str], str]
"""Arguments: what the pattern says, the value, and its path for the reason."""


class Vocabulary(Generic[V]):
    """A language of patterns: `words`, and `plain` for any pattern that is not a map of words."""

    def __init__(self, words: Mapping[str, Predicate[V]], plain: Predicate[V]) -> None:
        self.words = MappingProxyType(dict(words))
        self._plain = plain

    def is_word_map(self, pattern: Json) -> bool:
        """Whether the pattern is a map of words."""
        return isinstance(pattern, dict) and bool(pattern) and pattern.keys() <= self.words.keys()

    def predicates(self, pattern: Json) -> list[tuple[Predicate[V], Json]]:
        """The tests that a pattern stands for, each with its operand."""
        if self.is_word_map(pattern):
            return [(self.words[word], operand) for word, operand in pattern.items()]
        return [(self._plain, pattern)]

    def reasons(self, pattern: Json, value: V, at: str = "") -> Iterator[str]:
        """Why the value does not fit, a reason for each test that fails."""
        return (reason for test, operand in self.predicates(pattern) if (reason := test(operand, value, at)))

    def mismatch(self, pattern: Json, value: V, at: str = "") -> str:
        """The first reason; empty if the value fits."""
        return next(self.reasons(pattern, value, at), "")

    def matches(self, pattern: Json, value: V) -> bool:
        """Whether the value fits."""
        return not self.mismatch(pattern, value)


def predicate(holds: Callable[[Json, V], bool]) -> Predicate[V]:
    """A test that only answers yes or no, with a general reason."""
    return lambda wanted, value, at: "" if holds(wanted, value) else f"{place(at)} does not fit {excerpt(wanted)}"


@frozen
class StructureTexts:
    """Reasons of a language for values of another shape. Each may use `{at}`, `{value}`, `{found}` and `{wanted}`."""

    root: str = "it"
    not_map: str = "{at} is {value}, not a map"
    not_list: str = "{at} is {value}, not a list"
    length: str = "{at} has {found} items, not {wanted}"


MATCHER_TEXTS: Final = StructureTexts()


def structure_mismatch(
    pattern: dict[str, Any] | list[Json],
    value: Json,
    at: str,
    inner: Predicate[Json],
    texts: StructureTexts = MATCHER_TEXTS,
    *,
    is_exact: bool = False,
) -> str:
    """Why a value does not have the members or items of a pattern; `inner` reads each of them.

    Lists have the same length. Maps may have other members unless `is_exact`.
    """
    here = at or texts.root
    if isinstance(pattern, list):
        if not isinstance(value, list):
            return texts.not_list.format(at=here, value=excerpt(value), wanted=len(pattern))
        if len(value) != len(pattern):
            return texts.length.format(at=here, found=len(value), wanted=len(pattern))
        pairs = zip(pattern, value, strict=True)
        reasons = (inner(item, one, f"{at}/{index}") for index, (item, one) in enumerate(pairs))
        return next((reason for reason in reasons if reason), "")
    if not isinstance(value, dict):
        return texts.not_map.format(at=here, value=excerpt(value))
    for name, item in pattern.items():
        reason = inner(item, value[name], f"{at}/{name}") if name in value else f"{at}/{name} is missing"
        if reason:
            return reason
    extra = next((name for name in value if is_exact and name not in pattern), None)
    return "" if extra is None else f"{at}/{extra} should not be there"


def is_number(value: object) -> TypeGuard[float]:
    """Whether the value is a number; true and false are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_same(one: object, other: object) -> bool:
    """Whether two values are equal to the letter: 1 is 1.0, but true is not 1."""
    return isinstance(one, bool) is isinstance(other, bool) and bool(one == other)


def place(at: str) -> str:
    """A path in a sentence."""
    return at or "it"


def not_like(value: Json, at: str, wanted: str) -> str:
    """The reason that a value is not `wanted`."""
    return f"{place(at)} is {excerpt(value)}, not {wanted}"


def excerpt(value: Json) -> str:
    """A value in a sentence: its JSON, cut at `limits.VALUE_SHOWN_CHARS`."""
    text = encode_text(value)
    return text if len(text) <= limits.VALUE_SHOWN_CHARS else f"{text[: limits.VALUE_SHOWN_CHARS - 1]}…"
