"""A rule that is wrong is told so before it is asked: what is wrong, where, and what to write instead."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from controllers.agent.hooking import conditions, facts
from schemas.encoding import Json
from schemas.hook import Point
from schemas.rule import BLANKS, CONDITIONS, EFFECTS, NUMBER_TESTS, TEXT_TESTS
from schemas.rule_faults import condition_faults, faults_of

POINTS = get_args(Point)

WRONG: list[tuple[Json, str, str]] = [
    ([], "P0210", "without clauses"),
    (["deny"], "P0202", "a clause is a map"),
    ([{"when": {"call": "shell"}}], "P0210", "does nothing"),
    ([{"wen": {}, "deny": "x"}], "P0201", "no `wen`"),
    ([{"deny": "x", "allow": True}], "P0211", "`deny` and `allow`"),
    ([{"deny": 3}], "P0202", "says why"),
    ([{"deny": "no {tol}"}], "P0201", "no `tol`"),
    ([{"comment": "{count}"}], "P0223", "which"),
    ([{"comment": "{setting.max}"}], "P0213", "no setting `max`"),
    ([{"comment": ""}], "P0202", "`comment` is a text"),
    ([{"rewrite": []}], "P0202", "map of arguments"),
    ([{"rewrite": {"command": ["{arg}"]}}], "P0201", "no `arg`"),
    ([{"count": {"n": "x"}}], "P0202", "by a number"),
    ([{"mark": 3}], "P0202", "a name"),
    ([{"quit": "yes"}], "P0202", "true or left out"),
    ([{"when": "shell", "deny": "x"}], "P0202", "a condition is a map"),
    ([{"when": {"tool": "shell"}, "deny": "x"}], "P0201", "no `tool`"),
    ([{"when": {"call": "rm -rf"}, "deny": "x"}], "P0223", "no pattern of calls"),
    ([{"when": {"on": "before-cal"}, "deny": "x"}], "P0201", "no `before-cal`"),
    ([{"when": {"arguments": {"path": {"begins": "x"}}}, "deny": "x"}], "P0201", "no `begins`"),
    ([{"when": {"arguments": {"path": {"matches": "(a"}}}, "deny": "x"}], "P0223", "no regular expression"),
    ([{"when": {"arguments": {"path": {"starts": 3}}}, "deny": "x"}], "P0202", "`starts` is a text"),
    ([{"when": {"arguments": "x"}, "deny": "x"}], "P0202", "from names to tests"),
    ([{"when": {"turn": {">": "many"}}, "comment": "x"}], "P0202", "compared with a number"),
    ([{"when": {"turn": {"over": 3}}, "comment": "x"}], "P0201", "no `over`"),
    ([{"when": {"children": {"liv": True}}, "comment": "x"}], "P0201", "no `liv`"),
    ([{"when": {"children": {"live": 1}}, "comment": "x"}], "P0202", "true or false"),
    ([{"when": {"message": "hello"}, "comment": "x"}], "P0202", "is a map"),
    ([{"when": {"any": {"turn": 1}}, "comment": "x"}], "P0202", "list of conditions"),
    ([{"when": {"turn": "$max"}, "comment": "x"}], "P0213", "no setting `max`"),
    ({"when": {"not": {"tun": 1}}, "comment": "x"}, "P0201", "no `tun`"),
]


@pytest.mark.parametrize(("rule", "code", "words"), WRONG)
def test_a_fault_has_its_code_and_its_words(rule: Json, code: str, words: str) -> None:
    (fault,) = faults_of(rule, POINTS, ["turns"])

    assert (fault.code, words in fault.summary) == (code, True), fault
    assert fault.hint, "every fault says its cure"


def test_a_slip_of_the_pen_is_answered_with_what_was_meant_and_placed() -> None:
    (fault,) = faults_of([{"comment": "x"}, {"when": {"any": [{"efect": "read"}]}, "comment": "x"}], POINTS)

    assert fault.at == ("1", "when", "any", "0", "efect")
    assert fault.hint == "did you mean `effect`?"


@pytest.mark.parametrize(
    ("points", "rule", "what"),
    [
        (["on-input"], [{"deny": "no"}], "`deny` has no meaning at on-input"),
        (["after-call"], [{"rewrite": {"a": 1}}], "`rewrite` has no meaning at after-call"),
        (["before-call"], [{"when": {"result": "x"}, "deny": "no"}], "`result` has no meaning at before-call"),
        (["on-wake"], [{"when": {"call": "shell"}, "comment": "x"}], "`call` has no meaning at on-wake"),
        (["before-call"], [{"when": {"on": "on-wake"}, "comment": "x"}], "not asked at `on-wake`"),
    ],
)
def test_what_can_never_hold_or_have_effect_at_the_points_of_the_hook_is_told(
    points: list[Point], rule: Json, what: str
) -> None:
    assert what in faults_of(rule, points)[0].summary


def test_all_faults_come_in_one_pass_and_in_order() -> None:
    rule: Any = [{"wen": 1, "deny": "{x}"}, {"when": {"a": 1, "b": 2}, "quit": 1}]

    assert [fault.at for fault in faults_of(rule)] == [
        ("0", "wen"),
        ("0", "deny"),
        ("1", "when", "a"),
        ("1", "when", "b"),
        ("1", "quit"),
    ]


def test_a_condition_alone_is_checked_as_in_a_rule() -> None:
    assert condition_faults({"turn": {">": 3}}) == ()
    assert [fault.code for fault in condition_faults({"turns": 3})] == ["P0201"]


def test_conditions_without_end_are_refused() -> None:
    nested: Json = {"turn": 1}
    for _ in range(200):
        nested = {"not": nested}

    assert [fault.code for fault in condition_faults(nested)] == ["P0224"]


SOME: dict[str, Json] = {
    "on": "after-call",
    "call": "shell",
    "arguments": {"path": "x"},
    "setting": {"max": 1},
    "budget": {"usd": {"<": 1}},
    "count": {"n": 1},
    "turns-since": {"m": 1},
    "calls": {"task": 1},
    "message": {"from": "person"},
    "is-copy": True,
    "any": [{"turn": 1}],
    "all": [{"turn": 1}],
    "not": {"turn": 1},
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_every_word_of_the_language_is_one_that_can_be_judged(name: str) -> None:
    """Law 10 for rules: what may be said has a reader."""
    when: Json = {name: SOME.get(name, 1)}
    known = conditions.Known(facts.Facts("on-wake", "agent/.", "task/.", "/x", 1, 0.0), {}, conditions.Memory(1))

    assert condition_faults(when) == ()
    assert conditions.holds(when, known) in (True, False)


def test_every_word_has_words() -> None:
    assert all(text for table in (CONDITIONS, EFFECTS, TEXT_TESTS, BLANKS) for text in table.values())
    assert not set(NUMBER_TESTS) & set(TEXT_TESTS)
