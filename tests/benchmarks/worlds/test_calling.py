"""Calls of simulated tools: the answer to the caller, and the tables afterwards."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planloop.benchmarks.worlds.state import call_tool
from planloop.benchmarks.worlds.world import CallInProgress, SimulatedWorld, WorldTool
from planloop.benchmarks.worlds.world_file import overlay_tables
from tests import sets
from tests.benchmarks.worlds.making import EXTREMES, replay_calls, shipped, world
from tests.golden_text import said
from tests.product import JsonObject, canonical_bytes

OFFICE = shipped("worlds/office.yaml")
SHOP = shipped("worlds/shop.yaml")
DECOYS = shipped("tools/decoys.yaml")
START = "2030-01-03T15:00:00Z"


def test_omitted_argument_changes_nothing() -> None:
    after, answer = call_tool(OFFICE, "calendar.update", {"id": "evt-12", "room": "Oak"})
    before = OFFICE.tables["events"]["evt-12"]
    assert after.tables["events"]["evt-12"] == {**before, "room": "Oak"}
    assert answer.value == {"id": "evt-12", **before, "room": "Oak"}


def test_moved_event_keeps_its_duration_for_every_form_of_its_end() -> None:
    short, _ = call_tool(OFFICE, "calendar.update", {"id": "evt-12", "start": START})
    long, _ = call_tool(OFFICE, "calendar.update", {"id": "evt-12", "start": START, "end": "2030-01-03T16:15:00+01:00"})
    assert short.tables == long.tables
    assert short.tables["events"]["evt-12"]["end"] == "2030-01-03T15:15:00Z"


def test_a_new_row_gets_the_next_number_even_after_the_last_one_was_deleted() -> None:
    gone, _ = call_tool(OFFICE, "calendar.delete", {"id": "evt-16"})
    _, answer = call_tool(gone, "calendar.create", {"title": "t", "start": START, "end": "2030-01-03T16:00:00Z"})
    assert answer.value["id"] == "evt-17"


def test_unset_filters_do_not_filter_and_the_order_is_the_files() -> None:
    def found(**arguments: object) -> list[str]:
        return [row["id"] for row in call_tool(OFFICE, "calendar.list", dict(arguments))[1].value["events"]]

    assert found() == [f"evt-{number}" for number in range(10, 17)]
    assert found(query="STANDUP") == ["evt-12", "evt-15"]
    assert found(query="standup", **{"from": "2030-01-04T00:00:00Z"}) == ["evt-15"]


@pytest.mark.parametrize(
    ("tool", "arguments", "error", "text"),
    [
        ("calendar.move", {}, "UnknownTool", "Unknown tool calendar.move."),
        ("calendar.update", {}, "BadArguments", "missing argument `id`"),
        ("calendar.update", {"id": 12}, "BadArguments", "id: must be a string, not 12"),
        (
            "calendar.update",
            {"id": "evt-12", "when": START},
            "BadArguments",
            "unknown argument `when` (known: id, title, start, end, room)",
        ),
        (
            "calendar.update",
            {"id": "evt-12", "start": "at three"},
            "BadArguments",
            'start: must be a time such as 2030-01-02T15:00:00Z, not "at three"',
        ),
        ("mail.send", {"to": [], "subject": "", "body": ""}, "BadArguments", "to: must have at least 1 items"),
        (
            "mail.send",
            {"to": ["x"], "subject": "", "body": ""},
            "BadArguments",
            'to[0]: must be a mail address, not "x"',
        ),
        ("drive.share", {"id": "file-50", "email": "a@b", "access": "own"}, "BadArguments", "access: must be one of"),
        ("mail.search", {"limit": 0}, "BadArguments", "limit: must be at least 1, not 0"),
        ("mail.search", {"unread": "yes"}, "BadArguments", 'unread: must be a boolean, not "yes"'),
        ("calendar.update", {"id": "evt-99"}, "ToolError", "There is no event evt-99."),
        ("drive.share", {"id": "file-51", "email": "a@b"}, "ToolError", "Only ben@orchard.example may share file-51."),
        (
            "mail.send",
            {"to": ["a@b"], "subject": "", "body": "", "attachments": ["file-50", "file-1"]},
            "ToolError",
            "One",
        ),
    ],
)
def test_failed_call_gives_the_reason_and_changes_nothing(
    tool: str, arguments: JsonObject, error: str, text: str
) -> None:
    after, answer = call_tool(OFFICE, tool, arguments)
    assert after is OFFICE
    assert (answer.error, answer.value) == (error, None)
    assert answer.text.startswith(text)


def test_a_step_that_fails_late_takes_the_earlier_ones_with_it() -> None:
    ill = world(
        "world: w\ntables: {a: {a-1: {n: 1}}}\n"
        "tools: {t.go: {does: [{update: {in: a, id: a-1, set: {n: 2}}}, {get: {in: a, id: a-9}}]}}"
    )
    after, answer = call_tool(ill, "t.go", {})
    assert after.tables["a"] == {"a-1": {"n": 1}}
    said(answer.text)


def test_null_equals_an_omitted_argument() -> None:
    assert call_tool(OFFICE, "calendar.list", {"query": None}) == call_tool(OFFICE, "calendar.list", {})


def test_rules_of_a_shop_hold_over_several_calls() -> None:
    refund = {"order": "ord-104", "reason": "cracked"}
    after, answer = call_tool(SHOP, "refunds.create", refund)
    assert (answer.value["amount"], after.tables["orders"]["ord-104"]["refunded"]) == (12, 22)
    _, again = call_tool(after, "refunds.create", {**refund, "amount": 0.5})
    said(again.text)
    _, late = call_tool(SHOP, "refunds.create", {"order": "ord-103", "reason": "late"})
    said(late.text)
    bought, order = call_tool(SHOP, "orders.create", {"customer": "cus-1", "sku": "sku-gloves", "count": 3})
    assert (order.value["total"], bought.tables["products"]["sku-gloves"]["stock"]) == (29.7, 38)


def test_a_tool_may_fail_at_first() -> None:
    busy = world("world: w\ntools: {t.go: {errors: {first: 2, says: busy}, returns: went}}")
    answers = []
    for _ in range(3):
        busy, answer = call_tool(busy, "t.go", {})
        answers.append((answer.text, answer.error))
    assert answers == [("busy", "ToolError"), ("busy", "ToolError"), ("went", "")]


def test_a_decoy_answers_and_changes_nothing() -> None:
    after, answer = call_tool(DECOYS, "mail.schedule", {"to": [], "subject": "s", "body": "b", "at": START})
    assert (after, answer.value) == (DECOYS, {"queued": True, "at": START})


def test_rows_laid_over_are_merged_and_null_takes_one_away() -> None:
    changed = overlay_tables(
        OFFICE, {"events": {"evt-12": {"room": "Oak"}, "evt-13": None, "evt-40": {"title": "New"}}}
    )
    assert changed.tables["events"]["evt-12"] == {**OFFICE.tables["events"]["evt-12"], "room": "Oak"}
    assert "evt-13" not in changed.tables["events"]
    made, answer = call_tool(changed, "calendar.create", {"title": "t", "start": START, "end": "2030-01-03T16:00:00Z"})
    assert answer.value["id"] == "evt-41"
    assert made.start == changed.tables


CALLS: st.SearchStrategy[tuple[str, JsonObject]] = st.one_of(
    st.tuples(st.just("calendar.update"), st.fixed_dictionaries({"id": st.sampled_from(("evt-12", "evt-9"))})),
    st.tuples(st.just("calendar.delete"), st.fixed_dictionaries({"id": st.sampled_from(("evt-12", "evt-13"))})),
    st.tuples(st.just("todo.add"), st.fixed_dictionaries({"title": st.text(max_size=3)})),
    st.tuples(st.just("mail.label"), st.fixed_dictionaries({"id": st.just("msg-30"), "label": st.sampled_from("ab")})),
    st.tuples(st.text(max_size=3), st.just({})),
)


@settings(max_examples=sets.examples(60, 30))
@given(st.lists(CALLS, max_size=6), st.integers(0, 6))
def test_a_world_is_the_fold_of_its_calls_and_no_call_touches_the_one_before(
    calls: list[tuple[str, JsonObject]], at: int
) -> None:
    before = canonical_bytes(_tables(OFFICE))
    whole = replay_calls(OFFICE, calls)
    assert replay_calls(replay_calls(OFFICE, calls[:at]), calls[at:]) == whole == replay_calls(OFFICE, calls)
    assert canonical_bytes(_tables(OFFICE)) == before


VERBS = world("""
world: w
tables: {a: {a-1: {n: 1, at: "2030-01-01T00:00:00Z", many: [1, 2.5], by: {}}, a-2: {n: 0.5}}}
tools:
  t.at:
    parameters: {type: object, properties: {x: {type: string, format: date-time}, y: {type: string}, z: {}}}
    does:
      - let: {p: {shifted: {time: $x, from: $y, to: "2030-01-01"}}, q: {shifted: {time: $y, from: $z, to: $x}}}
      - find: {in: a, where: {at: {at-most: $x, not: $q}}, order: n, as: found}
      - insert: {in: a, id: a-, with: {p: $p, q: $q}}
    returns: [$found, $p, $q]
  t.sum:
    parameters: {type: object, properties: {x: {type: number}, y: {type: integer}, z: {}}}
    does:
      - let: {p: {add: [$x, $y, 0.5]}, q: {multiply: [$x, $y, $x]}, r: {subtract: [$y, $x]}, many: {list: [$x, $y]}}
      - insert: {in: a, id: a-, with: {n: $x, p: $p, q: $q, r: $r}}
      - find: {in: a, where: {n: {at-least: $y}}, order: n, limit: $y, as: found}
      - let: {s: {sum: {of: $found, field: n}}, t: {sum: {of: $found, field: $z}}, u: {count: $z}}
    returns: "${s} ${t} ${u} ${many}"
  t.rows:
    parameters: {type: object, properties: {x: {}, y: {}, z: {}}}
    does:
      - update: {in: a, id: a-1, set: {n: $x}, put: {field: by, key: $y, value: $z}, as: row}
      - append: {in: a, id: a-1, to: many, value: $x}
      - remove: {in: a, id: a-1, from: many, value: $y}
      - delete: {in: a, where: {n: {contains: $z, above: $y}}}
      - let: {f: {first: $z}, l: {last: $row.many}, p: {add: $z}, q: {multiply: $row.many}}
      - insert: {in: a, id: "${x}", with: {y: $y, f: $f, l: $l, p: $p, q: $q}}
    returns: $z
