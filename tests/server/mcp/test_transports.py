"""MCP over HTTP: connections without a token, and the bridge to the SDK."""

from __future__ import annotations

import signal
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import pytest
from aiohttp import web

from planloop.server.gateway import auth
from planloop.server.http_server import serve_application
from planloop.server.mcp.bootstrap import AsgiRequest, HttpTransport, serve_http

pytestmark = pytest.mark.anyio

ASKS = b"POST /mcp HTTP/1.1\r\nHost: localhost:%d\r\nContent-Length: 0\r\n\r\n"


@asynccontextmanager
async def opened() -> AsyncIterator[int]:
    """The port of a server without known clients."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    door = HttpTransport(auth.site_names("http", port, ["localhost"]), {})
    async with anyio.create_task_group() as group:
        group.start_soon(serve_http, door, listener, None)
        await anyio.wait_all_tasks_blocked()
        try:
            yield port
        finally:
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("said", [b"", b"POST /mcp HTTP/1.1\r\nHost:"], ids=["nothing", "half a request"])
async def test_a_connection_that_does_not_ask_is_closed(said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("planloop.server.http_server.IDLE_S", 0.05)
    async with opened() as port, await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(said)
        with pytest.raises(anyio.EndOfStream):
            await stream.receive()


async def test_one_connection_too_many_is_refused_and_the_others_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("planloop.server.http_server.CONNECTIONS_MAX", 2)
    async with opened() as port, AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(await anyio.connect_tcp("127.0.0.1", port)) for _ in range(3)]
        assert (await streams[2].receive()).startswith(b"HTTP/1.1 503")
        with pytest.raises(anyio.EndOfStream):
            await streams[2].receive()
        for stream in streams[:2]:
            await stream.send(ASKS % port)
            assert (await stream.receive()).startswith(b"HTTP/1.1 401")


@asynccontextmanager
async def bridged(application: Any) -> AsyncIterator[int]:
    """The port of an ASGI application behind the bridge."""
    listener = socket.create_server(("127.0.0.1", 0))
    async with anyio.create_task_group() as group:

        async def answer(request: web.Request) -> web.StreamResponse:
            return await AsgiRequest(request).answer(application, group)

        site = web.Application()
        site.router.add_route("*", "/{path:.*}", answer)
        async with serve_application(site, listener, cancels_handlers=True):
            yield listener.getsockname()[1]


async def test_the_bridge_hands_on_the_request_and_streams_the_answer() -> None:
    seen: list[tuple[Any, bytes]] = []

    async def echo(scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message["body"], message["more_body"]
        seen.append((scope, body))
        await send({"type": "http.response.start", "status": 202, "headers": [(b"x-part", b"1")]})
        for part in (b"one ", b"two"):
            await send({"type": "http.response.body", "body": part, "more_body": part == b"one "})

    body = b"x" * 300_000
    async with bridged(echo) as port, await anyio.connect_tcp("127.0.0.1", port) as stream:
        head = f"PUT /a%20b?q=1 HTTP/1.1\r\nHost: localhost\r\nX-Word: w\r\nContent-Length: {len(body)}\r\n"
        await stream.send(head.encode() + b"Connection: close\r\n\r\n" + body)
        answer = b""
        with pytest.raises(anyio.EndOfStream):
            while True:
                answer += await stream.receive()

    assert answer.startswith(b"HTTP/1.1 202 ")
    assert b"x-part: 1\r\n" in answer.lower()
    assert answer.index(b"one ") < answer.index(b"two")
    ((scope, received),) = seen
    assert received == body
    assert (scope["method"], scope["path"], scope["query_string"]) == ("PUT", "/a b", b"q=1")
    assert (b"x-word", b"w") in scope["headers"]


async def test_the_bridge_reports_a_client_that_disconnects_while_it_is_answered() -> None:
    begun, gone = anyio.Event(), anyio.Event()

    async def endless(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        begun.set()
        assert (await receive())["type"] == "http.disconnect"
        await send({"type": "http.response.body", "body": b"nobody reads this"})
        gone.set()

    async with bridged(endless) as port:
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await begun.wait()
        await gone.wait()


async def test_the_bridge_answers_500_when_the_application_fails() -> None:
    async def broken(scope: Any, receive: Any, send: Any) -> None:
        raise RuntimeError("broken")

    async with bridged(broken) as port, await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (await stream.receive()).startswith(b"HTTP/1.1 500")
