"""The laws of the structural merge, on documents of the shape that plans have."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from planloop.compiler import merge as compiler_merge
from planloop.schemas import json_patch
from tests.golden_text import said

SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-2, 2), st.sampled_from(["x", "y", ""]))
LEAVES = st.one_of(SCALARS, st.lists(SCALARS, max_size=2))
FIELDS = ("goal", "notes", "acceptance")
IDS = ("a", "b", "tasks")


def _tasks(depth: int) -> st.SearchStrategy[dict[str, Any]]:
    fields: dict[str, st.SearchStrategy[Any]] = {name: LEAVES for name in FIELDS}
    fields["env"] = st.dictionaries(st.sampled_from(["A", "B"]), SCALARS, max_size=2)
    if depth:
        fields["tasks"] = st.dictionaries(st.sampled_from(IDS), _tasks(depth - 1), max_size=2)
    return st.fixed_dictionaries({}, optional=fields)


DOCUMENTS = _tasks(2)


def merge(base: Any, file: Any, live: Any) -> Any:
    return compiler_merge.merge_documents(base, file, live).document


def same(one: Any, other: Any) -> bool:
    return not json_patch.diff_values(one, other)


@given(DOCUMENTS, DOCUMENTS)
def test_with_no_change_in_the_live_plan_the_file_is_the_result(base: Any, file: Any) -> None:
    assert same(merge(base, file, base), file)


@given(DOCUMENTS, DOCUMENTS)
def test_with_no_change_in_the_file_the_live_plan_is_the_result(base: Any, live: Any) -> None:
    assert same(merge(base, base, live), live)


@given(DOCUMENTS, DOCUMENTS)
def test_the_same_change_on_both_sides_is_that_change(base: Any, both: Any) -> None:
    merged = compiler_merge.merge_documents(base, both, both)
    assert same(merged.document, both)
    assert not merged.conflicts


@given(DOCUMENTS, DOCUMENTS, DOCUMENTS)
def test_without_conflicts_the_sides_may_be_swapped(base: Any, file: Any, live: Any) -> None:
    one, other = compiler_merge.merge_documents(base, file, live), compiler_merge.merge_documents(base, live, file)
    assert {conflict.path for conflict in one.conflicts} == {conflict.path for conflict in other.conflicts}
    if not one.conflicts:
        assert same(one.document, other.document)


@given(DOCUMENTS, DOCUMENTS, DOCUMENTS)
def test_every_value_comes_from_one_of_the_sides(base: Any, file: Any, live: Any) -> None:
    values = dict(_leaves(merge(base, file, live)))
    sides = [dict(_leaves(file)), dict(_leaves(live))]
    for path, value in values.items():
        assert any(path in side and same(side[path], value) for side in sides), path


@given(DOCUMENTS, DOCUMENTS, DOCUMENTS)
def test_a_merge_that_was_applied_merges_to_itself(base: Any, file: Any, live: Any) -> None:
    once = merge(base, file, live)
    assert same(merge(file, file, once), once)


@given(DOCUMENTS, DOCUMENTS)
def test_a_difference_applied_gives_the_other_document(one: Any, other: Any) -> None:
    assert same(json_patch.apply_ops(one, json_patch.diff_values(one, other)), other)


def _leaves(value: Any, at: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    if not isinstance(value, dict):
        return [(at, value)]
    return [pair for key, below in value.items() for pair in _leaves(below, (*at, key))]


BASE = {"goal": "all", "tasks": {"a": {"goal": "first", "tasks": {"x": {"goal": "part"}}}}}


def test_a_child_that_only_the_live_plan_has_stays() -> None:
    live = {"goal": "all", "tasks": {"a": {"goal": "first", "tasks": {"x": {"goal": "part"}, "new": {"goal": "n"}}}}}
    file = {"goal": "everything", "tasks": BASE["tasks"]}
    assert merge(BASE, file, live) == {**live, "goal": "everything"}


def test_a_file_that_drops_its_last_child_keeps_those_it_never_had() -> None:
    live = {"goal": "all", "tasks": {"a": {"goal": "first", "tasks": {"x": {"goal": "part"}, "new": {"goal": "n"}}}}}
    file = {"goal": "all", "tasks": {"a": {"goal": "first"}}}
    merged = compiler_merge.merge_documents(BASE, file, live)
    assert merged.document["tasks"]["a"]["tasks"] == {"new": {"goal": "n"}}
    assert not merged.conflicts


def test_removing_a_task_removes_its_added_children_and_reports_them() -> None:
    live = {"goal": "all", "tasks": {"a": {"goal": "first", "tasks": {"new": {"goal": "n"}}}}}
    merged = compiler_merge.merge_documents(BASE, {"goal": "all"}, live)
    assert merged.document == {"goal": "all"}
    said([conflict.words for conflict in merged.conflicts])


def test_operator_wins_a_field_conflict_that_records_all_three_values() -> None:
    file, live = {"goal": "theirs"}, {"goal": "ours"}
    (conflict,) = compiler_merge.merge_documents({"goal": "all"}, file, live).conflicts
    assert (conflict.base, conflict.file, conflict.live) == ("all", "theirs", "ours")
    assert merge({"goal": "all"}, file, live) == file


def test_a_task_that_was_removed_live_and_edited_in_the_file_comes_back() -> None:
    file = {"goal": "all", "tasks": {"a": {"goal": "again", "tasks": {"x": {"goal": "part"}}}}}
    merged = compiler_merge.merge_documents(BASE, file, {"goal": "all"})
    assert merged.document == file
    said(merged.conflicts[0].words)


def test_lists_are_single_values() -> None:
    base, file, live = {"acceptance": [1]}, {"acceptance": [1, 2]}, {"acceptance": [0, 1]}
    merged = compiler_merge.merge_documents(base, file, live)
    assert merged.document == file
    assert len(merged.conflicts) == 1


def test_true_is_not_one() -> None:
    assert merge({"pause": 1}, {"pause": True}, {"pause": 1})["pause"] is True


def test_the_live_order_of_keys_is_kept_so_that_a_second_save_changes_no_byte() -> None:
    live = {"tasks": {"b": {"goal": "2"}, "a": {"goal": "1"}}}
    file = {"tasks": {"a": {"goal": "1"}, "b": {"goal": "2"}, "c": {"goal": "3"}}}
    assert list(merge({}, file, live)["tasks"]) == ["b", "a", "c"]
