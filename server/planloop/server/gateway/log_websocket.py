"""Websockets that send the log, and JSON frames in general, to clients that may be slow."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from functools import partial
from typing import Final, TypeAlias

import anyio
from aiohttp import WSMsgType, web

from planloop.client.exit_codes import CommandError
from planloop.reconciler.errors import EngineError
from planloop.schemas.canonical_json import Json, JsonObject, decode_foreign, encode
from planloop.schemas.frozen import frozen
from planloop.server.gateway.auth import PROTOCOL, Links
from planloop.server.gateway.replica import LogReplaced, PlanReplica
from planloop.server.gateway.token_stream import TokenStream

SLOW_S: Final = 10.0  # A client that leaves a frame unread for this long is disconnected.
CLOSE_S: Final = 1.0  # For the client to confirm a close.
HEARTBEAT_S: Final = 25.0  # A client that vanished is noticed after one and a half of these.
HEARD_BYTES_MAX: Final = 64 << 10  # A message of a person, with room for its wrapping; most clients send nothing.
SOCKETS_MAX: Final = 500  # At once; each holds a connection and at most a few frames.


@frozen
class SocketEnd:
    """How we close a connection: the code, and the reason."""

    code: int
    why: str


LEAVING: Final = SocketEnd(1001, "plan serve ends")
SLOW: Final = SocketEnd(1013, "read faster, then come again")
TOO_MANY: Final = SocketEnd(1013, "too many listen; come again later")
LOG_REPLACED: Final = SocketEnd(4409, "the log is another: load the plan again")
LINK_REVOKED: Final = SocketEnd(1008, "this link is dead")
NORMAL_CLOSE: Final = SocketEnd(1000, "")
NO_JSON: Final = SocketEnd(1003, "say JSON")
TRY_AGAIN: Final = SocketEnd(1012, "it cannot be read any more: come again")

FrameHandler: TypeAlias = Callable[[Json], Awaitable[None]]


class SocketClosed(Exception):
    """The connection is to be closed like this."""

    def __init__(self, end: SocketEnd) -> None:
        super().__init__(end.why)
        self.end = end


class SocketListener:
    """The client of one websocket."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket

    async def send(self, body: bytes) -> None:
        """Send a text frame. Raises SocketClosed if the client does not read, ConnectionError if it is gone."""
        with anyio.move_on_after(SLOW_S) as waiting:
            await self._socket.send_frame(body, WSMsgType.TEXT)
        if waiting.cancelled_caught:
            raise SocketClosed(SLOW)

    async def tell(self, frame: JsonObject) -> None:
        """Send a JSON frame, as `send` does."""
        await self.send(encode(frame))

    async def hear(self, handle: FrameHandler | None = None) -> SocketEnd:
        """Pass on the client's JSON frames until it closes. Reading is also what handles pongs and the close."""
        async for message in self._socket:
            if handle is None or message.type is not WSMsgType.TEXT:
                continue
            try:
                frame = decode_foreign(message.data)
            except ValueError:
                return NO_JSON
            await handle(frame)
        return NORMAL_CLOSE


SocketStep: TypeAlias = Callable[[], Awaitable[SocketEnd]]
SocketHandler: TypeAlias = Callable[[SocketListener], SocketEnd | list[SocketStep]]
"""What goes on over a websocket, concurrently: the first step that ends closes it. One of them is `hear`."""
HoldSocket: TypeAlias = Callable[[web.Request, SocketHandler], Awaitable[web.StreamResponse]]
"""Answers a request with a websocket."""


