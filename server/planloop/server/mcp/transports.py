"""Transports of the MCP server: standard input and output, and streamable HTTP.

Over HTTP the gateway's checks of host and origin apply, and each identity has its own token and sessions: a session
cannot be used with the token of another identity.
"""

from __future__ import annotations

import hmac
import logging
import os
import signal
import socket
import ssl
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

import anyio
from aiohttp import web
from anyio.abc import TaskGroup
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from planloop.reconciler.engine.reconcile import Bug, attempt
from planloop.reconciler.errors import EngineError
from planloop.schemas import limits
from planloop.schemas.canonical_json import encode
from planloop.server.gateway import auth
from planloop.server.gateway.auth import AccessDenied, SiteNames
from planloop.server.http_server import serve_application
from planloop.server.mcp.server import SESSION_HEADER, IdentityServer

PATH: Final = "/mcp"
READ_BYTES: Final = 1 << 16
SESSIONS_MAX: Final = 100  # Of one identity.
IDLE_S: Final = 1_800.0  # A session without a request for so long is over.
BODY_BYTES_MAX: Final = 2 * limits.SAID_BYTES_MAX

AsgiApplication: TypeAlias = Callable[[Any, Any, Any], Awaitable[None]]

_LOGGER: Final = logging.getLogger("planloop.server.mcp")


async def serve_stdio(server: IdentityServer) -> None:
    """Serve the process that started this one until it closes the input, or until Ctrl-C."""
    with _taken_input() as lines:
        async with server.notifying(), stdio_server(stdin=cast("anyio.AsyncFile[str]", lines)) as (read, write):
            await server.server.run(read, write, server.options)


@contextmanager
def _taken_input() -> Iterator[AsyncIterator[str]]:
    """The lines of standard input, which is empty for the rest of this process and for its child processes."""
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
    """Read lines in the event loop: the SDK reads in a thread, which Ctrl-C at a terminal would not end."""
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
    """MCP over streamable HTTP for several identities, each with its token."""

    def __init__(self, names: SiteNames, identities: Mapping[str, tuple[str, IdentityServer]]) -> None:
        self._names = names
        self._tokens = {name: token for name, (token, _) in identities.items()}
        self._servers = {name: server for name, (_, server) in identities.items()}
        self._managers = {
            name: StreamableHTTPSessionManager(
                server.server,
                max_request_body_size=BODY_BYTES_MAX,
                max_sessions=SESSIONS_MAX,
                session_idle_timeout=IDLE_S,
            )
            for name, server in self._servers.items()
        }

    def renew(self, tokens: Mapping[str, str]) -> None:
        """Replace the tokens of the identities that are served; the old ones are invalid from now on."""
        self._tokens |= {name: token for name, token in tokens.items() if name in self._tokens}

    @asynccontextmanager
    async def open(self) -> AsyncIterator[web.Application]:
        """The application; its sessions live as long as the block."""
        async with AsyncExitStack() as stack:
            for name, manager in self._managers.items():
                await stack.enter_async_context(self._servers[name].notifying())
                await stack.enter_async_context(manager.run())
            group = await stack.enter_async_context(anyio.create_task_group())

            async def answer(request: web.Request) -> web.StreamResponse:
                name = self._name_of(request.headers)
                denied = self._denied(request, name)
                if denied is not None or name is None:
                    assert denied is not None, "a request without a name is denied"
                    return _denied_response(denied)
                response = await AsgiRequest(request).answer(self._managers[name].handle_request, group)
                if request.method == "DELETE":
                    await self._servers[name].end_session(request.headers.get(SESSION_HEADER, ""))
                return response

            application = web.Application()
            application.router.add_route("*", "/{path:.*}", answer)
            yield application
            group.cancel_scope.cancel()

    def _denied(self, request: web.Request, name: str | None) -> AccessDenied | None:
        arrived_at = request.get_extra_info("sockname", ("",))[0]
        denied = auth.denied_place(request.headers, self._names, arrived_at)
        if denied is None and name is None:
            return AccessDenied(401, "a token is needed", "plan mcp --http printed it: Authorization: Bearer TOKEN")
        if denied is None and request.path.rstrip("/") != PATH:
            return AccessDenied(404, f"there is nothing at {request.path[:100]}", f"MCP is spoken at {PATH}")
        return denied

    def _name_of(self, headers: Mapping[str, str]) -> str | None:
        scheme, _, token = headers.get("Authorization", "").partition(" ")
        given = token.strip().encode(errors="replace") if scheme.lower() == "bearer" else b""
        found = [name for name, known in self._tokens.items() if hmac.compare_digest(given, known.encode())]
        return found[0] if found else None


