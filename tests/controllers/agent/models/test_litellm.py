"""litellm's process: started late, never in the way of the loop, started again when it died, gone with its owner.

A stand-in for litellm on the child's path makes these quick; the real one passes the contract of all models.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from planloop.controllers.agent.models.catalog import ModelEndpoint
from planloop.controllers.agent.models.chat_request import ChatDialect
from planloop.controllers.agent.models.litellm_chat import LitellmAdapter
from planloop.reconciler.effects import process_table
from tests.golden_text import said
from tests.product import ModelFailed, ModelReply, ModelRequest, RequestKey

pytestmark = pytest.mark.anyio

HELLO = b'{"role":"user","content":"hello"}'
ROOT = Path(__file__).resolve().parents[4]

# Answers with its process id, or with what the last message asks for.
STAND_IN = """
import asyncio, os
print("chatter that must not reach the parent")

class Chunk(dict):
    def model_dump(self, **how):
        return dict(self)

class Stream:
    def __init__(self, word):
        self.word = word
    async def __aiter__(self):
        yield Chunk(choices=[{"delta": {"content": str(os.getpid())}, "finish_reason": None}])
        if self.word == "die":
            os._exit(7)
        if self.word == "hang":
            await asyncio.Event().wait()
        if self.word == "odd":
            raise KeyError("litellm has a fault of its own")
        if self.word == "no key":
            error = RuntimeError("OpenAIException - Missing credentials. Please pass an `api_key`")
            error.status_code = 500
            raise error
        yield Chunk(choices=[{"delta": {}, "finish_reason": "stop"}])
    async def aclose(self):
        with open(os.environ["CLOSED"], "a") as file:
            file.write(self.word + chr(10))

async def acompletion(messages, **more):
    with open(os.environ["ASKED"], "a") as file:
        file.write(messages[-1]["content"] + chr(10))
    return Stream(messages[-1]["content"])
"""


def request(word: str = "hello", timeout_s: float = 15.0, model: str = "openai/small") -> ModelRequest:
    message = b'{"role":"user",\n"content":"%b"}' % word.encode()  # A line break between fields is JSON too.
    return ModelRequest(RequestKey("agent/a", "u", 1, 1, 1), model, (message,), timeout_s=timeout_s)


@asynccontextmanager
async def models(env: Mapping[str, str]) -> AsyncIterator[LitellmAdapter]:
    async with anyio.create_task_group() as group:
        made = LitellmAdapter(group, env, lambda: 0.0)
        try:
            yield made
        finally:
            with anyio.CancelScope(shield=True):
                await made.aclose()
            group.cancel_scope.cancel()


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """The child's environment, with the stand-in for litellm in it."""
    (tmp_path / "litellm.py").write_text(STAND_IN)
    files = {"CLOSED": str(tmp_path / "closed"), "ASKED": str(tmp_path / "asked")}
    return {"PYTHONPATH": str(tmp_path), "PATH": os.defpath, **files}


ENDPOINT = ModelEndpoint("", "openai/small")


async def failure(on: LitellmAdapter, asked: ModelRequest) -> ModelFailed:
    with pytest.raises(ModelFailed) as caught:
        await on.complete(ENDPOINT, asked)
    return caught.value


async def test_one_process_serves_all_requests(env: dict[str, str]) -> None:
    replies: list[ModelReply] = []
    async with models(env) as on, anyio.create_task_group() as group:

        async def ask() -> None:
            replies.append(await on.complete(ENDPOINT, request()))

        for _ in range(10):
            group.start_soon(ask)

    assert len({reply.text for reply in replies}) == 1
    assert all(reply.usage.is_estimated for reply in replies)


async def test_a_process_that_dies_fails_what_it_was_asked_and_is_started_again(env: dict[str, str]) -> None:
    async with models(env) as on:
        first = await on.complete(ENDPOINT, request())
        failed = await failure(on, request("die"))
        second = await on.complete(ENDPOINT, request())

    assert (failed.reason, failed.is_transient) == ("CutOff", True)
    assert failed.usage is not None
    assert first.text != second.text


async def test_a_process_that_was_killed_between_requests_is_started_again(env: dict[str, str]) -> None:
    async with models(env) as on:
        first = await on.complete(ENDPOINT, request())
        os.kill(int(first.text), signal.SIGKILL)
        replies = [await _twice(on) for _ in range(2)]

    assert first.text not in {reply.text for reply in replies}


async def _twice(on: LitellmAdapter) -> ModelReply:
    """A reply, at the second attempt if the death has not been seen at the first."""
    try:
        return await on.complete(ENDPOINT, request())
    except ModelFailed as failed:
        assert failed.is_transient
        return await on.complete(ENDPOINT, request())


async def test_timeout_closes_the_stream_before_it_is_reported(env: dict[str, str]) -> None:
    async with models(env) as on:
        failed = await failure(on, request("hang", timeout_s=1.0))
        closed = Path(env["CLOSED"]).read_text()

    assert (failed.reason, closed) == ("TimedOut", "hang\n")


