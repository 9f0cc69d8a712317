"""Fields that go back to the provider, joined from the pieces of a stream."""

from __future__ import annotations

import json
from typing import Any

import pytest

from planloop.controllers.agent.models import reply_pieces
from planloop.controllers.agent.models.reply_assembly import ReplyAssembly
from tests import rows


def taken(*messages: dict[str, Any], key: str = "delta") -> dict[str, Any]:
    assembly = ReplyAssembly()
    for message in messages:
        assembly.take({"choices": [{"index": 0, key: message, "finish_reason": None}]})
    return assembly.reply(()).extra


THINKING = {"type": "thinking", "thinking": "I have to write.", "signature": "c2ln"}
PIECES: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "DeepSeek": (
        [{"reasoning_content": "I have "}, {"reasoning_content": "to", "content": None}, {"reasoning_content": None}],
        {"reasoning_content": "I have to"},
    ),
    "Anthropic behind LiteLLM": (
        [
            {"thinking_blocks": [{"type": "thinking", "thinking": "I have ", "signature": None}]},
            {"thinking_blocks": [{"type": "thinking", "thinking": "to write."}]},
            {"thinking_blocks": [{"type": "thinking", "thinking": "", "signature": "c2ln"}]},
            {"thinking_blocks": [{"type": "redacted_thinking", "data": "eHg="}]},
        ],
        {"thinking_blocks": [THINKING, {"type": "redacted_thinking", "data": "eHg="}]},
    ),
    "OpenRouter": (
        [
            {"reasoning_details": [{"type": "reasoning.text", "text": "a", "index": 0, "format": "f"}]},
            {"reasoning_details": [{"type": "reasoning.text", "text": "b", "index": 0, "format": "f"}]},
            {"reasoning_details": [{"type": "reasoning.encrypted", "data": "x", "index": 1, "id": "r"}]},
        ],
        {
            "reasoning_details": [
                {"type": "reasoning.text", "text": "ab", "index": 0, "format": "f"},
                {"type": "reasoning.encrypted", "data": "x", "index": 1, "id": "r"},
            ]
        },
    ),
    "Gemini, on the message": (
        [{"content": "ok"}, {"extra_content": {"google": {"thought_signature": "c2ln"}}}],
        {"extra_content": {"google": {"thought_signature": "c2ln"}}},
    ),
    "Mistral": (
        [
            {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]},
            {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "m"}]}]},
            {"content": "ok"},
            {"content": " then"},
        ],
        {
            "content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": "hmm"}]},
                {"type": "text", "text": "ok then"},
            ]
        },
    ),
    "a provider of tomorrow": ([{"trace": {"id": "t1", "steps": [1, 2]}}], {"trace": {"id": "t1", "steps": [1, 2]}}),
    "nothing that goes back": (
        [{"role": "assistant", "content": "a", "refusal": None, "annotations": [1], "audio": None, "reasoning": ""}],
        {},
    ),
}


@rows.each(("pieces", "whole"), PIECES.values(), ids=list(PIECES))
def test_unknown_fields_are_kept_whole_however_they_are_cut(pieces: Any, whole: dict[str, Any]) -> None:
    assert taken(*pieces) == whole


@rows.each("whole", [one for _, one in PIECES.values()], ids=list(PIECES))
def test_unknown_fields_of_a_whole_message_are_kept_unchanged(whole: dict[str, Any]) -> None:
    assert taken({"content": "a"} | whole, key="message") == whole


def test_only_text_parts_are_text() -> None:
    assembly = ReplyAssembly()
    parts = [{"type": "reasoning", "text": "secret"}, {"type": "text", "text": "a"}, {"text": "b"}, "c"]
    assembly.take({"choices": [{"message": {"content": parts}}]})

    assert assembly.reply(()).text == "abc"


def test_two_blocks_of_thoughts_stay_two_when_the_first_is_signed() -> None:
    other = THINKING | {"thinking": "And then."}

    assert taken({"thinking_blocks": [THINKING]}, {"thinking_blocks": [other]}) == {
        "thinking_blocks": [THINKING, other]
    }


@pytest.mark.parametrize("odd", ["NaN", "1e999", "[" * 300 + "]" * 300])
def test_only_the_unstorable_field_is_left_out(odd: str) -> None:
    assert reply_pieces.storable_fields({"a": 1, "odd": json.loads(odd)}) == {"a": 1}
    assert reply_pieces.storable_fields({"b": "x\ud83d"}) == {"b": "x\N{REPLACEMENT CHARACTER}"}
