"""Run a gateway on a port until it is stopped."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import socket
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from planloop.client.plan_paths import PlanPaths
from planloop.server.gateway.application import Gateway
from planloop.server.http_api import LINE_BYTES_MAX

if TYPE_CHECKING:
    from planloop.server.gateway.auth import LinkTokens
    from planloop.server.gateway.bench_routes import ReportFolders

LEAVE_S: Final = 1.0  # What is under way when it ends has so long.
IDLE_S: Final = 75.0  # A connection that asks for nothing is closed after this, one that never asked, too.
UNREAD_MS: Final = 30_000  # A client that takes nothing of what it was sent for so long is dropped by the kernel.
CONNECTIONS_MAX: Final = 1_024  # At once; 500 may listen, and a browser opens six more.
FILES_KEPT: Final = 128  # Of those that a process may open, for what is not a connection.
FULL: Final = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 5\r\nConnection: close\r\n\r\n"

_LOGGER: Final = logging.getLogger("planloop.server.gateway")


def _is_ours(record: logging.LogRecord) -> bool:
    """Whether a fault is not that of some client, who is told of it: a scan of ports would fill the terminal."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


_LOGGER.addFilter(_is_ours)


@asynccontextmanager
async def run_gateway(gateway: Gateway, listener: socket.socket, tls: ssl.SSLContext | None) -> AsyncIterator[None]:
    """Answers on `listener` for as long as the block lasts."""
    runner = web.AppRunner(
        gateway.application(),
        access_log=None,
        logger=_LOGGER,
        shutdown_timeout=LEAVE_S,
        keepalive_timeout=IDLE_S,
        lingering_time=LEAVE_S,
        max_line_size=LINE_BYTES_MAX,
    )
    await runner.setup()
    assert runner.server is not None
    _drop_unread(listener)
    door = _Door(runner.server, _connections_max())
    async with gateway.following():
        server = await asyncio.get_running_loop().create_server(door, sock=listener, ssl=tls, backlog=256)
        try:
            yield
        finally:
            server.close()
            with anyio.CancelScope(shield=True):
                await gateway.leave(LEAVE_S)
                await runner.cleanup()


class _Door:
    """Makes what answers a connection, and turns away who comes when there are too many."""

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
    """What the listener takes has this from it; elsewhere than on Linux such clients cost their buffers."""
    with suppress(AttributeError, OSError):
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD_MS)


@dataclass(frozen=True, slots=True)
class GatewayOptions:
    """How `plan serve` was asked to: `names` beside the address, the files of TLS, another build of the `page`."""

    names: tuple[str, ...] = ()
    tls: tuple[Path | None, Path | None] = (None, None)
    read_only: bool = False
    new_links: bool = False
    page: Path | None = None
    shelves: ReportFolders | None = None


def serve(place: PlanPaths, listener: socket.socket, wish: GatewayOptions) -> None:
    """Serves the plan of `place` on `listener` until Ctrl-C, and prints its links. Raises CommandError, StoreFailed."""
    import secrets
    import signal
    import threading

    import anyio
    import click

    from planloop.server.gateway import auth
    from planloop.server.gateway.application import Gateway
    from planloop.server.gateway.auth import tls_context
    from planloop.server.gateway.replica import PlanReplica

    secure = tls_context(*wish.tls)
    scheme: auth.Scheme = "https" if secure else "http"
    address, port = listener.getsockname()[:2]
    machine = socket.gethostname()
    names = auth.site_names(scheme, port, [*wish.names, machine, "localhost"])
    mint = partial(secrets.token_urlsafe, 32)
    made = (auth.create_tokens if wish.new_links else auth.load_tokens)(place.folder, mint)

    async def run() -> None:
        links = auth.Links(place.folder, made, read_only=wish.read_only)
        page = wish.page or Path(auth.__file__).parents[1] / "page"
        gateway = Gateway(PlanReplica(place), links, names, page, wish.shelves)
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as received:
            async with run_gateway(gateway, listener, secure):
                for line in link_lines(place.name, names.link(wish.names, address, machine), links.tokens):
                    click.echo(line)
                async for _ in received:
                    return

    anyio.run(run)
    if any(not one.daemon for one in threading.enumerate() if one is not threading.main_thread()):
        # A thread that still asks an owner which hangs would hold up the end; what it was asked to do is the owner's.
        sys.stdout.flush()
        os._exit(0)


def link_lines(plan: str, site: str, links: LinkTokens) -> list[str]:
    """What a person clicks on: the page with a token behind the `#`, which browsers send to nobody.

    Without a `plan` there is nothing to change.
    """
    if not plan:
        return [f"reports  {site}/#token={links.read}", "Ctrl-C ends this"]
    lines = [f"{plan}  {site}/#token={links.change}"] if links.change else []
    return [
        *lines,
        f"{'to look only' if lines else plan}  {site}/#token={links.read}",
        "Ctrl-C ends this; the plan goes on",
    ]
