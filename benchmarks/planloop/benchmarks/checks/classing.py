"""Every call of an agent gets exactly one class. Which of them may be is for `calls.py` to say, not for this.

A call is looked at in the order of the classes below; the first that fits is its class. What failed was still the
right thing to try when a need asks for it and nothing had served that need: such a call is right, but serves no need.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from planloop.benchmarks.checks import assigning, fitting
from planloop.benchmarks.checks.contract import Emitted, Evidence
from planloop.benchmarks.checks.rules import Need, Rules
from planloop.schemas.frozen import frozen
from planloop.schemas.tools import CORE_TOOLS


class CallClass(StrEnum):
    """What became of one call, in the order of being looked at."""

    MALFORMED = "malformed"  # Nobody could read it.
    INVENTED = "invented"  # There is no such tool.
    RIGHT = "right"  # It serves a need, or tried to.
    DUPLICATE = "duplicate"  # It does once more what a right call did.
    FREE = "free"  # The check says that it may be made at any time, or the tool is one that every agent has.
    DECOY = "decoy"
    ARGS_WRONG = "right-args-wrong"  # The tool is needed, with other arguments.
    WRONG_TOOL = "wrong-known-tool"  # It was offered, is no decoy, and is not needed.


@frozen
class Classed:
    """All calls of an attempt with their classes, and the call (its place) that serves each need, None for none.

    `in_order` is whether the calls that serve came as the check wants them; True where some need is not served at all.
    """

    classes: tuple[CallClass, ...]
    serving: tuple[int | None, ...]
    in_order: bool


def classed(rules: Rules, seen: Evidence) -> Classed:
    """The classes of all calls in `seen`. Raises `assigning.TooManyWays`."""
    fits = [
        [
            place
            for place, call in enumerate(seen.calls)
            if serves(call, need) and (need.is_tried or not call.has_failed)
        ]
        for need in rules.needs
    ]
    unordered = assigning.matched(fits)
    serving: Sequence[int | None] | None = unordered
    if None not in unordered and rules.order != "any":
        is_row = rules.order == "exact"
        after = assigning.in_row(len(fits)) if is_row else [need.after for need in rules.needs]
        serving = assigning.ordered(fits, after)
    held = tuple(unordered if serving is None else serving)
    classes = tuple(_class(place, rules, seen, held) for place in range(len(seen.calls)))
    return Classed(classes, held, in_order=serving is not None)


def serves(call: Emitted, need: Need) -> bool:
    """Whether `call` is what `need` asks for, whatever came of it. One that nobody could read never is."""
    return not call.fault and call.tool in need.tools and not wrong_arguments(call, need)


def is_everybodys(call: Emitted, seen: Evidence) -> bool:
    """Whether the tool is one that every agent has and is shown, and that the case says nothing of: no act in it."""
    return call.tool in CORE_TOOLS and call.tool not in seen.offered


def wrong_arguments(call: Emitted, need: Need) -> Mapping[str, str]:
    """What is wrong with each argument of a call, for the need: one that is missing, does not match, or is too many.

    Null stands for nothing: some models write it for every argument that they leave out.
    """
    given = {name: value for name, value in call.arguments.items() if value is not None or name in need.args}
    known = {**need.args, **{name: matcher for name, matcher in need.may.items() if name in given}}
    wrong = fitting.faults(given, known, is_exact=need.is_exact)
    if need.is_exact:
        wrong |= {name: "is not asked for" for name in given if name not in known}
    return wrong


def _class(place: int, rules: Rules, seen: Evidence, serving: Sequence[int | None]) -> CallClass:
    call = seen.calls[place]
    wanted = [(serving[at], need) for at, need in enumerate(rules.needs)]
    known = seen.offered.union(*(need.tools for need in rules.needs))
    if call.fault:
        return CallClass.MALFORMED
    if call.tool not in known:
        return CallClass.FREE if is_everybodys(call, seen) else CallClass.INVENTED
    if asked := [at for at, need in wanted if serves(call, need)]:
        is_try = call.has_failed and any(at is None or place < at for at in asked)
        return CallClass.RIGHT if place in asked or is_try else CallClass.DUPLICATE
    if any(shape.covers(call, seen) for shape in rules.free):
        return CallClass.FREE
    if call.tool in seen.decoys:
        return CallClass.DECOY
    if any(call.tool in need.tools for _, need in wanted):
        return CallClass.ARGS_WRONG
    return CallClass.WRONG_TOOL
