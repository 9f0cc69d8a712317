"""HTTP for the owner's API: routes, errors and the stream, by aiohttp. Imported when the first client connects.

`GET /v1/PATH` and `POST /v1/PATH` speak JSON; `GET /v1/watch?after=REV` is one record a line without end, with
`&words=1` also `{"said": …}` for each stretch of text that a model writes.
"""

from __future__ import annotations

import importlib
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import anyio
import anyio.to_thread
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from planloop.app import crash
from planloop.app.exits import Exit, Halt
from planloop.reconciler.contract import Failed, TerminalFailure
from planloop.reconciler.driving.attempting import Bug, LostRace, attempt
from planloop.reconciler.errors import EngineError
from planloop.schemas import limits
from planloop.schemas.encoding import Json, JsonObject, decode_foreign, encode
from planloop.schemas.record import record_to_json
from planloop.server import authors
from planloop.server.api import operations, routing
from planloop.server.api.operations import Door, Operation
from planloop.server.api.routing import Wanted, WrongMethod
from planloop.server.serving import Desk

BODY_BYTES_MAX: Final = 3 * limits.DUMP_BYTES_MAX  # An agent's file as JSON text; plan files are smaller.
LINE_BYTES_MAX: Final = 64 << 10  # Of a request's first line: all parameters, written as HTTP has them.
BEAT_S: Final = 15.0  # A stream says that it is alive this often, so a reader can tell a quiet plan from a dead one.
GONE: Final = 503  # Nothing was done: the client may go on as if nobody had listened.
STATUS: Final = {
    Exit.USAGE: 400,
    Exit.INVALID: 422,
    Exit.CONFLICT: 409,
    Exit.REFUSED: 403,
    Exit.NOT_FOUND: 404,
    Exit.CANCELLED: 409,
    Exit.TIMEOUT: 504,
    Exit.FAILED: 502,  # The world's fault: a disk, a tool server.
    Exit.BUG: 500,
}


class TooLarge(Halt):
    """The body is larger than what anybody sends."""


async def answer(desk: Desk, listener: socket.socket) -> None:
    """Answers who connects to `listener`, until cancelled."""
    leaving = anyio.Event()
    application = _application(desk, leaving)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.5, max_line_size=LINE_BYTES_MAX)
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

    async def ask(request: web.Request) -> web.StreamResponse:
        path = request.match_info["path"]
        try:
            operation = routed(request, Wanted(request.method, path), "owner")
        except Halt as halt:
            return refused(halt)
        if operation.is_stream:
            return await _stream(desk, request)
        if operation.method == "GET":
            return await answered(lambda: desk.get(path, dict(request.query)))

        async def changed() -> Json:
            by, body = authors.parted(await _map_of(request))
            return await desk.post(path, await checked(operation, body) | {authors.BY: by})

        return await answered(changed)

    application.router.add_route("*", "/v1/{path:.+}", ask)
    return application


def routed(request: web.Request, wanted: Wanted, door: Door) -> Operation:
    """The operation that a request wants, whose query fits it. Raises Halt."""
    operation = routing.asked(wanted, door).operation
    if len(request.query) != len(set(request.query)):
        raise Halt(Exit.USAGE, "a parameter is given twice", "give each once")
    operations.query(operation, request.query)
    return operation


async def sent(request: web.Request, operation: Operation) -> JsonObject:
    """The body of a request, which fits the operation. Raises Halt."""
    return await checked(operation, await _map_of(request))


async def checked(operation: Operation, body: JsonObject) -> JsonObject:
    """`body`, held to the model that the operation names. Raises Halt."""
    # On a thread: the first body loads pydantic, and what runs must not be held up by that.
    checking = await anyio.to_thread.run_sync(importlib.import_module, "planloop.server.api.checking")
    found: JsonObject = checking.body(operation, body)
    return found


async def _map_of(request: web.Request) -> JsonObject:
    try:
        body = decode_foreign(await request.read() or b"{}")
    except web.HTTPRequestEntityTooLarge:
        words = f"the body is larger than {request.client_max_size >> 20} MiB"
        raise TooLarge(Exit.USAGE, words, "send less at once") from None
    except ValueError as error:
        raise Halt(Exit.USAGE, f"the body is not JSON: {error}", "send Content-Type application/json") from None
    if not isinstance(body, dict):
        raise Halt(Exit.USAGE, "the body is not a JSON object", "send one map of fields")
    return body


def _unless(leaving: anyio.Event) -> Middleware:
    """Turns away who was let in at the last moment: aiohttp may call a handler after its clean-up, on a closed log."""

    @web.middleware
    async def turn_away(request: web.Request, handler: Handler) -> web.StreamResponse:
        return web.Response(status=GONE) if leaving.is_set() else await handler(request)

    return turn_away


async def answered(answer: Callable[[], Awaitable[Json]]) -> web.Response:
    """What `answer` gives as JSON (bytes: it is printed already); every way to end has its status and its words."""
    try:
        found = await attempt(answer)
    except EngineError as error:
        return refused(crash.explained(error) or _bug(error))
    match found:
        case Bug(bug):
            return refused(crash.explained(bug) or _bug(bug))
        case Failed(_, message) | TerminalFailure(_, message):
            return refused(Halt(Exit.FAILED, message, "plan events says more"))
        case LostRace(conflict):
            return refused(Halt(Exit.CONFLICT, str(conflict), "give the command again"))
        case _:
            body = found if isinstance(found, bytes) else encode(found)
            return web.Response(body=body, content_type="application/json")


def _bug(error: Exception) -> Halt:
    return Halt(Exit.BUG, f"{type(error).__name__}: {error}", "the run goes on; plan doctor")


def refused(halt: Halt) -> web.Response:
    """The ending as an answer that the client can make a Halt of again."""
    error = {"error": {"exit": int(halt.exit), "summary": halt.summary, "hint": halt.hint}}
    allow = {"Allow": halt.allowed} if isinstance(halt, WrongMethod) else {}
    return web.Response(body=encode(error), status=_status(halt), content_type="application/json", headers=allow)


def _status(halt: Halt) -> int:
    match halt:
        case TooLarge():
            return 413
        case WrongMethod():
            return 405
        case _:
            return STATUS.get(halt.exit, 400)


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
        if request.query.get("words") == "1":
            group.start_soon(words)
        with suppress(ConnectionError, anyio.EndOfStream):
            while True:
                line = b"\n"
                with anyio.move_on_after(BEAT_S):
                    line = await receive.receive()
                await response.write(line)
        group.cancel_scope.cancel()
    return response
