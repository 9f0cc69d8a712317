from __future__ import annotations

from planloop.reconciler.admitting import ownership
from planloop.reconciler.admitting.ownership import Stamp
from planloop.schemas import patching
from tests.product import HUMAN_FILE, Author, JsonObject
from tests.reconciler.plans import agent, op

UI = agent("ui")


def stamped(tree: JsonObject, rev: int, author: Author, *paths: str) -> JsonObject:
    ops = [op("add", path) for path in paths]
    merged: JsonObject = patching.merge(tree, ownership.stamping(tree, ops, Stamp(rev, author)))
    return merged


def test_a_stamp_stands_for_everything_below_it() -> None:
    tree = stamped({}, 1, HUMAN_FILE, "/tasks")
    assert ownership.last_change(tree, ("tasks", "a", "goal")) == Stamp(1, HUMAN_FILE)
    assert ownership.last_change(tree, ("goal",)) is None


def test_a_later_stamp_below_wins_for_its_path_alone() -> None:
    tree = stamped(stamped({}, 1, HUMAN_FILE, "/tasks"), 2, UI, "/tasks/a/goal")
    assert ownership.last_change(tree, ("tasks", "a", "goal")) == Stamp(2, UI)
    assert ownership.last_change(tree, ("tasks", "a", "notes")) == Stamp(1, HUMAN_FILE)


def test_a_later_stamp_above_takes_the_place_of_those_below() -> None:
    tree = stamped(stamped({}, 2, UI, "/tasks/a/goal"), 3, HUMAN_FILE, "/tasks/a")
    assert ownership.last_change(tree, ("tasks", "a", "goal")) == Stamp(3, HUMAN_FILE)
    assert tree == {"/tasks": {"/a": {"@": [3, "human:file"]}}}


def test_changes_at_above_and_below_count_as_changes_of_a_path() -> None:
    tree = stamped(stamped({}, 1, HUMAN_FILE, "/tasks/a"), 5, UI, "/tasks/a/tasks/x")
    assert ownership.changes_since(tree, ("tasks", "a"), 0) == [Stamp(5, UI), Stamp(1, HUMAN_FILE)]
    assert ownership.changes_since(tree, ("tasks", "a"), 4) == [Stamp(5, UI)]
    assert ownership.changes_since(tree, ("tasks", "a", "goal"), 1) == []


def test_ids_that_come_and_go_leave_nothing_behind() -> None:
    tree = stamped({}, 1, HUMAN_FILE, "/tasks")
    for rev in range(2, 20):
        tree = stamped(tree, rev, UI, f"/tasks/n{rev}")
        removal = ownership.stamping(tree, [op("remove", f"/tasks/n{rev}")], Stamp(rev, UI))
        tree = patching.merge(tree, removal)
    assert tree == stamped({}, 1, HUMAN_FILE, "/tasks")


def test_an_id_that_looks_like_a_stamp_is_an_id() -> None:
    tree = stamped({}, 1, UI, "/tasks/@")
    assert ownership.last_change(tree, ("tasks", "@")) == Stamp(1, UI)
    assert ownership.last_change(tree, ("tasks",)) is None
