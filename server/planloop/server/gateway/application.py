"""Routes of the gateway: access checks, the API, websockets and the files of the page."""

from __future__ import annotations

import importlib
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
from aiohttp import web
from aiohttp.typedefs import Handler

from planloop.client.exit_codes import CommandError, ExitCode
from planloop.schemas.canonical_json import Json, encode
from planloop.server import history
from planloop.server.edit.edit_service import EditService
from planloop.server.gateway import auth
from planloop.server.gateway.auth import AccessDenied, Links, SiteNames
from planloop.server.gateway.bench_routes import BenchRoutes, ReportFolders
from planloop.server.gateway.container_routes import ChatDoors, ContainerRoutes
from planloop.server.gateway.log_websocket import LogSockets, SocketHandler
from planloop.server.gateway.owner_proxy import OwnerProxy
from planloop.server.gateway.replica import PlanReplica
from planloop.server.gateway.snapshot import PlanSnapshot
from planloop.server.gateway.token_stream import TokenStream
from planloop.server.gateway.validation import RIGHT, body_of, validation_middleware
from planloop.server.http_api import BODY_BYTES_MAX, answer_response, refusal_response
from planloop.server.observability import metrics
from planloop.server.observability.metrics import MetricCounters
from planloop.server.read_queries import OwnerInfo, is_log_query, read_answer

# Answers as bytes, made beside the event loop and in pieces, so that a large one holds up nobody.

PIECES_FROM = 100
"""Items of a list from which each is printed by itself: whoever waits for the interpreter has it between two."""


def encode_in_pieces(value: Json) -> bytes:
    """What `encode` gives."""
    if not isinstance(value, dict):
        return encode(value)
    return b"{%b}" % b",".join(b"%b:%b" % (encode(name), _encoded_list(inner)) for name, inner in value.items())


def _encoded_list(value: Json) -> bytes:
    if not isinstance(value, list) or len(value) < PIECES_FROM:
        return encode(value)
    return b"[%b]" % b",".join(encode(item) for item in value)


# The files of the page: one that finds its way by itself from every path, and those that it loads.

ROUTE: Final = "/{path:.*}"  # Whatever no other route takes.
CANONICAL: Final = "/{path}"  # The same, as the router calls it.
INDEX: Final = "index.html"
ASSETS: Final = "assets/"  # Their names hold a hash of what is in them, so they never change.
NAME: Final = re.compile(r"(?:[\w-][\w.-]*/)*[\w-][\w.-]*", re.ASCII)  # No way up, nothing hidden, nothing absolute.


def page_response(page: Path, path: str) -> web.FileResponse:
    """The file at `path` in the folder `page`, or the page itself. Raises CommandError for an asset that there is
    not.
    """
    if NAME.fullmatch(path) and path != INDEX and _is_there(page / path):
        is_hashed = path.startswith(ASSETS)
        return _file(page / path, "public, max-age=31536000, immutable" if is_hashed else "no-cache")
    if path.startswith(ASSETS):
        # Not the page in its place, which a browser would keep as this script.
        raise CommandError(ExitCode.NOT_FOUND, "the page has no such file", "load it again: it is of another version")
    if not (page / INDEX).is_file():
        raise CommandError(
            ExitCode.NOT_FOUND, "the page is not built here", "make page builds it; the API answers without it"
        )
    return _file(page / INDEX, "no-cache")


def _is_there(file: Path) -> bool:
    try:
        return file.is_file()
    except OSError:  # A name too long for any file.
        return False


def _file(file: Path, keeping: str) -> web.FileResponse:
    return web.FileResponse(file, headers={"Cache-Control": keeping})


# The gateway's routes: the guard first, then the API, the tail and the files of the page.
#
# `/v1/plans/NAME/PATH` is the owner's `/v1/PATH` for one plan; every other path is a place in the page, which is one
# file that finds its way by itself. What needs no token is that page alone: a new route needs one without saying so.

API_PREFIX: Final = "/v1/"
OWNERS: Final = frozenset({"why"})  # Reads that need the gate, and so the owner.
NAMED: Final = frozenset({"status", "objects"})  # Answers that say which log their revision is of.
BODY_S: Final = 30.0  # For a body to arrive: a plan file over a slow line takes two.
BODIES_AT_ONCE: Final = 16  # Bodies in memory at the same time.


