"""Worlds that began as one are compared by what is in them, not by how rows are numbered."""

from __future__ import annotations

import pytest

from planloop.benchmarks.worlds.state import world_differences
from tests.benchmarks.worlds.making import replay_calls, shipped, world
from tests.product import Json, JsonObject

OFFICE = shipped("worlds/office.yaml")
SHOP = shipped("worlds/shop.yaml")
FILES = world("""
world: w
tables: {files: {reports-2029: {text: old}}}
tools:
  file.put:
    parameters: {type: object, properties: {name: {type: string}, text: {type: string}}}
    does: [{insert: {in: files, id: $name, with: {text: $text}}}]
  file.add:
    parameters: {type: object, properties: {text: {type: string}}}
    does: [{insert: {in: files, id: file-, with: {text: $text}}}]
  file.drop:
    parameters: {type: object, properties: {id: {type: string}}}
    does: [{delete: {in: files, id: $id}}]
""")
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
def test_equal_meanings_are_equal(found: Calls, wanted: Calls, ignore: tuple[str, ...]) -> None:
    assert world_differences(OFFICE, replay_calls(OFFICE, found), replay_calls(OFFICE, wanted), ignore) == []


@pytest.mark.parametrize(
    ("found", "wanted", "said"),
    [
        ([add("a"), add("a")], [add("a")], "todos: unexpected new row"),
        ([], [add("a")], 'todos: missing new row: {"title":"a"'),
        ([("todo.finish", {"id": "todo-70"})], [], "todos/todo-70: done is true, not false"),
        ([("calendar.delete", {"id": "evt-12"})], [], "events/evt-12 is missing"),
        ([], [("calendar.delete", {"id": "evt-12"})], "events/evt-12 is unexpected"),
    ],
)
def test_difference_is_reported(found: Calls, wanted: Calls, said: str) -> None:
    told = world_differences(OFFICE, replay_calls(OFFICE, found), replay_calls(OFFICE, wanted))
    assert len(told) == 1
    assert told[0].startswith(said)


def test_reference_to_a_new_row_is_distinguished_from_one_to_another_row() -> None:
    def order(sku: str) -> tuple[str, JsonObject]:
        return "orders.create", {"customer": "cus-1", "sku": sku}

    def ticket(of: str) -> tuple[str, JsonObject]:
        return "tickets.open", {"subject": "late", "order": of}

    hose, rake = order("sku-hose"), order("sku-rake")
    wanted = replay_calls(SHOP, [hose, rake, ticket("ord-105")])
    assert world_differences(SHOP, replay_calls(SHOP, [rake, hose, ticket("ord-106")]), wanted) == []
    assert len(world_differences(SHOP, replay_calls(SHOP, [rake, hose, ticket("ord-105")]), wanted)) == 2


DESK = world("""
world: w
tables: {notes: {note-1: {text: "5", pinned: false}}}
tools:
  note.set:
    parameters: {type: object, properties: {text: {}, pinned: {}}}
    does: [{update: {in: notes, id: note-1, set: {text: $text, pinned: $pinned}}}]
""")


@pytest.mark.parametrize(
    ("name", "one", "other", "is_same"),
    [
        ("pinned", 1, True, False),
        ("pinned", 0, False, False),
        ("pinned", [{"a": 1}], [{"a": True}], False),
        ("pinned", 1.0, 1, True),
        ("text", "10²", "102", False),
        ("text", "１０２", "102", True),
    ],
)
def test_boolean_is_not_a_number_and_a_superscript_is_not_a_digit(
    name: str, one: Json, other: Json, is_same: bool
) -> None:
    here, there = (replay_calls(DESK, [("note.set", {name: value})]) for value in (one, other))
    assert (world_differences(DESK, here, there) == []) is is_same


def put(name: str) -> tuple[str, JsonObject]:
    return "file.put", {"name": name, "text": "hi"}


ADD: tuple[str, JsonObject] = ("file.add", {"text": "hi"})
DROP: tuple[str, JsonObject] = ("file.drop", {"id": "file-1"})


@pytest.mark.parametrize("name", ["junk-1", "reports-2028", "reports-2031", "file-1", "reports-02030"])
def test_an_id_that_a_call_has_named_counts_also_when_it_ends_in_a_number(name: str) -> None:
    wanted = replay_calls(FILES, [put("reports-2030")])
    told = world_differences(FILES, replay_calls(FILES, [put(name)]), wanted)
    assert sorted(told) == sorted([f"files/{name} is unexpected", "files/reports-2030 is missing"])
    assert world_differences(FILES, wanted, wanted) == []


def test_named_id_differs_from_a_given_one_that_looks_like_it() -> None:
    given, named = replay_calls(FILES, [ADD, ADD, DROP]), replay_calls(FILES, [ADD, put("file-2")])
    assert (
        world_differences(
            FILES, replay_calls(FILES, [ADD, put("file-7"), ADD]), replay_calls(FILES, [put("file-7"), ADD, ADD])
        )
        == []
    )
    assert world_differences(FILES, named, given) == ["files/file-2 is unexpected"]
    assert world_differences(FILES, given, named) == ["files/file-2 is missing"]
