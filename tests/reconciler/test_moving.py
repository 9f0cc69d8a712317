"""Documents whose tasks are given new names before a file is merged into them."""

from __future__ import annotations

import pytest

from planloop.reconciler.diff.file_patch import move_tasks
from tests.product import JsonObject

LIVE: JsonObject = {
    "tasks": {
        "a": {"goal": "a", "tasks": {"x": {"goal": "by an agent"}, "y": {"needs": ["x", "a/x"]}}},
        "b": {"needs": ["a", "a/x", "ab"]},
        "ab": {"tasks": {"a": {}, "c": {"needs": ["a"]}}},
    }
}


@pytest.mark.parametrize(
    ("moves", "expected"),
    [
        (
            {"task/a": "task/n"},
            {
                "n": {"goal": "a", "tasks": {"x": {"goal": "by an agent"}, "y": {"needs": ["x", "n/x"]}}},
                "b": {"needs": ["n", "n/x", "ab"]},
                "ab": LIVE["tasks"]["ab"],
            },
        ),
        (
            {"task/a": "task/new/n", "task/a/x": "task/x"},
            {
                "new": {"tasks": {"n": {"goal": "a", "tasks": {"y": {"needs": ["x", "x"]}}}}},
                "x": {"goal": "by an agent"},
                "b": {"needs": ["new/n", "x", "ab"]},
                "ab": LIVE["tasks"]["ab"],
            },
        ),
        ({"task/a": "task/b"}, LIVE["tasks"]),
        ({"task/gone": "task/n"}, LIVE["tasks"]),
    ],
    ids=["with what is below it", "and a child elsewhere", "not onto another", "nor what is not there"],
)
def test_moved_tasks_take_all_references_to_them_along(moves: dict[str, str], expected: JsonObject) -> None:
    assert move_tasks(LIVE, moves) == {"tasks": expected}
