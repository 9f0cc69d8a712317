"""The owner's HTTP API on its unix socket. Imported when the first client connects.

`GET /v1/watch?after=REV` streams one record per line. With `&words=1` it also streams each piece of text that a model
writes, as `{"said": …}`.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Final

import anyio
from aiohttp import web
from aiohttp.typedefs import Handler

from planloop.schemas.canonical_json import Json, encode
from planloop.schemas.log.record import record_to_json
from planloop.server import payloads
from planloop.server.http_api import (
    BODY_BYTES_MAX,
    OPERATION,
    checked_body,
    errors_middleware,
    operation_routes,
    read_body,
    request_path,
)
from planloop.server.http_server import serve_application
from planloop.server.owner_listener import OwnerRequests

BEAT_S: Final = 15.0  # An idle stream sends an empty line this often, so that its reader knows that it is alive.
GONE: Final = 503  # The owner is stopping and has done nothing; the client continues as if there were no owner.
LEAVE_S: Final = 0.5


async def serve_socket(service: OwnerRequests, listener: socket.socket) -> None:
    """Answer the requests that come to `listener`, until cancelled."""
    async with serve_application(_application(service), listener, leave_s=LEAVE_S):
        await anyio.sleep_forever()


def _application(service: OwnerRequests) -> web.Application:
    is_leaving = False

    async def leave(_: web.Application) -> None:
        nonlocal is_leaving
        is_leaving = True

    @web.middleware
    async def refuse_when_leaving(request: web.Request, handler: Handler) -> web.StreamResponse:
        # aiohttp may call a handler after its cleanup, when the log is closed.
        return web.Response(status=GONE) if is_leaving else await handler(request)

    async def answer(request: web.Request) -> Json:
        if request[OPERATION].method == "GET":
            return await service.get(request_path(request), dict(request.query))
        by, body = payloads.split_author(await read_body(request))
        return await service.post(
            request_path(request), await checked_body(request, body) | {payloads.AUTHOR_FIELD: by}
        )

    async def watch(request: web.Request) -> web.StreamResponse:
        return await _stream(service, request)

    application = web.Application(client_max_size=BODY_BYTES_MAX, middlewares=[refuse_when_leaving, errors_middleware])
    application.on_shutdown.append(leave)
    application.add_routes(operation_routes("owner", {"watch": watch}, answer))
    return application


async def _stream(service: OwnerRequests, request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/jsonl", "Cache-Control": "no-store"})
    await response.prepare(request)
    send, receive = anyio.create_memory_object_stream[bytes](64)

    async def records() -> None:
        async for record in service.watch(int(request.query.get("after", 0))):
            await send.send(encode(record_to_json(record)) + b"\n")
        send.close()

    async def words() -> None:
        async for said in service.hear():
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