def _denied_response(denied: AccessDenied) -> web.Response:
    body = encode({"error": {"summary": denied.summary, "hint": denied.hint}})
    return web.Response(
        body=body, status=denied.status, content_type="application/json", headers={"Server": "planloop"}
    )


class AsgiRequest:
    """An aiohttp request as ASGI, which is what the MCP SDK answers.

    The SDK runs in a task of its own: when the client disconnects, aiohttp cancels its handler, and the SDK must hear
    of that as `http.disconnect` and clean up.
    """

    def __init__(self, request: web.Request) -> None:
        self._request = request
        self._response: web.StreamResponse | None = None
        self._is_read = False
        self._gone = anyio.Event()
        self._done = anyio.Event()

    async def answer(self, application: AsgiApplication, group: TaskGroup) -> web.StreamResponse:
        """Return the response of `application`, which runs in `group`; it is sent already."""
        group.start_soon(self._run, application)
        try:
            await self._done.wait()
        finally:
            self._gone.set()
        return self._response or web.Response(status=500)

    async def _run(self, application: AsgiApplication) -> None:
        try:
            outcome = await attempt(application, self._scope(), self._receive, self._send)
        except EngineError as error:
            outcome = Bug(error)
        finally:
            self._done.set()
        if isinstance(outcome, Bug):
            _LOGGER.error("an MCP request failed", exc_info=outcome.error)

    def _scope(self) -> dict[str, Any]:
        request = self._request
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": request.scheme,
            "path": request.path,
            "raw_path": request.rel_url.raw_path.encode(),
            "query_string": request.rel_url.raw_query_string.encode(),
            "root_path": "",
            "headers": [(name.lower(), value) for name, value in request.raw_headers],
            "client": request.get_extra_info("peername"),
            "server": request.get_extra_info("sockname"),
        }

    async def _receive(self) -> dict[str, Any]:
        if self._is_read:
            await self._gone.wait()
            return {"type": "http.disconnect"}
        try:
            chunk = await self._request.content.readany()
        except ConnectionError:
            return {"type": "http.disconnect"}
        self._is_read = self._request.content.at_eof()
        return {"type": "http.request", "body": chunk, "more_body": not self._is_read}

    async def _send(self, message: Mapping[str, Any]) -> None:
        if self._gone.is_set():
            return
        with suppress(ConnectionError):  # The client is gone, which `_receive` reports.
            if message["type"] == "http.response.start":
                headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in message["headers"]]
                headers.append(("Server", "planloop"))
                self._response = web.StreamResponse(status=message["status"], headers=headers)
                await self._response.prepare(self._request)
            elif self._response is not None:
                if message.get("body"):
                    await self._response.write(message["body"])
                if not message.get("more_body", False):
                    await self._response.write_eof()


async def serve_http(transport: HttpTransport, listener: socket.socket, tls: ssl.SSLContext | None) -> None:
    """Serve all clients that connect to `listener` until Ctrl-C."""
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as received:
        async with (
            transport.open() as application,
            serve_application(application, listener, tls, cancels_handlers=True),
        ):
            async for _ in received:
                break
