"""The gateway's routes: the guard first, then the API, the tail and the files of the page.

`/v1/plans/NAME/PATH` is the owner's `/v1/PATH` for one plan; every other path is a place in the page, which is one
file that finds its way by itself. What needs no token is that page alone: a new route needs one without saying so.
"""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
from aiohttp import web
from aiohttp.typedefs import Handler

from planloop.app.exits import Exit, Halt
from planloop.app.observing import exposition, figures
from planloop.app.observing.figures import Tally
from planloop.schemas.encoding import Json
from planloop.server import past
from planloop.server.answering import Host, answer, is_of_log
from planloop.server.editing.desk import EditDesk
from planloop.server.gateway import guarding, page_files
from planloop.server.gateway.answers import printed
from planloop.server.gateway.benches import Benches, Shelves
from planloop.server.gateway.chatting import Doors
from planloop.server.gateway.fitting import body_of, fitting
from planloop.server.gateway.forwarding import Forwarding
from planloop.server.gateway.guarding import Denied, Names
from planloop.server.gateway.keys import RIGHT
from planloop.server.gateway.moment import Moment
from planloop.server.gateway.replica import Replica
from planloop.server.gateway.rooms import Rooms
from planloop.server.gateway.tailing import Tails, Talk
from planloop.server.gateway.tokens import Links
from planloop.server.gateway.words import Words
from planloop.server.http_api import BODY_BYTES_MAX, answered, refused

API: Final = "/v1/"
OWNERS: Final = frozenset({"why"})  # Reads that need the gate, and so the owner.
NAMED: Final = frozenset({"status", "objects"})  # Answers that say which log their revision is of.
BODY_S: Final = 30.0  # For a body to arrive: a plan file over a slow line takes two.
BODIES_AT_ONCE: Final = 16  # Bodies in memory at the same time.


