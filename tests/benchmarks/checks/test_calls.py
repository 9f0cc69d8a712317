"""`calls`: what an agent called, against what it had to call."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planloop.benchmarks.checks import calls
from planloop.benchmarks.checks.calls import conduct_figures
from planloop.benchmarks.checks.evidence import EmittedCall, Evidence
from planloop.controllers.task.checks.run import CheckFinding
from planloop.schemas.limits import NEEDED_CALLS_MAX
from tests import golden_text, sets
from tests.product import JsonObject, decode

OFFERED = frozenset({"calendar.update", "calendar.list", "mail.send", "mail.draft", "todo.add"})
UPDATE = {"tool": "calendar.update", "args": {"id": "evt-1", "start": {"same-instant": "2030-01-02T15:00Z"}}}
SEND = {"tool": "mail.send", "args": {"to": {"set": ["team@x"]}}}
MOVED = EmittedCall("calendar.update", {"id": "evt-1", "start": "2030-01-02T16:00+01:00"})
SENT = EmittedCall("mail.send", {"to": ["team@x"], "body": "moved"})


def judged(check: JsonObject, *emitted: EmittedCall, said: str = "", **more: Any) -> CheckFinding:
    return calls.judge_calls(
        check, Evidence(emitted, said, OFFERED, frozenset({"mail.draft"}), frozenset({"todo.add"}), **more)
    )


def classes(found: CheckFinding) -> list[str]:
    return [row["class"] for row in decode(found.evidence["calls.json"])]


def failing(one: EmittedCall, why: str = "try again") -> EmittedCall:
    return EmittedCall(one.tool, one.arguments, state="Failed", result=why)


@pytest.mark.parametrize(
    ("emitted", "expected"),
    [
        ([MOVED, SENT], ["right", "right"]),
        ([SENT, MOVED, MOVED], ["right", "right", "duplicate"]),
        ([failing(MOVED), MOVED, SENT], ["right", "right", "right"]),
        ([MOVED, failing(MOVED)], ["right", "duplicate"]),
        ([EmittedCall("calendar.update", {"id": "evt-2"})], ["right-args-wrong"]),
        ([EmittedCall("calendar.update", {}, fault="no JSON")], ["malformed"]),
        ([EmittedCall("calendar.shift", {"id": "evt-1"})], ["invented"]),
        ([EmittedCall("calendar.shift", {}, fault="no JSON")], ["malformed"]),
        ([EmittedCall("mail.draft", {}), EmittedCall("todo.add", {})], ["decoy", "decoy"]),
        ([EmittedCall("calendar.list", {})], ["wrong-known-tool"]),
        ([EmittedCall("plan_view", {}), EmittedCall("recall", {"words": "Sam"})], ["free", "free"]),
        ([EmittedCall("plan_view", {}, fault="no JSON"), EmittedCall("task", {})], ["malformed", "invented"]),
        ([], []),
    ],
)
def test_every_call_gets_exactly_one_class(emitted: list[EmittedCall], expected: list[str]) -> None:
    found = judged({"need": [UPDATE, SEND]}, *emitted)

    assert classes(found) == expected
    assert (found.result == "pass") == (expected.count("right") >= 2)


def test_a_call_that_failed_serves_no_need_though_it_was_the_right_one() -> None:
    found = judged({"need": [SEND]}, failing(SENT, "the server is busy"))

    assert found.result == "fail"
    golden_text.said(found.message, "need-1", "mail.send")
    assert classes(found) == ["right"]


def test_a_need_that_asks_for_a_try_is_served_by_a_call_that_failed() -> None:
    tried = {**SEND, "tried": True}

    assert judged({"need": [tried]}, failing(SENT)).result == "pass"
    assert judged({"need": [tried]}, SENT).result == "pass"
    assert judged({"need": [tried]}, EmittedCall("mail.send", {}, fault="no JSON")).result == "fail"


def test_two_needs_of_one_tool_are_matched_in_any_order() -> None:
    """The first call fits both needs, the second only the first one: a greedy look would fail it."""
    need = [{"tool": "mail.send", "args": {"to": {"contains": "a"}}}, {"tool": "mail.send", "args": {"to": ["a", "b"]}}]
    both, one = EmittedCall("mail.send", {"to": ["a", "b"]}), EmittedCall("mail.send", {"to": ["a"]})

    assert judged({"need": need}, both, one).result == "pass"
    assert judged({"need": need}, one, both).result == "pass"
    assert judged({"need": need[::-1]}, both, one).result == "pass"
    assert judged({"need": need}, both).result == "fail"
    assert judged({"need": need}, one, one).result == "fail"


def test_one_call_does_not_serve_two_equal_needs() -> None:
    found = judged({"need": [SEND, SEND]}, SENT)

    golden_text.said(found.message, "need-2", "mail.send")
    assert judged({"need": [SEND, SEND]}, SENT, SENT).result == "pass"


AFTER = {"need": [{"id": "move", **UPDATE}, {"id": "tell", "after": ["move"], **SEND}]}


@pytest.mark.parametrize(
    ("check", "emitted", "result"),
    [
        (AFTER, [MOVED, SENT], "pass"),
        (AFTER, [SENT, MOVED], "fail"),
        (AFTER, [SENT, MOVED, SENT], "pass"),
        (AFTER, [MOVED, failing(SENT)], "fail"),
        ({"need": [UPDATE, SEND]}, [SENT, MOVED], "pass"),
        ({"need": [UPDATE, SEND], "order": "any"}, [SENT, MOVED], "pass"),
        ({"need": [UPDATE, SEND], "order": "exact"}, [SENT, MOVED], "fail"),
        ({"need": [UPDATE, SEND], "order": "exact"}, [SENT, MOVED, SENT], "pass"),
        ({"need": [UPDATE, SEND], "order": "exact"}, [MOVED, EmittedCall("calendar.list", {}), SENT], "pass"),
    ],
)
def test_order_is_any_partial_or_exact(check: JsonObject, emitted: list[EmittedCall], result: str) -> None:
    assert judged(check, *emitted).result == result


def test_wrong_order_of_calls_is_reported_as_such() -> None:
    golden_text.said(judged(AFTER, SENT, MOVED).message, "tell", "move")


@pytest.mark.parametrize(
    ("forbid", "emitted", "result"),
    [
        (["calendar.list"], [EmittedCall("calendar.list", {})], "fail"),
        (["calendar.list"], [failing(EmittedCall("calendar.list", {}))], "fail"),
        (["calendar.*"], [EmittedCall("calendar.list", {})], "fail"),
        (["mail.*"], [EmittedCall("calendar.list", {})], "pass"),
        ([{"decoys": True}], [EmittedCall("mail.draft", {})], "fail"),
        ([{"decoys": "far"}], [EmittedCall("mail.draft", {})], "pass"),
        ([{"decoys": "far"}], [EmittedCall("todo.add", {})], "fail"),
        (
            [{"tool": "mail.send", "args": {"to": {"contains": "all@x"}}}],
            [EmittedCall("mail.send", {"to": ["all@x"]})],
            "fail",
        ),
        (
            [{"tool": "mail.send", "args": {"to": {"contains": "all@x"}}}],
            [EmittedCall("mail.send", {"to": ["b@x"]})],
            "pass",
        ),
        ([{"tool": "mail.send", "args": {"to": {"contains": "all@x"}}}], [EmittedCall("mail.send", {})], "pass"),
    ],
)
def test_forbidden_call_fails_whatever_the_rest_is(forbid: Any, emitted: list[EmittedCall], result: str) -> None:
    assert judged({"need": [UPDATE], "forbid": forbid}, MOVED, *emitted).result == result


@pytest.mark.parametrize(("extra", "result"), [("allow", "pass"), ("soft", "pass"), ("deny", "fail")])
@pytest.mark.parametrize(
    "more", [MOVED, EmittedCall("mail.draft", {}), EmittedCall("?", {}, fault="no map"), EmittedCall("mail.sned", {})]
)
def test_extra_calls_are_allowed_counted_or_denied(extra: str, result: str, more: EmittedCall) -> None:
    assert judged({"need": [UPDATE], "extra": extra}, MOVED, more).result == result


def test_free_calls_are_neither_right_nor_wrong() -> None:
    look = EmittedCall("calendar.list", {})
    found = judged({"need": [UPDATE], "extra": "deny", "free": ["calendar.list"]}, look, MOVED, look)

    assert found.result == "pass"
    assert classes(found) == ["free", "right", "free"]
    assert found.figures["precision"] == 1.0


@pytest.mark.parametrize(
    ("args", "given", "result"),
    [
        ({"exact": {"id": 1}}, {"id": 1}, "pass"),
        ({"exact": {"id": 1}}, {"id": 1, "note": "x"}, "fail"),
        ({"subset": {"id": 1}}, {"id": 1, "note": "x"}, "pass"),
        ({"id": 1}, {"id": 1, "note": "x"}, "pass"),
        ({"id": {"any": True}}, {}, "fail"),
        ({}, {"id": 7}, "pass"),
        ({"exact": {}}, {"id": 7}, "fail"),
        ({"exact": {"who": {"a": 1}}}, {"who": {"a": 1, "b": 2}}, "fail"),
        ({"subset": {"who": {"a": 1}}}, {"who": {"a": 1, "b": 2}}, "pass"),
        ({"exact": {"n": {"one-of": [1, 2]}}}, {"n": 2}, "pass"),
        ({"subset": {"subset": 1}}, {"subset": 1}, "pass"),
    ],
)
def test_arguments_match_as_a_subset_or_exactly(args: Any, given: JsonObject, result: str) -> None:
    check = {"need": [{"tool": "todo.add", "args": args}]}

    assert judged(check, EmittedCall("todo.add", given)).result == result


@pytest.mark.parametrize(
    ("given", "result"),
    [
        ({"n": 1}, "pass"),
        ({"n": 1, "unit": "m"}, "pass"),
        ({"n": 1, "unit": "km"}, "fail"),
        ({"n": 1, "unit": None, "other": None}, "pass"),
        ({"n": None}, "fail"),
    ],
)
def test_optional_argument_must_match_where_it_is_given(given: JsonObject, result: str) -> None:
    check = {"need": [{"tool": "todo.add", "args": {"exact": {"n": 1}}, "may": {"unit": {"one-of": ["m", "metre"]}}}]}

    assert judged(check, EmittedCall("todo.add", given)).result == result


def test_a_failure_names_the_arguments_of_the_call_that_came_closest() -> None:
    found = judged(
        {"need": [UPDATE]}, EmittedCall("calendar.update", {}), EmittedCall("calendar.update", {"id": "evt-1"})
    )

    golden_text.said(found.message, "need-1", "calendar.update")


def test_the_figures_are_soft_and_leave_out_what_was_not_measured() -> None:
    emitted = [
        failing(MOVED),
        MOVED,
        MOVED,
        EmittedCall("mail.send", {"to": ["other@x"], "body": "hi"}),
        EmittedCall("mail.draft", {}),
        EmittedCall("nothing.such", {}),
        EmittedCall("mail.send", {}, fault="no JSON"),
        EmittedCall("calendar.list", {}),
    ]
    found = judged({"need": [UPDATE, SEND], "free": ["calendar.list"]}, *emitted)

    assert found.figures == {
        "calls": 8,
        "precision": 2 / 7,
        "recall": 1 / 2,
        "argument-accuracy": 2 / 3,
        "duplicates": 1,
        "invented": 1,
        "invented-rate": 1 / 8,
        "malformed": 1,
        "decoy-rate-near": 1 / 8,
        "decoy-rate-far": 0,
        "extra-arguments": 0,
        "failed-calls": 1,
        "retries-after-error": 1,
    }
    assert not judged({"need": [UPDATE]}).figures.keys() & {"precision", "argument-accuracy", "decoy-rate-near"}
    assert judged({"need": [SEND]}, SENT).figures["extra-arguments"] == 1


def test_call_format_is_counted_without_a_check_too() -> None:
    unknown = EmittedCall("nothing.such", {}, state="Failed", is_invented=True)
    unreadable = EmittedCall("mail.send", {}, fault="no JSON", state="Failed")
    calls = (unknown, unreadable, failing(SENT), SENT, SENT, unknown)

    assert conduct_figures(calls) == {"invented": 2, "malformed": 1, "retries-after-error": 3}
    assert conduct_figures(()) == {"invented": 0, "malformed": 0, "retries-after-error": 0}


def test_a_check_that_asks_for_nothing_looks_at_nothing() -> None:
    assert judged({}).probes == 0
    assert judged({"need": [UPDATE], "forbid": ["mail.*"], "extra": "deny"}).probes == 3


@pytest.mark.parametrize(
    ("check", "words"),
    [
        ([], "`calls` must be a map"),
        ({"needs": []}, "no member `needs`"),
        ({"need": [{"args": {}}]}, "has no `tool`"),
        ({"need": [{"tool": "a", "after": ["b"]}]}, "no needed call has the id `b`"),
        ({"need": [{"tool": "a", "id": "x"}, {"tool": "a", "id": "x"}]}, "two needed calls have the id `x`"),
        ({"need": [{"tool": "a", "id": "x", "after": ["x"]}]}, "dependency cycle in `after`: x"),
        (
            {"need": [{"tool": "a"}, {"tool": "a", "after": ["need-1"]}], "order": "any"},
            "`after` has no effect if `order` is `any`",
        ),
        ({"need": [{"tool": "a", "args": {"n": {"one-of": []}}}]}, "`one-of` is a list"),
        ({"need": [{"tool": "a"}] * (NEEDED_CALLS_MAX + 1)}, f"at most {NEEDED_CALLS_MAX} are allowed"),
        ({"need": [{"tool": "a", "tried": "yes"}]}, "invalid `tried`: yes"),
        ({"order": "some"}, "invalid `order`: some"),
        ({"extra": "no"}, "invalid `extra`: no"),
        ({"forbid": [{"decoys": "some"}]}, "invalid `decoys`: some"),
        ({"forbid": [{}]}, "an item of `forbid` names no tool"),
    ],
)
def test_unreadable_check_is_an_error_with_a_reason(check: Any, words: str) -> None:
    found = judged(check, MOVED)

    assert found.result == "error"
    assert words in found.message


@settings(max_examples=sets.examples(50, 25))
@given(st.permutations(range(10)), st.booleans())
def test_many_equal_needs_and_calls_in_any_order_are_matched_quickly(order: list[int], is_row: bool) -> None:
    """Ten needs of one tool, each after the one before: only one assignment is right, of ten faculty."""
    need = [
        {"id": f"n{place}", "tool": "todo.add", "args": {"n": {"between": [0, place]}}}
        | ({"after": [f"n{place - 1}"]} if place and is_row else {})
        for place in range(10)
    ]
    emitted = [EmittedCall("todo.add", {"n": n}) for n in order]

    assert judged({"need": need}, *emitted).result == ("pass" if not is_row or order == sorted(order) else "fail")
