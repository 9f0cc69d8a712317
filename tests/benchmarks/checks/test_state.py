"""`state`: the end of a world against a golden replay, and against matchers of rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from planloop.benchmarks.checks import abstain, state
from planloop.benchmarks.checks import calls as calls_check
from planloop.benchmarks.checks.evidence import EmittedCall, Evidence
from planloop.benchmarks.worlds.world import SimulatedWorld, WorldTool
from planloop.benchmarks.worlds.world_file import world_from_document
from tests import rows
from tests.benchmarks.worlds.making import replay_calls
from tests.golden_text import said
from tests.product import JsonObject

WORLD = {
    "world": "desk",
    "tables": {
        "notes": {"note-1": {"text": "milk", "done": False}, "note-2": {"text": "tea", "done": False}},
        "seen": {},
    },
    "tools": {
        "note.add": {
            "parameters": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
            "errors": {"first": 1, "says": "503"},
            "does": [{"insert": {"in": "notes", "id": "note-", "with": {"text": "$text", "done": False}}}],
        },
        "note.finish": {
            "parameters": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
            "does": [{"update": {"in": "notes", "id": "$id", "set": {"done": True}, "else": "There is no ${id}."}}],
        },
        "note.list": {"does": [{"find": {"in": "notes", "as": "found"}}], "returns": {"notes": "$found"}},
        "note.look": {"does": [{"insert": {"in": "seen", "id": "look-", "with": {"by": "me"}}}]},
    },
}
FINISH: JsonObject = {"note.finish": {"id": "note-1"}}
FINISH_2: JsonObject = {"note.finish": {"id": "note-2"}}
LOOK: JsonObject = {"note.look": {}}


def add(text: str) -> JsonObject:
    return {"note.add": {"text": text}}


def desk() -> SimulatedWorld:
    found = world_from_document(WORLD)
    assert found.world is not None, found.diagnostics
    return found.world


def judged(check: Any, *calls: JsonObject) -> Any:
    world = desk()
    end = replay_calls(world, [next(iter(call.items())) for call in calls])
    return state.judge_state(check, Evidence(world=world, end=end))


@rows.each(
    ("check", "calls", "result"),
    [
        ({"after": [FINISH]}, [FINISH], "pass"),
        ({"after": [FINISH]}, [FINISH, FINISH], "pass"),
        ({"after": [FINISH, FINISH_2]}, [FINISH_2, FINISH], "pass"),
        ({"after": [FINISH]}, [], "fail"),
        ({"after": [FINISH]}, [FINISH_2], "fail"),
        ({"after": [FINISH]}, [FINISH, FINISH_2], "fail"),
        ({"after": []}, [], "pass"),
        ({"after": []}, [FINISH], "fail"),
        ({"after": [FINISH]}, [LOOK, FINISH], "fail"),
        ({"after": [FINISH], "ignore": ["seen"]}, [LOOK, FINISH], "pass"),
        ({"after": [add("a"), add("b")]}, [add("x"), add("b"), add("A ")], "pass"),
        ({"after": [add("a")]}, [add("x"), add("a"), add("a")], "fail"),
        ({"after": [add("a")]}, [add("a")], "fail"),
        ({"after": [add("a")], "ignore": ["notes.text"]}, [add("x"), add("b")], "pass"),
        ({"tables": {"notes": {"note-1": {"done": True}}}}, [FINISH, FINISH_2], "pass"),
        ({"tables": {"notes": {"note-1": {"done": True}}}}, [FINISH_2], "fail"),
        ({"tables": {"notes": {"note-9": {}}}}, [], "fail"),
        ({"new": {"notes": [{"text": "/bread/"}]}}, [add("x"), add("two breads")], "pass"),
        ({"new": {"notes": [{"text": "/b/"}, {"text": "ab"}]}}, [add("x"), add("ab"), add("b")], "pass"),
        ({"new": {"notes": [{"text": "/bread/"}]}}, [add("x"), add("bread"), add("bread")], "fail"),
        ({"new": {"notes": [{"text": "/bread/"}]}}, [], "fail"),
        ({"new": {"notes": []}}, [FINISH], "pass"),
        ({"new": {"notes": []}}, [add("x"), add("b")], "fail"),
    ],
)
def test_the_world_must_end_as_the_check_says(check: Any, calls: list[JsonObject], result: str) -> None:
    """The first `note.add` of an agent fails; the golden way has no such luck."""
    assert judged(check, *calls).result == result


def test_failure_names_the_difference() -> None:
    found = judged({"after": [FINISH]}, FINISH_2)

    said(found.message)
    assert found.evidence["differences.txt"]


@pytest.mark.parametrize(
    ("check", "words"),
    [
        ({"after": [{"note.finish": {"id": "note-7"}}]}, "the golden call of `note.finish` fails: There is no note-7."),
        ({"after": ["note.finish"]}, "a golden call must be"),
        ({"then": []}, "no member `then`"),
        ({"tables": {"notes": []}}, "a table must be a map"),
        ({"new": {"notes": [{"text": {"one-of": []}}]}}, "`one-of` is a list"),
        ({"ignore": [1]}, "`ignore` must be a list"),
    ],
)
def test_unreadable_check_is_an_error_with_a_reason(check: Any, words: str) -> None:
    found = judged(check)

    assert found.result == "error"
    assert words in found.message


@pytest.mark.parametrize(
    ("free", "calls", "result"),
    [
        (["reads"], [EmittedCall("note.list", {})], "pass"),
        (["reads"], [EmittedCall("note.finish", {"id": "note-1"})], "fail"),
        (["reads", "note.finish"], [EmittedCall("note.finish", {"id": "note-1"})], "pass"),
        (["reads"], [EmittedCall("note.peek", {})], "fail"),
        (["reads"], [EmittedCall("note.count", {})], "fail"),
        (["reads"], [EmittedCall("note.kept", {})], "fail"),
        ([], [EmittedCall("note.list", {})], "fail"),
    ],
)
def test_reading_is_free_where_a_check_allows_it_and_decoys_are_not_reads(free: Any, calls: Any, result: str) -> None:
    """`note.peek` is a drawn decoy, `note.kept` one that was not drawn; `note.count` does not exist."""
    more = {name: WorldTool(name, "", {"type": "object", "properties": {}}) for name in ("note.peek", "note.kept")}
    world = desk()
    offered = frozenset({*world.tools, "note.peek"})
    seen = Evidence(
        tuple(calls),
        "no",
        offered,
        frozenset({"note.peek"}),
        world=replace(world, tools={**world.tools, **more}),
    )

    assert abstain.judge_abstain({"free": free}, seen).result == result
    assert calls_check.judge_calls({"free": free, "extra": "deny"}, seen).result == result


def test_a_case_without_a_world_cannot_be_checked_for_its_state() -> None:
    assert state.judge_state({"after": []}, Evidence()).result == "error"


def test_a_check_that_asks_for_nothing_looks_at_nothing() -> None:
    assert judged({}).probes == 0
    assert judged({"after": []}).probes == 1
