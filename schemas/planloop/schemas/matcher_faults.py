"""What is wrong with a pattern of `matchers.py`, and its cure: every fault in one pass, before it is ever asked."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Final

from planloop.schemas.encoding import Json, JsonObject, encode_text
from planloop.schemas.fault_at import FaultAt, Place
from planloop.schemas.matchers import (
    JSON_TYPES,
    TYPES,
    WORDS,
    BadPattern,
    compiled,
    expression_in,
    instant,
    is_matcher,
    scale,
    shown,
    sortable,
)

_NEAR: Final = 0.8
_SLIP_CHARS: Final = 5  # A shorter word is near to too many names of members.


def faults_of(pattern: Json, at: Place = ()) -> Iterator[FaultAt]:
    """Everything that is wrong with a pattern that is written at `at`. If that is nothing, `matches` does not raise."""
    if isinstance(pattern, str):
        yield from _expression_faults(pattern, at)
    elif isinstance(pattern, list):
        for index, item in enumerate(pattern):
            yield from faults_of(item, (*at, str(index)))
    elif isinstance(pattern, dict) and is_matcher(pattern):
        for word, item in pattern.items():
            yield from _word_faults(word, item, (*at, word))
    elif isinstance(pattern, dict):
        yield from _slips(pattern, at)
        yield from _member_faults(pattern, at)


def _expression_faults(pattern: str, at: Place) -> Iterator[FaultAt]:
    expression = expression_in(pattern)
    try:
        if expression is not None:
            compiled(expression)
    except BadPattern as error:
        yield FaultAt(at, "P0223", str(error), f"for the text itself write `{{is: {encode_text(pattern)}}}`")


def _member_faults(members: JsonObject, at: Place) -> Iterator[FaultAt]:
    for name, item in members.items():
        yield from faults_of(item, (*at, name))


def _slips(members: JsonObject, at: Place) -> Iterator[FaultAt]:
    """A map of one member that is nearly a matcher would be taken for a member that is never there."""
    name = next(iter(members), "")
    meant = get_close_matches(
        name.replace("_", "-"), [word for word in WORDS if len(word) >= _SLIP_CHARS], n=1, cutoff=_NEAR
    )
    if len(members) == 1 and meant:
        hint = f"did you mean `{meant[0]}`? For a member of that name write `{{subset: {{{name}: …}}}}`"
        yield FaultAt((*at, name), "P0201", f"there is no matcher `{name}`", hint, is_key=True)


def _word_faults(word: str, item: Json, at: Place) -> Iterator[FaultAt]:
    member = f"for a member of that name write `{{subset: {{{word}: …}}}}`"
    match word:
        case "subset" if not isinstance(item, dict):
            yield FaultAt(at, "P0202", f"`subset` is a map, not {shown(item)}", "as in `{subset: {ok: true}}`")
        case "subset" | "exact" if isinstance(item, dict):
            yield from _member_faults(item, at)
        case "any" if item is not True:
            yield FaultAt(at, "P0212", f"`any` cannot be {shown(item)}", f"write `any: true`; {member}")
        case "type" if not isinstance(item, str) or JSON_TYPES.get(item, item) not in TYPES:
            yield FaultAt(at, "P0212", f"there is no type {shown(item)}", f"one of {', '.join(TYPES)}; {member}")
        case "between":
            yield from _between_faults(item, at)
        case "one-of" | "set" if not isinstance(item, list) or (word == "one-of" and not item):
            yield FaultAt(at, "P0202", f"`{word}` is a list, not {shown(item)}", f"as in `{{{word}: [1, 2]}}`")
        case "same-instant" if instant(item) is None:
            hint = "as in `2030-01-02T15:00Z`, or a day: `2030-01-02`"
            yield FaultAt(at, "P0223", f"{shown(item)} is no time", hint)
        case "verbatim" if not isinstance(item, str):
            yield FaultAt(at, "P0202", f"`verbatim` is a text, not {shown(item)}", f'write `verbatim: "1"`; {member}')
        case "is" | "any" | "type" | "same-instant" | "verbatim":
            pass
        case _:
            yield from faults_of(item, at)


def _between_faults(item: Json, at: Place) -> Iterator[FaultAt]:
    hint = "two numbers or two times, and null where there is no bound: `between: [1, 5]`"
    if not isinstance(item, list) or len(item) != 2:
        yield FaultAt(at, "P0202", f"`between` cannot be {shown(item)}", hint)
        return
    bounds = [sortable(bound) for bound in item if bound is not None]
    if not bounds or None in bounds or len({scale(bound) for bound in bounds}) > 1:
        yield FaultAt(at, "P0212", f"`between` cannot be {shown(item)}", hint)
    elif len(bounds) == 2 and bounds[0] > bounds[1]:
        yield FaultAt(at, "P0212", f"nothing is between {shown(item[0])} and {shown(item[1])}", "the lower one first")
