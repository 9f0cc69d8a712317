"""Models of every other provider, through litellm in a process of its own, started at the first request for one.

litellm takes seconds to load and 170 MB to hold: in its own process neither touches the event loop. One process serves
all requests, dies with its owner (its input ends), and a new one is started when it has died. The child is in
`litellm_child.py`, and so is the form of the lines between the two.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from subprocess import DEVNULL
from typing import Final

import anyio
from anyio.abc import Process, TaskGroup
from anyio.streams.buffered import BufferedByteReceiveStream
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from planloop.controllers.agent.models import errors, text_calls
from planloop.controllers.agent.models.catalog import ModelEndpoint
from planloop.controllers.agent.models.chat_request import ChatDialect, is_streamed, lowered_for_request, stated_options
from planloop.controllers.agent.models.port import ModelFailed, ModelReply, ModelRequest, OnDelta
from planloop.controllers.agent.models.reply_assembly import ReplyAssembly
from planloop.schemas import canonical_json, limits
from planloop.schemas.canonical_json import JsonObject

LITELLM_CHILD: Final = Path(__file__).with_name("litellm_child.py")
INSTALL_HINT: Final = "pip install 'planloop[litellm]'"
NO_KEY_ERROR: Final = re.compile(r"(?i)missing credentials|api[_ ]key (?:client )?option must be set|no api[_ ]key")
"""In the message of a 500 that litellm makes up itself when a provider's key is missing."""

UNSTREAMED_PREFIXES: Final = ("ollama/", "ollama_chat/")
"""litellm starts counting tool calls anew in each piece of these streams, and glues parallel calls into one."""

CONNECTION_ERROR: Final = "Connection error"
"""In the message of a 500 that litellm makes up itself."""

LOST_CONNECTION_ERRORS: Final = ("APIConnectionError", "MidStreamFallbackError")
"""What litellm raises when a connection fails, before or after the first piece."""


