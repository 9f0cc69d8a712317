"""Worlds that began as one are compared by what is in them, not by how rows are numbered."""

from __future__ import annotations

import pytest

from benchmarks.worlds import differences, replay
from schemas.encoding import JsonObject
from tests.benchmarks.worlds.making import shipped

OFFICE = shipped("worlds/office.yaml")
SHOP = shipped("worlds/shop.yaml")
Calls = list[tuple[str, JsonObject]]


def add(title: str) -> tuple[str, JsonObject]:
    return "todo.add", {"title": title}


def send(body: str, *to: str) -> tuple[str, JsonObject]:
    return "mail.send", {"to": list(to) or ["team@orchard.example"], "subject": "Standup", "body": body}


@pytest.mark.parametrize(
    ("found", "wanted", "ignore"),
    [
        ([add("a"), add("b")], [add("b"), add("a")], ()),
        ([add("Buy  Milk")], [add("buy milk")], ()),
        ([send("one", "a@x", "b@x")], [send("one", "b@x", "A@X")], ()),
        ([send("one")], [send("two words")], ("messages.body",)),
        ([send("one"), send("two")], [], ("messages",)),
        (
            [add("a"), ("todo.finish", {"id": "todo-74"}), add("b")],
            [add("b"), add("a"), ("todo.finish", {"id": "todo-75"})],
            (),
        ),
    ],
)
def test_what_means_the_same_is_the_same(found: Calls, wanted: Calls, ignore: tuple[str, ...]) -> None:
    assert differences(OFFICE, replay(OFFICE, found).tables, replay(OFFICE, wanted).tables, ignore) == []


@pytest.mark.parametrize(
    ("found", "wanted", "said"),
    [
        ([add("a"), add("a")], [add("a")], "todos: a new row is too much"),
        ([], [add("a")], 'todos: a new row is missing: {"title":"a"'),
        ([("todo.finish", {"id": "todo-70"})], [], "todos/todo-70: done is true, not false"),
        ([("calendar.delete", {"id": "evt-12"})], [], "events/evt-12 is gone"),
        ([], [("calendar.delete", {"id": "evt-12"})], "events/evt-12 is there"),
    ],
)
def test_what_differs_is_said(found: Calls, wanted: Calls, said: str) -> None:
    told = differences(OFFICE, replay(OFFICE, found).tables, replay(OFFICE, wanted).tables)
    assert len(told) == 1
    assert told[0].startswith(said)


def test_a_row_that_refers_to_a_new_one_is_told_from_one_that_refers_to_another() -> None:
    def order(sku: str) -> tuple[str, JsonObject]:
        return "orders.create", {"customer": "cus-1", "sku": sku}

    def ticket(of: str) -> tuple[str, JsonObject]:
        return "tickets.open", {"subject": "late", "order": of}

    hose, rake = order("sku-hose"), order("sku-rake")
    wanted = replay(SHOP, [hose, rake, ticket("ord-105")]).tables
    assert differences(SHOP, replay(SHOP, [rake, hose, ticket("ord-106")]).tables, wanted) == []
    assert len(differences(SHOP, replay(SHOP, [rake, hose, ticket("ord-105")]).tables, wanted)) == 2