class Gateway:
    """One plan over TCP. `names` is what it goes by, `page` the folder with the built page."""

    def __init__(
        self, replica: PlanReplica, links: Links, names: SiteNames, page: Path, shelves: ReportFolders | None = None
    ) -> None:
        self._replica = replica
        self._forwarding = OwnerProxy(replica)
        self._editing = EditService(replica, self._forwarding)
        self._links = links
        self._names = names
        self._page = page
        self._past = history.PastObjects()
        self._bodies = anyio.Semaphore(BODIES_AT_ONCE)
        self._leaving = anyio.Event()
        self._words = TokenStream(replica)
        self.tails = LogSockets(replica, self._words, self._leaving, links)
        replica.on_move(links.look)
        self._tally = MetricCounters(replica.place.name, replica.get)
        replica.on_record(self._tally.note)
        self._rooms = ContainerRoutes(ChatDoors(replica, self._forwarding, self._words), self._held, self._refuse_other)
        self._benches = BenchRoutes(
            shelves or ReportFolders(replica.place.root, replica.place.root / "reports"), self._held
        )

    def application(self) -> web.Application:
        """What a runner serves."""
        application = web.Application(client_max_size=BODY_BYTES_MAX, middlewares=[self._guard, validation_middleware])
        plan = f"{API_PREFIX}plans/{{plan}}"
        application.router.add_get("/metrics", self._metrics)
        application.router.add_get(f"{API_PREFIX}session", self._session)
        application.router.add_get(f"{API_PREFIX}openapi.json", self._description)
        application.router.add_get(f"{plan}/tail", self._tail)
        self._rooms.add_routes(application.router, plan)
        application.router.add_get(f"{plan}/{{path:.+}}", self._get)
        application.router.add_post(f"{plan}/{{path:.+}}", self._post)
        self._benches.add_routes(application.router, API_PREFIX)
        application.router.add_get(f"{API_PREFIX}{{path:.*}}", _unknown)
        application.router.add_get(ROUTE, self._file)
        return application

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Keeps what is read here up to date for as long as the block lasts."""
        await self._replica.load()
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._replica.run)
                group.start_soon(self._words.run)
                yield
                group.cancel_scope.cancel()
        finally:
            self._editing.close()
            self._replica.close()

    async def leave(self, within_s: float) -> None:
        """Tells who listens that this ends; returns when all have taken note, or after so long."""
        self._leaving.set()
        with anyio.move_on_after(within_s):
            await self.tails.gone()

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            response = await self._allowed(request, handler)
        except web.HTTPException as error:
            response = _worded(error)
        except CommandError as halt:
            response = refusal_response(halt)
        if not response.prepared:
            response.headers.update(auth.HEADERS)
            response.headers.setdefault("Cache-Control", "no-store")
        return response

    async def _allowed(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        arrived_at = request.get_extra_info("sockname", ("",))[0]
        denied = auth.denied_place(request.headers, self._names, arrived_at)
        if denied is None and not _is_page(request):
            right = auth.right_of(request.headers, self._links.tokens)
            denied = auth.denied_token(request.method, right)
            request[RIGHT] = right or ""
        return await handler(request) if denied is None else _denied(denied)

    def _refuse_other(self, request: web.Request) -> None:
        name = request.match_info["plan"]
        if name != self._replica.place.name:
            raise CommandError(
                ExitCode.NOT_FOUND, f"no plan `{name[:100]}` is served here", f"it is {self._replica.place.name}"
            )

    async def _session(self, request: web.Request) -> web.Response:
        return web.json_response({"plan": self._replica.place.name, "right": request[RIGHT]})

    async def _metrics(self, _: web.Request) -> web.Response:
        moment, counted = self._replica.moment(), tuple(self._tally.families())

        def text() -> str:
            return metrics.prometheus_text([*metrics.current_metrics(moment.list, moment.rev, moment.epoch), *counted])

        made = await self._replica.read(text)
        return web.Response(text=made, headers={"Content-Type": metrics.CONTENT_TYPE})

    async def _description(self, _: web.Request) -> web.Response:
        """Made when it is asked for: it loads the models, which nothing here needs before the first change."""
        openapi = await anyio.to_thread.run_sync(importlib.import_module, "planloop.server.api.openapi")
        return web.json_response(openapi.openapi_description(self._replica.place.name))

    async def _get(self, request: web.Request) -> web.Response:
        async def found() -> Json:
            self._refuse_other(request)
            return await self._found(request.match_info["path"], dict(request.query))

        return await answer_response(found)

    async def _found(self, path: str, query: dict[str, str]) -> Json:
        if path == "edit":
            return await self._editing.text()
        if path in OWNERS:
            return await self._forwarding.get(path, query)
        place = self._replica.place
        if is_log_query(path, query):
            self._replica.require()
            return await self._replica.read(
                partial(history.history_answer, place.folder, place.name, path, query, self._past)
            )
        moment = self._replica.moment()
        host = await self._forwarding.host() if path == "status" else OwnerInfo(place.name)
        return await self._replica.read(partial(_encoded_response, moment, host, path, query))

    async def _post(self, request: web.Request) -> web.Response:
        async def done() -> Json:
            body, path = await body_of(request), request.match_info["path"]
            if path in self._editing.posts:
                return await self._editing.post(path, body)
            return await self._forwarding.post(path, body)

        self._refuse_other(request)
        async with self._bodies:
            await _arrived(request)
            return await answer_response(done)

    async def _tail(self, request: web.Request) -> web.StreamResponse:
        self._refuse_other(request)
        self._replica.require()
        after = int(request.query["after"]) if "after" in request.query else None
        return await self._held(request, self.tails.talk(request, after))

    async def _held(self, request: web.Request, talk: SocketHandler) -> web.StreamResponse:
        denied = auth.denied_handshake(request.headers)
        return await self.tails.held(request, talk) if denied is None else _denied(denied)

    async def _file(self, request: web.Request) -> web.StreamResponse:
        return page_response(self._page, request.match_info["path"])


def _encoded_response(moment: PlanSnapshot, host: OwnerInfo, path: str, query: dict[str, str]) -> bytes:
    found = read_answer(moment, host, path, query)
    return encode_in_pieces({**found, "log": moment.log} if path in NAMED else found)


def _is_page(request: web.Request) -> bool:
    resource = request.match_info.route.resource
    return resource is not None and resource.canonical == CANONICAL


async def _arrived(request: web.Request) -> None:
    """Returns when the whole body is here. Raises HTTPException for one that is too large or too slow."""
    if (request.content_length or 0) > BODY_BYTES_MAX:
        raise web.HTTPRequestEntityTooLarge(BODY_BYTES_MAX, request.content_length or 0)
    try:
        with anyio.fail_after(BODY_S):
            await request.read()
    except TimeoutError:
        raise web.HTTPRequestTimeout from None


def _denied(denied: AccessDenied) -> web.Response:
    return _refused_with(denied.status, CommandError(ExitCode.REFUSED, denied.summary, denied.hint))


def _worded(error: web.HTTPException) -> web.Response:
    """What the HTTP library refuses by itself, in our form."""
    words = {
        405: f"this path takes {error.headers.get('Allow', 'other methods')}",
        408: f"the body did not arrive within {BODY_S:.0f} s",
        413: f"the body is larger than {BODY_BYTES_MAX >> 20} MiB",
    }
    hint = "/v1/openapi.json describes what there is"
    response = _refused_with(
        error.status, CommandError(ExitCode.USAGE, words.get(error.status, error.reason.lower()), hint)
    )
    if "Allow" in error.headers:
        response.headers["Allow"] = error.headers["Allow"]
    return response


def _refused_with(status: int, halt: CommandError) -> web.Response:
    response = refusal_response(halt)
    response.set_status(status)
    return response


async def _unknown(request: web.Request) -> web.Response:
    return refusal_response(
        CommandError(
            ExitCode.NOT_FOUND, f"the API has no `{request.path[:100]}`", f"{API_PREFIX}plans/NAME/status is one"
        )
    )
