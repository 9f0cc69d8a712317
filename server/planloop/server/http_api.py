"""HTTP for the API's operations: aiohttp routes, checks of requests, JSON answers and errors.

The owner (`planloop.server.owner_api`) and the gateway (`planloop.server.gateway.application`) use it to serve the
operations of `planloop.server.api.operations`.
"""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

import anyio
import anyio.to_thread
from aiohttp import web
from aiohttp.typedefs import Handler

from planloop.client import error_report
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.reconciler.engine.reconcile import Bug, Failed, LostRace, TerminalFailure, attempt
from planloop.reconciler.errors import EngineError
from planloop.schemas import limits
from planloop.schemas.canonical_json import Json, JsonObject, decode_foreign, encode
from planloop.server.api.operations import QUERY_CHARS_MAX, TABLE, WHOLE, Door, Operation, checked_query
from planloop.server.read_queries import OTHER_VERSION_HINT

API_ROOT: Final = "/v1/"
PLANS: Final = f"{API_ROOT}plans/"
BODY_BYTES_MAX: Final = 3 * limits.DUMP_BYTES_MAX  # An agent's dump as JSON text; plan files are smaller.
BODY_S: Final = 30.0  # For a body to arrive. A plan file over a slow line takes two.
STATUS: Final = {
    ExitCode.USAGE: 400,
    ExitCode.INVALID: 422,
    ExitCode.CONFLICT: 409,
    ExitCode.REFUSED: 403,
    ExitCode.NOT_FOUND: 404,
    ExitCode.CANCELLED: 409,
    ExitCode.TIMEOUT: 504,
    ExitCode.FAILED: 502,  # The environment failed: a disk, a tool server.
    ExitCode.BUG: 500,
}
OPERATION: Final = web.RequestKey("operation", Operation)
"""The operation that a request was routed to."""
Answer: TypeAlias = Json | web.StreamResponse
OperationHandler: TypeAlias = Callable[[web.Request], Awaitable[Answer]]
"""Answers an operation with JSON (bytes if already encoded) or with a response. Raises CommandError."""


def operation_routes(
    door: Door, handlers: Mapping[str, OperationHandler], default: OperationHandler
) -> list[web.RouteDef]:
    """Return the routes of all operations that the owner or the gateway (`door`) offers.

    `handlers` has handlers by operation name; `default` handles all other operations. Paths are below `/v1/`; at the
    gateway, operations of a plan are below `/v1/plans/NAME/`.
    """
    # The last parameter of a path matches slashes, so `runs/{suite}/{run}/tail` must precede `runs/{suite}/{run}`.
    rows = sorted((row for row in TABLE if row.door in ("both", door)), key=lambda row: len(row.path), reverse=True)
    routes = []
    for row in rows:
        prefix = f"{PLANS}{{plan}}/" if door == "gateway" and row.is_of_plan else API_ROOT
        add = web.get if row.method == "GET" else web.post
        routes.append(add(prefix + _aiohttp_path(row), _checked(row, handlers.get(row.name, default))))
    return routes


def _aiohttp_path(row: Operation) -> str:
    path = row.path
    for name in row.takes:
        last = path.endswith(f"{{{name}}}")
        pattern = "[0-9]{1,15}" if name in WHOLE else r"[\s\S]+" if last else "[^/]+"
        path = path.replace(f"{{{name}}}", f"{{{name}:{pattern}}}")
    return path


def _checked(operation: Operation, handler: OperationHandler) -> Handler:
    """Return an aiohttp handler that checks the request against the operation and then calls `handler`."""

    async def checked(request: web.Request) -> Answer:
        if len(request.query) != len(set(request.query)):
            raise CommandError(ExitCode.USAGE, "a parameter is given twice", "give each parameter once")
        checked_query(operation, request.query)
        for name in operation.takes:
            if len(value := request.match_info[name]) > QUERY_CHARS_MAX:
                hint = f"at most {QUERY_CHARS_MAX} characters"
                raise CommandError(ExitCode.USAGE, f"`{value[:100]}…` is too long for {name}", hint)
        request[OPERATION] = operation
        return await handler(request)

    async def stream(request: web.Request) -> web.StreamResponse:
        response = await checked(request)
        assert isinstance(response, web.StreamResponse)
        return response

    async def answer(request: web.Request) -> web.StreamResponse:
        return await answer_response(lambda: checked(request))

    return stream if operation.is_stream else answer


