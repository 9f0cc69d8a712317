"""Patterns for JSON values, as checks write them: `{subset: {id: 5, name: /ada/}}`. Match, explain, validate."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime
from difflib import get_close_matches
from types import MappingProxyType
from typing import Final

from planloop.schemas import limits
from planloop.schemas.canonical_json import Json, JsonObject, encode_text
from planloop.schemas.diagnostic import ValuePath, ValueProblem
from planloop.schemas.linear_regex import LinearRegex, UnsupportedRegex, compile_linear_regex

# Giving each of some takers one of the things that fit it, no thing to two: a matching in a bipartite graph.
#
# By augmenting paths (Kuhn 1955): takers in order, each taking its first thing that is free or can be freed.


def match_pairs(fitting: Sequence[Sequence[int]]) -> dict[int, int]:
    """The taker of each thing, for as many takers as can have one. `fitting[taker]` are the things that fit it."""
    taken: dict[int, int] = {}

    def found_one(taker: int, tried: set[int]) -> bool:
        for thing in fitting[taker]:
            if thing not in tried:
                tried.add(thing)
                if thing not in taken or found_one(taken[thing], tried):
                    taken[thing] = taker
                    return True
        return False

    for taker in range(len(fitting)):
        found_one(taker, set())
    return taken


# Patterns for JSON values and texts, as checks write them: `{subset: {id: 5, name: /ada/}}`.
#
# A text, number, truth value or null is itself; `/…/` is a regular expression; a list is its items, one by one; a map
# whose names are all in `MATCHER_WORDS` is a matcher, any other has members that must be there, where more may be.
# Directly under `subset` and `exact` all names are members, whatever they are called.
#
#     matches(pattern, value)   empty when it fits, else why not, in words
#     equal(one, other)         whether two values are the same to a literal

MATCHER_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "subset": "a map with at least these members",
        "exact": "a map with these members and no others, all the way down",
        "is": "this value, in which nothing is read as a pattern",
        "verbatim": "this text to the letter: capitals and spaces count",
        "any": "anything at all, as long as it is there",
        "type": "a text, number, integer, boolean, list, map or null",
        "len": "how many characters, items or members, itself a pattern",
        "between": "a number or a time from the first to the second; null is no bound",
        "one-of": "one of these patterns",
        "not": "not this pattern",
        "contains": "a text with this in it, or a list with such an item; of a list of patterns, all of them",
        "set": "a list of these items in any order, however often each",
        "same-instant": "the same moment, in whatever time zone it is written",
    }
)
"""The matchers. A map with several has a value that fits them all."""


def is_number(value: Json) -> bool:
    """Whether it is a number, which a truth value is not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


TYPES: Final[Mapping[str, Callable[[Json], bool]]] = MappingProxyType(
    {
        "text": lambda value: isinstance(value, str),
        "number": is_number,
        "integer": lambda value: is_number(value) and value == int(value),
        "boolean": lambda value: isinstance(value, bool),
        "list": lambda value: isinstance(value, list),
        "map": lambda value: isinstance(value, dict),
        "null": lambda value: value is None,
    }
)
JSON_TYPES: Final[Mapping[Json, str]] = {"string": "text", "array": "list", "object": "map"}
"""What JSON Schema calls some of them."""
_APART: Final = ("<super>", "<sub>", "<fraction>", "<circle>")
"""How Unicode has characters made of others that do not mean the same."""
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d([.,]\d+)?)?\s?(z|[+-]\d\d(:?\d\d)?)", re.IGNORECASE)


class BadPattern(ValueError):
    """The pattern cannot be asked; `pattern_problems` says where and why. Nothing fits it, nor fails to."""


def fold_text(text: str) -> str:
    """The text with everything gone that does not count: width, case, and how much space there is where."""
    return " ".join(_compatible(_compatible(text).casefold()).split())


