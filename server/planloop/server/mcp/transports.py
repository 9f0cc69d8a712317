"""Transports of the MCP server: standard input and output, and streamable HTTP.

Over HTTP nothing passes the guard of the gateway by, and each identity has a token and sessions of its own: a session
is of no use to who has the token of another.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import signal
import socket
import stat
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import anyio
import uvicorn
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from planloop.schemas import limits
from planloop.schemas.canonical_json import encode
from planloop.server.gateway import auth
from planloop.server.gateway.auth import AccessDenied, SiteNames
from planloop.server.mcp.server import SESSION_HEADER, IdentityServer

PATH: Final = "/mcp"
READ_BYTES: Final = 1 << 16
SESSIONS_MAX: Final = 100  # Of one identity.
IDLE_S: Final = 1_800.0  # A session without a request for so long is over.
LEAVE_S: Final = 2  # For what is under way when it ends.
CONNECTIONS_MAX: Final = 512  # At once, with a token or without.
SILENT_S: Final = 75.0  # A connection that has not asked for anything by then is closed.
BODY_BYTES_MAX: Final = 2 * limits.SAID_BYTES_MAX


async def serve_stdio(speaking: IdentityServer) -> None:
    """Speaks with whoever started this process until it closes the input, or until Ctrl-C."""
    with _taken_input() as lines:
        async with speaking.telling(), stdio_server(stdin=cast("anyio.AsyncFile[str]", lines)) as (read, write):
            await speaking.server.run(read, write, speaking.options)


@contextmanager
def _taken_input() -> Iterator[AsyncIterator[str]]:
    """The lines of standard input, which is empty for everything else in this process and what it starts."""
    wire = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    try:
        yield _lines(wire)
    finally:
        os.dup2(wire, 0)
        os.close(wire)


async def _lines(wire: int) -> AsyncIterator[str]:
    """Waited for in the loop: the SDK's own read is in a thread, where Ctrl-C at a terminal would not end it."""
    is_file = stat.S_ISREG(os.fstat(wire).st_mode) or _is_empty_device(wire)  # The loop cannot wait for these.
    rest = b""
    while True:
        if not is_file:
            await anyio.wait_readable(wire)
        found = os.read(wire, READ_BYTES)
        if not found:
            break
        *whole, rest = (rest + found).split(b"\n")
        for line in whole:
            yield line.decode(errors="replace")
    if rest:
        yield rest.decode(errors="replace")


def _is_empty_device(wire: int) -> bool:
    """Whether `wire` is /dev/null, which programs without a terminal get as standard input."""
    return os.path.samestat(os.fstat(wire), Path(os.devnull).stat())


class HttpTransport:
    """An ASGI application for several identities, each with its token."""

    def __init__(self, names: SiteNames, doors: Mapping[str, tuple[str, IdentityServer]]) -> None:
        self._names = names
        self._tokens = {name: token for name, (token, _) in doors.items()}
        self._speaking = {name: speaking for name, (_, speaking) in doors.items()}
        self._managers = {
            name: StreamableHTTPSessionManager(
                speaking.server,
                max_request_body_size=BODY_BYTES_MAX,
                max_sessions=SESSIONS_MAX,
                session_idle_timeout=IDLE_S,
            )
            for name, speaking in self._speaking.items()
        }

    def renew(self, tokens: Mapping[str, str]) -> None:
        """From now on these are the tokens of the identities that they name: whoever has an old one is a stranger."""
        self._tokens |= {name: token for name, token in tokens.items() if name in self._tokens}

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Sessions live as long as the block."""
        async with AsyncExitStack() as stack:
            for name, manager in self._managers.items():
                await stack.enter_async_context(self._speaking[name].telling())
                await stack.enter_async_context(manager.run())
            yield

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return  # Nothing else is spoken here.
        headers = {name.decode("latin-1").title(): value.decode("latin-1") for name, value in scope["headers"]}
        name = self._name_of(headers)
        denied = auth.denied_place(headers, self._names, str((scope.get("server") or ("",))[0]))
        if denied is None and name is None:
            denied = AccessDenied(401, "a token is needed", "plan mcp --http printed it: Authorization: Bearer TOKEN")
        if denied is None and scope["path"].rstrip("/") != PATH:
            denied = AccessDenied(404, f"there is nothing at {scope['path'][:100]}", f"MCP is spoken at {PATH}")
        if denied is not None or name is None:
            assert denied is not None, "without a name it is denied"
            await _deny(send, denied)
            return
        await self._managers[name].handle_request(scope, receive, send)
        if scope["method"] == "DELETE":
            await self._speaking[name].gone(headers.get(SESSION_HEADER.title(), ""))

    def _name_of(self, headers: Mapping[str, str]) -> str | None:
        scheme, _, token = headers.get("Authorization", "").partition(" ")
        given = token.strip().encode() if scheme.lower() == "bearer" else b""
        found = [name for name, known in self._tokens.items() if hmac.compare_digest(given, known.encode())]
        return found[0] if found else None


async def _deny(send: Any, denied: AccessDenied) -> None:
    body = encode({"error": {"summary": denied.summary, "hint": denied.hint}})
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": denied.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class _Bounded(H11Protocol):
    """A connection that is closed when it keeps us waiting for a request, or when there are too many.

    Its model waits for ever for the first request, and for the rest of one that has begun.
    """

    _due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > CONNECTIONS_MAX:
            transport.close()
        self._await_request()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def _await_request(self) -> None:
        cycle = cast("RequestResponseCycle | None", self.cycle)
        if cycle is not None and not cycle.response_complete:
            self._forget()
        elif self._due is None:  # What comes in bit by bit has no more time for that.
            self._due = self.loop.call_later(SILENT_S, self.transport.close)

    def _forget(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None


class _Quiet(uvicorn.Server):
    """Sleeps until it is told to end, where its model looks ten times a second; signals are others' business."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._over = anyio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def main_loop(self) -> None:
        await self._over.wait()

    def end(self) -> None:
        """Answers no more."""
        self.should_exit = True
        self._over.set()


async def serve_http(door: HttpTransport, listener: socket.socket, tls: Sequence[str | None]) -> None:
    """Speaks with all who come to `listener` until Ctrl-C; `tls` are the files of certificate and key, if any."""
    certificate, key = tls
    config = uvicorn.Config(
        door,
        log_level="error",
        access_log=False,
        lifespan="off",
        ws="none",
        http=_Bounded,
        ssl_certfile=certificate,
        ssl_keyfile=key,
        timeout_graceful_shutdown=LEAVE_S,
        server_header=False,
        date_header=False,
    )
    server = _Quiet(config)
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as received:
        async with door.open(), anyio.create_task_group() as group:
            group.start_soon(partial(server.serve, sockets=[listener]))
            async for _ in received:
                break
            server.end()