class Gateway:
    """One plan over TCP. `names` is what it goes by, `page` the folder with the built page."""

    def __init__(
        self, replica: Replica, links: Links, names: Names, page: Path, shelves: Shelves | None = None
    ) -> None:
        self._replica = replica
        self._forwarding = Forwarding(replica)
        self._editing = EditDesk(replica, self._forwarding)
        self._links = links
        self._names = names
        self._page = page
        self._past = past.Past()
        self._bodies = anyio.Semaphore(BODIES_AT_ONCE)
        self._leaving = anyio.Event()
        self._words = Words(replica)
        self.tails = Tails(replica, self._words, self._leaving, links)
        replica.on_move(links.look)
        self._tally = Tally(replica.place.name, replica.get)
        replica.on_record(self._tally.note)
        self._rooms = Rooms(Doors(replica, self._forwarding, self._words), self._held, self._refuse_other)
        self._benches = Benches(shelves or Shelves(replica.place.root, replica.place.root / "reports"), self._held)

    def application(self) -> web.Application:
        """What a runner serves."""
        application = web.Application(client_max_size=BODY_BYTES_MAX, middlewares=[self._guard, fitting])
        plan = f"{API}plans/{{plan}}"
        application.router.add_get("/metrics", self._metrics)
        application.router.add_get(f"{API}session", self._session)
        application.router.add_get(f"{API}openapi.json", self._description)
        application.router.add_get(f"{plan}/tail", self._tail)
        self._rooms.add_routes(application.router, plan)
        application.router.add_get(f"{plan}/{{path:.+}}", self._get)
        application.router.add_post(f"{plan}/{{path:.+}}", self._post)
        self._benches.add_routes(application.router, API)
        application.router.add_get(f"{API}{{path:.*}}", _unknown)
        application.router.add_get(page_files.ROUTE, self._file)
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
        except Halt as halt:
            response = refused(halt)
        if not response.prepared:
            response.headers.update(guarding.HEADERS)
            response.headers.setdefault("Cache-Control", "no-store")
        return response

    async def _allowed(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        arrived_at = request.get_extra_info("sockname", ("",))[0]
        denied = guarding.denied_place(request.headers, self._names, arrived_at)
        if denied is None and not _is_page(request):
            right = guarding.right_of(request.headers, self._links.tokens)
            denied = guarding.denied_token(request.method, right)
            request[RIGHT] = right or ""
        return await handler(request) if denied is None else _denied(denied)

    def _refuse_other(self, request: web.Request) -> None:
        name = request.match_info["plan"]
        if name != self._replica.place.name:
            raise Halt(Exit.NOT_FOUND, f"no plan `{name[:100]}` is served here", f"it is {self._replica.place.name}")

    async def _session(self, request: web.Request) -> web.Response:
        return web.json_response({"plan": self._replica.place.name, "right": request[RIGHT]})

    async def _metrics(self, _: web.Request) -> web.Response:
        moment, counted = self._replica.moment(), tuple(self._tally.families())

        def text() -> str:
            return exposition.text([*figures.standing(moment.list, moment.rev, moment.epoch), *counted])

        made = await self._replica.read(text)
        return web.Response(text=made, headers={"Content-Type": exposition.CONTENT_TYPE})

    async def _description(self, _: web.Request) -> web.Response:
        """Made when it is asked for: it loads the models, which nothing here needs before the first change."""
        openapi = await anyio.to_thread.run_sync(importlib.import_module, "planloop.server.api.openapi")
        return web.json_response(openapi.description(self._replica.place.name))

    async def _get(self, request: web.Request) -> web.Response:
        async def found() -> Json:
            self._refuse_other(request)
            return await self._found(request.match_info["path"], dict(request.query))

        return await answered(found)

    async def _found(self, path: str, query: dict[str, str]) -> Json:
        if path == "edit":
            return await self._editing.text()
        if path in OWNERS:
            return await self._forwarding.get(path, query)
        place = self._replica.place
        if is_of_log(path, query):
            self._replica.require()
            return await self._replica.read(partial(past.answer, place.folder, place.name, path, query, self._past))
        moment = self._replica.moment()
        host = await self._forwarding.host() if path == "status" else Host(place.name)
        return await self._replica.read(partial(_printed, moment, host, path, query))

    async def _post(self, request: web.Request) -> web.Response:
        async def done() -> Json:
            body, path = await body_of(request), request.match_info["path"]
            if path in self._editing.posts:
                return await self._editing.post(path, body)
            return await self._forwarding.post(path, body)

        self._refuse_other(request)
        async with self._bodies:
            await _arrived(request)
            return await answered(done)

    async def _tail(self, request: web.Request) -> web.StreamResponse:
        self._refuse_other(request)
        self._replica.require()
        after = int(request.query["after"]) if "after" in request.query else None
        return await self._held(request, self.tails.talk(request, after))

    async def _held(self, request: web.Request, talk: Talk) -> web.StreamResponse:
        denied = guarding.denied_handshake(request.headers)
        return await self.tails.held(request, talk) if denied is None else _denied(denied)

    async def _file(self, request: web.Request) -> web.StreamResponse:
        return page_files.answer(self._page, request.match_info["path"])


def _printed(moment: Moment, host: Host, path: str, query: dict[str, str]) -> bytes:
    found = answer(moment, host, path, query)
    return printed({**found, "log": moment.log} if path in NAMED else found)


def _is_page(request: web.Request) -> bool:
    resource = request.match_info.route.resource
    return resource is not None and resource.canonical == page_files.CANONICAL


async def _arrived(request: web.Request) -> None:
    """Returns when the whole body is here. Raises HTTPException for one that is too large or too slow."""
    if (request.content_length or 0) > BODY_BYTES_MAX:
        raise web.HTTPRequestEntityTooLarge(BODY_BYTES_MAX, request.content_length or 0)
    try:
        with anyio.fail_after(BODY_S):
            await request.read()
    except TimeoutError:
        raise web.HTTPRequestTimeout from None


def _denied(denied: Denied) -> web.Response:
    return _refused_with(denied.status, Halt(Exit.REFUSED, denied.summary, denied.hint))


def _worded(error: web.HTTPException) -> web.Response:
    """What the HTTP library refuses by itself, in our form."""
    words = {
        405: f"this path takes {error.headers.get('Allow', 'other methods')}",
        408: f"the body did not arrive within {BODY_S:.0f} s",
        413: f"the body is larger than {BODY_BYTES_MAX >> 20} MiB",
    }
    hint = "/v1/openapi.json describes what there is"
    response = _refused_with(error.status, Halt(Exit.USAGE, words.get(error.status, error.reason.lower()), hint))
    if "Allow" in error.headers:
        response.headers["Allow"] = error.headers["Allow"]
    return response


def _refused_with(status: int, halt: Halt) -> web.Response:
    response = refused(halt)
    response.set_status(status)
    return response


async def _unknown(request: web.Request) -> web.Response:
    return refused(Halt(Exit.NOT_FOUND, f"the API has no `{request.path[:100]}`", f"{API}plans/NAME/status is one"))
