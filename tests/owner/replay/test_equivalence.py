"""Two runs say the same when they differ in ids, times and revisions alone."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from planloop.owner.replay.equivalence import Equivalence
from tests.product import Json

A, B, C = "aaaaaaaaaaaa", "bbbbbbbbbbbb", "cccccccccccc"
X, Y, Z = "111111111111", "222222222222", "333333333333"

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from([A, f"call/{B}", f"{C}.0"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@given(values)
@example({"@": None})
def test_every_value_is_like_itself(value: Json) -> None:
    assert Equivalence().compared(value, value) == []


@given(values)
def test_a_value_in_other_ids_is_the_same_and_its_ids_are_known_from_then_on(value: Json) -> None:
    known = Equivalence()
    assert known.compared([A, B, C], [X, Y, Z]) == []
    assert known.compared(value, known.ours(value)) == []
    assert known.theirs(f"call/{X}.1") == f"call/{A}.1"


def test_id_matches_one_counterpart_only() -> None:
    known = Equivalence()
    assert known.compared({"a": A}, {"a": X}) == []
    assert [one.path for one in known.compared({"a": A, "b": B}, {"a": Y, "b": X})] == ["/a", "/b"]


def test_maps_keyed_by_ids_are_compared_by_what_they_stand_for() -> None:
    known = Equivalence()
    assert known.compared({f"call/{A}": 1, f"call/{B}": 2}, {f"call/{X}": 1, f"call/{Y}": 2}) == []
    assert known.compared({f"call/{B}": 2, f"call/{A}": 1}, {f"call/{X}": 1, f"call/{Y}": 2}) == []


@pytest.mark.parametrize(
    ("original", "replayed"),
    [
        ({"at": 1.5}, {"at": 2.5}),
        ({"rev": 7, "base_rev": 3}, {"rev": 9, "base_rev": 1}),
        ({"@": [7, "human:file"]}, {"@": [8, "human:file"]}),
        ("accepted, revision 7", "accepted, revision 12"),
        ([1, (2, 3)], [1, [2, 3]]),
    ],
)
def test_times_and_revisions_are_no_difference(original: Json, replayed: Json) -> None:
    assert Equivalence().compared(original, replayed) == []


@pytest.mark.parametrize(
    ("original", "replayed", "path"),
    [
        ({"a": 1}, {"a": 2}, "/a"),
        ({"a": True}, {"a": 1}, "/a"),
        ({"a": None}, {}, "/a"),
        ({}, {"b": "x"}, "/b"),
        ({"a": ["x"]}, {"a": ["x", "y"]}, "/a"),
        ({"a": {"b": "x"}}, {"a": {"b": "y"}}, "/a/b"),
        ({"@": [7, "human:file"]}, {"@": [7, "human:cli"]}, "/@/0"),
        ("x", "y", ""),
    ],
)
def test_any_other_difference_is_reported(original: Json, replayed: Json, path: str) -> None:
    (found,) = Equivalence().compared(original, replayed)
    assert found.path == path
    assert "→" in found.words()


def test_only_times_are_taken_from_the_original() -> None:
    original = {"at": 1.5, "n": 1, "list": [{"s": 0.25}], "key": {A: 2.5}, "gone": 1.0}
    replayed = {"at": 9.5, "n": 2, "list": [{"s": 0.75}], "key": {X: 3.5}, "new": 4.5}
    known = Equivalence()
    known.compared(A, X)
    assert known.timed(original, replayed) == {
        "at": 1.5,
        "n": 2,
        "list": [{"s": 0.25}],
        "key": {X: 2.5},
        "new": 4.5,
    }


def test_a_time_or_revision_that_is_part_of_an_id_is_not_compared() -> None:
    known = Equivalence()
    assert known.compared({"uid": "conflict/1@1795857363.273651"}, {"uid": "conflict/1@1795857363.274358"}) == []
    assert known.compared({"lock@12:src/a": 1}, {"lock@13:src/a": 1}) == []
    assert known.compared(f"lock@12:{A}", f"lock@13:{X}") == []
    assert [one.path for one in known.compared({"a": "conflict/1@1.000000"}, {"a": "conflict/2@1.000000"})] == ["/a"]
    assert [one.path for one in known.compared({"a": "x@12:src/a"}, {"a": "x@12:src/b"})] == ["/a"]
