"""What every `Models` must do, scripted or over the wire. Subclasses give a `stage` that plays a script.

The scripts are those of `tests/fakes/model_server`, so that all are asked and answered the very same.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import anyio
import pytest

from tests.fakes.model_server.running import Script
from tests.product import ModelCall, ModelClient, ModelFailed, ModelReply, ModelRequest, RequestKey

READ = {
    "type": "function",
    "function": {
        "name": "read",
        "description": "Reads a file.",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    },
}


class Stage(Protocol):
    """`model` is the name that reaches the script; `endings` says how each request ended on the other side."""

    models: ModelClient
    model: str

    @property
    def endings(self) -> list[str]: ...

    async def until_ended(self, count: int) -> None:
        """Return when the server has finished `count` requests."""
        ...


Open = Callable[[Script], AbstractAsyncContextManager[Stage]]


def message(role: str, content: str, **more: Any) -> bytes:
    return json.dumps({"role": role, "content": content, **more}).encode()


def request(stage: Stage, *messages: bytes, attempt: int = 1, **more: Any) -> ModelRequest:
    asked = messages or (message("system", "be short"), message("user", "hello"))
    return ModelRequest(RequestKey("agent/a", "u1", 1, 1, attempt), stage.model, asked, **({"timeout_s": 15.0} | more))


async def failure(stage: Stage, *messages: bytes, **more: Any) -> ModelFailed:
    with pytest.raises(ModelFailed) as caught:
        await stage.models.complete(request(stage, *messages, **more))
    return caught.value


class ModelsContract:
    pytestmark = pytest.mark.anyio

    async def test_the_text_arrives_whole_and_in_pieces(self, stage: Open) -> None:
        heard: list[str] = []
        async with stage([{"reply": {"chunks": ["grü", "ße ", "你好"]}}]) as on:
            reply = await on.models.complete(request(on), heard.append)

        assert (reply.text, reply.calls, reply.finish) == ("grüße 你好", (), "stop")
        assert "".join(heard) == "grüße 你好"

    async def test_parallel_calls_keep_their_order_ids_and_arguments(self, stage: Open) -> None:
        calls = [{"name": "read", "id": f"call_{n}", "arguments": {"path": f"{n}.txt"}} for n in range(3)]
        async with stage([{"when": {"tool": "read"}, "reply": {"calls": calls}}]) as on:
            reply = await on.models.complete(request(on, tools=json.dumps([READ]).encode()))

        assert [(call.id, call.name, json.loads(call.arguments)) for call in reply.calls] == [
            (f"call_{n}", "read", {"path": f"{n}.txt"}) for n in range(3)
        ]
        assert reply.finish == "tool_calls"

    async def test_a_reply_may_have_text_and_calls(self, stage: Open) -> None:
        async with stage([{"reply": {"text": "looking", "calls": [{"name": "read", "id": "c"}]}}]) as on:
            reply = await on.models.complete(request(on))

        assert (reply.text, len(reply.calls)) == ("looking", 1)

    async def test_malformed_arguments_arrive_unchanged(self, stage: Open) -> None:
        raw = '{"path": "a.txt'
        async with stage([{"reply": {"calls": [{"name": "read", "id": "c", "raw": raw}]}}]) as on:
            reply = await on.models.complete(request(on))

        assert reply.calls == (ModelCall("c", "read", raw),)

    async def test_usage_is_the_providers_with_what_was_cached(self, stage: Open) -> None:
        usage = {"in": 120, "cached": 100, "out": 9, "reasoning": 4}
        async with stage([{"reply": {"text": "a"}, "usage": usage}]) as on:
            found = (await on.models.complete(request(on))).usage

        assert (found.tokens_in, found.tokens_cached, found.tokens_out, found.tokens_reasoning) == (120, 100, 9, 4)
        assert not found.is_estimated
        assert found.raw["prompt_tokens_details"]["cached_tokens"] == 100

    async def test_reply_that_ran_out_of_tokens_is_marked(self, stage: Open) -> None:
        async with stage([{"reply": {"text": "and then", "finish": "length"}}]) as on:
            assert (await on.models.complete(request(on, output_tokens_max=2))).finish == "length"

    async def test_reply_that_did_not_end_well_is_not_a_reply(self, stage: Open) -> None:
        calls = [{"name": "read", "id": "c"}]
        async with stage([{"reply": {"text": "I will now ", "calls": calls, "finish": "error"}}]) as on:
            failed = await failure(on)

        assert (failed.reason, failed.is_transient) == ("CutOff", True)

    async def test_cut_by_a_content_filter_is_reported_as_such(self, stage: Open) -> None:
        async with stage([{"reply": {"text": "I will n", "finish": "content_filter"}}]) as on:
            failed = await failure(on)

        assert failed.reason == "Filtered"
        assert failed.usage is not None and failed.usage.tokens_out

    async def test_fields_that_the_provider_needs_back_are_in_the_reply(self, stage: Open) -> None:
        thoughts = [{"reasoning_content": "I have "}, {"reasoning_content": "to."}, {"content": "yes"}]
        async with stage([{"reply": {"chunks": thoughts}}]) as on:
            reply = await on.models.complete(request(on))

        assert (reply.text, reply.extra.get("reasoning_content")) == ("yes", "I have to.")

    async def test_usage_that_cannot_be_right_is_counted_here(self, stage: Open) -> None:
        usage = {"prompt_tokens": 10**30, "completion_tokens": -4}
        async with stage([{"reply": {"text": "four words of text"}, "usage": usage}]) as on:
            found = (await on.models.complete(request(on))).usage

        assert found.is_estimated
        assert (0 < found.tokens_in < 1_000, found.tokens_out) == (True, 5)

    async def test_a_conversation_with_answered_calls_is_taken(self, stage: Open) -> None:
        call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
        asked = (
            message("user", "look"),
            message("assistant", "", tool_calls=[call]),
            message("tool", "x", tool_call_id="c1"),
        )
        async with stage([{"when": {"after": "read"}, "reply": {"text": "seen"}}]) as on:
            assert (await on.models.complete(request(on, *asked))).text == "seen"

    async def test_429_states_how_long_to_wait(self, stage: Open) -> None:
        async with stage([{"status": 429, "headers": {"retry-after": "7"}}]) as on:
            failed = await failure(on)

        assert (failed.reason, failed.is_transient, failed.retry_after_s) == ("RateLimited", True, 7.0)

    async def test_500_may_be_asked_again(self, stage: Open) -> None:
        async with stage([{"status": 500}, {"reply": {"text": "now"}}]) as on:
            failed = await failure(on)
            reply = await on.models.complete(request(on, attempt=2))

        assert (failed.reason, failed.is_transient) == ("Overloaded", True)
        assert reply.text == "now"

    async def test_refused_key_needs_an_operator(self, stage: Open) -> None:
        async with stage([{"status": 401}]) as on:
            failed = await failure(on)

        assert (failed.reason, failed.is_transient) == ("Refused", False)

    async def test_prompt_that_does_not_fit_is_reported(self, stage: Open) -> None:
        error = {"message": "This model's maximum context length is 8192 tokens.", "code": "context_length_exceeded"}
        async with stage([{"status": 400, "error": error}]) as on:
            failed = await failure(on)

        assert (failed.reason, failed.is_transient) == ("ContextTooLong", False)

    async def test_an_unanswered_call_in_the_prompt_is_refused(self, stage: Open) -> None:
        call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
        asked = message("user", "look"), message("assistant", "", tool_calls=[call]), message("user", "well?")
        async with stage([]) as on:
            failed = await failure(on, *asked)

        assert (failed.reason, failed.is_transient) == ("BadRequest", False)
        assert "tool_call_id" in str(failed)

    async def test_a_hang_times_out_and_its_connection_is_closed(self, stage: Open) -> None:
        async with stage([{"hang": True}, {"reply": {"text": "next"}}]) as on:
            failed = await failure(on, timeout_s=0.5)
            await on.until_ended(1)
            after = await on.models.complete(request(on, attempt=2))

        assert (failed.reason, failed.is_transient) == ("TimedOut", True)
        assert on.endings[0] == "closed"
        assert after.text == "next"

    async def test_cut_stream_is_not_a_reply(self, stage: Open) -> None:
        async with stage([{"reply": {"chunks": ["half ", "of it"]}, "cut": 2}]) as on:
            failed = await failure(on)

        assert (failed.reason, failed.is_transient) == ("CutOff", True)

    async def test_garbage_is_not_a_reply(self, stage: Open) -> None:
        async with stage([{"garbage": True}]) as on:
            failed = await failure(on)

        assert (failed.reason, failed.is_transient) == ("Garbage", True)

    async def test_cancelling_closes_the_connection(self, stage: Open) -> None:
        async with stage([{"reply": {"chunks": ["one", "two"]}, "hang": 3}, {"reply": {"text": "next"}}]) as on:
            await self.cancelled_after(on, "two")
            await on.until_ended(1)
            after = await on.models.complete(request(on, attempt=2))

        assert on.endings[0] == "closed"
        assert after.text == "next"

    async def cancelled_after(self, on: Stage, last: str) -> None:
        """Cancels a request when `last` has been heard."""
        came = anyio.Event()

        async def ask() -> None:
            await on.models.complete(request(on), lambda text: came.set() if text == last else None)

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await came.wait()
            group.cancel_scope.cancel()

    async def test_concurrent_requests_each_get_their_own_reply(self, stage: Open) -> None:
        steps = [{"when": {"user": f"number {n}."}, "reply": {"text": f"{n}", "split": 1}} for n in range(20)]
        replies: dict[int, ModelReply] = {}
        async with stage(steps) as on, anyio.create_task_group() as group:

            async def ask(number: int) -> None:
                asked = request(on, message("user", f"number {number}."), attempt=number)
                replies[number] = await on.models.complete(asked)

            for number in range(20):
                group.start_soon(ask, number)

        assert {number: reply.text for number, reply in replies.items()} == {n: str(n) for n in range(20)}
