"""Addresses: parse and print are inverse, and the tree relations hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planloop.schemas import address
from planloop.schemas.address import KINDS, Address, BadAddress

ids = st.text(st.characters(exclude_characters="/", exclude_categories=["Cs"]), min_size=1, max_size=6)
paths = st.lists(ids, max_size=4).map(tuple).filter(lambda path: path != (".",))
addresses = st.builds(Address, st.sampled_from(sorted(KINDS)), paths)


@given(addresses)
def test_parsing_and_printing_are_inverse(one: Address) -> None:
    assert address.parse_address(str(one)) == one


@given(st.text(max_size=12) | st.builds(lambda kind, rest: f"{kind}/{rest}", st.sampled_from(sorted(KINDS)), st.text()))
def test_parsed_address_prints_unchanged(text: str) -> None:
    try:
        one = address.parse_address(text)
    except BadAddress as error:
        assert error.text == text
        assert error.hint
        return
    assert str(one) == text


@pytest.mark.parametrize("text", ["", "task", "task/", "/a", "tusk/a", "task//a", "task/a/", "task/a//b"])
def test_invalid_address_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(BadAddress):
        address.parse_address(text)


@given(addresses, ids)
def test_child_is_within_its_parent_and_not_the_other_way_round(one: Address, name: str) -> None:
    child = one.child(name)
    assert child.parent == one
    assert child.name == name
    assert child.is_within(one)
    assert one.is_within(one)
    assert not one.is_within(child)


def test_the_root_prints_as_a_dot() -> None:
    assert str(address.task_address()) == "task/."
    assert address.parse_address("agent/.") == address.agent_address()
    assert address.task_address().is_root
    assert address.task_address().parent is None
    assert address.task_address().name == "."


def test_ids_with_a_common_prefix_are_not_within_each_other() -> None:
    assert not address.task_address("front").is_within(address.task_address("fro"))
    assert address.agent_address("a", "b").is_within(address.task_address("a"))


def test_addresses_sort_by_kind_and_then_by_path() -> None:
    parsed = [address.parse_address(text) for text in ("task/b", "task/a/c", "agent/b", "task/.", "task/a")]

    assert [str(one) for one in sorted(parsed)] == ["agent/b", "task/.", "task/a", "task/a/c", "task/b"]
