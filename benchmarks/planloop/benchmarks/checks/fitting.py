"""Arguments against matchers (`planloop.schemas.matchers`), one by one, so that it can be said which of them is
wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from planloop.schemas import matcher_faults, matchers
from planloop.schemas.encoding import Json
from planloop.schemas.fault_at import FaultAt, Place


def fault(matcher: Json, value: Json) -> str:
    """Why `value` does not match, in words; empty where it does."""
    return matchers.matches(matcher, value)


def faults(given: Mapping[str, Json], wanted: Mapping[str, Json], *, is_exact: bool = False) -> dict[str, str]:
    """What is wrong by argument: all that is wanted must be there, and match; `is_exact` all the way down."""
    words = {
        name: _fault(matcher, given[name], is_exact=is_exact) if name in given else "is missing"
        for name, matcher in wanted.items()
    }
    return {name: why for name, why in words.items() if why}


def _fault(matcher: Json, value: Json, *, is_exact: bool) -> str:
    kind = "exact" if is_exact else "subset"
    return fault({kind: {"": matcher}}, {"": value}).removeprefix("/").strip()


def unusable(matcher: Json, at: Place) -> Iterator[FaultAt]:
    """What keeps a matcher that is written at `at` from being asked."""
    return matcher_faults.faults_of(matcher, at)
