"""Client for all other providers, through litellm in a child process that starts with the first such request.

litellm takes seconds to load and 170 MB of memory; in a child process, this does not block the event loop. One process
serves all requests. It ends with its owner, because its input ends, and is started again if it has ended.
`litellm_child.py` has the child and documents the lines between the two.
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
from planloop.schemas.objects.model import with_provider

LITELLM_CHILD: Final = Path(__file__).with_name("litellm_child.py")
INSTALL_HINT: Final = "pip install 'planloop[litellm]'"
NO_KEY_ERROR: Final = re.compile(r"(?i)missing credentials|api[_ ]key (?:client )?option must be set|no api[_ ]key")
"""In the message of a 500 that litellm itself creates if the key of a provider is missing."""

UNSTREAMED_PREFIXES: Final = ("ollama/", "ollama_chat/")
"""litellm numbers the tool calls of each chunk of these streams from 0, and so joins parallel calls into one."""

CONNECTION_ERROR: Final = "Connection error"
"""In the message of a 500 that litellm itself creates."""

LOST_CONNECTION_ERRORS: Final = ("APIConnectionError", "MidStreamFallbackError")
"""The errors that litellm raises if a connection fails, before or after the first chunk."""


class LitellmAdapter:
    """Sends requests to the child. The task that reads from it runs in `group`; `env` is the child's environment."""

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

        If the provider refuses the length of the reply, it is lowered once, which costs no tokens.
        """
        try:
            return await self._complete(endpoint, request, on_delta)
        except _Shorter as error:
            return await self._complete(endpoint, error.request, on_delta, is_lowered=True)

    async def _complete(
        self, endpoint: ModelEndpoint, request: ModelRequest, on_delta: OnDelta | None, *, is_lowered: bool = False
    ) -> ModelReply:
        assembly = ReplyAssembly()
        try:
            with anyio.fail_after(request.timeout_s):
                child = await self._running()
                await child.ask(_line(endpoint, request), _ReplyReader(assembly, on_delta))
        except TimeoutError:
            text = f"no complete answer from {endpoint.model} within {request.timeout_s:g} s"
            raise ModelFailed("TimedOut", text, is_transient=True, usage=assembly.usage(_prompt(request))) from None
        except _Lost as error:
            text = f"the litellm process ended: {error}"
            raise ModelFailed("CutOff", text, is_transient=True, usage=assembly.usage(_prompt(request))) from None
        except ValueError as error:
            text = f"{endpoint.model} sent an invalid reply: {error}"
            raise ModelFailed("Garbage", text, is_transient=True) from None
        except _Unusable as error:
            text = f"{endpoint.model} needs litellm: {INSTALL_HINT} ({error}){_provider_hint(endpoint.model)}"
            raise ModelFailed("NotInstalled", text) from None
        except _Failed as error:
            shorter = None if is_lowered else _shorter(error.report, request)
            if shorter is not None:
                raise _Shorter(shorter) from None
            raise self._failure(error.report, endpoint, request, assembly) from None
        failure = assembly.failure(endpoint.model, _prompt(request))
        if failure is not None:
            raise failure
        if assembly.is_empty:  # litellm returns this for a stream that it cannot read.
            raise ModelFailed("Garbage", f"{endpoint.model} sent an empty reply", is_transient=True)
        return text_calls.calls_from_text(assembly.reply(_prompt(request)), request.tools)

    async def aclose(self) -> None:
        """End the child; a later request starts another."""
        child, self._child = self._child, None
        if child is not None:
            await child.stop()

    async def _running(self) -> _Child:
        async with self._starting:
            if self._child is None or self._child.is_over:
                command = [self._python, "-P", str(LITELLM_CHILD)]
                # In its own session, the child gets no Ctrl-C from the terminal. It ends when its input ends.
                process = await anyio.open_process(command, env=self._env, stderr=DEVNULL, start_new_session=True)
                self._child = _Child(process)
                self._group.start_soon(self._child.read)
            return self._child

    def _failure(
        self, report: JsonObject, endpoint: ModelEndpoint, request: ModelRequest, assembly: ReplyAssembly
    ) -> ModelFailed:
        kind, status = str(report["kind"]), report["status"]
        text = errors.mask_secrets(f"{kind}: {report['message']}", endpoint.secrets)[: limits.MODEL_ERROR_CHARS]
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
        if NO_KEY_ERROR.search(text):  # The status is 500, but another attempt would fail too.
            return ModelFailed("NoKey", f"{text}; {endpoint.key_hint}")
        if not isinstance(status, int):
            return ModelFailed("BadRequest", f"{text}{_provider_hint(endpoint.model)}")
        wait_s = errors.retry_after_s(report["headers"], self._now())
        return errors.failure_of_status(
            status, text.encode(), retry_after_s=wait_s, key_hint=endpoint.key_hint, secrets=endpoint.secrets
        )


def _provider_hint(model: str) -> str:
    """A suggestion to add to an error about a name without a provider; empty for other names."""
    meant = with_provider(model)
    return f"; did you mean `{meant}`?" if meant else ""


class _Lost(Exception):
    """The child ended before it answered the request."""


class _Unusable(Exception):
    """The child cannot import litellm."""


class _Failed(Exception):
    """litellm raised an exception; `report` is the child's description of it."""

    def __init__(self, report: JsonObject) -> None:
        super().__init__(report["message"])
        self.report = report


