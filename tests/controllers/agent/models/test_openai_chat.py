"""The HTTP adapter with the scripted server: connections, errors, options that not all servers support."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from planloop.controllers.agent.models.catalog import ModelEndpoint
from planloop.controllers.agent.models.chat_request import ChatDialect, encode_body
from planloop.controllers.agent.models.openai_chat import OpenAIChatAdapter
from planloop.schemas import canonical_json
from tests.fakes.model_server.running import RunningServer, Script, running
from tests.product import ModelFailed, ModelReply, ModelRequest, OnDelta, RequestKey, SystemClock

pytestmark = pytest.mark.anyio

HELLO = b'{"role":"user","content":"hello"}'
SECRET = "sk-very-secret"


class Asked:
    """A server with a script, and the adapter that asks it."""

    def __init__(self, chat: OpenAIChatAdapter, server: RunningServer, endpoint: ModelEndpoint) -> None:
        self.chat, self.server, self.endpoint = chat, server, endpoint

    async def complete(self, on_delta: OnDelta | None = None, **more: Any) -> ModelReply:
        return await self.chat.complete(self.endpoint, request(**more), on_delta)

    async def failure(self, **more: Any) -> ModelFailed:
        with pytest.raises(ModelFailed) as caught:
            await self.complete(**more)
        return caught.value

    @property
    def connections(self) -> list[int]:
        return [entry["connection"] for entry in self.server.log if entry["event"] == "asked"]


def request(*, messages: tuple[bytes, ...] = (HELLO,), **more: Any) -> ModelRequest:
    return ModelRequest(RequestKey("agent/a", "u", 1, 1, 1), "x/small", messages, **({"timeout_s": 15.0} | more))


@asynccontextmanager
async def asked(script: Script, **more: Any) -> AsyncIterator[Asked]:
    async with running(script) as server:
        on = Asked(OpenAIChatAdapter(SystemClock().now), server, ModelEndpoint(server.url, "small", **more))
        try:
            yield on
        finally:
            await on.chat.aclose()


async def test_the_body_holds_the_messages_as_they_were_encoded() -> None:
    spaced = b'{"role": "user",  "content": "hello"}'
    made = ModelRequest(RequestKey("a", "u", 1, 1, 1), "x/y", (spaced, HELLO), tools=b"[]", options={"top_p": 0.5})

    body = encode_body("small", made, ChatDialect())

    assert spaced + b"," + HELLO in body
    assert json.loads(body)["top_p"] == 0.5


async def test_options_of_a_plan_cannot_change_the_request_or_its_reading() -> None:
    options = {"model": "other", "messages": [], "stream_options": {}, "n": 3, "seed": 1}

    body = json.loads(encode_body("small", request(options=options), ChatDialect()))

    assert (body["model"], len(body["messages"]), body["seed"]) == ("small", 1, 1)
    assert body["stream_options"] == {"include_usage": True}
    assert "n" not in body


@pytest.mark.parametrize(("stated", "bound", "sent"), [(None, 9, 9), (5, 9, 5), (50, 9, 9), (5, None, 5)])
async def test_the_smaller_bound_of_a_reply_is_sent(stated: int | None, bound: int | None, sent: int) -> None:
    options = {} if stated is None else {"max_completion_tokens": stated}

    body = json.loads(encode_body("m", request(options=options, output_tokens_max=bound), ChatDialect()))

    assert [body[name] for name in ("max_tokens", "max_completion_tokens") if name in body] == [sent]


async def test_stream_cut_inside_characters_names_and_ids_arrives_whole() -> None:
    calls = [{"name": "read_file", "id": f"call_{n}", "arguments": {"path": "naïve/你好.txt"}} for n in range(2)]
    async with asked([{"reply": {"text": "schön 你好", "calls": calls, "split": 2, "bytes": 7}}]) as on:
        reply = await on.complete()

    assert reply.text == "schön 你好"
    assert [(call.id, call.name, json.loads(call.arguments)) for call in reply.calls] == [
        (f"call_{n}", "read_file", {"path": "naïve/你好.txt"}) for n in range(2)
    ]


async def test_missing_and_duplicate_ids_are_kept_unchanged() -> None:
    calls = [{"name": "read", "id": id_} for id_ in ("", "x", "x")]
    async with asked([{"reply": {"calls": calls}}]) as on:
        assert [call.id for call in (await on.complete()).calls] == ["", "x", "x"]


async def test_a_connection_is_used_again_after_a_whole_reply_and_closed_after_half_a_one() -> None:
    whole, half = {"reply": {"text": "a"}}, {"reply": {"chunks": ["a"]}, "hang": 2}
    async with asked([whole, whole, half, whole]) as on:
        await on.complete()
        await on.complete()
        async with anyio.create_task_group() as group:

            def leave(_: str) -> None:
                group.cancel_scope.cancel()

            await on.complete(leave)
        await on.server.until(lambda: len(on.server.endings) == 3)
        await on.complete()

    first, second, third, fourth = on.connections
    assert first == second == third
    assert fourth != third
    assert on.server.endings == ["answered", "answered", "closed", "answered"]


async def test_cancelling_before_the_first_byte_closes_the_connection_too() -> None:
    async with asked([{"hang": True}]) as on:
        async with anyio.create_task_group() as group:
            group.start_soon(on.complete)
            await on.server.until(lambda: len(on.server.asked) == 1)
            group.cancel_scope.cancel()
        await on.server.until(lambda: on.server.endings == ["closed"])


async def test_a_cancelled_request_does_not_disturb_the_others() -> None:
    async with asked([{"hang": 0, "when": {"tool": "stuck"}}, {"reply": {"text": "fine"}, "delay": 0.1}]) as on:
        tool = {"type": "function", "function": {"name": "stuck", "parameters": {"type": "object", "properties": {}}}}
        replies: list[ModelReply] = []

        async def ask() -> None:
            replies.append(await on.complete())

        async with anyio.create_task_group() as outer:
            outer.start_soon(ask)
            failed = await on.failure(tools=json.dumps([tool]).encode(), timeout_s=0.05)

    assert failed.reason == "TimedOut"
    assert [reply.text for reply in replies] == ["fine"]


async def test_a_server_that_knows_no_usage_option_is_asked_without_and_remembered() -> None:
    refusal = {"status": 400, "error": "Unrecognized request argument: stream_options"}
    async with asked([refusal, {"reply": {"text": "a"}, "times": 2}]) as on:
        first = await on.complete()
        await on.complete()

    assert first.usage.is_estimated
    assert ["stream_options" in body for body in on.server.asked] == [True, False, False]


async def test_server_with_another_word_for_the_longest_reply_gets_that_word() -> None:
    error = "Unsupported parameter: 'max_tokens' is not supported, use 'max_completion_tokens'"
    async with asked([{"status": 400, "error": error}, {"reply": {"text": "a"}, "times": 2}]) as on:
        await on.complete(output_tokens_max=7)
        await on.complete(output_tokens_max=7)

    assert [body.get("max_completion_tokens") for body in on.server.asked] == [None, 7, 7]
    assert [body.get("max_tokens") for body in on.server.asked] == [7, None, None]


async def test_server_that_refuses_everything_is_not_asked_forever() -> None:
    error = "I know neither max_tokens nor max_completion_tokens nor stream_options"
    async with asked([{"status": 400, "error": error, "times": "always"}]) as on:
        failed = await on.failure(output_tokens_max=7)

    assert failed.reason == "BadRequest"
    assert len(on.server.asked) == 3


async def test_refused_reply_length_is_lowered_and_remembered_if_it_is_the_models_limit() -> None:
    refusal = {
        "status": 400,
        "error": "max_tokens is too large: 9000. This model supports at most 4096 completion tokens",
    }
    async with asked([refusal, {"reply": {"text": "a"}, "times": 2}]) as on:
        await on.complete(output_tokens_max=9000)
        await on.complete(output_tokens_max=8000)

    assert [body["max_tokens"] for body in on.server.asked] == [9000, 4096, 4096]


async def test_a_longest_reply_that_only_this_prompt_makes_too_long_is_lowered_once() -> None:
    refusal = {"status": 400, "error": "'max_tokens' is too large: 9000 (9000 > 16384 - 12384)"}
    async with asked([refusal, {"reply": {"text": "a"}, "times": 2}]) as on:
        await on.complete(output_tokens_max=9000)
        await on.complete(output_tokens_max=8000)

    assert [body["max_tokens"] for body in on.server.asked] == [9000, 4000, 8000]


async def test_server_that_always_refuses_the_longest_reply_is_not_asked_forever() -> None:
    async with asked([{"status": 400, "error": "max_tokens is too large", "times": "always"}]) as on:
        failed = await on.failure(output_tokens_max=100_000)

    assert failed.reason == "BadRequest"
    assert len(on.server.asked) <= 6


CALL = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
THOUGHT = {"reasoning_content": "hm", "extra_content": {"google": {"thought_signature": "c2ln"}}}
HISTORY = tuple(
    canonical_json.encode(one)
    for one in (
        {"role": "user", "content": "look"},
        {"role": "assistant", "content": None, "tool_calls": [CALL | {"extra_content": {"a": 1}}], **THOUGHT},
        {"role": "tool", "tool_call_id": "c1", "content": "seen"},
        {"role": "user", "content": "and now?"},
    )
)


def taking(steps: list[Any]) -> Script:
    """The script of a server that accepts the fields of that history."""
    return {"takes": ["reasoning_content", "extra_content"], "steps": steps}


ORDERS = [
    (400, "Unexpected role 'user' after role 'tool'"),
    (500, "Jinja Exception: conversation roles must alternate user and assistant roles"),
    (400, "After the optional system message, conversation roles must alternate user/assistant/user/assistant/..."),
]


@pytest.mark.parametrize(("status", "error"), ORDERS)
async def test_a_server_whose_roles_alternate_gets_news_with_the_result_before(status: int, error: str) -> None:
    async with asked(taking([{"status": status, "error": error}, {"reply": {"text": "a"}, "times": 2}])) as on:
        await on.complete(messages=HISTORY)
        await on.complete(messages=HISTORY)

    assert [[each["role"] for each in body["messages"]] for body in on.server.asked] == [
        ["user", "assistant", "tool", "user"],
        *[["user", "assistant", "tool"]] * 2,
    ]
    assert on.server.asked[1]["messages"][-1]["content"] == "seen\n\nand now?"


NO_SYSTEM = [
    (500, "Jinja Exception: System role not supported"),
    (400, "Developer instruction is not enabled for models/gemma-3-27b-it"),
]


@pytest.mark.parametrize(("status", "error"), NO_SYSTEM)
async def test_a_server_without_a_system_role_gets_that_text_from_the_user(status: int, error: str) -> None:
    system = canonical_json.encode({"role": "system", "content": "be short"})
    async with asked([{"status": status, "error": error}, {"reply": {"text": "a"}}]) as on:
        await on.complete(messages=(system, HELLO))

    assert on.server.asked[1]["messages"] == [{"role": "user", "content": "be short\n\nhello"}]


FOREIGN = [
    "property 'messages.1.reasoning_content' is unsupported",
    "Extra inputs are not permitted: body.messages.1.assistant.reasoning_content, input: a key is required",
    "Please remove the reasoning_content from your message",
    "messages.1.tool_calls.0: unknown field extra_content",
]


@pytest.mark.parametrize("error", FOREIGN)
async def test_a_server_that_refuses_fields_of_another_gets_a_plain_history(error: str) -> None:
    async with asked(taking([{"status": 400, "error": error}, {"reply": {"text": "a"}, "times": 2}])) as on:
        await on.complete(messages=HISTORY)
        await on.complete(messages=HISTORY)

    sent = [body["messages"][1] for body in on.server.asked]
    assert sent[0]["reasoning_content"] == "hm"
    assert sent[1:] == [{"role": "assistant", "content": None, "tool_calls": [CALL]}] * 2


MISSING = [
    "Missing `reasoning_content` field in the assistant message at message index 1.",
    "thinking is enabled but reasoning_content is missing in assistant tool call message at index 1",
]


@pytest.mark.parametrize("error", MISSING)
async def test_a_server_that_misses_the_thoughts_of_another_model_gets_blank_ones(error: str) -> None:
    bare = canonical_json.encode({"role": "assistant", "content": None, "tool_calls": [CALL]})
    steps = [{"status": 400, "error": error}, {"reply": {"text": "a"}}, {"status": 400, "error": error}]
    async with asked(taking(steps)) as on:
        await on.complete(messages=(HISTORY[0], bare, *HISTORY[2:]))
        failed = await on.failure(messages=HISTORY)

    sent = [body["messages"][1].get("reasoning_content") for body in on.server.asked]
    assert (sent, failed.reason) == ([None, " ", "hm"], "BadRequest")


async def test_a_server_that_cannot_stream_calls_is_asked_for_whole_replies() -> None:
    async with asked(
        [{"status": 400, "error": "streaming is not supported with tools"}, {"reply": {"text": "a"}}]
    ) as on:
        reply = await on.complete()

    assert (reply.text, [body["stream"] for body in on.server.asked]) == ("a", [True, False])


async def test_a_provider_may_be_asked_for_whole_replies_only() -> None:
    step = {"reply": {"text": "all", "calls": [{"name": "read", "id": "c", "arguments": {"a": 1}}]}}
    async with asked([step], dialect=ChatDialect(is_streamed=False)) as on:
        reply = await on.complete()

    assert (reply.text, len(reply.calls), on.server.asked[0]["stream"]) == ("all", 1, False)


async def test_a_reply_may_be_asked_for_whole() -> None:
    step = {"reply": {"text": "all", "calls": [{"name": "read", "id": "c", "arguments": {"a": 1}}]}}
    async with asked([step]) as on:
        reply = await on.complete(options={"stream": False})

    assert (reply.text, [call.arguments for call in reply.calls], reply.usage.is_estimated) == (
        "all",
        ['{"a": 1}'],
        False,
    )
    assert on.server.asked[0]["stream"] is False


async def test_key_and_headers_are_sent_and_never_shown() -> None:
    error = f"Incorrect API key provided: {SECRET}, with X-Tenant hidden-tenant"
    headers = (("X-Tenant", "hidden-tenant"),)
    hint = "check the key in GROQ_API_KEY"
    async with asked([{"status": 401, "error": error}], key=SECRET, headers=headers, key_hint=hint) as on:
        failed = await on.failure()

    sent = on.server.log[0]["headers"]
    assert (sent["authorization"], sent["x-tenant"]) == (f"Bearer {SECRET}", "hidden-tenant")
    assert str(failed).endswith(hint)
    assert SECRET not in str(failed) + repr(on.endpoint)
    assert "hidden-tenant" not in str(failed) + repr(on.endpoint)


FAILURES: list[tuple[dict[str, Any], str, bool]] = [
    ({"status": 403}, "Refused", False),
    ({"status": 402}, "Refused", False),
    ({"status": 404, "error": "model 'small' not found, try pulling it first"}, "BadRequest", False),
    ({"status": 429, "error": {"message": "no money", "code": "insufficient_quota"}}, "Refused", False),
    ({"status": 503}, "Overloaded", True),
    ({"status": 529}, "Overloaded", True),
    ({"status": 413, "error": "the request exceeds the available context size"}, "ContextTooLong", False),
    ({"garbage": "data: {broken\n\n"}, "Garbage", True),
    ({"garbage": ""}, "CutOff", True),
    ({"garbage": 'data: {"error": {"message": "overloaded", "code": 503}}\n\n'}, "Overloaded", True),
    (
        {"garbage": 'data: {"error": {"code": "rate_limit_exceeded"}}\n\n'},
        "RateLimited",
        True,
    ),
    ({"garbage": 'data: {"choices":[{"delta":{"content":"half"}}]}\n\n'}, "CutOff", True),
    ({"garbage": "data: [DONE]\n\n"}, "Garbage", True),
    ({"garbage": "data: 7\n\n"}, "Garbage", True),
    ({"garbage": 'data: {"usage":{"prompt_tokens":1e999}}\n\ndata: [DONE]\n\n'}, "Garbage", True),
    ({"reply": {"text": "x"}, "cut": True}, "CutOff", True),
]


async def test_every_failure_has_its_name() -> None:
    async with asked([step for step, _, _ in FAILURES]) as on:
        failures = [await on.failure() for _ in FAILURES]

    found = [
        (step, failed.reason, failed.is_transient) for (step, _, _), failed in zip(FAILURES, failures, strict=True)
    ]
    assert found == FAILURES


async def test_tokens_before_a_cut_are_counted() -> None:
    async with asked([{"reply": {"chunks": ["four words of", " text"]}, "cut": 3}]) as on:
        failed = await on.failure()

    assert failed.usage is not None
    assert (failed.usage.is_estimated, failed.usage.tokens_out) == (True, 5)


async def test_server_that_does_not_run_is_named_with_its_fix() -> None:
    async with asked([], start="start it with `ollama serve`") as on:
        pass
    failed = await on.failure()
    await on.chat.aclose()

    assert (failed.reason, failed.is_transient) == ("Unreachable", True)
    assert on.server.url in str(failed)
    assert "ollama serve" in str(failed)


async def test_invalid_url_is_not_requested() -> None:
    chat = OpenAIChatAdapter(SystemClock().now)
    with pytest.raises(ModelFailed) as caught:
        await chat.complete(ModelEndpoint("ftp://somewhere", "m"), request())
    await chat.aclose()

    assert caught.value.reason == "BadRequest"


async def test_a_proxy_is_used_for_other_machines_and_not_for_this_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with asked([{"reply": {"text": "direct"}}]) as on:
        monkeypatch.setenv("HTTP_PROXY", on.server.url.removesuffix("/v1"))
        monkeypatch.delenv("NO_PROXY", raising=False)
        on.chat = OpenAIChatAdapter(SystemClock().now, is_proxied=True)
        reply = await on.complete()
        # The server is not a proxy and has no such path, but it gets the request.
        elsewhere = ModelEndpoint("http://models.invalid/v2", "small")
        with pytest.raises(ModelFailed) as caught:
            await on.chat.complete(elsewhere, request())

    assert reply.text == "direct"
    assert "404" in str(caught.value)


async def test_hundred_parallel_requests_have_a_connection_each() -> None:
    async with asked([{"reply": {"text": "a"}, "times": 100}]) as on, anyio.create_task_group() as group:
        for _ in range(100):
            group.start_soon(on.complete)

    assert on.server.endings == ["answered"] * 100