async def test_cancelling_closes_the_stream_before_it_returns(env: dict[str, str]) -> None:
    began = anyio.Event()
    async with models(env) as on:

        async def ask() -> None:
            await on.complete(ENDPOINT, request("hang"), lambda _: began.set())

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await began.wait()
            group.cancel_scope.cancel()
        closed = Path(env["CLOSED"]).read_text()
        after = await on.complete(ENDPOINT, request())

    assert closed == "hang\n"
    assert after.text


async def test_any_litellm_exception_is_a_failure_with_its_name(env: dict[str, str]) -> None:
    async with models(env) as on:
        failed = await failure(on, request("odd"))

    assert failed.reason == "BadRequest"
    assert "KeyError" in str(failed)


async def test_a_missing_key_is_not_taken_for_a_busy_server(env: dict[str, str]) -> None:
    async with models(env) as on:
        failed = await failure(on, request("no key"))

    assert (failed.reason, failed.is_transient) == ("NoKey", False)


async def test_missing_litellm_is_reported_with_its_installation(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "litellm.py").write_text("raise ImportError('no such thing here')")
    async with models(env) as on:
        failed = await failure(on, request())

    assert (failed.reason, failed.is_transient) == ("NotInstalled", False)
    said(str(failed))


async def test_nothing_is_started_before_the_first_request(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "litellm.py").write_text(f"open({str(tmp_path / 'loaded')!r}, 'w')\n{STAND_IN}")
    async with models(env) as on:
        assert not (tmp_path / "loaded").exists()
        await on.complete(ENDPOINT, request())
        assert (tmp_path / "loaded").exists()


async def test_ollamas_own_api_is_not_streamed_through_litellm(env: dict[str, str], tmp_path: Path) -> None:
    # Its streams restart the numbering of parallel calls in each piece, which would merge them.
    whole = """
async def acompletion(messages, stream, **more):
    return Chunk(choices=[{"message": {"content": str(stream)}}])
"""
    (tmp_path / "litellm.py").write_text(STAND_IN.partition("async def acompletion")[0] + whole)
    async with models(env) as on:
        reply = await on.complete(ModelEndpoint("", "ollama_chat/qwen3"), request())

    assert reply.text == "False"


OWNER = """
import sys, anyio
from planloop.controllers.agent.models.catalog import ModelEndpoint
from planloop.controllers.agent.models.litellm_chat import LitellmAdapter
from planloop.controllers.agent.models.port import ModelRequest, RequestKey
import os

async def main():
    async with anyio.create_task_group() as group:
        models = LitellmAdapter(group, dict(os.environ), lambda: 0.0)
        asked = ModelRequest(RequestKey("a", "u", 1, 1, 1), "x/y", (b'{"role":"user","content":"hello"}',))
        print((await models.complete(ModelEndpoint("", "x/y"), asked)).text, flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


LIMITED = """
class BadRequestError(Exception):
    status_code = 400

async def acompletion(messages, max_tokens, **more):
    if max_tokens > 4096:
        raise BadRequestError(f"max_tokens: {max_tokens} > 4096, which is the maximum allowed number of output tokens")
    class Whole(dict):
        def model_dump(self, **how):
            return {"choices": [{"message": {"content": str(max_tokens)}, "finish_reason": "stop"}]}
    return Whole()
"""


async def test_a_longest_reply_that_a_provider_refuses_is_lowered(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "litellm.py").write_text(LIMITED)
    endpoint = replace(ENDPOINT, dialect=ChatDialect(is_streamed=False))
    async with models(env) as on:
        reply = await on.complete(endpoint, replace(request(), output_tokens_max=64_000))

    assert reply.text == "4096"


async def test_the_process_ends_when_its_owner_is_killed(env: dict[str, str]) -> None:
    path = f"{env['PYTHONPATH']}:{ROOT}"
    async with await anyio.open_process([sys.executable, "-c", OWNER], env={**env, "PYTHONPATH": path}) as owner:
        assert owner.stdout is not None
        child = int(await owner.stdout.receive())
        owner.kill()
        await process_table.wait_for_exit(child)


@pytest.fixture
def gate(env: dict[str, str], tmp_path: Path) -> Path:
    """A pipe; litellm loads from when a test opens it until the test closes it."""
    pipe = tmp_path / "gate"
    os.mkfifo(pipe)
    (tmp_path / "litellm.py").write_text(f"open({str(pipe)!r}).read()\n{STAND_IN}")
    return pipe


async def test_loop_keeps_running_while_litellm_loads(env: dict[str, str], gate: Path) -> None:
    replies: list[ModelReply] = []
    async with models(env) as on, anyio.create_task_group() as group:

        async def ask() -> None:
            replies.append(await on.complete(ENDPOINT, request()))

        group.start_soon(ask)
        async with await anyio.open_file(gate, "w"):
            for _ in range(100):
                await anyio.lowlevel.checkpoint()
            assert replies == []

    assert len(replies) == 1


async def test_cancelling_while_litellm_loads_returns_immediately_without_a_request(
    env: dict[str, str], gate: Path
) -> None:
    async with models(env) as on:
        async with anyio.create_task_group() as group:
            group.start_soon(on.complete, ENDPOINT, request("first"))
            loading = await anyio.open_file(gate, "w")
            group.cancel_scope.cancel()
        await loading.aclose()
        await on.complete(ENDPOINT, request("second"))

    assert Path(env["ASKED"]).read_text() == "second\n"
