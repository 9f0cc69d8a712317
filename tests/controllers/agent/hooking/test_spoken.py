"""Answers of agents as hooks, parsed as verdicts: words, JSON, both, and invalid text."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planloop.controllers.agent.hooks import agent_hooks, verdicts
from planloop.schemas import limits
from planloop.schemas.objects.hook import HookAgent, HookPoint, HookSpec, HookVerdict
from planloop.schemas.objects.message import ThreadAnswer
from tests import golden_text
from tests.product import JsonObject, encode

HOOK = HookSpec("careful", "agent/web", ("before-call",), HookAgent("agent/web/~careful"))


def read(text: str, point: HookPoint = "on-input") -> HookVerdict:
    return verdicts.parse_verdict(ThreadAnswer(text), point)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("DENY: that file is not yours", HookVerdict("deny", "that file is not yours")),
        ("deny\n\nnot yours", HookVerdict("deny", "not yours")),
        ("**DENY** — not yours", HookVerdict("deny", "not yours")),
        ("Denied. Not yours", HookVerdict("deny", "Not yours")),
        ("ALLOW", HookVerdict()),
        ("ok", HookVerdict()),
        ("ALLOW but be quick", HookVerdict(comment="but be quick")),
        ("DEFER: plan first", HookVerdict("defer", "plan first")),
        ("ASK: it costs money", HookVerdict("ask", "it costs money")),
        ('{"decision": "deny", "reason": "no"}', HookVerdict("deny", "no")),
        ('Here it is:\n```json\n{"decision": "allow", "comment": "hm"}\n```', HookVerdict(comment="hm")),
        ('{"updated_input": {"path": "b"}}', HookVerdict(arguments={"path": "b"})),
        ('{"permissionDecision": "deny", "permissionDecisionReason": "no"}', HookVerdict("deny", "no")),
        ('{"decision": "allow", "quit": true}', HookVerdict(is_last=True)),
        ('{"decision": "allow"} no: {"decision": "deny", "reason": "x"}', HookVerdict("deny", "x")),
        ('DENY: it writes {"decision": "allow"}', HookVerdict("deny", 'it writes {"decision": "allow"}')),
        ('ALLOW {"comment": "x"}', HookVerdict(comment='{"comment": "x"}')),
        ("", HookVerdict()),
        ("No comment.", HookVerdict()),
    ],
)
def test_spoken_reply_is_a_verdict(text: str, wanted: HookVerdict) -> None:
    assert read(text) == wanted


@pytest.mark.parametrize(
    "text", ["ask the user what they mean", "Block quotes are fine", "I would not deny that", "{x}"]
)
def test_any_other_reply_is_a_comment(text: str) -> None:
    assert read(text) == HookVerdict(comment=text)


@pytest.mark.parametrize("text", ["it looks fine to me", "", "{}", '{"comment": "hm"}'])
def test_before_a_call_chatter_and_silence_are_no_permission(text: str) -> None:
    golden_text.said(read(text, "before-call").fault)
    golden_text.said(read(text, "on-patch").fault)


@pytest.mark.parametrize(
    "text", ['{"decision": "maybe"}', '{"decision": 3}', '{"decision": "allow", "updated_input": "rm"}']
)
def test_invalid_verdict_is_an_error(text: str) -> None:
    assert read(text).fault
    assert read(text).decision == "allow" and read(text).arguments is None


def test_agent_that_cannot_answer_is_an_error_with_its_reason() -> None:
    said = verdicts.parse_verdict(ThreadAnswer("its budget of turns is used up", "Parked"), "before-call")
    assert said == HookVerdict(fault="Parked: its budget of turns is used up")


def test_a_value_counts_before_its_text() -> None:
    value = {"decision": "deny", "reason": "no"}
    assert verdicts.parse_verdict(ThreadAnswer(json.dumps(value)[:5], value=value), "before-call") == HookVerdict(
        "deny", "no"
    )


@given(st.text() | st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_any_reply_is_read_without_a_crash(text: str) -> None:
    for point in ("before-call", "on-input"):
        said = read(text, point)
        assert len(said.comment) <= limits.HOOK_WORDS_CHARS_MAX and len(said.reason) <= limits.HOOK_WORDS_CHARS_MAX


def test_many_braces_are_abandoned() -> None:
    assert read("{" * 10_000) == HookVerdict(comment=("{" * 10_000)[: limits.HOOK_WORDS_CHARS_MAX - 1] + "…")


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


def test_reader_sees_text_and_a_program_the_question_itself() -> None:
    text = agent_hooks.question_body(HOOK, question(), is_text=True)
    assert isinstance(text, str)
    golden_text.said_in(text, "agent/web")
    assert 'tool_input:\n{"path":"a.txt","content":"hello"}' in text
    assert "its goal: a page" in text
    assert agent_hooks.question_body(HOOK, question(), is_text=False) == {"hook": "careful", "question": question()}


@given(st.integers(0, 60_000), st.integers(0, 300), st.booleans())
def test_question_always_fits_into_a_message(size: int, count: int, is_text: bool) -> None:
    children = [{"task": f"task/{index}", "goal": "x" * 200} for index in range(count)]
    big = question(tool_input={"content": "x" * size, "other": ["y" * 100] * count}, children=children)
    assert len(encode(agent_hooks.question_body(HOOK, big, is_text=is_text))) <= limits.MESSAGE_BYTES_MAX


def test_truncated_reply_is_marked() -> None:
    text = agent_hooks.question_body(HOOK, question(tool_input={"content": "x" * 40_000}), is_text=True)
    assert "left out" in str(text)