def _compatible(text: str) -> str:
    """The text in Unicode's form NFKC, without what that makes another text: `10²` is not `102`, nor `1½` `11/2`."""
    if text.isascii():
        return text
    opened = {ord(char): _opened(char) for char in set(text)}
    return unicodedata.normalize("NFC", text.translate(opened))


def _opened(char: str) -> str:
    """What a character consists of, all the way down."""
    parts = unicodedata.decomposition(char).split()
    if not parts or parts[0] in _APART:
        return char
    return "".join(_opened(chr(int(part, 16))) for part in parts if not part.startswith("<"))


def regex_source(pattern: Json) -> str | None:
    """What stands between the strokes of `/…/`; None when that is not what it is."""
    is_one = isinstance(pattern, str) and len(pattern) > 2 and pattern[0] == pattern[-1] == "/"
    return pattern[1:-1] if is_one else None


def parse_instant(text: Json) -> datetime | date | None:
    """The moment, or the day, that a text names in one of the forms of ISO 8601; None when it names none."""
    if not isinstance(text, str):
        return None
    written = text.strip().upper().replace(",", ".")
    try:
        return date.fromisoformat(written)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(re.sub(r"\s+(?=[Z+-])", "", written))
    except ValueError:
        return None


def values_equal(one: Json, other: Json) -> bool:
    """Whether two values are the same: numbers by value, texts after `fold`, whole moments in whatever zone."""
    if isinstance(one, str) and isinstance(other, str):
        return one == other or fold_text(one) == fold_text(other) or _is_same_moment(one, other)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(values_equal, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(values_equal(item, other[name]) for name, item in one.items())
    return _kind(one) == _kind(other) and bool(one == other)


def _is_same_moment(one: str, other: str) -> bool:
    if _MOMENT.fullmatch(one.strip()) is None or _MOMENT.fullmatch(other.strip()) is None:
        return False
    moment = parse_instant(one)
    return moment is not None and moment == parse_instant(other)


def _kind(value: Json) -> str:
    return "number" if is_number(value) else next(name for name, is_of in TYPES.items() if is_of(value))


def find_mismatch(pattern: Json, value: Json) -> str:
    """Empty when `value` fits, else the first place where it does not, in words. Raises BadPattern."""
    return _differs(pattern, value, "", is_exact=False)


def _differs(pattern: Json, value: Json, at: str, *, is_exact: bool) -> str:
    if isinstance(pattern, dict):
        if is_matcher(pattern):
            found = (_BY_WORD[word](item, value, at) for word, item in pattern.items())
            return next((words for words in found if words), "")
        return _members(pattern, value, at, is_exact=is_exact)
    if isinstance(pattern, list):
        return _items(pattern, value, at, is_exact=is_exact)
    expression = regex_source(pattern)
    if expression is None:
        return "" if values_equal(pattern, value) else _not(value, at, value_text(pattern))
    if not isinstance(value, str):
        return _not(value, at, "a text")
    return (
        ""
        if compile_regex(expression).found_in(_compatible(value))
        else f"{_where(at)} does not match {pattern}: {value_text(value)}"
    )


def compile_regex(expression: str) -> LinearRegex:
    """The expression of `/…/` made ready; capitals and small letters are the same to it. Raises BadPattern."""
    try:
        return compile_linear_regex(f"(?i){expression}")
    except UnsupportedRegex as error:
        raise BadPattern(f"/{expression}/: {error}") from None


def is_matcher(pattern: JsonObject) -> bool:
    """Whether the names of a map are matchers; else they are members."""
    return bool(pattern) and pattern.keys() <= MATCHER_WORDS.keys()


def _members(members: JsonObject, value: Json, at: str, *, is_exact: bool) -> str:
    if not isinstance(value, dict):
        return _not(value, at, "a map")
    for name, item in members.items():
        here = f"{at}/{name}"
        words = _differs(item, value[name], here, is_exact=is_exact) if name in value else f"{here} is missing"
        if words:
            return words
    more = [name for name in value if name not in members] if is_exact else []
    return f"{at}/{more[0]} should not be there" if more else ""


def _items(items: list[Json], value: Json, at: str, *, is_exact: bool) -> str:
    if not isinstance(value, list):
        return _not(value, at, "a list")
    if len(value) != len(items):
        return f"{_where(at)} has {len(value)} items, not {len(items)}"
    found = (
        _differs(item, one, f"{at}/{n}", is_exact=is_exact)
        for n, (item, one) in enumerate(zip(items, value, strict=True))
    )
    return next((words for words in found if words), "")


def _subset(wanted: Json, value: Json, at: str) -> str:
    return _members(wanted, value, at, is_exact=False) if isinstance(wanted, dict) else _plain(wanted, value, at)


def _exact(wanted: Json, value: Json, at: str) -> str:
    if isinstance(wanted, dict):
        return _members(wanted, value, at, is_exact=True)
    return _differs(wanted, value, at, is_exact=True)


def _plain(wanted: Json, value: Json, at: str) -> str:
    return _differs(wanted, value, at, is_exact=False)


def _is(wanted: Json, value: Json, at: str) -> str:
    return "" if values_equal(wanted, value) else _not(value, at, value_text(wanted))


def _verbatim(wanted: Json, value: Json, at: str) -> str:
    return "" if value == wanted else _not(value, at, f"{value_text(wanted)} to the letter")


def _any(_wanted: Json, _value: Json, _at: str) -> str:
    return ""


def _type(wanted: Json, value: Json, at: str) -> str:
    is_of = TYPES[JSON_TYPES.get(wanted, wanted)]
    return "" if is_of(value) else f"{_where(at)} is {_article(_kind(value))}, not {_article(str(wanted))}"


def _article(kind: str) -> str:
    return kind if kind == "null" else f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def _len(wanted: Json, value: Json, at: str) -> str:
    if not isinstance(value, str | list | dict):
        return _not(value, at, "a text, a list or a map")
    words = find_mismatch(wanted, len(value))
    return f"the length of {_where(at)} does not fit: {words.removeprefix('it ')}" if words else ""


def _between(wanted: Json, value: Json, at: str) -> str:
    low, high = (sort_value(bound) for bound in wanted)
    found = sort_value(value)
    bounds = [bound for bound in (low, high) if bound is not None]
    if found is None or any(order_scale(bound) != order_scale(found) for bound in bounds):
        return _not(value, at, "a time" if any(isinstance(bound, date) for bound in bounds) else "a number")
    if (low is None or low <= found) and (high is None or found <= high):
        return ""
    return f"{_where(at)} is {value_text(value)}, not between {value_text(wanted[0])} and {value_text(wanted[1])}"


def sort_value(value: Json) -> Json:
    """A number, or the time that a text names; None for what has no order."""
    return value if is_number(value) else parse_instant(value)


def order_scale(value: Json) -> str:
    """What is sortable among itself: numbers, days, and moments with and without a zone."""
    if isinstance(value, datetime):
        return "local" if value.tzinfo is None else "moment"
    return "day" if isinstance(value, date) else "number"


def _one_of(wanted: Json, value: Json, at: str) -> str:
    found = [_plain(one, value, at) for one in wanted]
    if "" in found:
        return ""
    return (
        found[0] if len(found) == 1 else f"{_where(at)} is {value_text(value)}, which is none of {value_text(wanted)}"
    )


def _unlike(wanted: Json, value: Json, at: str) -> str:
    return "" if _plain(wanted, value, at) else f"{_where(at)} is {value_text(value)}, which it must not be"


def _contains(wanted: Json, value: Json, at: str) -> str:
    found = (_has(one, value, at) for one in (wanted if isinstance(wanted, list) else [wanted]))
    return next((words for words in found if words), "")


def _has(wanted: Json, value: Json, at: str) -> str:
    if isinstance(value, list):
        is_there = any(not _plain(wanted, one, at) for one in value)
        return "" if is_there else f"{_where(at)} has no item like {value_text(wanted)}"
    if not isinstance(value, str):
        return _not(value, at, "a text or a list")
    if not isinstance(wanted, str) or regex_source(wanted) is not None:
        return _plain(wanted, value, at)
    return (
        ""
        if fold_text(wanted) in fold_text(value)
        else f"{_where(at)} does not contain {value_text(wanted)}: {value_text(value)}"
    )


def _set(wanted: Json, value: Json, at: str) -> str:
    if not isinstance(value, list):
        return _not(value, at, "a list")
    if len(value) > limits.MATCHED_ITEMS_MAX:
        return f"{_where(at)} has {len(value):,} items, more than are looked at"
    items = _distinct(value)
    fitting = [[n for n, one in enumerate(items) if not _plain(pattern, one, at)] for pattern in wanted]
    taken = match_pairs(fitting)
    lacking = next((n for n in range(len(wanted)) if n not in taken.values()), None)
    if lacking is not None:
        return f"{_where(at)} lacks {value_text(wanted[lacking])}"
    more = next((one for n, one in enumerate(items) if n not in taken), None)
    return "" if len(taken) == len(items) else f"{_where(at)} has {value_text(more)} as well"


def _distinct(items: Sequence[Json]) -> list[Json]:
    out: list[Json] = []
    for item in items:
        if not any(values_equal(item, other) for other in out):
            out.append(item)
    return out


def _same_instant(wanted: Json, value: Json, at: str) -> str:
    moment, found = parse_instant(wanted), parse_instant(value)
    if found is None or moment is None:
        return _not(value, at, "a time")
    if order_scale(moment) != order_scale(found):
        return f"{_where(at)} is {value_text(value)}, {_lacks(found)}, and {value_text(wanted)} is not like that"
    return "" if moment == found else f"{_where(at)} is {value_text(value)}, not {value_text(wanted)}"


def _lacks(moment: datetime | date) -> str:
    match order_scale(moment):
        case "moment":
            return "a time with a zone"
        case "local":
            return "a time without a zone"
        case _:
            return "a day"


_BY_WORD: Final[Mapping[str, Callable[[Json, Json, str], str]]] = MappingProxyType(
    {
        "subset": _subset,
        "exact": _exact,
        "is": _is,
        "verbatim": _verbatim,
        "any": _any,
        "type": _type,
        "len": _len,
        "between": _between,
        "one-of": _one_of,
        "not": _unlike,
        "contains": _contains,
        "set": _set,
        "same-instant": _same_instant,
    }
)


def _where(at: str) -> str:
    return at or "it"


def _not(value: Json, at: str, wanted: str) -> str:
    return f"{_where(at)} is {value_text(value)}, not {wanted}"


def value_text(value: Json) -> str:
    """A value in a sentence, which is JSON up to where it gets too long."""
    text = encode_text(value)
    return text if len(text) <= limits.VALUE_SHOWN_CHARS else f"{text[: limits.VALUE_SHOWN_CHARS - 1]}…"


# What is wrong with a pattern of `matchers.py`, and its cure: every fault in one pass, before it is ever asked.

_NEAR_WORD: Final = 0.8
_SLIP_CHARS: Final = 5  # A shorter word is near to too many names of members.


def pattern_problems(pattern: Json, at: ValuePath = ()) -> Iterator[ValueProblem]:
    """Everything that is wrong with a pattern that is written at `at`. If that is nothing, `matches` does not raise."""
    if isinstance(pattern, str):
        yield from _expression_faults(pattern, at)
    elif isinstance(pattern, list):
        for index, item in enumerate(pattern):
            yield from pattern_problems(item, (*at, str(index)))
    elif isinstance(pattern, dict) and is_matcher(pattern):
        for word, item in pattern.items():
            yield from _word_faults(word, item, (*at, word))
    elif isinstance(pattern, dict):
        yield from _slips(pattern, at)
        yield from _member_faults(pattern, at)


def _expression_faults(pattern: str, at: ValuePath) -> Iterator[ValueProblem]:
    expression = regex_source(pattern)
    try:
        if expression is not None:
            compile_regex(expression)
    except BadPattern as error:
        yield ValueProblem(at, "P0223", str(error), f"for the text itself write `{{is: {encode_text(pattern)}}}`")


def _member_faults(members: JsonObject, at: ValuePath) -> Iterator[ValueProblem]:
    for name, item in members.items():
        yield from pattern_problems(item, (*at, name))


def _slips(members: JsonObject, at: ValuePath) -> Iterator[ValueProblem]:
    """A map of one member that is nearly a matcher would be taken for a member that is never there."""
    name = next(iter(members), "")
    meant = get_close_matches(
        name.replace("_", "-"), [word for word in MATCHER_WORDS if len(word) >= _SLIP_CHARS], n=1, cutoff=_NEAR_WORD
    )
    if len(members) == 1 and meant:
        hint = f"did you mean `{meant[0]}`? For a member of that name write `{{subset: {{{name}: …}}}}`"
        yield ValueProblem((*at, name), "P0201", f"there is no matcher `{name}`", hint, is_key=True)


def _word_faults(word: str, item: Json, at: ValuePath) -> Iterator[ValueProblem]:
    member = f"for a member of that name write `{{subset: {{{word}: …}}}}`"
    match word:
        case "subset" if not isinstance(item, dict):
            yield ValueProblem(
                at, "P0202", f"`subset` is a map, not {value_text(item)}", "as in `{subset: {ok: true}}`"
            )
        case "subset" | "exact" if isinstance(item, dict):
            yield from _member_faults(item, at)
        case "any" if item is not True:
            yield ValueProblem(at, "P0212", f"`any` cannot be {value_text(item)}", f"write `any: true`; {member}")
        case "type" if not isinstance(item, str) or JSON_TYPES.get(item, item) not in TYPES:
            yield ValueProblem(
                at, "P0212", f"there is no type {value_text(item)}", f"one of {', '.join(TYPES)}; {member}"
            )
        case "between":
            yield from _between_faults(item, at)
        case "one-of" | "set" if not isinstance(item, list) or (word == "one-of" and not item):
            yield ValueProblem(
                at, "P0202", f"`{word}` is a list, not {value_text(item)}", f"as in `{{{word}: [1, 2]}}`"
            )
        case "same-instant" if parse_instant(item) is None:
            hint = "as in `2030-01-02T15:00Z`, or a day: `2030-01-02`"
            yield ValueProblem(at, "P0223", f"{value_text(item)} is no time", hint)
        case "verbatim" if not isinstance(item, str):
            yield ValueProblem(
                at, "P0202", f"`verbatim` is a text, not {value_text(item)}", f'write `verbatim: "1"`; {member}'
            )
        case "is" | "any" | "type" | "same-instant" | "verbatim":
            pass
        case _:
            yield from pattern_problems(item, at)


def _between_faults(item: Json, at: ValuePath) -> Iterator[ValueProblem]:
    hint = "two numbers or two times, and null where there is no bound: `between: [1, 5]`"
    if not isinstance(item, list) or len(item) != 2:
        yield ValueProblem(at, "P0202", f"`between` cannot be {value_text(item)}", hint)
        return
    bounds = [sort_value(bound) for bound in item if bound is not None]
    if not bounds or None in bounds or len({order_scale(bound) for bound in bounds}) > 1:
        yield ValueProblem(at, "P0212", f"`between` cannot be {value_text(item)}", hint)
    elif len(bounds) == 2 and bounds[0] > bounds[1]:
        yield ValueProblem(
            at, "P0212", f"nothing is between {value_text(item[0])} and {value_text(item[1])}", "the lower one first"
        )
