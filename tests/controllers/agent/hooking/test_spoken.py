"""What agents say as hooks, read as verdicts: words, JSON, both, and nonsense."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planloop.controllers.agent.hooking import showing, spoken
from planloop.schemas import limits
from planloop.schemas.hook import HookAgent, HookSpec, Point, Verdict
from planloop.schemas.thread import Answer
from tests import golden_text
from tests.product import JsonObject, encode

HOOK = HookSpec("careful", "agent/web", ("before-call",), HookAgent("agent/web/~careful"))


def read(text: str, point: Point = "on-input") -> Verdict:
    return spoken.verdict_of(Answer(text), point)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("DENY: that file is not yours", Verdict("deny", "that file is not yours")),
        ("deny\n\nnot yours", Verdict("deny", "not yours")),
        ("**DENY** — not yours", Verdict("deny", "not yours")),
        ("Denied. Not yours", Verdict("deny", "Not yours")),
        ("ALLOW", Verdict()),
        ("ok", Verdict()),
        ("ALLOW but be quick", Verdict(comment="but be quick")),
        ("DEFER: plan first", Verdict("defer", "plan first")),
        ("ASK: it costs money", Verdict("ask", "it costs money")),
        ('{"decision": "deny", "reason": "no"}', Verdict("deny", "no")),
        ('Here it is:\n```json\n{"decision": "allow", "comment": "hm"}\n```', Verdict(comment="hm")),
        ('{"updated_input": {"path": "b"}}', Verdict(arguments={"path": "b"})),
        ('{"permissionDecision": "deny", "permissionDecisionReason": "no"}', Verdict("deny", "no")),
        ('{"decision": "allow", "quit": true}', Verdict(is_last=True)),
        ('{"decision": "allow"} no: {"decision": "deny", "reason": "x"}', Verdict("deny", "x")),
        ('DENY: it writes {"decision": "allow"}', Verdict("deny", 'it writes {"decision": "allow"}')),
        ('ALLOW {"comment": "x"}', Verdict(comment='{"comment": "x"}')),
        ("(it said nothing)", Verdict()),
        ("No comment.", Verdict()),
    ],
)
def test_what_is_said_is_a_verdict(text: str, wanted: Verdict) -> None:
    assert read(text) == wanted


@pytest.mark.parametrize(
    "text", ["ask the user what they mean", "Block quotes are fine", "I would not deny that", "{x}"]
)
def test_other_words_are_a_comment(text: str) -> None:
    assert read(text) == Verdict(comment=text)


@pytest.mark.parametrize("text", ["it looks fine to me", "(it said nothing)", "", "{}", '{"comment": "hm"}'])
def test_before_a_call_chatter_and_silence_are_no_permission(text: str) -> None:
    golden_text.said(read(text, "before-call").fault)
    golden_text.said(read(text, "on-patch").fault)


@pytest.mark.parametrize(
    "text", ['{"decision": "maybe"}', '{"decision": 3}', '{"decision": "allow", "updated_input": "rm"}']
)
def test_a_verdict_that_is_none_is_a_fault(text: str) -> None:
    assert read(text).fault
    assert read(text).decision == "allow" and read(text).arguments is None


def test_an_agent_that_cannot_answer_is_a_fault_with_its_reason() -> None:
    said = spoken.verdict_of(Answer("its budget of turns is used up", "Parked"), "before-call")
    assert said == Verdict(fault="Parked: its budget of turns is used up")


def test_a_value_counts_before_its_text() -> None:
    value = {"decision": "deny", "reason": "no"}
    assert spoken.verdict_of(Answer(json.dumps(value)[:5], value=value), "before-call") == Verdict("deny", "no")


@given(st.text() | st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_nothing_that_is_said_breaks_the_reading(text: str) -> None:
    for point in ("before-call", "on-input"):
        said = read(text, point)
        assert len(said.comment) <= limits.HOOK_WORDS_CHARS_MAX and len(said.reason) <= limits.HOOK_WORDS_CHARS_MAX


def test_many_braces_are_given_up() -> None:
    assert read("{" * 10_000) == Verdict(comment=("{" * 10_000)[: limits.HOOK_WORDS_CHARS_MAX - 1] + "…")


def question(**more: object) -> JsonObject:
    base = {
        "version": 1,
        "id": "q",
        "hook_event_name": "before-call",
        "agent": "agent/web",
        "turn": 3,
        "goal": "a page",
    }
    return {**base, "tool_name": "write", "tool_input": {"path": "a.txt", "content": "hello"}, **more}


def test_a_reader_is_shown_words_and_a_program_the_question_itself() -> None:
    text = showing.shown(HOOK, question(), is_text=True)
    assert isinstance(text, str)
    golden_text.said_in(text, "agent/web")
    assert 'tool_input:\n{"path":"a.txt","content":"hello"}' in text
    assert "its goal: a page" in text
    assert showing.shown(HOOK, question(), is_text=False) == {"hook": "careful", "question": question()}


@given(st.integers(0, 60_000), st.integers(0, 300), st.booleans())
def test_what_is_shown_always_fits_into_a_message(size: int, count: int, is_text: bool) -> None:
    children = [{"task": f"task/{index}", "goal": "x" * 200} for index in range(count)]
    big = question(tool_input={"content": "x" * size, "other": ["y" * 100] * count}, children=children)
    assert len(encode(showing.shown(HOOK, big, is_text=is_text))) <= limits.MESSAGE_BYTES_MAX


def test_what_is_cut_says_so() -> None:
    text = showing.shown(HOOK, question(tool_input={"content": "x" * 40_000}), is_text=True)
    assert "left out" in str(text)
