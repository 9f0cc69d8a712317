from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planloop.reconciler.admission.canonical_patch import canonical_patch
from planloop.schemas import json_patch
from tests.product import Json, JsonObject
from tests.reconciler.plans import op

DOCUMENT: JsonObject = {
    "goal": "all",
    "tasks": {"a": {"goal": "1", "acceptance": [{"sh": "x"}, {"id": "lint", "sh": "y"}]}, "b": {"goal": "2"}},
}


def test_a_path_by_position_becomes_the_whole_list_of_a_keyed_path() -> None:
    found = canonical_patch(DOCUMENT, [op("replace", "/tasks/a/acceptance/0/sh", "z")], is_current=True)
    (only,) = found.ops
    assert only.path == ("tasks", "a", "acceptance")
    assert only.value == [{"sh": "z"}, {"id": "lint", "sh": "y"}]


def test_a_position_is_refused_when_the_plan_has_moved_on_since_it_was_read() -> None:
    found = canonical_patch(DOCUMENT, [op("remove", "/tasks/a/acceptance/0")], is_current=False)
    (fault,) = found.faults
    assert fault.rule == "conflict"
    assert "test" in fault.hint


def test_test_of_the_item_guarantees_its_position() -> None:
    ops = [op("test", "/tasks/a/acceptance/0/sh", "x"), op("remove", "/tasks/a/acceptance/0")]
    # The path of the test names the item by position, and its value is the expected item.
    found = canonical_patch(DOCUMENT, ops, is_current=False)
    assert not found.faults
    assert found.document["tasks"]["a"]["acceptance"] == [{"id": "lint", "sh": "y"}]


def test_item_with_an_id_is_found_by_it_at_any_position() -> None:
    found = canonical_patch(DOCUMENT, [op("replace", "/tasks/a/acceptance/lint/sh", "z")], is_current=False)
    assert not found.faults
    assert found.document["tasks"]["a"]["acceptance"][1]["sh"] == "z"


def test_appending_needs_no_position() -> None:
    found = canonical_patch(DOCUMENT, [op("add", "/tasks/a/acceptance/-", {"sh": "new"})], is_current=False)
    assert not found.faults
    assert len(found.document["tasks"]["a"]["acceptance"]) == 3


def test_the_nth_task_is_turned_into_its_id() -> None:
    found = canonical_patch(DOCUMENT, [op("replace", "/tasks/1/goal", "z")], is_current=True)
    assert [one.path for one in found.ops] == [("tasks", "b", "goal")]


def test_task_added_under_a_number_does_not_replace_another() -> None:
    found = canonical_patch(DOCUMENT, [op("add", "/tasks/0", {"goal": "new"})], is_current=True)
    assert list(found.document["tasks"]) == ["a", "b", "0"]
    assert found.document["tasks"]["a"]["goal"] == "1"


@pytest.mark.parametrize("token", ["²", "٣", "9" * 5_000])
def test_digits_that_are_not_a_position_are_missing_names(token: str) -> None:
    found = canonical_patch(DOCUMENT, [op("replace", f"/tasks/{token}/goal", "z")], is_current=True)
    assert [fault.rule for fault in found.faults] == ["schema"]


def test_aliases_are_spelled_as_the_document_does() -> None:
    found = canonical_patch(DOCUMENT, [op("add", "/children/a/spec/-", {"sh": "z"})], is_current=False)
    assert [one.path for one in found.ops] == [("tasks", "a", "acceptance")]


def test_operation_without_effect_is_left_out() -> None:
    found = canonical_patch(
        DOCUMENT, [op("replace", "/goal", "all"), op("replace", "/tasks/b/goal", "2")], is_current=True
    )
    assert found.ops == ()


def test_every_operation_that_does_not_fit_is_reported_together() -> None:
    ops = [op("remove", "/tasks/x"), op("replace", "/nothing", 1), op("test", "/goal", "other")]
    found = canonical_patch(DOCUMENT, ops, is_current=True)
    assert [fault.rule for fault in found.faults] == ["schema", "schema", "conflict"]


def test_the_document_stays_a_map() -> None:
    assert canonical_patch(DOCUMENT, [op("replace", "", [1])], is_current=True).faults[0].rule == "schema"


VALUES: st.SearchStrategy[Json] = st.recursive(
    st.integers(0, 3),
    lambda below: st.dictionaries(st.sampled_from("ab"), below, max_size=2) | st.lists(below, max_size=2),
)


@given(st.dictionaries(st.sampled_from("ab"), VALUES), st.dictionaries(st.sampled_from("ab"), VALUES))
def test_keyed_operations_reach_the_patchs_target(old: JsonObject, new: JsonObject) -> None:
    found = canonical_patch(old, [op("add", "", new)], is_current=True)
    assert json_patch.apply_ops(old, found.ops) == new == found.document
