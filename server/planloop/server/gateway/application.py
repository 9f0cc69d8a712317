"""The gateway of `plan serve`: access checks, the API of one plan, websockets and the files of the page.

Every path outside the API returns the page, which evaluates the path in the browser, or one of the files that it loads.
"""

from __future__ import annotations

import importlib
import os
import re
import secrets
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import click
from aiohttp import web
from aiohttp.typedefs import Handler

from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.plan_paths import PlanPaths
from planloop.schemas.canonical_json import Json, encode
from planloop.schemas.frozen import frozen
from planloop.server import history
from planloop.server.edit.edit_service import EditService
from planloop.server.gateway import auth
from planloop.server.gateway.auth import RIGHT, AccessDenied, Links, LinkTokens, SiteNames
from planloop.server.gateway.bench_routes import BenchRoutes, ReportFolders
from planloop.server.gateway.container_routes import ContainerRoutes
from planloop.server.gateway.owner_proxy import OwnerProxy
from planloop.server.gateway.replica import PlanReplica, PlanSnapshot
from planloop.server.gateway.websockets import LogSockets, SocketHandler, TokenStream
from planloop.server.http_api import (
    BODY_BYTES_MAX,
    OPERATION,
    OperationHandler,
    checked_body,
    errors_middleware,
    operation_routes,
    read_body,
    refusal_response,
    request_path,
)
from planloop.server.http_server import LEAVE_S, serve_application
from planloop.server.observability import metrics
from planloop.server.observability.metrics import MetricCounters
from planloop.server.read_queries import OwnerInfo, is_log_query, read_answer

PIECES_FROM = 100  # Lists of this length are encoded item by item, so that other threads run in between.


def encode_in_pieces(value: Json) -> bytes:
    """Encode like `encode`, but let the event loop's thread run while a large answer is encoded."""
    if not isinstance(value, dict):
        return encode(value)
    return b"{%b}" % b",".join(b"%b:%b" % (encode(name), _encoded_list(inner)) for name, inner in value.items())


def _encoded_list(value: Json) -> bytes:
    if not isinstance(value, list) or len(value) < PIECES_FROM:
        return encode(value)
    return b"[%b]" % b",".join(encode(item) for item in value)


PAGE_ROUTE: Final = "/{path:(?!v1/).*}"
INDEX: Final = "index.html"
ASSETS: Final = "assets/"  # Their names contain a hash of the content, so they never change.
NAME: Final = re.compile(r"(?:[\w-][\w.-]*/)*[\w-][\w.-]*", re.ASCII)  # Excludes `..`, hidden files, absolute paths.


def page_response(page: Path, path: str) -> web.FileResponse:
    """Return the file at `path` in the folder `page`, or the page itself. Raises CommandError for a missing asset."""
    if NAME.fullmatch(path) and path != INDEX and _is_there(page / path):
        is_hashed = path.startswith(ASSETS)
        return _file(page / path, "public, max-age=31536000, immutable" if is_hashed else "no-cache")
    if path.startswith(ASSETS):
        # Do not return the page instead: a browser would cache it as this script.
        raise CommandError(ExitCode.NOT_FOUND, "the page has no such file", "reload the page: its version has changed")
    if not (page / INDEX).is_file():
        raise CommandError(ExitCode.NOT_FOUND, "the page is not built", "build it with make page; the API works anyway")
    return _file(page / INDEX, "no-cache")


def _is_there(file: Path) -> bool:
    try:
        return file.is_file()
    except OSError:  # The name is too long for a file.
        return False


def _file(file: Path, keeping: str) -> web.FileResponse:
    return web.FileResponse(file, headers={"Cache-Control": keeping})


OWNERS: Final = frozenset({"why"})  # Reads that need the gate, and therefore the owner.
NAMED: Final = frozenset({"status", "objects"})  # Answers with the field `log`.
BODIES_AT_ONCE: Final = 16  # Bodies in memory at the same time.


