"""The request after an error about options, fields of the history or declarations of tools."""

from __future__ import annotations

import json
from typing import Any

from planloop.controllers.agent.models.chat_request import CALL_PLACEHOLDER, ChatDialect, encode_body
from planloop.controllers.agent.models.port import ModelRequest, RequestKey
from planloop.schemas import canonical_json
from tests import rows

CALL = {"id": "c", "type": "function", "function": {"name": "read", "arguments": "{}"}}
THOUGHT = {"thinking_blocks": [{"type": "thinking", "signature": "s"}], "created": 5}
HISTORY = tuple(
    canonical_json.encode(one)
    for one in (
        {"role": "system", "content": "s"},
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": None, "tool_calls": [CALL], **THOUGHT},
        {"role": "tool", "tool_call_id": "c", "content": "seen"},
        {"role": "user", "content": "y"},
    )
)


def asked_again(said: str, status: int = 400, options: Any = None) -> dict[str, Any] | None:
    """The body that is sent after an error; None if no other form is tried."""
    request = ModelRequest(RequestKey("a", "u", 1, 1, 1), "x/y", HISTORY, options=options or {}, output_tokens_max=100)
    dialect = ChatDialect().after(status, canonical_json.encode({"error": {"message": said}}), request)
    if dialect is None:
        return None
    body: dict[str, Any] = json.loads(encode_body("m", request, dialect))
    return body


OPTIONS = {
    "OpenAI": ("Unsupported value: 'temperature' does not support 0.1 with this model.", "temperature"),
    "OpenAI, newer": ("Unsupported parameter: 'temperature' is not supported with this model.", "temperature"),
    "Anthropic": ("`temperature` is deprecated for this model.", "temperature"),
    "Moonshot": ("invalid temperature: only 1 is allowed for this model", "temperature"),
    "one of two": ("`temperature` and `top_p` cannot both be specified for this model.", "top_p"),
    "Azure": ("Unrecognized request argument supplied: reasoning_effort", "reasoning_effort"),
    "Mistral": ("reasoning_effort: Extra inputs are not permitted", "reasoning_effort"),
    "xAI": ("Argument not supported on this model: presencePenalty", "presence_penalty"),
    "Groq": ("property 'seed' is unsupported", "seed"),
    "Gemini": ('Unknown name "logit_bias": Cannot find field.', "logit_bias"),
}


@rows.each(("said", "name"), OPTIONS.values(), ids=list(OPTIONS))
def test_unsupported_option_of_a_model_is_left_out(said: str, name: str) -> None:
    options = {"temperature": 0.1, "top_p": 0.9, name: 1}

    again = asked_again(said, options=options)

    assert again is not None
    assert options.keys() - again.keys() == {name}


@rows.each("said", ["temperature must be at most 2", "model not found. Alternatively, use another", "internal error"])
def test_other_refusals_change_nothing(said: str) -> None:
    assert asked_again(said, options={"temperature": 3}) is None


def test_options_about_tools_are_not_sent_without_tools() -> None:
    options = {"tool_choice": "auto", "parallel_tool_calls": False}
    bare = ModelRequest(RequestKey("a", "u", 1, 1, 1), "x/y", HISTORY, options=options)
    full = ModelRequest(RequestKey("a", "u", 1, 1, 1), "x/y", HISTORY, tools=b"[]", options=options)

    assert not options.keys() & json.loads(encode_body("m", bare, ChatDialect())).keys()
    assert options.keys() <= json.loads(encode_body("m", full, ChatDialect())).keys()


def test_a_longest_reply_that_the_plan_states_is_renamed_where_its_name_is_refused() -> None:
    said = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."

    again = asked_again(said, options={"max_tokens": 50})

    assert again is not None
    assert (again.get("max_tokens"), again["max_completion_tokens"]) == (None, 50)


FIELDS = [
    "messages.1.content.0: Invalid `signature` in `thinking` block",
    "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified.",
    "Unable to submit request because Thought signature is not valid",
    "'messages.2' : property 'thinking_blocks' is unsupported",
]


@rows.each("said", FIELDS)
def test_refused_thoughts_of_another_model_are_left_out(said: str) -> None:
    again = asked_again(said)

    assert again is not None
    assert again["messages"][2].keys() == {"role", "content", "tool_calls"}


BLANKS = {
    "Ollama": ("invalid message content type: <nil>", ""),
    "pydantic": ("'loc': ['messages', 2, 'content'], 'msg': 'Input should be a valid string'", ""),
    "Bedrock": ("The content field in the Message object at messages.2 is empty.", CALL_PLACEHOLDER),
    "Anthropic": ("messages: text content blocks must be non-empty", CALL_PLACEHOLDER),
    "Anthropic, newer": ("messages.2: text content blocks must contain non-whitespace text", CALL_PLACEHOLDER),
}


@rows.each(("said", "content"), BLANKS.values(), ids=list(BLANKS))
def test_a_message_with_calls_and_no_text_gets_what_the_server_wants(said: str, content: str) -> None:
    again = asked_again(said)

    assert again is not None
    assert again["messages"][2]["content"] == content


DECLARATIONS = [
    "The toolConfig field must be defined when using toolUse and toolResult content blocks.",
    "Requests which include `tool_use` or `tool_result` blocks must define tools",
]


@rows.each("said", DECLARATIONS)
def test_history_with_calls_gets_a_tool_declaration_when_there_is_none(said: str) -> None:
    again = asked_again(said)

    assert again is not None
    assert len(again["tools"]) == 1


SHAPES: dict[str, tuple[int, str, dict[str, Any]]] = {
    "Bedrock's order": (400, "A conversation must alternate between user and assistant roles.", {"last": "tool"}),
    "Perplexity's order": (400, "user or tool message(s) should alternate with assistant message(s)", {"last": "tool"}),
    "Cohere's order": (400, "cannot specify user message after tool results", {"last": "tool"}),
    "Titan's system": (400, "This model doesn't support system messages.", {"first": "user"}),
    "Anthropic's system": (400, 'messages: Unexpected role "system".', {"first": "user"}),
    "Bedrock's stream": (400, "This model doesn't support tool use in streaming mode.", {"stream": False}),
    "OpenAI's stream": (400, "Your organization must be verified to stream this model.", {"stream": False}),
    "a stream that is not there": (501, "streaming is not implemented", {"stream": False}),
}


@rows.each(("status", "said", "wanted"), SHAPES.values(), ids=list(SHAPES))
def test_roles_and_streams_follow_the_refusal(status: int, said: str, wanted: dict[str, Any]) -> None:
    again = asked_again(said, status)

    assert again is not None
    roles = [message["role"] for message in again["messages"]]
    found = {"first": roles[0], "last": roles[-1], "stream": again["stream"]}
    assert found | wanted == found
