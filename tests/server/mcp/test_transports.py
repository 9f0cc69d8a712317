"""The door of HTTP, for those who have not shown a token."""

from __future__ import annotations

import signal
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
import pytest

from planloop.server.gateway import auth
from planloop.server.mcp.transports import HttpTransport, serve_http

pytestmark = pytest.mark.anyio

ASKS = b"POST /mcp HTTP/1.1\r\nHost: localhost:%d\r\nContent-Length: 0\r\n\r\n"


@asynccontextmanager
async def opened() -> AsyncIterator[int]:
    """The port of a door that knows nobody."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    door = HttpTransport(auth.site_names("http", port, ["localhost"]), {})
    async with anyio.create_task_group() as group:
        group.start_soon(serve_http, door, listener, (None, None))
        await anyio.wait_all_tasks_blocked()
        try:
            yield port
        finally:
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("said", [b"", b"POST /mcp HTTP/1.1\r\nHost:"], ids=["nothing", "half a request"])
async def test_a_connection_that_does_not_ask_is_closed(said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("planloop.server.mcp.transports.SILENT_S", 0.05)
    async with opened() as port, await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(said)
        with pytest.raises(anyio.EndOfStream):
            await stream.receive()


async def test_one_connection_too_many_is_closed_and_the_others_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("planloop.server.mcp.transports.CONNECTIONS_MAX", 2)
    async with opened() as port, AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(await anyio.connect_tcp("127.0.0.1", port)) for _ in range(3)]
        with pytest.raises(anyio.EndOfStream):
            await streams[2].receive()
        for stream in streams[:2]:
            await stream.send(ASKS % port)
            assert (await stream.receive()).startswith(b"HTTP/1.1 401")