class Gateway:
    """Serves one plan over TCP. `names` are its host names, `page` the folder with the built page.

    Every path except the page needs a token.
    """

    def __init__(
        self, replica: PlanReplica, links: Links, names: SiteNames, page: Path, reports: ReportFolders | None = None
    ) -> None:
        self._replica = replica
        self._owner = OwnerProxy(replica)
        self._editing = EditService(replica, self._owner)
        self._links = links
        self._names = names
        self._page = page
        self._bodies = anyio.Semaphore(BODIES_AT_ONCE)
        self._leaving = anyio.Event()
        self._tokens = TokenStream(replica)
        self.sockets = LogSockets(replica, self._tokens, self._leaving, links)
        replica.on_move(links.look)
        self._counters = MetricCounters(replica.place.name, replica.get)
        replica.on_record(self._counters.note)
        self._containers = ContainerRoutes(replica, self._owner, self._tokens, self._websocket)
        root = replica.place.root
        self._benches = BenchRoutes(reports or ReportFolders(root, root / "reports"), self._websocket)

    def application(self) -> web.Application:
        """Return the aiohttp application."""
        application = web.Application(client_max_size=BODY_BYTES_MAX, middlewares=[self._guard, errors_middleware])
        handlers: dict[str, OperationHandler] = {
            "getSession": self._session,
            "getDescription": self._description,
            "tail": self._tail,
            **self._containers.handlers(),
            **self._benches.handlers(),
        }
        application.add_routes(operation_routes("gateway", handlers, self._answer))
        application.router.add_get("/metrics", self._metrics)
        application.router.add_get(PAGE_ROUTE, self._file)
        application.on_shutdown.append(self._leave)
        return application

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Keep the replica up to date while the block runs."""
        await self._replica.load()
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._replica.run)
                group.start_soon(self._tokens.run)
                yield
                group.cancel_scope.cancel()
        finally:
            self._editing.close()
            self._replica.close()

    async def _leave(self, _: web.Application) -> None:
        """End all websockets. Return when they are closed, or after a second."""
        self._leaving.set()
        with anyio.move_on_after(LEAVE_S):
            await self.sockets.gone()

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        denied = self._denied(request)
        if denied is not None:
            response: web.StreamResponse = _denied_response(denied)
        elif request.match_info.get("plan", self._replica.place.name) != self._replica.place.name:
            words = f"this server does not serve the plan `{request.match_info['plan'][:100]}`"
            hint = f"it serves {self._replica.place.name}"
            response = refusal_response(CommandError(ExitCode.NOT_FOUND, words, hint))
        else:
            response = await handler(request)
        if not response.prepared:
            response.headers.update(auth.HEADERS)
            response.headers.setdefault("Cache-Control", "no-store")
        return response

    def _denied(self, request: web.Request) -> AccessDenied | None:
        arrived_at = request.get_extra_info("sockname", ("",))[0]
        denied = auth.denied_place(request.headers, self._names, arrived_at)
        if denied is not None or request.match_info.handler == self._file:
            return denied
        right = auth.right_of(request.headers, self._links.tokens)
        request[RIGHT] = right or ""
        return auth.denied_token(request.method, right)

    async def _session(self, request: web.Request) -> Json:
        return {"plan": self._replica.place.name, "right": request[RIGHT]}

    async def _metrics(self, _: web.Request) -> web.Response:
        moment, counted = self._replica.moment(), tuple(self._counters.families())

        def text() -> str:
            return metrics.prometheus_text([*metrics.current_metrics(moment.list, moment.rev, moment.epoch), *counted])

        made = await self._replica.read(text)
        return web.Response(text=made, headers={"Content-Type": metrics.CONTENT_TYPE})

    async def _description(self, _: web.Request) -> Json:
        """Return the OpenAPI description. Its module is imported here because it loads all models."""
        openapi = await anyio.to_thread.run_sync(importlib.import_module, "planloop.server.api.openapi")
        found: Json = openapi.openapi_description(self._replica.place.name)
        return found

    async def _answer(self, request: web.Request) -> Json:
        path = request_path(request)
        if request[OPERATION].method == "GET":
            return await self._read(path, dict(request.query))
        async with self._bodies:
            body = await checked_body(request, await read_body(request))
            if path in self._editing.posts:
                return await self._editing.post(path, body)
            return await self._owner.post(path, body)

    async def _read(self, path: str, query: dict[str, str]) -> Json:
        if path == "edit":
            return await self._editing.text()
        if path in OWNERS:
            return await self._owner.get(path, query)
        name = self._replica.place.name
        if is_log_query(path, query):
            self._replica.require()
            return await self._replica.read(partial(history.history_answer, self._replica.reader, name, path, query))
        moment = self._replica.moment()
        host = await self._owner.host() if path == "status" else OwnerInfo(name)
        return await self._replica.read(partial(_encoded_response, moment, host, path, query))

    async def _tail(self, request: web.Request) -> web.StreamResponse:
        self._replica.require()
        return await self._websocket(request, self.sockets.follow(request))

    async def _websocket(self, request: web.Request, handler: SocketHandler) -> web.StreamResponse:
        denied = auth.denied_handshake(request.headers)
        return await self.sockets.held(request, handler) if denied is None else _denied_response(denied)

    async def _file(self, request: web.Request) -> web.StreamResponse:
        return page_response(self._page, request.match_info["path"])


def _encoded_response(moment: PlanSnapshot, host: OwnerInfo, path: str, query: dict[str, str]) -> bytes:
    found = read_answer(moment, host, path, query)
    return encode_in_pieces({**found, "log": moment.log} if path in NAMED else found)


def _denied_response(denied: AccessDenied) -> web.Response:
    return refusal_response(CommandError(ExitCode.REFUSED, denied.summary, denied.hint), denied.status)


@frozen
class GatewayOptions:
    """Options of `plan serve`.

    `names` are further host names, `tls` the files of the certificate and its key, `page` is the folder of another
    build of the page.
    """

    names: tuple[str, ...] = ()
    tls: tuple[Path | None, Path | None] = (None, None)
    is_read_only: bool = False
    has_new_links: bool = False
    page: Path | None = None
    reports: ReportFolders | None = None


def serve(place: PlanPaths, listener: socket.socket, options: GatewayOptions) -> None:
    """Serve the plan of `place` on `listener` until Ctrl-C, and print its links. Raises CommandError, StoreFailed."""
    tls = auth.tls_context(*options.tls)
    scheme: auth.Scheme = "https" if tls else "http"
    address, port = listener.getsockname()[:2]
    machine = socket.gethostname()
    names = auth.site_names(scheme, port, [*options.names, machine, "localhost"])
    mint = partial(secrets.token_urlsafe, 32)
    tokens = (auth.create_tokens if options.has_new_links else auth.load_tokens)(place.folder, mint)

    async def run() -> None:
        links = Links(place.folder, tokens, read_only=options.is_read_only)
        page = options.page or Path(auth.__file__).parents[1] / "page"
        gateway = Gateway(PlanReplica(place), links, names, page, options.reports)
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as received:
            async with gateway.following(), serve_application(gateway.application(), listener, tls):
                for line in link_lines(place.name, names.link(options.names, address, machine), links.tokens):
                    click.echo(line)
                async for _ in received:
                    return

    anyio.run(run)
    if any(not one.daemon for one in threading.enumerate() if one is not threading.main_thread()):
        # A thread that waits for a hung owner would delay the exit. The owner still handles the request.
        sys.stdout.flush()
        os._exit(0)


def link_lines(plan: str, site: str, links: LinkTokens) -> list[str]:
    """Return the links to print. They have the token after a `#`, because browsers do not send that part.

    If `plan` is empty, only reports are served, which have no link for changes.
    """
    if not plan:
        return [f"reports  {site}/#token={links.read}", "Press Ctrl-C to quit."]
    lines = [f"{plan}  {site}/#token={links.change}"] if links.change else []
    return [
        *lines,
        f"{'read-only' if lines else plan}  {site}/#token={links.read}",
        "Press Ctrl-C to quit. The plan keeps running.",
    ]
