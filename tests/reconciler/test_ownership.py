from __future__ import annotations

from planloop.reconciler.admission import field_ownership
from planloop.reconciler.admission.field_ownership import FieldStamp
from planloop.schemas import json_patch
from tests.product import HUMAN_FILE, Author, JsonObject
from tests.reconciler.plans import agent, op

UI = agent("ui")


def stamped(tree: JsonObject, rev: int, author: Author, *paths: str) -> JsonObject:
    ops = [op("add", path) for path in paths]
    merged: JsonObject = json_patch.merge_values(tree, field_ownership.stamp_patch(tree, ops, FieldStamp(rev, author)))
    return merged


def test_stamp_covers_everything_below_it() -> None:
    tree = stamped({}, 1, HUMAN_FILE, "/tasks")
    assert field_ownership.last_change(tree, ("tasks", "a", "goal")) == FieldStamp(1, HUMAN_FILE)
    assert field_ownership.last_change(tree, ("goal",)) is None


def test_a_later_stamp_below_wins_for_its_path_alone() -> None:
    tree = stamped(stamped({}, 1, HUMAN_FILE, "/tasks"), 2, UI, "/tasks/a/goal")
    assert field_ownership.last_change(tree, ("tasks", "a", "goal")) == FieldStamp(2, UI)
    assert field_ownership.last_change(tree, ("tasks", "a", "notes")) == FieldStamp(1, HUMAN_FILE)


def test_a_later_stamp_above_takes_the_place_of_those_below() -> None:
    tree = stamped(stamped({}, 2, UI, "/tasks/a/goal"), 3, HUMAN_FILE, "/tasks/a")
    assert field_ownership.last_change(tree, ("tasks", "a", "goal")) == FieldStamp(3, HUMAN_FILE)
    assert tree == {"/tasks": {"/a": {"@": [3, "human:file"]}}}


def test_changes_at_above_and_below_count_as_changes_of_a_path() -> None:
    tree = stamped(stamped({}, 1, HUMAN_FILE, "/tasks/a"), 5, UI, "/tasks/a/tasks/x")
    assert field_ownership.changes_since(tree, ("tasks", "a"), 0) == [FieldStamp(5, UI), FieldStamp(1, HUMAN_FILE)]
    assert field_ownership.changes_since(tree, ("tasks", "a"), 4) == [FieldStamp(5, UI)]
    assert field_ownership.changes_since(tree, ("tasks", "a", "goal"), 1) == []


def test_created_and_removed_ids_leave_nothing_behind() -> None:
    tree = stamped({}, 1, HUMAN_FILE, "/tasks")
    for rev in range(2, 20):
        tree = stamped(tree, rev, UI, f"/tasks/n{rev}")
        removal = field_ownership.stamp_patch(tree, [op("remove", f"/tasks/n{rev}")], FieldStamp(rev, UI))
        tree = json_patch.merge_values(tree, removal)
    assert tree == stamped({}, 1, HUMAN_FILE, "/tasks")


def test_an_id_that_looks_like_a_stamp_is_an_id() -> None:
    tree = stamped({}, 1, UI, "/tasks/@")
    assert field_ownership.last_change(tree, ("tasks", "@")) == FieldStamp(1, UI)
    assert field_ownership.last_change(tree, ("tasks",)) is None
