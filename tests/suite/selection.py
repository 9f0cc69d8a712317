"""Which of the collected tests run in a set.

*quick*: the tests without a mark of MARKS. *change*: those, and one parameter of each marked function (or as many
as its mark says with `keep=N`), except those of NIGHTLY. If the change does not touch the sources of a group, only the
`smoke` tests of that group run. *nightly*: all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import pytest

from tests import sets
from tests.suite.changes import GROUPS

MARKS: Final = ("process", "browser", "engine", "network", "model", "sweep")
NIGHTLY: Final = frozenset({"network", "model"})
"""Marks of tests that only nightly runs."""


def marks(item: pytest.Item) -> frozenset[str]:
    """The reasons why `item` is not in the quick set."""
    return frozenset(mark.name for mark in item.iter_markers()).intersection(MARKS)


def function_of(nodeid: str) -> str:
    """The node id without parameters: `tests/test_a.py::test_b[1]` → `tests/test_a.py::test_b`."""
    return nodeid.partition("[")[0]


def select(items: Sequence[pytest.Item], touched: Iterable[str]) -> list[pytest.Item]:
    """Return the items of the set that `sets.name()` names, in their order."""
    if sets.is_nightly():
        return list(items)
    if sets.name() == "quick":
        return [item for item in items if not marks(item)]
    return _thinned([item for item in items if _is_in_change(item, frozenset(touched))])


def _is_in_change(item: pytest.Item, touched: frozenset[str]) -> bool:
    if marks(item) & NIGHTLY:
        return False
    group = next((group for group in GROUPS if group.has(item.nodeid)), None)
    is_untouched = group is not None and group.name not in touched
    return not (is_untouched and marks(item)) or item.get_closest_marker("smoke") is not None


def _thinned(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Of each marked function, keep as many parameters as its marks say, evenly spaced, rotating by commit."""
    functions: dict[str, list[pytest.Item]] = {}
    for item in items:
        if marks(item):
            functions.setdefault(function_of(item.nodeid), []).append(item)
    dropped: set[pytest.Item] = set()
    for function, found in functions.items():
        dropped |= {*found}.difference(sets.points(found, _kept(found[0]), function))
    return [item for item in items if item not in dropped]


def _kept(item: pytest.Item) -> int:
    return max(int(mark.kwargs.get("keep", 1)) for mark in item.iter_markers() if mark.name in MARKS)
