"""Assemble `plan mcp`: replica, identities, tokens, and a transport: standard input and output, or streamable HTTP."""

from __future__ import annotations

import hmac
import logging
import os
import secrets
import signal
import socket
import ssl
import stat
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

import anyio
from aiohttp import web
from anyio.abc import TaskGroup
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from planloop.client.plan_client import PlanClient
from planloop.client.plan_paths import PlanPaths
from planloop.reconciler.clock import RandomIds
from planloop.reconciler.engine.reconcile import Bug, attempt
from planloop.reconciler.errors import EngineError
from planloop.schemas import limits
from planloop.schemas.canonical_json import encode
from planloop.schemas.frozen import frozen
from planloop.server.gateway import auth
from planloop.server.gateway.auth import AccessDenied, SiteNames, tls_context
from planloop.server.gateway.replica import PlanReplica
from planloop.server.http_server import serve_application
from planloop.server.mcp import client_config, leases
from planloop.server.mcp.call_tracker import CallTracker
from planloop.server.mcp.leases import AT_ONCE, McpContext
from planloop.server.mcp.server import SESSION_HEADER, IdentityServer

PATH: Final = "/mcp"
READ_BYTES: Final = 1 << 16
SESSIONS_MAX: Final = 100  # Of one identity.
IDLE_S: Final = 1_800.0  # A session ends after this time without a request.
BODY_BYTES_MAX: Final = 2 * limits.SAID_BYTES_MAX

AsgiApplication: TypeAlias = Callable[[Any, Any, Any], Awaitable[None]]

_LOGGER: Final = logging.getLogger("planloop.server.mcp")


async def serve_stdio(server: IdentityServer) -> None:
    """Serve the client that started this process, until it closes the input or Ctrl-C."""
    with _taken_input() as lines:
        async with server.notifying(), stdio_server(stdin=cast("anyio.AsyncFile[str]", lines)) as (read, write):
            await server.server.run(read, write, server.options)


@contextmanager
def _taken_input() -> Iterator[AsyncIterator[str]]:
    """Yield the lines of standard input. Meanwhile other code and child processes find standard input empty."""
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
    """Read lines in the event loop. The SDK would read in a thread, which Ctrl-C at a terminal does not stop."""
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
    """Return whether `wire` is /dev/null, the standard input of many programs without a terminal."""
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
        """Yield the application. Its sessions end with the block."""
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
                if request.method == "DELETE":
                    # Before the answer, because a client may disconnect on it, which cancels this handler.
                    with anyio.CancelScope(shield=True):
                        await self._servers[name].end_session(request.headers.get(SESSION_HEADER, ""))
                return await AsgiRequest(request).answer(self._managers[name].handle_request, group)

            application = web.Application()
            application.router.add_route("*", "/{path:.*}", answer)
            yield application
            group.cancel_scope.cancel()

    def _denied(self, request: web.Request, name: str | None) -> AccessDenied | None:
        arrived_at = request.get_extra_info("sockname", ("",))[0]
        denied = auth.denied_place(request.headers, self._names, arrived_at)
        if denied is None and name is None:
            hint = "send `Authorization: Bearer TOKEN` with the token that plan mcp --http printed"
            return AccessDenied(401, "the request has no valid token", hint)
        if denied is None and request.path.rstrip("/") != PATH:
            return AccessDenied(404, f"there is nothing at {request.path[:100]}", f"the MCP server is at {PATH}")
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
    """An aiohttp request as ASGI, for the MCP SDK.

    The SDK runs in a separate task. When the client disconnects, aiohttp cancels its handler; the SDK then receives
    `http.disconnect` and cleans up.
    """

    def __init__(self, request: web.Request) -> None:
        self._request = request
        self._response: web.StreamResponse | None = None
        self._is_read = False
        self._gone = anyio.Event()
        self._done = anyio.Event()

    async def answer(self, application: AsgiApplication, group: TaskGroup) -> web.StreamResponse:
        """Run `application` in `group` and return its response, which has been sent already."""
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


FILE: Final = "guests.json"  # In the plan's state folder: the token of each identity over HTTP.


def load_identity_tokens(
    folder: Path, names: Sequence[str], mint: Callable[[], str], *, is_new: bool = False
) -> Mapping[str, str]:
    """Return the token of each of `names`; create and save missing ones, or all if `is_new`. Raises OSError."""
    there = auth.read_tokens(folder / FILE)
    tokens = {name: there.get(name, "") if not is_new else "" for name in names}
    made = {name: token or mint() for name, token in tokens.items()}
    if made != tokens:
        auth.write_tokens(folder / FILE, {**there, **made}, mint()[:8]).replace(folder / FILE)
    return made