def request_path(request: web.Request) -> str:
    """Return the path of the request's operation with its parameters filled in."""
    return request[OPERATION].path.format_map(request.match_info)


async def read_body(request: web.Request) -> JsonObject:
    """Return the JSON object in the body. Raises CommandError; HTTPException if the body is too large or too slow."""
    size, size_max = request.content_length or 0, request.client_max_size
    if size > size_max:
        raise web.HTTPRequestEntityTooLarge(size_max, size)
    try:
        with anyio.fail_after(BODY_S):
            body = decode_foreign(await request.read() or b"{}")
    except TimeoutError:
        raise web.HTTPRequestTimeout from None
    except ValueError as error:
        raise CommandError(
            ExitCode.USAGE, f"the body is not JSON: {error}", "send Content-Type application/json"
        ) from None
    if not isinstance(body, dict):
        raise CommandError(ExitCode.USAGE, "the body is not a JSON object", "send an object with the fields")
    return body


async def checked_body(request: web.Request, body: JsonObject) -> JsonObject:
    """Return `body`, checked against the model that the request's operation names. Raises CommandError."""
    # In a thread, because the first body loads pydantic, which must not block the plan that runs in this process.
    validation = await anyio.to_thread.run_sync(importlib.import_module, "planloop.server.api.validation")
    found: JsonObject = validation.validated_body(request[OPERATION], body)
    return found


async def answer_response(answer: Callable[[], Awaitable[Answer]]) -> web.StreamResponse:
    """Return the result of `answer` as a response. Errors become responses with a status and a message."""
    try:
        found = await attempt(answer)
    except EngineError as error:
        return refusal_response(error_report.explain_exception(error) or _bug(error))
    match found:
        case Bug(web.HTTPException() as refusal):
            raise refusal
        case Bug(bug):
            return refusal_response(error_report.explain_exception(bug) or _bug(bug))
        case Failed(_, message) | TerminalFailure(_, message):
            return refusal_response(CommandError(ExitCode.FAILED, message, "plan events has details"))
        case LostRace(conflict):
            return refusal_response(CommandError(ExitCode.CONFLICT, str(conflict), "try again"))
        case web.StreamResponse():
            return found
        case _:
            body = found if isinstance(found, bytes) else encode(found)
            return web.Response(body=body, content_type="application/json")


def _bug(error: Exception) -> CommandError:
    return CommandError(
        ExitCode.BUG, f"internal error: {type(error).__name__}: {error}", "the plan keeps running; run plan doctor"
    )


def refusal_response(halt: CommandError, status: int | None = None) -> web.Response:
    """Return an error as a response from which the client can rebuild the CommandError."""
    error = {"error": {"exit": int(halt.exit), "summary": halt.summary, "hint": halt.hint}}
    status = status or STATUS.get(halt.exit, 400)
    return web.Response(body=encode(error), status=status, content_type="application/json")


@web.middleware
async def errors_middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer errors of routing and of handlers in the format of the API."""
    try:
        return await handler(request)
    except CommandError as halt:
        return refusal_response(halt)
    except web.HTTPException as error:
        return _http_error(request, error)


def _http_error(request: web.Request, error: web.HTTPException) -> web.Response:
    path = f"`{_operation_path(request.path)[:100]}`"
    hint = "/v1/openapi.json describes the API"
    match error:
        case web.HTTPNotFound():
            return refusal_response(CommandError(ExitCode.NOT_FOUND, f"the API has no {path}", OTHER_VERSION_HINT))
        case web.HTTPMethodNotAllowed():
            allowed = ", ".join(sorted(error.allowed_methods - {"HEAD"}))
            words, hint = f"{path} accepts {allowed}, not {request.method[:10]}", f"use {allowed}"
        case web.HTTPRequestEntityTooLarge():
            words = f"the body is larger than {request.client_max_size >> 20} MiB"
        case web.HTTPRequestTimeout():
            words = f"the body did not arrive within {BODY_S:.0f} s"
        case _:
            words = error.reason.lower()
    response = refusal_response(CommandError(ExitCode.USAGE, words, hint), error.status)
    if "Allow" in error.headers:
        response.headers["Allow"] = error.headers["Allow"]
    return response


def _operation_path(path: str) -> str:
    if path.startswith(PLANS):
        return path.removeprefix(PLANS).partition("/")[2]
    return path.removeprefix(API_ROOT)
