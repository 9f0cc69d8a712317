"""Patches do what RFC 6902 and RFC 7386 say; the `jsonpatch` package is the reference. Inputs are never touched."""

from __future__ import annotations

import copy
from typing import Any

import jsonpatch
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planloop.schemas import json_patch, json_pointer
from tests import sets
from tests.product import PatchFailed, PatchOp, canonical_bytes, op_from_json

keys = st.sampled_from(["a", "b", "", "0", "a/b", "m~n", "é"])
scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "x"])
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=8
)
documents = st.dictionaries(keys, values, max_size=4)
tokens = st.lists(keys | st.sampled_from(["1", "2", "-"]), max_size=3).map(tuple)
ops = st.one_of(
    st.builds(PatchOp, st.sampled_from(["add", "replace", "test"]), tokens, values),
    st.builds(PatchOp, st.just("remove"), tokens),
    st.builds(PatchOp, st.sampled_from(["move", "copy"]), tokens, st.none(), tokens),
)


def places(value: Any, at: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every pointer into `value`, so that patches hit something."""
    inner: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = [(str(index), item) for index, item in enumerate(value)]
    return [at, *(place for key, item in inner for place in places(item, (*at, key)))]


@st.composite
def aimed_patches(draw: st.DrawFn) -> tuple[Any, list[PatchOp]]:
    """A document and operations, most of which fit it at the time they come."""
    document = draw(documents)
    now, chosen = document, []
    for _ in range(draw(st.integers(0, 5))):
        at = draw(st.sampled_from(places(now)))
        op = draw(
            st.one_of(
                ops,
                st.builds(PatchOp, st.sampled_from(["replace", "add"]), st.just(at), values),
                st.builds(PatchOp, st.just("add"), st.tuples(*map(st.just, at), keys), values),
                st.just(PatchOp("remove", at)),
                st.just(PatchOp("test", at, json_pointer.value_at(now, at))),
                st.builds(PatchOp, st.sampled_from(["move", "copy"]), tokens, st.none(), st.just(at)),
            )
        )
        chosen.append(op)
        try:
            now = json_patch.apply_ops(now, [op])
        except PatchFailed:
            break
    return document, chosen


def reference(document: Any, chosen: list[PatchOp]) -> Any:
    """What `jsonpatch` makes of it; None stands for a refusal, as no patch here makes the document null by itself."""
    try:
        return ("ok", jsonpatch.apply_patch(copy.deepcopy(document), [op.to_json() for op in chosen]))
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, TypeError, KeyError, ValueError):
        return ("refused", None)


def ours(document: Any, chosen: list[PatchOp]) -> Any:
    try:
        return ("ok", json_patch.apply_ops(document, chosen))
    except PatchFailed:
        return ("refused", None)


@settings(max_examples=sets.examples(400, 80))
@given(aimed_patches())
def test_patches_do_what_the_reference_does(case: tuple[Any, list[PatchOp]]) -> None:
    document, chosen = case
    before = copy.deepcopy(document)
    got, wanted = ours(document, chosen), reference(document, chosen)
    assert canonical_bytes(document) == canonical_bytes(before)
    assert got == wanted


@given(documents, documents)
def test_the_difference_of_two_documents_turns_one_into_the_other(old: Any, new: Any) -> None:
    found = json_patch.diff_values(old, new)
    assert canonical_bytes(json_patch.apply_ops(old, found)) == canonical_bytes(new)
    assert (found == []) == (canonical_bytes(old) == canonical_bytes(new))


@given(documents)
def test_a_document_does_not_differ_from_itself(document: Any) -> None:
    assert json_patch.diff_values(document, copy.deepcopy(document)) == []


@pytest.mark.parametrize(("old", "new"), [(True, 1), (1, 1.0), (False, 0), ([1], [True]), ({"a": [0]}, {"a": [False]})])
def test_values_that_python_calls_equal_and_json_does_not_differ(old: Any, new: Any) -> None:
    assert json_patch.diff_values({"x": old}, {"x": new}) != []


@given(ops)
def test_an_operation_survives_printing(op: PatchOp) -> None:
    assert op_from_json(0, op.to_json()) == op


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ([], "a map with `op`"),
        ({"op": "frob", "path": "/a"}, "a map with `op`"),
        ({"op": "add", "path": "a", "value": 1}, "starts with `/`"),
        ({"op": "add", "path": "/a"}, "needs `value`"),
        ({"op": "move", "path": "/a"}, "needs `from`"),
    ],
)
def test_invalid_operation_is_refused_with_a_message(raw: Any, words: str) -> None:
    with pytest.raises(PatchFailed, match=words) as caught:
        op_from_json(3, raw)
    assert caught.value.index == 3


@pytest.mark.parametrize("token", ["²", "01", "-1", "+1", " 1", "9" * 5_000, "-"])
def test_a_list_index_is_plain_digits(token: str) -> None:
    for op in (
        PatchOp("replace", ("a", token), 1),
        PatchOp("remove", ("a", token)),
        PatchOp("add", ("a", token, "b"), 1),
    ):
        with pytest.raises(PatchFailed):
            json_patch.apply_ops({"a": [{}, {}]}, [op])


def test_the_failing_operation_is_named_by_its_index() -> None:
    with pytest.raises(PatchFailed) as caught:
        json_patch.apply_ops({}, [PatchOp("add", ("a",), 1), PatchOp("remove", ("b",))])
    assert caught.value.index == 1
    assert "/b" in caught.value.reason


def merged(target: Any, patch: Any) -> Any:
    """The pseudo-code of RFC 7386, section 2."""
    if not isinstance(patch, dict):
        return patch
    out = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            out.pop(name, None)
        else:
            out[name] = merged(out.get(name), value)
    return out


@given(values, values)
def test_merging_does_what_the_standard_says(value: Any, patch: Any) -> None:
    before = copy.deepcopy((value, patch))
    assert canonical_bytes(json_patch.merge_values(value, patch)) == canonical_bytes(merged(value, patch))
    assert (value, patch) == before


@given(values, documents)
def test_merging_twice_is_merging_once(value: Any, patch: Any) -> None:
    once = json_patch.merge_values(value, patch)
    assert canonical_bytes(json_patch.merge_values(once, patch)) == canonical_bytes(once)


def test_only_the_touched_path_is_copied() -> None:
    document = {"a": {"x": {"deep": 1}}, "b": {"y": 2}}
    patched = json_patch.apply_ops(document, [PatchOp("replace", ("a", "x", "deep"), 2)])
    assert patched["b"] is document["b"]
    assert patched["a"] is not document["a"]