""")
GIVEN = st.one_of(
    st.sampled_from(EXTREMES),
    st.sampled_from(("a-1", "n", "", None, True, 0, 2.5, "2030-01-01T00:00:00Z")),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(),
    st.text(max_size=3),
    st.lists(st.sampled_from(EXTREMES) | st.floats(allow_nan=False, allow_infinity=False), max_size=3),
)


@settings(max_examples=sets.examples(300, 75))
@given(
    st.sampled_from(sorted(VERBS.tools)),
    st.lists(st.dictionaries(st.sampled_from("xyz"), GIVEN), min_size=1, max_size=3),
)
def test_tool_answers_or_gives_a_reason_for_any_input_of_its_schema(tool: str, given: list[JsonObject]) -> None:
    after = VERBS
    for arguments in given:
        after, answer = call_tool(after, tool, arguments)
        assert answer.error in ("", "BadArguments", "ToolError")
        canonical_bytes([answer.value, answer.text, _tables(after)])  # Nothing that a log cannot hold.


@pytest.mark.parametrize(
    ("tool", "arguments", "text"),
    [
        ("t.at", {"x": "0001-01-01T00:00:00+14:00"}, "x: must be a time such as 2030-01-02T15:00:00Z, not"),
        (
            "t.at",
            {"x": "9999-12-31T00:00:00Z", "y": "2029-01-01"},
            "Not a valid time, or outside of the years 1 to 9999.",
        ),
        ("t.sum", {"x": 1e308, "y": 10}, "The number is too large."),
        ("t.sum", {"x": 0.5, "y": 10**400}, "The number is too large."),
        ("t.sum", {"x": 1e200, "y": 10**200}, "The number is too large."),
    ],
)
def test_impossible_number_or_date_is_refused_with_a_message(tool: str, arguments: JsonObject, text: str) -> None:
    after, answer = call_tool(VERBS, tool, arguments)
    assert after is VERBS
    assert answer.text.startswith(text)


def test_a_step_that_breaks_on_its_values_fails_the_call_and_changes_nothing() -> None:
    def break_on(call: CallInProgress) -> None:
        raise OverflowError(f"{len(call.scope)} is too large")

    ill = replace(VERBS, tools={"t.go": WorldTool("t.go", "", {"type": "object"}, (break_on,))})
    after, answer = call_tool(ill, "t.go", {})
    assert (after, answer.error) == (ill, "ToolError")
    said(answer.text)


def _tables(of: SimulatedWorld) -> JsonObject:
    return {name: dict(rows) for name, rows in of.tables.items()}
