"""Serve an aiohttp application on a listening socket, with limits for its connections.

The owner's API, the gateway and the MCP server use it.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

import anyio
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

LEAVE_S: Final = 1.0  # For requests that are still being answered when the server stops.
IDLE_S: Final = 75.0  # A connection is closed after this time without a complete request.
UNREAD_MS: Final = 30_000  # The kernel drops a client that has not read its data for this time.
CONNECTIONS_MAX: Final = 1_024  # At once; 500 websockets are allowed, and a browser opens six more connections.
FILES_KEPT: Final = 128  # File descriptors that are reserved for other uses than connections.
LINE_BYTES_MAX: Final = 64 << 10  # Of a request's first line: all parameters as HTTP encodes them.
FULL: Final = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 5\r\nConnection: close\r\n\r\n"

_LOGGER: Final = logging.getLogger("planloop.server.http")


def _is_server_error(record: logging.LogRecord) -> bool:
    """Return whether a log record is an error of the server. A port scan sends many malformed requests: not logged."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


_LOGGER.addFilter(_is_server_error)


@asynccontextmanager
async def serve_application(
    application: web.Application,
    listener: socket.socket,
    tls: ssl.SSLContext | None = None,
    *,
    leave_s: float = LEAVE_S,
    cancels_handlers: bool = False,
) -> AsyncIterator[None]:
    """Answer requests on `listener` while the block runs.

    At the end, requests have `leave_s` to finish. With `cancels_handlers`, a handler is cancelled when its client
    disconnects; otherwise it finishes the change that it has started.
    """
    runner = web.AppRunner(
        application,
        access_log=None,
        logger=_LOGGER,
        shutdown_timeout=leave_s,
        keepalive_timeout=IDLE_S,
        lingering_time=LEAVE_S,
        max_line_size=LINE_BYTES_MAX,
        handler_cancellation=cancels_handlers,
        auto_decompress=False,  # No endpoint accepts compressed bodies: a small one could expand to a huge one.
    )
    await runner.setup()
    assert runner.server is not None
    _drop_unread(listener)
    # A unix socket has no connection limit: its clients are commands and the gateway of the same user, and they take a
    # 503 as a sign that the owner is stopping.
    is_local = listener.family == socket.AF_UNIX
    factory = runner.server if is_local else _ConnectionFactory(runner.server, _connections_max())
    server = await asyncio.get_running_loop().create_server(factory, sock=listener, ssl=tls, backlog=256)
    try:
        yield
    finally:
        server.close()
        with anyio.CancelScope(shield=True):
            await runner.cleanup()


class _ConnectionFactory:
    """Creates the protocol of a connection: aiohttp's, or one that answers 503 if there are too many connections."""

    def __init__(self, server: web.Server, connections_max: int) -> None:
        self._server = server
        self._max = connections_max

    def __call__(self) -> asyncio.BaseProtocol:
        return self._server() if len(self._server.connections) < self._max else _Full()


class _Full(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(FULL)
        transport.close()


def _connections_max() -> int:
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return CONNECTIONS_MAX if files == resource.RLIM_INFINITY else max(1, min(CONNECTIONS_MAX, files - FILES_KEPT))


def _drop_unread(listener: socket.socket) -> None:
    """Limit how long the listener's connections may leave data unread. Has an effect only on Linux."""
    with suppress(AttributeError, OSError):
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD_MS)