class _Shorter(Exception):
    """The provider refused a reply of this length; `request` asks for a shorter one."""

    def __init__(self, request: ModelRequest) -> None:
        super().__init__()
        self.request = request


def _shorter(report: JsonObject, request: ModelRequest) -> ModelRequest | None:
    """The request with the longest reply that the provider accepts, if it refused `request` for its length."""
    status = report["status"] if isinstance(report["status"], int) else 0
    found = lowered_for_request(status, str(report["message"]).encode(), request, ChatDialect())
    return None if found is None else replace(request, output_tokens_max=found.tokens)


class _ReplyReader:
    """Reads the lines of one reply."""

    def __init__(self, assembly: ReplyAssembly, on_delta: OnDelta | None) -> None:
        self._assembly = assembly
        self._on_delta = on_delta

    def take(self, line: JsonObject) -> bool:
        """Read one line. Returns whether it was the last one. Raises _Failed."""
        if "failed" in line:
            raise _Failed(line["failed"])
        if "chunk" in line:
            text = self._assembly.take(line["chunk"])
            if self._on_delta is not None:
                self._on_delta(text)
        return "end" in line


class _Child:
    """One litellm process, with a stream for each request that waits for its lines."""

    def __init__(self, process: Process) -> None:
        self.is_over = False
        self._process = process
        self._is_loaded = anyio.Event()  # Set when litellm is loaded, or will never be.
        self._unusable = ""
        self._asked = 0
        self._waiting: dict[int, MemoryObjectSendStream[JsonObject]] = {}
        self._writing = anyio.Lock()

    async def ask(self, line: bytes, reader: _ReplyReader) -> None:
        """Send `line` as a request and pass the lines of the answer to `reader`. Raises _Lost, _Failed, _Unusable.

        If it is cancelled, it returns after the child has closed the connection.
        """
        self._asked += 1
        number = self._asked
        send, receive = anyio.create_memory_object_stream[JsonObject](limits.MODEL_PIECES_HELD)
        self._waiting[number] = send
        with send, receive:
            try:
                # A request that is cancelled before litellm is loaded is never sent.
                await self._is_loaded.wait()
                if self._unusable:
                    raise _Unusable(self._unusable)
                await self._send(b'{"id":%d,"ask":%b}\n' % (number, line))
                async for one in receive:
                    if reader.take(one):
                        return
                raise _Lost("it was killed or crashed")
            except (anyio.get_cancelled_exc_class(), ValueError):
                with anyio.move_on_after(limits.MODEL_CANCEL_S, shield=True):
                    await self._cancel(number, receive)
                raise
            finally:
                del self._waiting[number]

    async def read(self) -> None:
        """Pass the child's lines to the requests that wait for them, until the child has ended."""
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
        """Kill the process and all processes that it started."""
        if self._process.returncode is None:  # After its end, its id may belong to another process.
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
        """Write a whole line or nothing: half a line would corrupt the next one."""
        assert self._process.stdin is not None
        async with self._writing:
            with anyio.CancelScope(shield=True):
                try:
                    await self._process.stdin.send(line)
                except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
                    self.is_over = True
                    raise _Lost("it closed its input") from None

    async def _cancel(self, number: int, receive: MemoryObjectReceiveStream[JsonObject]) -> None:
        """Let the child close the connection, and wait until it has. A child that still loads has no connection."""
        if self.is_over or not self._is_loaded.is_set():
            return
        with contextlib.suppress(_Lost):
            await self._send(b'{"id":%d,"cancel":true}\n' % number)
            while "chunk" in await _next(receive):
                pass


async def _next(receive: MemoryObjectReceiveStream[JsonObject]) -> JsonObject:
    """The next line; an empty map if the child has ended."""
    try:
        return await receive.receive()
    except anyio.EndOfStream:
        return {}


def _prompt(request: ModelRequest) -> tuple[bytes, ...]:
    """The part of the request that the model reads, for an estimate of its tokens."""
    return (*request.messages, request.tools)


def _line(endpoint: ModelEndpoint, request: ModelRequest) -> bytes:
    """The arguments for litellm, as JSON in one line."""
    is_piecewise = endpoint.dialect.is_streamed and is_streamed(request.options)
    is_whole = endpoint.model.startswith(UNSTREAMED_PREFIXES) or not is_piecewise
    more: JsonObject = stated_options(request, ChatDialect()) | {
        "model": endpoint.model,
        "stream": not is_whole,
        "timeout": request.timeout_s,
        "num_retries": 0,
        "max_retries": 0,
        "drop_params": True,  # litellm drops options that the model does not support.
    }
    if not is_whole:
        more["stream_options"] = {"include_usage": True}
    if endpoint.url:
        more["api_base"] = endpoint.url
    if endpoint.key or endpoint.url:
        more["api_key"] = endpoint.key or "none"  # Clients require a key, local servers do not.
    if endpoint.headers:
        more["extra_headers"] = dict(endpoint.headers)
    parts = [b'{"messages":[', b",".join(request.messages), b"],"]
    if request.tools:
        parts += [b'"tools":', request.tools, b","]
    return b"".join((*parts, canonical_json.encode(more)[1:])).replace(
        b"\n", b" "
    )  # JSON strings contain no bare line breaks.
