"""Patterns for JSON values and texts, as checks write them: `{subset: {id: 5, name: /ada/}}`.

A text, number, truth value or null is itself; `/…/` is a regular expression; a list is its items, one by one; a map
whose names are all in `WORDS` is a matcher, any other has members that must be there, where more may be. Directly under
`subset` and `exact` all names are members, whatever they are called.

    matches(pattern, value)   empty when it fits, else why not, in words
    equal(one, other)         whether two values are the same to a literal

What is wrong with a pattern is told by `matcher_faults.py`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from types import MappingProxyType
from typing import Final

from planloop.schemas import limits
from planloop.schemas.encoding import Json, JsonObject, encode_text
from planloop.schemas.pairing import paired
from planloop.schemas.regular import NotRegular, Regular, regular

WORDS: Final[Mapping[str, str]] = MappingProxyType(
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
    """The pattern cannot be asked; `faults_of` says where and why. Nothing fits it, nor fails to."""


def fold(text: str) -> str:
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


def expression_in(pattern: Json) -> str | None:
    """What stands between the strokes of `/…/`; None when that is not what it is."""
    is_one = isinstance(pattern, str) and len(pattern) > 2 and pattern[0] == pattern[-1] == "/"
    return pattern[1:-1] if is_one else None


def instant(text: Json) -> datetime | date | None:
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


def equal(one: Json, other: Json) -> bool:
    """Whether two values are the same: numbers by value, texts after `fold`, whole moments in whatever zone."""
    if isinstance(one, str) and isinstance(other, str):
        return one == other or fold(one) == fold(other) or _is_same_moment(one, other)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(item, other[name]) for name, item in one.items())
    return _kind(one) == _kind(other) and bool(one == other)


def _is_same_moment(one: str, other: str) -> bool:
    if _MOMENT.fullmatch(one.strip()) is None or _MOMENT.fullmatch(other.strip()) is None:
        return False
    moment = instant(one)
    return moment is not None and moment == instant(other)


def _kind(value: Json) -> str:
    return "number" if is_number(value) else next(name for name, is_of in TYPES.items() if is_of(value))


def matches(pattern: Json, value: Json) -> str:
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
    expression = expression_in(pattern)
    if expression is None:
        return "" if equal(pattern, value) else _not(value, at, shown(pattern))
    if not isinstance(value, str):
        return _not(value, at, "a text")
    return (
        ""
        if compiled(expression).found_in(_compatible(value))
        else f"{_where(at)} does not match {pattern}: {shown(value)}"
    )


def compiled(expression: str) -> Regular:
    """The expression of `/…/` made ready; capitals and small letters are the same to it. Raises BadPattern."""
    try:
        return regular(f"(?i){expression}")
    except NotRegular as error:
        raise BadPattern(f"/{expression}/: {error}") from None


def is_matcher(pattern: JsonObject) -> bool:
    """Whether the names of a map are matchers; else they are members."""
    return bool(pattern) and pattern.keys() <= WORDS.keys()


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
    return "" if equal(wanted, value) else _not(value, at, shown(wanted))


def _verbatim(wanted: Json, value: Json, at: str) -> str:
    return "" if value == wanted else _not(value, at, f"{shown(wanted)} to the letter")


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
    words = matches(wanted, len(value))
    return f"the length of {_where(at)} does not fit: {words.removeprefix('it ')}" if words else ""


def _between(wanted: Json, value: Json, at: str) -> str:
    low, high = (sortable(bound) for bound in wanted)
    found = sortable(value)
    bounds = [bound for bound in (low, high) if bound is not None]
    if found is None or any(scale(bound) != scale(found) for bound in bounds):
        return _not(value, at, "a time" if any(isinstance(bound, date) for bound in bounds) else "a number")
    if (low is None or low <= found) and (high is None or found <= high):
        return ""
    return f"{_where(at)} is {shown(value)}, not between {shown(wanted[0])} and {shown(wanted[1])}"


def sortable(value: Json) -> Json:
    """A number, or the time that a text names; None for what has no order."""
    return value if is_number(value) else instant(value)


def scale(value: Json) -> str:
    """What is sortable among itself: numbers, days, and moments with and without a zone."""
    if isinstance(value, datetime):
        return "local" if value.tzinfo is None else "moment"
    return "day" if isinstance(value, date) else "number"


def _one_of(wanted: Json, value: Json, at: str) -> str:
    found = [_plain(one, value, at) for one in wanted]
    if "" in found:
        return ""
    return found[0] if len(found) == 1 else f"{_where(at)} is {shown(value)}, which is none of {shown(wanted)}"


def _unlike(wanted: Json, value: Json, at: str) -> str:
    return "" if _plain(wanted, value, at) else f"{_where(at)} is {shown(value)}, which it must not be"


def _contains(wanted: Json, value: Json, at: str) -> str:
    found = (_has(one, value, at) for one in (wanted if isinstance(wanted, list) else [wanted]))
    return next((words for words in found if words), "")


def _has(wanted: Json, value: Json, at: str) -> str:
    if isinstance(value, list):
        is_there = any(not _plain(wanted, one, at) for one in value)
        return "" if is_there else f"{_where(at)} has no item like {shown(wanted)}"
    if not isinstance(value, str):
        return _not(value, at, "a text or a list")
    if not isinstance(wanted, str) or expression_in(wanted) is not None:
        return _plain(wanted, value, at)
    return "" if fold(wanted) in fold(value) else f"{_where(at)} does not contain {shown(wanted)}: {shown(value)}"


def _set(wanted: Json, value: Json, at: str) -> str:
    if not isinstance(value, list):
        return _not(value, at, "a list")
    if len(value) > limits.MATCHED_ITEMS_MAX:
        return f"{_where(at)} has {len(value):,} items, more than are looked at"
    items = _distinct(value)
    fitting = [[n for n, one in enumerate(items) if not _plain(pattern, one, at)] for pattern in wanted]
    taken = paired(fitting)
    lacking = next((n for n in range(len(wanted)) if n not in taken.values()), None)
    if lacking is not None:
        return f"{_where(at)} lacks {shown(wanted[lacking])}"
    more = next((one for n, one in enumerate(items) if n not in taken), None)
    return "" if len(taken) == len(items) else f"{_where(at)} has {shown(more)} as well"


def _distinct(items: Sequence[Json]) -> list[Json]:
    out: list[Json] = []
    for item in items:
        if not any(equal(item, other) for other in out):
            out.append(item)
    return out


def _same_instant(wanted: Json, value: Json, at: str) -> str:
    moment, found = instant(wanted), instant(value)
    if found is None or moment is None:
        return _not(value, at, "a time")
    if scale(moment) != scale(found):
        return f"{_where(at)} is {shown(value)}, {_lacks(found)}, and {shown(wanted)} is not like that"
    return "" if moment == found else f"{_where(at)} is {shown(value)}, not {shown(wanted)}"


def _lacks(moment: datetime | date) -> str:
    match scale(moment):
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
    return f"{_where(at)} is {shown(value)}, not {wanted}"


def shown(value: Json) -> str:
    """A value in a sentence, which is JSON up to where it gets too long."""
    text = encode_text(value)
    return text if len(text) <= limits.VALUE_SHOWN_CHARS else f"{text[: limits.VALUE_SHOWN_CHARS - 1]}…"
