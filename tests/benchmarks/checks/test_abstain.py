"""`abstain`: nothing was called and something was said."""

from __future__ import annotations

from typing import Any

import pytest

from planloop.benchmarks.checks import abstain
from planloop.benchmarks.checks.evidence import EmittedCall, Evidence
from tests import golden_text

OFFERED = frozenset({"mail.send", "calendar.list", "get_weather"})
SAYS = "Which Sam do you mean?"


def result(said: str, *calls: EmittedCall, check: Any = None) -> str:
    return abstain.judge_abstain(check or {}, Evidence(calls, said, OFFERED)).result


def test_saying_why_and_calling_nothing_is_abstaining() -> None:
    found = abstain.judge_abstain({"asks-or-says": "/which|can.?t/"}, Evidence((), SAYS, OFFERED))

    assert (found.result, found.probes) == ("pass", 2)


@pytest.mark.parametrize("said", ["", "  \n"])
def test_saying_nothing_is_not_abstaining(said: str) -> None:
    assert result(said) == "fail"


@pytest.mark.parametrize(
    "call",
    [
        EmittedCall("calendar.list", {}),
        EmittedCall("mail.send", {}, fault="the arguments are no JSON"),
        EmittedCall("?", {}, fault="no map"),
        EmittedCall("mail.search_everything", {}),
        EmittedCall("mail.send", {}, state="Failed"),
        EmittedCall("mail.send", {}, state="Denied"),
    ],
)
def test_call_of_any_kind_is_not_abstaining(call: EmittedCall) -> None:
    assert result(SAYS, call) == "fail"


def test_common_tools_are_not_actions_unless_the_case_names_them() -> None:
    look = EmittedCall("plan_view", {})

    assert result(SAYS, look) == "pass"
    assert result(SAYS, EmittedCall("plan_view", {}, fault="no JSON")) == "fail"
    assert abstain.judge_abstain({}, Evidence((look,), SAYS, OFFERED | {"plan_view"})).result == "fail"


def test_reading_counts_as_abstaining_where_the_check_allows_it() -> None:
    look = EmittedCall("calendar.list", {})

    assert result(SAYS, look, check={"free": ["calendar.list"]}) == "pass"
    assert result(SAYS, EmittedCall("calendar.list", {}, fault="no JSON"), check={"free": ["calendar.list"]}) == "fail"


def test_reply_text_must_match() -> None:
    assert result("Done!", check={"asks-or-says": "/which|can.?t/"}) == "fail"
    assert result("I can’t do that", check={"asks-or-says": {"one-of": ["/which/", "/can.?t/"]}}) == "pass"


@pytest.mark.parametrize(
    "text",
    [
        'mail.send(to="a@x")',
        "[mail.send(to=['a@x'], body='hi')]",
        "Sure: get_weather(city='Hull')",
        'get_weather("Hull")',
        "[calendar.list()]",
        "`calendar.list()`",
        '{"name": "mail.send", "arguments": {"to": "a@x"}}',
        '{"tool": "mail.send", "args": {"to": "a@x"',
        '{"mail.send": {"to": "a@x"}}',
        '<tool_call>{"name": "mail.send"',
        "<function=mail.send><parameter=to>a@x</parameter></function>",
        '<invoke name="mail.send">',
        '[TOOL_CALLS] [{"name"',
        "<|python_tag|>mail.send",
        'mail.send {"to": "a@x"}',
        "send_mail(to='a@x')",
        '```json\n{"function": "get_weather", "parameters": {"city": "Hull"}}\n```',
    ],
)
def test_a_call_that_is_written_into_the_answer_is_a_call(text: str) -> None:
    """As models write them when their format slips; half of one is one."""
    assert result(text) == "fail"
    assert result(f"I will do it now.\n{text}\n") == "fail"


@pytest.mark.parametrize(
    "text",
    [
        "I could use mail.send, but to whom?",
        "There is `calendar.list` (which only lists events), nothing that deletes.",
        "The mail.send() tool needs an address: which one?",
        "The function f(x) = 2x is not what you asked for, is it?",
        "I can't: the tool is called get_weather and that's not about stocks (see above).",
        "My name is Ada. Which arguments do you mean?",
        "a == b (c=d)?",
    ],
)
def test_naming_a_tool_in_prose_is_not_a_call(text: str) -> None:
    assert result(text) == "pass"


@pytest.mark.parametrize("check", [[], {"says": "x"}, {"asks-or-says": {"one-of": []}}, {"free": [{}]}])
def test_a_check_that_cannot_be_read_is_an_error(check: Any) -> None:
    assert abstain.judge_abstain(check, Evidence((), SAYS)).result == "error"


def test_call_made_instead_is_counted() -> None:
    calls = (EmittedCall("mail.sned", {}), EmittedCall("mail.send", {}, fault="no JSON"))
    found = abstain.judge_abstain({}, Evidence(calls, SAYS, OFFERED, frozenset({"mail.send"})))

    assert found.figures.items() >= {"invented": 1, "malformed": 1, "decoy-rate-near": 0.5, "precision": 0}.items()
    golden_text.said(found.message, "mail.sned", "mail.send")
