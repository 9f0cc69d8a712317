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

from planloop.client import error_report
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.reconciler.engine.reconcile import Bug, Failed, LostRace, TerminalFailure, attempt
from planloop.reconciler.errors import EngineError
from planloop.schemas import limits
from planloop.schemas.canonical_json import Json, JsonObject, decode_foreign, encode
from planloop.schemas.log.record import record_to_json
from planloop.server import payloads
from planloop.server.api import operations, routes
from planloop.server.api.operations import Door, Operation
from planloop.server.api.routes import MethodNotAllowed, RequestTarget
from planloop.server.owner_listener import OwnerRequests

BODY_BYTES_MAX: Final = 3 * limits.DUMP_BYTES_MAX  # An agent's file as JSON text; plan files are smaller.
LINE_BYTES_MAX: Final = 64 << 10  # Of a request's first line: all parameters, written as HTTP has them.
BEAT_S: Final = 15.0  # A stream says that it is alive this often, so a reader can tell a quiet plan from a dead one.
GONE: Final = 503  # Nothing was done: the client may go on as if nobody had listened.
STATUS: Final = {
    ExitCode.USAGE: 400,
    ExitCode.INVALID: 422,
    ExitCode.CONFLICT: 409,
    ExitCode.REFUSED: 403,
    ExitCode.NOT_FOUND: 404,
    ExitCode.CANCELLED: 409,
    ExitCode.TIMEOUT: 504,
    ExitCode.FAILED: 502,  # The world's fault: a disk, a tool server.
    ExitCode.BUG: 500,
}


class BodyTooLarge(CommandError):
    """The body is larger than what anybody sends."""


async def handle_connection(desk: OwnerRequests, listener: socket.socket) -> None:
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


def _application(desk: OwnerRequests, leaving: anyio.Event) -> web.Application:
    application = web.Application(client_max_size=BODY_BYTES_MAX, middlewares=[_unless(leaving)])

    async def ask(request: web.Request) -> web.StreamResponse:
        path = request.match_info["path"]
        try:
            operation = route_request(request, RequestTarget(request.method, path), "owner")
        except CommandError as halt:
            return refusal_response(halt)
        if operation.is_stream:
            return await _stream(desk, request)
        if operation.method == "GET":
            return await answer_response(lambda: desk.get(path, dict(request.query)))

        async def changed() -> Json:
            by, body = payloads.split_author(await _map_of(request))
            return await desk.post(path, await checked_body(operation, body) | {payloads.AUTHOR_FIELD: by})

        return await answer_response(changed)

    application.router.add_route("*", "/v1/{path:.+}", ask)
    return application


def route_request(request: web.Request, wanted: RequestTarget, door: Door) -> Operation:
    """The operation that a request wants, whose query fits it. Raises CommandError."""
    operation = routes.route(wanted, door).operation
    if len(request.query) != len(set(request.query)):
        raise CommandError(ExitCode.USAGE, "a parameter is given twice", "give each once")
    operations.checked_query(operation, request.query)
    return operation


async def read_body(request: web.Request, operation: Operation) -> JsonObject:
    """The body of a request, which fits the operation. Raises CommandError."""
    return await checked_body(operation, await _map_of(request))


async def checked_body(operation: Operation, body: JsonObject) -> JsonObject:
    """`body`, held to the model that the operation names. Raises CommandError."""
    # On a thread: the first body loads pydantic, and what runs must not be held up by that.
    checking = await anyio.to_thread.run_sync(importlib.import_module, "planloop.server.api.validation")
    found: JsonObject = checking.validated_body(operation, body)
    return found


async def _map_of(request: web.Request) -> JsonObject:
    try:
        body = decode_foreign(await request.read() or b"{}")
    except web.HTTPRequestEntityTooLarge:
        words = f"the body is larger than {request.client_max_size >> 20} MiB"
        raise BodyTooLarge(ExitCode.USAGE, words, "send less at once") from None
    except ValueError as error:
        raise CommandError(
            ExitCode.USAGE, f"the body is not JSON: {error}", "send Content-Type application/json"
        ) from None
    if not isinstance(body, dict):
        raise CommandError(ExitCode.USAGE, "the body is not a JSON object", "send one map of fields")
    return body


def _unless(leaving: anyio.Event) -> Middleware:
    """Turns away who was let in at the last moment: aiohttp may call a handler after its clean-up, on a closed log."""

    @web.middleware
    async def turn_away(request: web.Request, handler: Handler) -> web.StreamResponse:
        return web.Response(status=GONE) if leaving.is_set() else await handler(request)

    return turn_away


async def answer_response(answer: Callable[[], Awaitable[Json]]) -> web.Response:
    """What `answer` gives as JSON (bytes: it is printed already); every way to end has its status and its words."""
    try:
        found = await attempt(answer)
    except EngineError as error:
        return refusal_response(error_report.explain_exception(error) or _bug(error))
    match found:
        case Bug(bug):
            return refusal_response(error_report.explain_exception(bug) or _bug(bug))
        case Failed(_, message) | TerminalFailure(_, message):
            return refusal_response(CommandError(ExitCode.FAILED, message, "plan events says more"))
        case LostRace(conflict):
            return refusal_response(CommandError(ExitCode.CONFLICT, str(conflict), "give the command again"))
        case _:
            body = found if isinstance(found, bytes) else encode(found)
            return web.Response(body=body, content_type="application/json")


def _bug(error: Exception) -> CommandError:
    return CommandError(ExitCode.BUG, f"{type(error).__name__}: {error}", "the run goes on; plan doctor")


def refusal_response(halt: CommandError) -> web.Response:
    """The ending as an answer that the client can make a CommandError of again."""
    error = {"error": {"exit": int(halt.exit), "summary": halt.summary, "hint": halt.hint}}
    allow = {"Allow": halt.allowed} if isinstance(halt, MethodNotAllowed) else {}
    return web.Response(body=encode(error), status=_status(halt), content_type="application/json", headers=allow)


def _status(halt: CommandError) -> int:
    match halt:
        case BodyTooLarge():
            return 413
        case MethodNotAllowed():
            return 405
        case _:
            return STATUS.get(halt.exit, 400)


async def _stream(desk: OwnerRequests, request: web.Request) -> web.StreamResponse:
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
