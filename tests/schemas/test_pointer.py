"""Pointers: parse and print are inverse, and a pointer names the object it falls into."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planloop.schemas import json_pointer
from planloop.schemas.address import Address
from planloop.schemas.json_pointer import BadPointer

tokens = st.lists(st.text(max_size=5), max_size=5).map(tuple)
names = st.text("abc-_", min_size=1, max_size=4)


@given(tokens)
def test_printing_and_parsing_are_inverse(path: tuple[str, ...]) -> None:
    assert json_pointer.parse_pointer(json_pointer.render_pointer(path)) == path


@given(st.text(max_size=8))
def test_parsed_pointer_prints_to_an_equivalent_one(text: str) -> None:
    try:
        path = json_pointer.parse_pointer(text)
    except BadPointer:
        assert not text.startswith("/")
        return
    assert json_pointer.parse_pointer(json_pointer.render_pointer(path)) == path


def test_the_examples_of_the_standard() -> None:
    document = {"foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, " ": 7, "m~n": 8}
    cases = {"": document, "/foo": ["bar", "baz"], "/foo/0": "bar", "/": 0, "/a~1b": 1, "/c%d": 2, "/ ": 7, "/m~0n": 8}
    for text, value in cases.items():
        assert json_pointer.value_at(document, json_pointer.parse_pointer(text)) == value
        assert json_pointer.has_value(document, json_pointer.parse_pointer(text))


@pytest.mark.parametrize("text", ["/foo/2", "/foo/-", "/foo/01", "/foo/x", "/bar", "/foo/0/x", "/foo/²"])
def test_unresolved_pointer_names_the_first_missing_token(text: str) -> None:
    with pytest.raises(BadPointer, match="nothing at"):
        json_pointer.value_at({"foo": ["bar", "baz"]}, json_pointer.parse_pointer(text))
    assert not json_pointer.has_value({"foo": ["bar", "baz"]}, json_pointer.parse_pointer(text))


@given(st.lists(names, max_size=4).map(tuple), st.lists(names, max_size=3).map(tuple))
def test_a_field_of_a_task_belongs_to_that_task(path: tuple[str, ...], field: tuple[str, ...]) -> None:
    field = ("goal", *field)
    assert json_pointer.pointer_owner((*json_pointer.task_pointer(path), *field)) == (Address("task", path), field)


@pytest.mark.parametrize(
    ("text", "address", "rest"),
    [
        ("/tasks/a/goal", "task/a", ("goal",)),
        ("/tasks/a/tasks/b", "task/a/b", ()),
        ("/tasks/a/tasks", "task/a", ("tasks",)),
        ("/containers/redis/image", "container/redis", ("image",)),
        ("/hooks/no-secrets", "hook/no-secrets", ()),
        ("/tasks/a/hooks/x", "task/a", ("hooks", "x")),
        ("/budget/usd", "task/.", ("budget", "usd")),
        ("", "task/.", ()),
    ],
)
def test_a_pointer_falls_into_one_object(text: str, address: str, rest: tuple[str, ...]) -> None:
    found, left = json_pointer.pointer_owner(json_pointer.parse_pointer(text))
    assert (str(found), left) == (address, rest)
