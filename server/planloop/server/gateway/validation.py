"""Check requests against the operations of the API before they are handled."""

from __future__ import annotations

from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

from planloop.client.exit_codes import CommandError
from planloop.schemas.canonical_json import JsonObject
from planloop.server import http_api
from planloop.server.api.operations import Operation
from planloop.server.api.routes import RequestTarget

# What the guards of a request find out, for whoever answers it: `request[RIGHT]`, `request[OPERATION]`.

RIGHT: Final = web.RequestKey("right", str)
OPERATION: Final = web.RequestKey("operation", Operation)


# Requests to the API held to its table, before anybody answers them: the path, the method, the query, and the body.
#
# Who answers a request finds its row with `operation_of`, and its body, which fits, with `body_of`.

API_ROOT: Final = "/v1/"
PLANS: Final = f"{API_ROOT}plans/"


@web.middleware
async def validation_middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turns away what is no operation, or does not fit the one that it names."""
    if not request.path.startswith(API_ROOT):
        return await handler(request)
    try:
        request[OPERATION] = http_api.route_request(request, _wanted(request), "gateway")
        return await handler(request)
    except CommandError as halt:
        return http_api.refusal_response(halt)


def operation_of(request: web.Request) -> Operation:
    """The row of a request to the API."""
    return request[OPERATION]


async def body_of(request: web.Request) -> JsonObject:
    """The body of a request to the API, which fits its row. Raises CommandError."""
    return await http_api.read_body(request, operation_of(request))


def _wanted(request: web.Request) -> RequestTarget:
    path = request.path
    if path.startswith(PLANS):
        return RequestTarget(request.method, path.removeprefix(PLANS).partition("/")[2])
    return RequestTarget(request.method, path.removeprefix(API_ROOT), is_of_plan=False)
