"""Tool servers that write every byte of their answers themselves, in the loop of a test: over pipes, or over HTTP.

The SDK's server cannot be made to break the protocol; these answer the handshake and what a test says.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import anyio
from anyio.abc import SocketStream

from planloop.controllers.mcp.server_process import OnServerExit, ToolServerLaunch
from tests.servers.in_process import Ends, Reader, Writer, _pipe

Message: TypeAlias = dict[str, Any]
Said: TypeAlias = str | bytes | Message | list[Any]
TOOLS: list[Any] = [{"name": "echo", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}}]


def result(message: Message, value: Any) -> Message:
    """The answer to a request."""
    return {"jsonrpc": "2.0", "id": message["id"], "result": value}


def error(message: Message, code: int, words: str) -> Message:
    """The answer to a request that failed."""
    return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": code, "message": words}}


def texts(*values: str) -> Message:
    """A result with texts."""
    return {"content": [{"type": "text", "text": value} for value in values]}


@dataclass
class ByHand:
    """What a server answers, by method: a result, or a function that makes whole answers of a request.

    `asked` are the methods that it was asked for. A method that is not there is not found.
    """

    answers: Mapping[str, Any]
    capabilities: Any = field(default_factory=lambda: {"tools": {}})
    asked: list[str] = field(default_factory=list)

    def answer(self, message: Message) -> Iterable[Said]:
        """What is written for a request, one line each."""
        method = message["method"]
        self.asked.append(method)
        if "id" not in message:
            return ()
        known: dict[str, Any] = {
            "initialize": {
                "protocolVersion": "2025-06-18",
                "capabilities": self.capabilities,
                "serverInfo": {"name": "by hand", "version": "1"},
            },
            "tools/list": {"tools": TOOLS},
            "ping": {},
            **self.answers,
        }
        found = known.get(method)
        if callable(found):
            return list(found(message))
        return [error(message, -32601, "Method not found") if found is None else result(message, found)]

    @asynccontextmanager
    async def __call__(self, launch: ToolServerLaunch, ended: OnServerExit) -> AsyncIterator[Ends]:
        """Starts it over pipes, as `planloop.controllers.mcp.server_process.StartServer`. An answer that is empty
        text ends it.
        """
        (wanted, stdin), (stdout, said), (stderr, printed) = _pipe(), _pipe(), _pipe()
        async with anyio.create_task_group() as group:
            group.start_soon(self._serve, wanted, said)
            try:
                yield Ends(stdin, stdout, stderr)
            finally:
                group.cancel_scope.cancel()
                for each in (wanted, stdin, stdout, said, stderr, printed):
                    await each.aclose()

    async def _serve(self, wanted: Reader, said: Writer) -> None:
        rest = b""
        async for chunk in wanted:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                for one in self.answer(json.loads(line)):
                    if one == "":
                        await said.aclose()
                        return
                    await said.send(written(one) if isinstance(one, bytes) else written(one) + b"\n")


def written(said: Said) -> bytes:
    """The bytes of an answer: bytes and texts as they are, other values as JSON."""
    match said:
        case bytes():
            return said
        case str():
            return said.encode("utf-8", "surrogatepass")
        case _:
            return json.dumps(said).encode()


@dataclass
class Answer:
    """An HTTP response; `body` None leaves the content type out, too. `pieces` follow it until they end."""

    body: bytes | None = None
    status: int = 200
    kind: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    is_cut: bool = False
    pieces: AsyncIterator[bytes] | None = None


Respond: TypeAlias = Callable[[str, Message, Mapping[str, str]], Answer]


@asynccontextmanager
async def over_http(respond: Respond) -> AsyncIterator[str]:
    """The URL of a server that answers each request (its method, message and headers) with what `respond` gives."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.listeners[0].extra(anyio.abc.SocketAttribute.local_port)
    async with listener, anyio.create_task_group() as group:
        group.start_soon(partial(listener.serve, partial(_connected, respond)))
        yield f"http://127.0.0.1:{port}/mcp"
        group.cancel_scope.cancel()


async def _connected(respond: Respond, stream: SocketStream) -> None:
    rest = b""
    async with stream:
        try:
            while True:
                while b"\r\n\r\n" not in rest:
                    rest += await stream.receive()
                head, _, rest = rest.partition(b"\r\n\r\n")
                first, *lines = head.decode().split("\r\n")
                headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
                while len(rest) < int(headers.get("content-length", 0)):
                    rest += await stream.receive()
                size = int(headers.get("content-length", 0))
                body, rest = rest[:size], rest[size:]
                made = respond(first.split()[0], json.loads(body) if body else {}, headers)
                await stream.send(_response(made))
                async for piece in made.pieces or _none():
                    await stream.send(piece)
                if made.is_cut or made.pieces is not None:
                    return
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            pass  # The client left.


async def _none() -> AsyncIterator[bytes]:
    for piece in list[bytes]():
        yield piece


def _response(made: Answer) -> bytes:
    body = made.body or b""
    size = len(body) + (100 if made.is_cut else 0)
    length = f"content-length: {size}" if made.pieces is None else "connection: close"
    lines = [f"HTTP/1.1 {made.status} Said", length]
    lines += [] if made.body is None else [f"content-type: {made.kind}"]
    lines += [f"{name}: {value}" for name, value in made.headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body