class LitellmAdapter:
    """Asks the child; `group` holds whoever reads from it. `env` is the child's whole environment."""

    def __init__(
        self, group: TaskGroup, env: Mapping[str, str], now: Callable[[], float], python: str = sys.executable
    ) -> None:
        self._group = group
        self._env = {**env, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        self._now = now
        self._python = python
        self._child: _Child | None = None
        self._starting = anyio.Lock()

    async def complete(
        self, endpoint: ModelEndpoint, request: ModelRequest, on_delta: OnDelta | None = None
    ) -> ModelReply:
        """One attempt at `endpoint.model`, litellm's own name for it. Raises ModelFailed.

        A longest reply that the provider refuses is lowered once, which costs no tokens.
        """
        try:
            return await self._complete(endpoint, request, on_delta)
        except _Shorter as fault:
            return await self._complete(endpoint, fault.request, on_delta, is_lowered=True)

    async def _complete(
        self, endpoint: ModelEndpoint, request: ModelRequest, on_delta: OnDelta | None, *, is_lowered: bool = False
    ) -> ModelReply:
        assembly = ReplyAssembly()
        try:
            with anyio.fail_after(request.timeout_s):
                child = await self._running()
                await child.ask(_line(endpoint, request), _Hearing(assembly, on_delta))
        except TimeoutError:
            text = f"no complete answer from {endpoint.model} within {request.timeout_s:g} s"
            raise ModelFailed("TimedOut", text, is_transient=True, usage=assembly.usage(_prompt(request))) from None
        except _Lost as fault:
            text = f"the litellm process ended: {fault}"
            raise ModelFailed("CutOff", text, is_transient=True, usage=assembly.usage(_prompt(request))) from None
        except ValueError as fault:
            raise ModelFailed("Garbage", f"{endpoint.model} sent no reply: {fault}", is_transient=True) from None
        except _Unusable as fault:
            raise ModelFailed("NotInstalled", f"{endpoint.model} needs litellm: {INSTALL_HINT} ({fault})") from None
        except _Failed as fault:
            shorter = None if is_lowered else _shorter(fault.said, request)
            if shorter is not None:
                raise _Shorter(shorter) from None
            raise self._failure(fault.said, endpoint, request, assembly) from None
        failure = assembly.failure(endpoint.model, _prompt(request))
        if failure is not None:
            raise failure
        if assembly.is_empty:  # litellm makes this of a stream that it cannot read.
            raise ModelFailed("Garbage", f"{endpoint.model} sent an empty reply", is_transient=True)
        return text_calls.calls_from_text(assembly.reply(_prompt(request)), request.tools)

    async def aclose(self) -> None:
        """Ends the child; a later request starts another."""
        child, self._child = self._child, None
        if child is not None:
            await child.stop()

    async def _running(self) -> _Child:
        async with self._starting:
            if self._child is None or self._child.is_over:
                command = [self._python, "-P", str(LITELLM_CHILD)]
                # In its own session a Ctrl-C in the terminal does not reach it: it ends with its input.
                process = await anyio.open_process(command, env=self._env, stderr=DEVNULL, start_new_session=True)
                self._child = _Child(process)
                self._group.start_soon(self._child.read)
            return self._child

    def _failure(
        self, said: JsonObject, endpoint: ModelEndpoint, request: ModelRequest, assembly: ReplyAssembly
    ) -> ModelFailed:
        kind, status = str(said["kind"]), said["status"]
        text = errors.mask_secrets(f"{kind}: {said['message']}", endpoint.secrets)[: limits.MODEL_ERROR_CHARS]
        has_begun = bool(assembly.text or assembly.calls)
        usage = assembly.usage(_prompt(request)) if has_begun else None
        is_unanswered = CONNECTION_ERROR in text and not has_begun
        if kind in LOST_CONNECTION_ERRORS or is_unanswered:
            reason = (
                "Unreachable" if is_unanswered or (kind == LOST_CONNECTION_ERRORS[0] and not has_begun) else "CutOff"
            )
            return ModelFailed(reason, text, is_transient=True, usage=usage)
        if kind == "ContextWindowExceededError":
            return ModelFailed("ContextTooLong", text)
        if kind == "ContentPolicyViolationError":
            return ModelFailed("Filtered", text, usage=usage)
        if kind == "Timeout":
            return ModelFailed("TimedOut", text, is_transient=True, usage=usage)
        if NO_KEY_ERROR.search(text):  # The status says 500, as if another try could help.
            return ModelFailed("NoKey", f"{text}; {endpoint.cure}")
        if not isinstance(status, int):
            return ModelFailed("BadRequest", text)
        wait_s = errors.retry_after_s(said["headers"], self._now())
        return errors.failure_of_status(
            status, text.encode(), retry_after_s=wait_s, cure=endpoint.cure, secrets=endpoint.secrets
        )


class _Lost(Exception):
    """The child ended with the request unanswered."""


class _Unusable(Exception):
    """The child cannot import litellm."""


class _Failed(Exception):
    """litellm raised something; `said` is what the child told of it."""

    def __init__(self, said: JsonObject) -> None:
        super().__init__(said["message"])
        self.said = said


class _Shorter(Exception):
    """The provider refuses a reply of that length; `request` asks for a shorter one."""

    def __init__(self, request: ModelRequest) -> None:
        super().__init__()
        self.request = request


def _shorter(said: JsonObject, request: ModelRequest) -> ModelRequest | None:
    """The request with the longest reply that the provider takes, when it refused `request` for that."""
    status = said["status"] if isinstance(said["status"], int) else 0
    found = lowered_for_request(status, str(said["message"]).encode(), request, ChatDialect())
    return None if found is None else replace(request, output_tokens_max=found.tokens)


class _Hearing:
    """Takes the pieces of one reply."""

    def __init__(self, assembly: ReplyAssembly, on_delta: OnDelta | None) -> None:
        self._assembly = assembly
        self._on_delta = on_delta

    def take(self, line: JsonObject) -> bool:
        """Takes one line; whether it was the last. Raises _Failed."""
        if "failed" in line:
            raise _Failed(line["failed"])
        if "chunk" in line:
            text = self._assembly.take(line["chunk"])
            if self._on_delta is not None:
                self._on_delta(text)
        return "end" in line


class _Child:
    """One litellm process and who waits for its lines."""

    def __init__(self, process: Process) -> None:
        self.is_over = False
        self._process = process
        self._is_loaded = anyio.Event()  # Or it never will be.
        self._unusable = ""
        self._asked = 0
        self._waiting: dict[int, MemoryObjectSendStream[JsonObject]] = {}
        self._writing = anyio.Lock()

    async def ask(self, line: bytes, hearing: _Hearing) -> None:
        """Sends `line` under a number of its own and hears the answer out. Raises _Lost, _Failed, _Unusable.

        Cancelled, it returns when the child has closed the connection.
        """
        self._asked += 1
        number = self._asked
        send, receive = anyio.create_memory_object_stream[JsonObject](limits.MODEL_PIECES_HELD)
        self._waiting[number] = send
        with send, receive:
            try:
                # What is cancelled before then is not sent at all, and the provider is never asked.
                await self._is_loaded.wait()
                if self._unusable:
                    raise _Unusable(self._unusable)
                await self._send(b'{"id":%d,"ask":%b}\n' % (number, line))
                async for one in receive:
                    if hearing.take(one):
                        return
                raise _Lost("it was killed, or it crashed")
            except (anyio.get_cancelled_exc_class(), ValueError):
                with anyio.move_on_after(limits.MODEL_CANCEL_S, shield=True):
                    await self._cancel(number, receive)
                raise
            finally:
                del self._waiting[number]

    async def read(self) -> None:
        """Hands the child's lines to those who wait for them, until it has ended."""
        assert self._process.stdout is not None
        lines = BufferedByteReceiveStream(self._process.stdout)
        try:
            while True:
                line = canonical_json.decode(await lines.receive_until(b"\n", limits.MODEL_STREAM_BYTES_MAX))
                await self._hand_out(line)
        except (anyio.EndOfStream, anyio.IncompleteRead, anyio.ClosedResourceError, anyio.DelimiterNotFound):
            pass
        finally:
            self.is_over = True
            self._is_loaded.set()
            for send in self._waiting.values():
                send.close()
            with anyio.CancelScope(shield=True):
                await self.stop()

    async def stop(self) -> None:
        """Ends the process and whatever it started."""
        if self._process.returncode is None:  # Afterwards its id may be another's.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.aclose()

    async def _hand_out(self, line: JsonObject) -> None:
        if "ready" in line or "unusable" in line:
            self._is_loaded.set()
        self._unusable = line.get("unusable", self._unusable)
        send = self._waiting.get(line.get("id", 0))
        if send is not None:
            with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                await send.send(line)

    async def _send(self, line: bytes) -> None:
        """Writes a whole line or nothing: half a line would spoil the next one."""
        assert self._process.stdin is not None
        async with self._writing:
            with anyio.CancelScope(shield=True):
                try:
                    await self._process.stdin.send(line)
                except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
                    self.is_over = True
                    raise _Lost("it does not listen") from None

    async def _cancel(self, number: int, receive: MemoryObjectReceiveStream[JsonObject]) -> None:
        """Has the child close the connection; returns when it says so. One that still loads has none to close."""
        if self.is_over or not self._is_loaded.is_set():
            return
        with contextlib.suppress(_Lost):
            await self._send(b'{"id":%d,"cancel":true}\n' % number)
            while "chunk" in await _next(receive):
                pass


async def _next(receive: MemoryObjectReceiveStream[JsonObject]) -> JsonObject:
    """The next line; an empty one when the child has ended."""
    try:
        return await receive.receive()
    except anyio.EndOfStream:
        return {}


def _prompt(request: ModelRequest) -> tuple[bytes, ...]:
    """What the model reads, for an estimate of its tokens."""
    return (*request.messages, request.tools)


def _line(endpoint: ModelEndpoint, request: ModelRequest) -> bytes:
    """What litellm is called with, as JSON on one line."""
    is_piecewise = endpoint.dialect.is_streamed and is_streamed(request.options)
    is_whole = endpoint.model.startswith(UNSTREAMED_PREFIXES) or not is_piecewise
    more: JsonObject = stated_options(request, ChatDialect()) | {
        "model": endpoint.model,
        "stream": not is_whole,
        "timeout": request.timeout_s,
        "num_retries": 0,
        "max_retries": 0,
        "drop_params": True,  # Options that litellm knows the model not to take.
    }
    if not is_whole:
        more["stream_options"] = {"include_usage": True}
    if endpoint.url:
        more["api_base"] = endpoint.url
    if endpoint.key or endpoint.url:
        more["api_key"] = endpoint.key or "none"  # Clients insist on one, servers of one's own do not.
    if endpoint.headers:
        more["extra_headers"] = dict(endpoint.headers)
    parts = [b'{"messages":[', b",".join(request.messages), b"],"]
    if request.tools:
        parts += [b'"tools":', request.tools, b","]
    return b"".join((*parts, canonical_json.encode(more)[1:])).replace(
        b"\n", b" "
    )  # No JSON string holds a bare line break.
