"""Clients that are slow, dead or too many, against a gateway in this process whose patience is short."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from anyio.abc import SocketStream

from planloop.client.plan_paths import PlanPaths
from planloop.server import http_api, http_server
from planloop.server.gateway import auth, websockets
from planloop.server.gateway.application import Gateway
from planloop.server.gateway.replica import PlanReplica
from tests.server.gateway.writers import Writer, writing

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

TOKENS = auth.LinkTokens(read="r" * 32, change="c" * 32)
HANDSHAKE = (
    "GET /v1/plans/demo/tail?after=0 HTTP/1.1\r\nHost: localhost:{port}\r\nAuthorization: Bearer {token}\r\n"
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
CLOSE = b"\x88"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / ".plan" / "demo"


@pytest.fixture
def writer(state: Path) -> Iterator[Writer]:
    with writing(state) as writer:
        yield writer


@asynccontextmanager
async def answering(state: Path) -> AsyncIterator[tuple[Gateway, int]]:
    """A gateway to the plan in `state`, and its port."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    links = auth.Links(state, TOKENS, read_only=False)
    gateway = Gateway(PlanReplica(PlanPaths("demo", state)), links, auth.site_names("http", port, ["localhost"]), state)
    async with gateway.following(), http_server.serve_application(gateway.application(), listener):
        yield gateway, port


@asynccontextmanager
async def raw(port: int, *, buffer_bytes: int = 0) -> AsyncIterator[SocketStream]:
    """A raw websocket: only the test reads what arrives, and nothing is answered."""
    plain = socket.socket()
    if buffer_bytes:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
    plain.connect(("127.0.0.1", port))
    async with await SocketStream.from_socket(plain) as stream:
        await stream.send(HANDSHAKE.format(port=port, token=TOKENS.read).encode())
        yield stream


async def upgraded(stream: SocketStream) -> bytes:
    """What comes with the answer to the handshake, which is granted."""
    seen = b""
    while b"\r\n\r\n" not in seen:
        seen += await stream.receive(1)
    assert seen.startswith(b"HTTP/1.1 101 ")
    return seen.partition(b"\r\n\r\n")[2]


async def count_is(gateway: Gateway, count: int) -> None:
    """Return when that number of clients listen; the test's timeout is the bound."""
    while gateway.sockets.count != count:
        await anyio.lowlevel.checkpoint()


async def test_client_that_does_not_read_is_dropped_and_the_others_hear_everything(
    writer: Writer, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(websockets, "SLOW_S", 0.2)
    async with answering(state) as (gateway, port), raw(port, buffer_bytes=4096) as slow, raw(port) as quick:
        await upgraded(slow)
        await upgraded(quick)
        await count_is(gateway, 2)
        last = await anyio.to_thread.run_sync(writer.write, 30_000)  # More than the buffers of both ends hold.

        seen = b""
        while f'{{"rev":{last},'.encode() not in seen:
            seen = seen[-100:] + await quick.receive(1 << 20)
        await count_is(gateway, 1)


async def test_client_that_vanishes_is_noticed(writer: Writer, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websockets, "HEARTBEAT_S", 0.2)
    async with answering(state) as (gateway, port), raw(port) as dead:
        await upgraded(dead)
        await count_is(gateway, 1)
        await count_is(gateway, 0)  # It answers no ping.


async def test_last_of_too_many_listeners_is_told_to_come_later(
    writer: Writer, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(websockets, "SOCKETS_MAX", 1)
    async with answering(state) as (gateway, port), raw(port) as first:
        await upgraded(first)
        await count_is(gateway, 1)
        async with raw(port) as second:
            seen = await upgraded(second)
            while len(seen) < 4:
                seen += await second.receive()
            assert seen[:1] == CLOSE
            assert int.from_bytes(seen[2:4], "big") == 1013


async def test_last_of_too_many_connections_is_rejected(
    writer: Writer, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "CONNECTIONS_MAX", 1)
    async with answering(state) as (_, port), raw(port) as first:
        await upgraded(first)
        async with raw(port) as second:
            assert (await second.receive()).startswith(b"HTTP/1.1 503 ")


async def test_silent_connection_is_closed(writer: Writer, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "IDLE_S", 0.1)
    async with answering(state) as (_, port), await anyio.connect_tcp("127.0.0.1", port) as silent:
        with pytest.raises(anyio.EndOfStream):
            await silent.receive()


async def test_missing_body_is_not_waited_for(writer: Writer, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_api, "BODY_S", 0.1)
    async with answering(state) as (_, port), await anyio.connect_tcp("127.0.0.1", port) as slow:
        head = f"POST /v1/plans/demo/patch HTTP/1.1\r\nHost: localhost:{port}\r\nAuthorization: Bearer {TOKENS.change}"
        await slow.send(f"{head}\r\nContent-Length: 1000\r\n\r\n{{".encode())
        assert (await slow.receive()).startswith(b"HTTP/1.1 408 ")


async def test_client_that_floods_the_tail_is_disconnected(writer: Writer, state: Path) -> None:
    async with answering(state) as (gateway, port), raw(port) as loud:
        await upgraded(loud)
        await count_is(gateway, 1)
        await loud.send(b"\x82\xff" + (1 << 40).to_bytes(8, "big") + b"\0\0\0\0" + b"x" * 1000)
        await count_is(gateway, 0)
