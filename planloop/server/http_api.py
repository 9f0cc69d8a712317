"""HTTP for the owner's API: routes, errors and the stream, by aiohttp. Imported when the first client connects.

`GET /v1/PATH` and `POST /v1/PATH` speak JSON; `GET /v1/watch?after=REV` is one record a line without end, with
`&words=1` also `{"said": …}` for each stretch of text that a model writes.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import anyio
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from planloop import crash
from planloop.exits import Exit, Halt
from planloop.server.serving import Desk
from reconciler.contract import Failed, TerminalFailure
from reconciler.driving.attempting import Bug, LostRace, attempt
from reconciler.errors import EngineError
from schemas import limits
from schemas.encoding import Json, decode_foreign, encode
from schemas.record import record_to_json

BODY_BYTES_MAX: Final = 3 * limits.DUMP_BYTES_MAX  # An agent's file as JSON text; plan files are smaller.
BEAT_S: Final = 15.0  # A stream says that it is alive this often, so a reader can tell a quiet plan from a dead one.
GONE: Final = 503  # Nothing was done: the client may go on as if nobody had listened.
STATUS: Final = {
    Exit.USAGE: 400,
    Exit.INVALID: 422,
    Exit.CONFLICT: 409,
    Exit.REFUSED: 403,
    Exit.NOT_FOUND: 404,
    Exit.BUG: 500,
}


async def answer(desk: Desk, listener: socket.socket) -> None:
    """Answers who connects to `listener`, until cancelled."""
    leaving = anyio.Event()
    runner = web.AppRunner(_application(desk, leaving), access_log=None, shutdown_timeout=0.5)
    try:
        await runner.setup()
        await web.SockSite(runner, listener).start()
        await anyio.sleep_forever()
    finally:
        leaving.set()
        with anyio.CancelScope(shield=True):
            await runner.cleanup()


def _application(desk: Desk, leaving: anyio.Event) -> web.Application:
    application = web.Application(client_max_size=BODY_BYTES_MAX, middlewares=[_unless(leaving)])

    async def get(request: web.Request) -> web.StreamResponse:
        if request.match_info["path"] == "watch":
            return await _stream(desk, request)
        return await _answered(lambda: desk.get(request.match_info["path"], dict(request.query)))

    async def post(request: web.Request) -> web.StreamResponse:
        try:
            body = decode_foreign(await request.read() or b"{}")
        except ValueError as error:
            return _refused(Halt(Exit.USAGE, f"the body is not JSON: {error}", "send Content-Type application/json"))
        if not isinstance(body, dict):
            return _refused(Halt(Exit.USAGE, "the body is not a JSON object", "send one map of fields"))
        return await _answered(lambda: desk.post(request.match_info["path"], body))

    application.router.add_get("/v1/{path:.+}", get)
    application.router.add_post("/v1/{path:.+}", post)
    return application


def _unless(leaving: anyio.Event) -> Middleware:
    """Turns away who was let in at the last moment: aiohttp may call a handler after its clean-up, on a closed log."""

    @web.middleware
    async def turn_away(request: web.Request, handler: Handler) -> web.StreamResponse:
        return web.Response(status=GONE) if leaving.is_set() else await handler(request)

    return turn_away


async def _answered(answer: Callable[[], Awaitable[Json]]) -> web.Response:
    try:
        found = await attempt(answer)
    except EngineError as error:
        return _refused(crash.explained(error) or _bug(error))
    match found:
        case Bug(bug):
            return _refused(crash.explained(bug) or _bug(bug))
        case Failed(_, message) | TerminalFailure(_, message):
            return _refused(Halt(Exit.FAILED, message, "plan events says more"))
        case LostRace(conflict):
            return _refused(Halt(Exit.CONFLICT, str(conflict), "give the command again"))
        case _:
            return web.Response(body=encode(found), content_type="application/json")


def _bug(error: Exception) -> Halt:
    return Halt(Exit.BUG, f"{type(error).__name__}: {error}", "the run goes on; plan doctor")


def _refused(halt: Halt) -> web.Response:
    error = {"error": {"exit": int(halt.exit), "summary": halt.summary, "hint": halt.hint}}
    return web.Response(body=encode(error), status=STATUS.get(halt.exit, 400), content_type="application/json")


async def _stream(desk: Desk, request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/jsonl", "Cache-Control": "no-store"})
    await response.prepare(request)
    send, receive = anyio.create_memory_object_stream[bytes](64)

    async def records() -> None:
        async for record in desk.watch(int(request.query.get("after", 0))):
            await send.send(encode(record_to_json(record)) + b"\n")
        send.close()

    async def words() -> None:
        async for said in desk.hear():
            await send.send(encode({"said": said}) + b"\n")

    async with send, receive, anyio.create_task_group() as group:
        group.start_soon(records)
        if request.query.get("words"):
            group.start_soon(words)
        with suppress(ConnectionError, anyio.EndOfStream):
            while True:
                line = b"\n"
                with anyio.move_on_after(BEAT_S):
                    line = await receive.receive()
                await response.write(line)
        group.cancel_scope.cancel()
    return response