TOKEN_BYTES: Final = 32
QUIT: Final = "Press Ctrl-C to quit. The plan keeps running."
AT_TERMINAL: Final = (
    "{plan} as {name}: waiting for an MCP client on standard input. MCP clients usually start this command themselves; "
    f"to let them connect instead, use plan mcp --http.\n{QUIT}\n"
)


@frozen
class McpOptions:
    """Options of `plan mcp --http`: further host names, the TLS certificate and key, and whether to replace tokens."""

    names: tuple[str, ...] = ()
    tls: tuple[Path | None, Path | None] = (None, None)
    new_tokens: bool = False


def print_config(place: PlanPaths, wanted: Sequence[str], client: str) -> None:
    """Print the configuration with which `client` starts `plan mcp` as the `wanted` identity. Raises CommandError."""

    async def run() -> str:
        async with _context(place) as (context, _):
            return leases.require_single_identity(context.log, wanted)

    made = client_config.config_snippet(client, place.name, [*_started(place), "--as", anyio.run(run)])
    sys.stderr.write("".join(f"{line}\n" for line in (f"Save this as {made.file}, or merge it in:", *made.notes)))
    sys.stderr.flush()
    sys.stdout.write(made.text)


def _started(place: PlanPaths) -> list[str]:
    """Return the command that starts `plan mcp` from any folder and with any PATH, which differs between programs."""
    beside = Path(sys.executable).with_name("plan")
    program = [str(beside)] if beside.is_file() else [sys.executable, "-m", "planloop"]
    if place.file is not None:
        return [*program, "mcp", "--plan", str(place.file.absolute())]
    return ["sh", "-c", 'cd "$0" && exec "$@"', str(place.root.absolute()), *program, "mcp", "--plan", place.name]


def run_stdio(place: PlanPaths, wanted: Sequence[str]) -> None:
    """Serve the identity in `wanted` over standard input and output, until the input ends. Raises CommandError."""

    async def run() -> None:
        async with _context(place) as (context, _):
            name = leases.require_single_identity(context.log, wanted)
            if sys.stdin.isatty():
                sys.stderr.write(AT_TERMINAL.format(plan=place.name, name=name))
            await serve_stdio(IdentityServer(context, place.name, name, is_http=False))

    anyio.run(run)


def run_http(place: PlanPaths, wanted: Sequence[str], listener: socket.socket, options: McpOptions) -> None:
    """Serve each identity in `wanted` over HTTP on `listener`, until Ctrl-C. Raises CommandError."""
    secure = tls_context(*options.tls)
    scheme: auth.Scheme = "https" if secure else "http"
    address, port = listener.getsockname()[:2]
    site = f"{scheme}://{f'[{address}]' if ':' in address else address}:{port}{PATH}"
    names = auth.site_names(scheme, port, [*options.names, "localhost"])

    async def run() -> None:
        async with _context(place) as (context, replica):
            chosen = leases.choose_identities(context.log, wanted)
            mint = partial(secrets.token_urlsafe, TOKEN_BYTES)
            made = load_identity_tokens(place.folder, chosen, mint, is_new=options.new_tokens)
            served = {name: (made[name], IdentityServer(context, place.name, name, is_http=True)) for name in chosen}
            for name in chosen:
                sys.stdout.write(f"{place.name} as {name}  {site}  Authorization: Bearer {made[name]}\n")
            sys.stdout.write(f"{QUIT}\n")
            sys.stdout.flush()
            transport = HttpTransport(names, served)

            def look(moved: set[str]) -> None:
                if not moved or FILE in moved:
                    transport.renew(auth.read_tokens(place.folder / FILE))

            replica.on_move(look)
            await serve_http(transport, listener, secure)

    anyio.run(run)


@asynccontextmanager
async def _context(place: PlanPaths) -> AsyncIterator[tuple[McpContext, PlanReplica]]:
    replica, tracker = PlanReplica(place), CallTracker()
    await replica.load()
    replica.require()
    replica.on_record(tracker.note)
    context = McpContext(PlanClient(place), replica, tracker, RandomIds().mint, anyio.CapacityLimiter(AT_ONCE))
    async with anyio.create_task_group() as group:
        group.start_soon(replica.run)
        try:
            yield context, replica
        finally:
            group.cancel_scope.cancel()
