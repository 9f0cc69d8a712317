"""What other graders of tool calls are known to get wrong, each with its source."""

from __future__ import annotations

from typing import Any

import pytest

from planloop.benchmarks.checks import abstain, calls
from planloop.benchmarks.checks.evidence import EmittedCall, Evidence
from planloop.controllers.task.checks.run import CheckFinding

OFFERED = frozenset({"pay", "look", "note"})
TWICE = [{"tool": "pay", "args": {"amount": 1}}, {"tool": "pay", "args": {"amount": 2}}]


def judged(need: list[Any], *emitted: EmittedCall, **check: Any) -> CheckFinding:
    return calls.judge_calls({"need": need, **check}, Evidence(emitted, offered=OFFERED))


def one(args: Any, given: Any, may: Any = None) -> str:
    need = {"tool": "pay", "args": args} | ({"may": may} if may else {})
    return judged([need], EmittedCall("pay", given)).result


@pytest.mark.parametrize(
    ("key", "given"),
    [
        ("1.5", "15"),
        ("-5", "5"),
        ("a/b", "ab"),
        ("2030-01-02", "20300102"),
        ("snake_case", "snakecase"),
        ("2*3", "23"),
    ],
)
def test_punctuation_in_a_text_counts(key: str, given: str) -> None:
    """BFCL, `ast_checker.py` `standardize_string`: drops spaces and `,./-_*^` on both sides before it compares."""
    assert one({"amount": key}, {"amount": given}) == "fail"
    assert one({"amount": key}, {"amount": key}) == "pass"


@pytest.mark.parametrize("given", [{}, {"to": "ann"}, {"amount": 5}])
def test_a_call_that_lacks_an_argument_does_not_match(given: Any) -> None:
    """tau2, `tasks.py` `compare_with_tool_call`: compares only the arguments that the *call* has, so {} matches all."""
    assert one({"amount": 5, "to": "ann"}, given) == "fail"


def test_a_harmless_call_more_does_not_fail_a_right_one() -> None:
    """BFCL, `ast_checker.py` "wrong count": a right call and one more is as wrong as none."""
    right = EmittedCall("pay", {"amount": 1})

    assert judged([TWICE[0]], right, EmittedCall("look", {})).result == "pass"
    assert judged([TWICE[0]], right, EmittedCall("look", {})).figures["precision"] == 0.5
    assert judged([TWICE[0]], right, EmittedCall("look", {}), extra="deny").result == "fail"


@pytest.mark.parametrize(
    "call",
    [EmittedCall("pay", {}, fault="the arguments are no JSON"), EmittedCall("?", {}, fault="an action is a map")],
)
def test_unparsable_reply_is_not_an_abstention(call: EmittedCall) -> None:
    """BFCL, ShishirPatil/gorilla#1362: a call that fails to parse is credited as having rightly called nothing."""
    assert abstain.judge_abstain({}, Evidence((call,), "I can't", OFFERED)).result == "fail"
    assert abstain.judge_abstain({}, Evidence((), '[pay(amount=5, to="ann"', OFFERED)).result == "fail"


def test_doing_nothing_does_not_pass_an_impossible_task() -> None:
    """tau-bench, by the Agentic Benchmark Checklist (arXiv 2507.02825): empty answers counted as success."""
    assert abstain.judge_abstain({}, Evidence((), "", OFFERED)).result == "fail"


def test_a_task_without_criteria_is_not_passed_but_not_looked_at() -> None:
    """tau2, `evaluator_env.py`: 1.0 when a task has no criteria."""
    assert judged([]).probes == 0


def test_optional_argument_is_distinguished_from_a_required_one() -> None:
    """BFCL marks both by an empty text among the alternatives, against `required` of the tool in places."""
    assert one({"exact": {"amount": 5}}, {"amount": 5}, may={"unit": "eur"}) == "pass"
    assert one({"exact": {"amount": 5}}, {"amount": 5, "unit": ""}, may={"unit": "eur"}) == "fail"
    assert one({"exact": {"amount": 5, "unit": "eur"}}, {"amount": 5}) == "fail"
    assert one({"exact": {"unit": ""}}, {"unit": ""}) == "pass"


@pytest.mark.parametrize(
    ("key", "given", "result"),
    [
        (5, 5.0, "pass"),
        (5, "5", "fail"),
        ("5", 5, "fail"),
        (1, True, "fail"),
        (False, 0, "fail"),
        ([1, 2], [1, 2], "pass"),
        ([1, 2], [2, 1], "fail"),
        ({"set": [1, 2]}, [2, 1], "pass"),
        ([1, 2], [1], "fail"),
        ([1, 2], [1, 2, 3], "fail"),
        ([1], 1, "fail"),
        (["a"], "a", "fail"),
        ([], [], "pass"),
        ("Paris", " paris ", "pass"),
        ("New York", "new  york", "pass"),
        (None, "", "fail"),
        ({"subset": {"a": [1, {"b": 2}]}}, {"a": [1, {"b": 2}]}, "pass"),
        ({"exact": {"a": 1}}, {"a": 1, "b": 2}, "fail"),
    ],
)
def test_numbers_truth_values_lists_and_texts_compare_by_type(key: Any, given: Any, result: str) -> None:
    """BFCL, ShishirPatil/gorilla#1133 and its `type_checker`: keys of lists, and of numbers written as texts."""
    assert one({"amount": key}, {"amount": given}) == result


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_two_calls_of_one_tool_are_matched_to_the_key_in_any_order(order: tuple[int, int]) -> None:
    """A greedy look, as in BFCL's parallel checker, takes the first that fits; where keys overlap it takes wrongly."""
    emitted = [EmittedCall("pay", {"amount": amount}) for amount in order]
    loose = [{"tool": "pay", "args": {"amount": {"one-of": [1, 2]}}}, TWICE[0]]

    assert judged(TWICE, *emitted).result == "pass"
    assert judged(loose, *emitted).result == "pass"
    assert judged(TWICE, emitted[0], emitted[0]).result == "fail"


def test_right_names_with_wrong_arguments_are_not_right() -> None:
    """promptfoo, `toolCallF1.ts`: compares names as sets, so arguments and repeats do not count."""
    assert judged(TWICE, EmittedCall("pay", {"amount": 9})).result == "fail"
    assert judged(TWICE, EmittedCall("pay", {"amount": 1}), EmittedCall("pay", {})).result == "fail"
