"""Who gets which lock, as values."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controllers.lock.deciding import allotted, overlap
from controllers.lock.observing import Holder, Lock, Observed, Wisher
from schemas.resource import Resource, Uid

NOW = 100.0


def lock(path: str, holder: str | None = None, **waiters: float) -> Lock:
    resource = Resource(f"lock/{path}", Uid(path), 1, {"path": path}, {})
    held = None if holder is None else Holder(f"task/{holder}", f"uid-{holder}", 1, 1.0, 3)
    return Lock(resource, path, held, {f"task/{name}": since for name, since in waiters.items()}, 3)


def wisher(name: str, *paths: str, is_waiting: bool = True, priority: int = 0, is_over: bool = False) -> Wisher:
    return Wisher(f"task/{name}", f"uid-{name}", 1, paths, priority, is_waiting, is_over)


def holders(locks: list[Lock], *tasks: Wisher) -> dict[str, str]:
    seen = Observed({each.path: each for each in locks}, {task.address: task for task in tasks}, NOW)
    return {path: "" if each.holder is None else each.holder.task[5:] for path, each in allotted(seen).items()}


def test_a_free_lock_goes_to_whoever_waits_and_its_fence_rises() -> None:
    seen = Observed({"x": lock("x")}, {"task/a": wisher("a", "x")}, NOW)
    assert allotted(seen)["x"].holder == Holder("task/a", "uid-a", 2, NOW, 4)


def test_all_or_none_are_granted() -> None:
    busy = wisher("b", "y", is_waiting=False)
    assert holders([lock("x"), lock("y", "b")], wisher("a", "x", "y"), busy) == {"x": "", "y": "b"}


def test_crossing_wishes_cannot_deadlock() -> None:
    found = holders([lock("x"), lock("y")], wisher("a", "x", "y"), wisher("b", "y", "x"))
    assert found == {"x": "a", "y": "a"}


def test_first_come_first_served_and_priority_before_that() -> None:
    first = lock("x", None, b=1.0, a=2.0)
    assert holders([first], wisher("a", "x"), wisher("b", "x")) == {"x": "b"}
    assert holders([first], wisher("a", "x", priority=5), wisher("b", "x")) == {"x": "a"}


def test_who_waits_is_not_overtaken_on_what_it_waits_for() -> None:
    locks = [lock("x", None, a=1.0, b=2.0), lock("y", "c", a=1.0)]
    found = holders(locks, wisher("a", "x", "y"), wisher("b", "x"), wisher("c", "y", is_waiting=False))
    assert found == {"x": "", "y": "c"}


def test_overlapping_globs_exclude_each_other() -> None:
    found = holders(
        [lock("src/**", "a"), lock("src/App.tsx")], wisher("a", "src/**", is_waiting=False), wisher("b", "src/App.tsx")
    )
    assert found["src/App.tsx"] == ""


@pytest.mark.parametrize(
    "task",
    [
        wisher("a", "x", is_waiting=False, is_over=True),
        wisher("a", is_waiting=False),
        replace(wisher("a", "x"), uid="other", is_waiting=False),
    ],
)
def test_an_ended_replaced_or_unwilling_holder_lets_go(task: Wisher) -> None:
    assert holders([lock("x", "a")], task) == {"x": ""}


def test_a_holder_that_is_gone_lets_go_to_the_next() -> None:
    assert holders([lock("x", "gone")], wisher("b", "x")) == {"x": "b"}


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("a", "a", True),
        ("a", "b", False),
        ("a/**", "a/b/c", True),
        ("a", "a/b", True),
        ("a/*.py", "a/*.js", True),
        ("a/x/**", "a/y/**", False),
        ("**", "anything", True),
    ],
)
def test_overlap_errs_on_the_side_of_yes(one: str, other: str, expected: bool) -> None:
    assert overlap(one, other) is expected and overlap(other, one) is expected