class LogSockets:
    """All websockets of a gateway. `leaving` is set when the gateway ends; `links` when tokens are revoked."""

    def __init__(self, replica: PlanReplica, tokens: TokenStream, leaving: anyio.Event, links: Links) -> None:
        self._replica = replica
        self._tokens = tokens
        self._leaving = leaving
        self._links = links
        self._count = 0
        self._gone = anyio.Event()

    @property
    def count(self) -> int:
        """How many are open."""
        return self._count

    def follow(self, request: web.Request) -> SocketHandler:
        """The records after the revision `after` (none without it), and with `words=1` what models write.

        Every record comes in order and once. A client that reconnects gives the last revision that it has.
        """
        return lambda listener: self._steps(listener, request.query)

    async def held(self, request: web.Request, handler: SocketHandler) -> web.StreamResponse:
        """Answer the request with a websocket that is open until the first step of `handler` ends, or we leave."""
        socket = web.WebSocketResponse(
            protocols=(PROTOCOL,),
            timeout=CLOSE_S,
            heartbeat=HEARTBEAT_S,
            compress=False,  # Frames are small and made once for all; a compressor for each client would cost the most.
            max_msg_size=HEARD_BYTES_MAX,
        )
        try:
            await socket.prepare(request)
        except ConnectionError:
            return web.Response(status=400)  # The client left during the handshake.
        self._count += 1
        try:
            await _close(socket, request, await self._end_of(handler(SocketListener(socket))))
        finally:
            self._count -= 1
            if not self._count:
                gone, self._gone = self._gone, anyio.Event()
                gone.set()
        return socket

    async def gone(self) -> None:
        """Return when no websocket is open."""
        if self._count:
            await self._gone.wait()

    async def _end_of(self, steps: SocketEnd | list[SocketStep]) -> SocketEnd:
        if self._count > SOCKETS_MAX:
            return TOO_MANY
        if isinstance(steps, SocketEnd):
            return steps
        ours = [partial(_ended, self._leaving, LEAVING), partial(_ended, self._links.dead, LINK_REVOKED)]
        return await _first([*steps, *ours])

    def _steps(self, listener: SocketListener, query: Mapping[str, str]) -> SocketEnd | list[SocketStep]:
        replica = self._replica
        after = int(query["after"]) if "after" in query else None
        # The log is "" while there is no record yet: a client that follows it then has all that there is.
        if (after or 0) > replica.rev or query.get("log", "") not in ("", replica.log):
            return LOG_REPLACED
        steps: list[SocketStep] = [listener.hear]
        if after is not None:
            steps.append(partial(_send_records, listener, replica, after, replica.generation))
        if query.get("words", "0") != "0":
            steps.append(partial(_send_tokens, listener, self._tokens))
        return steps


async def _first(steps: list[SocketStep]) -> SocketEnd:
    """Return how the first of `steps` ended; the others are cancelled."""
    ends: list[SocketEnd] = []
    async with anyio.create_task_group() as group:

        async def run(step: SocketStep) -> None:
            try:
                ends.append(await step())
            except ConnectionError:  # The client is gone.
                ends.append(NORMAL_CLOSE)
            except SocketClosed as closed:
                ends.append(closed.end)
            except LogReplaced:
                ends.append(LOG_REPLACED)
            except (CommandError, EngineError):  # What was followed is gone, or its disk: a new request says which.
                ends.append(TRY_AGAIN)
            group.cancel_scope.cancel()

        for step in steps:
            group.start_soon(run, step)
    return ends[0] if ends else LEAVING


async def _ended(event: anyio.Event, end: SocketEnd) -> SocketEnd:
    await event.wait()
    return end


async def _send_records(listener: SocketListener, replica: PlanReplica, after: int, generation: int) -> SocketEnd:
    while True:
        frame = await replica.frame_after(after, generation)
        await listener.send(frame.body)
        after = frame.last


async def _send_tokens(listener: SocketListener, tokens: TokenStream) -> SocketEnd:
    async with aclosing(tokens.listen()) as stream:
        async for said in stream:
            await listener.tell({"said": said})
    return LEAVING


async def _close(socket: web.WebSocketResponse, request: web.Request, end: SocketEnd) -> None:
    with anyio.move_on_after(CLOSE_S), suppress(ConnectionError):
        await socket.close(code=end.code, message=end.why.encode())
    if request.transport is not None:
        request.transport.abort()  # Otherwise what a client does not read would stay in memory.
