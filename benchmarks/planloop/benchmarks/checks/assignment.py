"""Assign calls to needs: a matching in which no call serves two needs, and arguments against matchers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from planloop.schemas import limits
from planloop.schemas.canonical_json import Json
from planloop.schemas.checks import matchers
from planloop.schemas.checks.matchers import match_pairs
from planloop.schemas.diagnostic import ValuePath, ValueProblem

# Arguments against matchers (`planloop.schemas.checks.matchers`), one by one, so that it can be said which of them is
# wrong.


def argument_problem(matcher: Json, value: Json) -> str:
    """Why `value` does not match, in words; empty where it does."""
    return matchers.find_mismatch(matcher, value)


def argument_problems(
    given: Mapping[str, Json], wanted: Mapping[str, Json], *, is_exact: bool = False
) -> dict[str, str]:
    """What is wrong by argument: all that is wanted must be there, and match; `is_exact` all the way down."""
    words = {
        name: _missing_problem(matcher, given[name], is_exact=is_exact) if name in given else "is missing"
        for name, matcher in wanted.items()
    }
    return {name: why for name, why in words.items() if why}


def _missing_problem(matcher: Json, value: Json, *, is_exact: bool) -> str:
    kind = "exact" if is_exact else "subset"
    return argument_problem({kind: {"": matcher}}, {"": value}).removeprefix("/").strip()


def matcher_problem(matcher: Json, at: ValuePath) -> Iterator[ValueProblem]:
    """What keeps a matcher that is written at `at` from being asked."""
    return matchers.pattern_problems(matcher, at)


# Which call serves which need: two needs of one tool, in whatever order they were served, are no two chances to fail.
#
# Needs and calls are places in their lists. `matched` finds as many as can be served at all (Kuhn's augmenting paths);
# `ordered` serves all of them such that each comes after what it must come after, or tells that nothing does.

Fits: TypeAlias = Sequence[Sequence[int]]
"""For each need the calls that would serve it, first ones first."""


class TooManyWays(Exception):
    """There are more ways to serve the needs than anybody looks through."""


def assign_calls(fits: Fits) -> list[int | None]:
    """The call that serves each need, None for none: as many as can be, each call for one need only."""
    serving = {need: call for call, need in match_pairs(fits).items()}
    return [serving.get(need) for need in range(len(fits))]


def assign_in_order(fits: Fits, after: Sequence[frozenset[int]]) -> list[int] | None:
    """The call that serves each need, all of `after` served by earlier calls; None where that cannot be.

    `after` has no circles. Raises TooManyWays.
    """
    fits = _in_time(fits, after)
    chosen: dict[int, int] = {}
    left = limits.ASSIGNING_STEPS_MAX

    def choose() -> bool:
        nonlocal left
        left -= 1
        if left < 0:
            raise TooManyWays
        ready = [need for need in range(len(fits)) if need not in chosen and after[need] <= chosen.keys()]
        if not ready:
            return True
        if None in assign_calls(_open(fits, after, chosen)):
            return False
        need = min(ready, key=lambda one: len(fits[one]))
        for call in _open(fits, after, chosen)[need]:
            chosen[need] = call
            if choose():
                return True
            del chosen[need]
        return False

    return [chosen[need] for need in range(len(fits))] if choose() else None


def _in_time(fits: Fits, after: Sequence[frozenset[int]]) -> Fits:
    """The calls that are neither before the first that a need can follow, nor after the last that may follow it."""
    out = [list(calls) for calls in fits]
    rows = _sorted(after)
    for need in rows:
        first = max((min(out[other], default=0) for other in after[need]), default=-1)
        out[need] = [call for call in out[need] if call > first]
    for need in reversed(rows):
        last = max(out[need], default=0)
        for other in after[need]:
            out[other] = [call for call in out[other] if call < last]
    return out


def _sorted(after: Sequence[frozenset[int]]) -> list[int]:
    """All needs, each behind those that it comes after."""
    out: list[int] = []
    while ready := [need for need in range(len(after)) if need not in out and after[need] <= set(out)]:
        out += ready
    return out


def _open(fits: Fits, after: Sequence[frozenset[int]], chosen: dict[int, int]) -> Fits:
    """The calls that are still left for each need, once those in `chosen` are given away."""
    taken = set(chosen.values())
    return [
        [chosen[need]]
        if need in chosen
        else [
            call
            for call in calls
            if call not in taken and all(chosen[other] < call for other in after[need] if other in chosen)
        ]
        for need, calls in enumerate(fits)
    ]


def chain_order(count: int) -> list[frozenset[int]]:
    """The order in which each need comes after the one before it."""
    return [frozenset({need - 1} if need else ()) for need in range(count)]
