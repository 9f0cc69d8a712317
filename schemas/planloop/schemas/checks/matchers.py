"""Patterns for JSON values, as checks write them: `{subset: {id: 5, name: /ada/}}`. Match, explain, validate.

A text, number, boolean or null matches an equal value; `/…/` is a regular expression; a list matches item by item. A
map that has only names of `MATCHER_WORDS` is a matcher; any other map names members that must be there, and the value
may have more. Directly under `subset` and `exact` all names are members, whatever they are called.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime
from difflib import get_close_matches
from functools import partial
from types import MappingProxyType
from typing import Final

from planloop.schemas import limits
from planloop.schemas.canonical_json import Json, JsonObject, encode_text
from planloop.schemas.diagnostic import ValuePath, ValueProblem
from planloop.schemas.linear_regex import LinearRegex, UnsupportedRegex, compile_linear_regex
from planloop.schemas.predicates import Vocabulary, excerpt, is_number, not_like, place, structure_mismatch


def match_pairs(fitting: Sequence[Sequence[int]]) -> dict[int, int]:
    """Return a maximum matching of takers and fitting things: the taker of each matched thing.

    `fitting[taker]` are the things that fit it. Augmenting paths (Kuhn 1955): takers in order, each taking its first
    thing that is free or can be freed.
    """
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


MATCHER_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "subset": "a map with at least these members",
        "exact": "a map with these members and no others, all the way down",
        "is": "this value, in which nothing is read as a pattern",
        "verbatim": "this text to the letter: capitals and spaces count",
        "any": "anything at all, as long as it is there",
        "type": "a text, number, integer, boolean, list, map or null",
        "len": "how many characters, items or members, itself a pattern",
        "between": "a number or a time from the first to the second; null removes that bound",
        "one-of": "one of these patterns",
        "not": "not this pattern",
        "contains": "a text with this in it, or a list with such an item; of a list of patterns, all of them",
        "set": "a list of these items in any order, however often each",
        "same-instant": "the same moment, in whatever time zone it is written",
    }
)
"""The matchers. A map with several has a value that fits them all."""


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
    """Return the expression between the slashes of `/…/`, None for any other value."""
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
    """Why `value` does not fit: the first place and reason; empty if it fits. Raises BadPattern."""
    return _OPEN.mismatch(pattern, value)


def compile_regex(expression: str) -> LinearRegex:
    """The expression of `/…/` made ready; capitals and small letters are the same to it. Raises BadPattern."""
    try:
        return compile_linear_regex(f"(?i){expression}")
    except UnsupportedRegex as error:
        raise BadPattern(f"/{expression}/: {error}") from None


def is_matcher(pattern: JsonObject) -> bool:
    """Whether the names of a map are matchers; else they are members."""
    return _OPEN.is_word_map(pattern)


def _subset(wanted: Json, value: Json, at: str) -> str:
    if isinstance(wanted, dict):
        return structure_mismatch(wanted, value, at, _OPEN.mismatch)
    return _plain(wanted, value, at)


def _exact(wanted: Json, value: Json, at: str) -> str:
    if isinstance(wanted, dict):
        return structure_mismatch(wanted, value, at, _EXACT.mismatch, is_exact=True)
    return _EXACT.mismatch(wanted, value, at)


def _plain(wanted: Json, value: Json, at: str) -> str:
    return _OPEN.mismatch(wanted, value, at)


def _is(wanted: Json, value: Json, at: str) -> str:
    return "" if values_equal(wanted, value) else not_like(value, at, excerpt(wanted))


def _verbatim(wanted: Json, value: Json, at: str) -> str:
    return "" if value == wanted else not_like(value, at, f"{excerpt(wanted)} to the letter")


def _any(_wanted: Json, _value: Json, _at: str) -> str:
    return ""


def _type(wanted: Json, value: Json, at: str) -> str:
    is_of = TYPES[JSON_TYPES.get(wanted, wanted)]
    return "" if is_of(value) else f"{place(at)} is {_article(_kind(value))}, not {_article(str(wanted))}"


def _article(kind: str) -> str:
    return kind if kind == "null" else f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def _len(wanted: Json, value: Json, at: str) -> str:
    if not isinstance(value, str | list | dict):
        return not_like(value, at, "a text, a list or a map")
    words = find_mismatch(wanted, len(value))
    return f"the length of {place(at)} does not fit: {words.removeprefix('it ')}" if words else ""


def _between(wanted: Json, value: Json, at: str) -> str:
    low, high = (sort_value(bound) for bound in wanted)
    found = sort_value(value)
    bounds = [bound for bound in (low, high) if bound is not None]
    if found is None or any(order_scale(bound) != order_scale(found) for bound in bounds):
        return not_like(value, at, "a time" if any(isinstance(bound, date) for bound in bounds) else "a number")
    if (low is None or low <= found) and (high is None or found <= high):
        return ""
    return f"{place(at)} is {excerpt(value)}, not between {excerpt(wanted[0])} and {excerpt(wanted[1])}"


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
    return found[0] if len(found) == 1 else f"{place(at)} is {excerpt(value)}, not one of {excerpt(wanted)}"


def _unlike(wanted: Json, value: Json, at: str) -> str:
    return "" if _plain(wanted, value, at) else f"{place(at)} is {excerpt(value)}, which it must not be"


def _contains(wanted: Json, value: Json, at: str) -> str:
    found = (_has(one, value, at) for one in (wanted if isinstance(wanted, list) else [wanted]))
    return next((words for words in found if words), "")


def _has(wanted: Json, value: Json, at: str) -> str:
    if isinstance(value, list):
        is_there = any(not _plain(wanted, one, at) for one in value)
        return "" if is_there else f"{place(at)} has no item like {excerpt(wanted)}"
    if not isinstance(value, str):
        return not_like(value, at, "a text or a list")
    if not isinstance(wanted, str) or regex_source(wanted) is not None:
        return _plain(wanted, value, at)
    return (
        ""
        if fold_text(wanted) in fold_text(value)
        else f"{place(at)} does not contain {excerpt(wanted)}: {excerpt(value)}"
    )


def _set(wanted: Json, value: Json, at: str) -> str:
    if not isinstance(value, list):
        return not_like(value, at, "a list")
    if len(value) > limits.MATCHED_ITEMS_MAX:
        return f"{place(at)} has {len(value):,} items, more than are looked at"
    items = _distinct(value)
    fitting = [[n for n, one in enumerate(items) if not _plain(pattern, one, at)] for pattern in wanted]
    taken = match_pairs(fitting)
    lacking = next((n for n in range(len(wanted)) if n not in taken.values()), None)
    if lacking is not None:
        return f"{place(at)} lacks {excerpt(wanted[lacking])}"
    more = next((one for n, one in enumerate(items) if n not in taken), None)
    return "" if len(taken) == len(items) else f"{place(at)} has {excerpt(more)} as well"


def _distinct(items: Sequence[Json]) -> list[Json]:
    out: list[Json] = []
    for item in items:
        if not any(values_equal(item, other) for other in out):
            out.append(item)
    return out


def _same_instant(wanted: Json, value: Json, at: str) -> str:
    moment, found = parse_instant(wanted), parse_instant(value)
    if found is None or moment is None:
        return not_like(value, at, "a time")
    if order_scale(moment) != order_scale(found):
        return f"{place(at)} is {excerpt(value)}, {_lacks(found)}, and {excerpt(wanted)} is not like that"
    return "" if moment == found else f"{place(at)} is {excerpt(value)}, not {excerpt(wanted)}"


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


def _literal(pattern: Json, value: Json, at: str, *, is_exact: bool) -> str:
    """A pattern that is not a map of matchers: members, items, a regular expression or the value itself."""
    if isinstance(pattern, dict | list):
        inner = _EXACT if is_exact else _OPEN
        return structure_mismatch(pattern, value, at, inner.mismatch, is_exact=is_exact)
    expression = regex_source(pattern)
    if expression is None:
        return "" if values_equal(pattern, value) else not_like(value, at, excerpt(pattern))
    if not isinstance(value, str):
        return not_like(value, at, "a text")
    if compile_regex(expression).found_in(_compatible(value)):
        return ""
    return f"{place(at)} does not match {pattern}: {excerpt(value)}"


_OPEN: Final = Vocabulary(_BY_WORD, partial(_literal, is_exact=False))
_EXACT: Final = Vocabulary(_BY_WORD, partial(_literal, is_exact=True))
"""The same inside `exact`, where maps have no other members."""


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
        yield ValueProblem((*at, name), "P0201", f"unknown matcher `{name}`", hint, is_key=True)


def _word_faults(word: str, item: Json, at: ValuePath) -> Iterator[ValueProblem]:
    member = f"for a member of that name write `{{subset: {{{word}: …}}}}`"
    match word:
        case "subset" if not isinstance(item, dict):
            yield ValueProblem(at, "P0202", f"`subset` is a map, not {excerpt(item)}", "as in `{subset: {ok: true}}`")
        case "subset" | "exact" if isinstance(item, dict):
            yield from _member_faults(item, at)
        case "any" if item is not True:
            yield ValueProblem(at, "P0212", f"`any` cannot be {excerpt(item)}", f"write `any: true`; {member}")
        case "type" if not isinstance(item, str) or JSON_TYPES.get(item, item) not in TYPES:
            yield ValueProblem(at, "P0212", f"unknown type {excerpt(item)}", f"one of {', '.join(TYPES)}; {member}")
        case "between":
            yield from _between_faults(item, at)
        case "one-of" | "set" if not isinstance(item, list) or (word == "one-of" and not item):
            yield ValueProblem(at, "P0202", f"`{word}` is a list, not {excerpt(item)}", f"as in `{{{word}: [1, 2]}}`")
        case "same-instant" if parse_instant(item) is None:
            hint = "as in `2030-01-02T15:00Z`, or a day: `2030-01-02`"
            yield ValueProblem(at, "P0223", f"{excerpt(item)} is not a time", hint)
        case "verbatim" if not isinstance(item, str):
            yield ValueProblem(
                at, "P0202", f"`verbatim` is a text, not {excerpt(item)}", f'write `verbatim: "1"`; {member}'
            )
        case "is" | "any" | "type" | "same-instant" | "verbatim":
            pass
        case _:
            yield from pattern_problems(item, at)


def _between_faults(item: Json, at: ValuePath) -> Iterator[ValueProblem]:
    hint = "give two numbers or two times, null for an open end: `between: [1, 5]`"
    if not isinstance(item, list) or len(item) != 2:
        yield ValueProblem(at, "P0202", f"`between` cannot be {excerpt(item)}", hint)
        return
    bounds = [sort_value(bound) for bound in item if bound is not None]
    if not bounds or None in bounds or len({order_scale(bound) for bound in bounds}) > 1:
        yield ValueProblem(at, "P0212", f"`between` cannot be {excerpt(item)}", hint)
    elif len(bounds) == 2 and bounds[0] > bounds[1]:
        yield ValueProblem(
            at, "P0212", f"nothing is between {excerpt(item[0])} and {excerpt(item[1])}", "the lower one first"
        )
