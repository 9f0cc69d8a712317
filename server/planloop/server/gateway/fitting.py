"""Requests to the API held to its table, before anybody answers them: the path, the method, the query, and the body.

Who answers a request finds its row with `operation_of`, and its body, which fits, with `body_of`.
"""

from __future__ import annotations

from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

from planloop.app.exits import Halt
from planloop.schemas.encoding import JsonObject
from planloop.server import http_api
from planloop.server.api.operations import Operation
from planloop.server.api.routing import Wanted
from planloop.server.gateway.keys import OPERATION

API: Final = "/v1/"
PLANS: Final = f"{API}plans/"


@web.middleware
async def fitting(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turns away what is no operation, or does not fit the one that it names."""
    if not request.path.startswith(API):
        return await handler(request)
    try:
        request[OPERATION] = http_api.routed(request, _wanted(request), "gateway")
        return await handler(request)
    except Halt as halt:
        return http_api.refused(halt)


def operation_of(request: web.Request) -> Operation:
    """The row of a request to the API."""
    return request[OPERATION]


async def body_of(request: web.Request) -> JsonObject:
    """The body of a request to the API, which fits its row. Raises Halt."""
    return await http_api.sent(request, operation_of(request))


def _wanted(request: web.Request) -> Wanted:
    path = request.path
    if path.startswith(PLANS):
        return Wanted(request.method, path.removeprefix(PLANS).partition("/")[2])
    return Wanted(request.method, path.removeprefix(API), is_of_plan=False)
