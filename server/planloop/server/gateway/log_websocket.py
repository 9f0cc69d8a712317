"""Websockets that send the log, and JSON frames in general, to clients that may be slow."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
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

# The log as a websocket: every record over a revision, in order, none twice, for as long as one listens.
#
# With `words=1` there are also frames `{"said": {...}}`: what models write, as they write it; without `after` there are
# those alone. Nobody is waited for long: whoever does not read is let go, and whoever comes again says the last
# revision that it has and misses nothing.

SLOW_S: Final = 10.0  # So long a client may leave a frame unread before it is let go.
CLOSE_S: Final = 1.0  # For the other side to take note of an end.
HEARTBEAT_S: Final = 25.0  # A client that is gone without a word is noticed after one and a half of these.
HEARD_BYTES_MAX: Final = 64 << 10  # A message of a person, with room for its wrapping; most have nothing to say.
TAILS_MAX: Final = 500  # At once; each holds a connection and at most a few frames.


@frozen
class SocketEnd:
    """How we end a connection: the code, and why in some words."""

    code: int
    why: str


LEAVING: Final = SocketEnd(1001, "plan serve ends")
SLOW: Final = SocketEnd(1013, "read faster, then come again")
TOO_MANY: Final = SocketEnd(1013, "too many listen; come again later")
LOG_REPLACED: Final = SocketEnd(4409, "the log is another: load the plan again")
LINK_REVOKED: Final = SocketEnd(1008, "this link is dead")
NORMAL_CLOSE: Final = SocketEnd(1000, "")

SocketStep: TypeAlias = Callable[[], Awaitable[SocketEnd]]
SocketHandler: TypeAlias = Callable[[web.WebSocketResponse], SocketEnd | list[SocketStep]]
"""What goes on over a websocket, all at once; the first that ends ends it. One of the steps hears the other side."""
HoldSocket: TypeAlias = Callable[[web.Request, SocketHandler], Awaitable[web.StreamResponse]]
"""Answers a request with a websocket."""


class LogSockets:
    """All who listen to the log of `replica`. `leaving` is set when the gateway ends; `links` when tokens die."""

    def __init__(self, replica: PlanReplica, words: TokenStream, leaving: anyio.Event, links: Links) -> None:
        self._replica = replica
        self._words = words
        self._leaving = leaving
        self._links = links
        self._count = 0
        self._gone = anyio.Event()

    @property
    def count(self) -> int:
        """How many listen."""
        return self._count

    def talk(self, request: web.Request, after: int | None) -> SocketHandler:
        """The records over `after` (None: none), and what models write if the request wants it."""
        return lambda socket: self._steps(socket, request, after)

    async def held(self, request: web.Request, talk: SocketHandler) -> web.StreamResponse:
        """Answers the request with a websocket that lasts until the first step of `talk` ends, or we leave."""
        socket = web.WebSocketResponse(
            protocols=(PROTOCOL,),
            timeout=CLOSE_S,
            heartbeat=HEARTBEAT_S,
            compress=False,  # Frames are made once for all, and are small; a compressor each would be most of the work.
            max_msg_size=HEARD_BYTES_MAX,
        )
        try:
            await socket.prepare(request)
        except ConnectionError:
            return web.Response(status=400)  # It left in the middle of the handshake: nobody reads this.
        self._count += 1
        try:
            await _close(socket, request, await self._listened(talk(socket)))
        finally:
            self._count -= 1
            if not self._count:
                gone, self._gone = self._gone, anyio.Event()
                gone.set()
        return socket

    async def gone(self) -> None:
        """Returns when nobody listens any more."""
        if self._count:
            await self._gone.wait()

    async def _listened(self, steps: SocketEnd | list[SocketStep]) -> SocketEnd:
        if self._count > TAILS_MAX:
            return TOO_MANY
        if isinstance(steps, SocketEnd):
            return steps
        ours: list[SocketStep] = [
            lambda: _ended(self._leaving, LEAVING),
            lambda: _ended(self._links.dead, LINK_REVOKED),
        ]
        return await _first([*steps, *ours])

    def _steps(
        self, socket: web.WebSocketResponse, request: web.Request, after: int | None
    ) -> SocketEnd | list[SocketStep]:
        replica = self._replica
        # "" while there is no record yet: who then listens has all that there is.
        if (after or 0) > replica.rev or request.query.get("log", "") not in ("", replica.log):
            return LOG_REPLACED
        generation = replica.generation
        steps: list[SocketStep] = [lambda: _hear(socket)]
        if after is not None:
            steps.append(lambda: _send(socket, replica, after, generation))
        if request.query.get("words", "0") != "0":
            steps.append(lambda: _say(socket, self._words))
        return steps


async def _first(steps: list[SocketStep]) -> SocketEnd:
    """How the first of `steps` ended, with which the others do."""
    ends: list[SocketEnd] = []
    async with anyio.create_task_group() as group:

        async def run(step: SocketStep) -> None:
            end = NORMAL_CLOSE
            with suppress(ConnectionError):  # The client is gone.
                end = await step()
            ends.append(end)
            group.cancel_scope.cancel()

        for step in steps:
            group.start_soon(run, step)
    return ends[0] if ends else LEAVING


async def _hear(socket: web.WebSocketResponse) -> SocketEnd:
    async for _ in socket:
        pass  # Reading is how pongs and the end are heard.
    return NORMAL_CLOSE


async def _ended(event: anyio.Event, end: SocketEnd) -> SocketEnd:
    await event.wait()
    return end


async def _send(socket: web.WebSocketResponse, replica: PlanReplica, after: int, generation: int) -> SocketEnd:
    while True:
        try:
            frame = await replica.frame_after(after, generation)
        except LogReplaced:
            return LOG_REPLACED
        with anyio.move_on_after(SLOW_S) as waiting:
            await socket.send_frame(frame.body, WSMsgType.TEXT)
        if waiting.cancelled_caught:
            return SLOW
        after = frame.last


async def _say(socket: web.WebSocketResponse, words: TokenStream) -> SocketEnd:
    async with aclosing(words.listen()) as heard:
        async for said in heard:
            with anyio.move_on_after(SLOW_S) as waiting:
                await socket.send_frame(encode({"said": said}), WSMsgType.TEXT)
            if waiting.cancelled_caught:
                return SLOW
    return LEAVING


async def _close(socket: web.WebSocketResponse, request: web.Request, end: SocketEnd) -> None:
    with anyio.move_on_after(CLOSE_S), suppress(ConnectionError):
        await socket.close(code=end.code, message=end.why.encode())
    if request.transport is not None:
        request.transport.abort()  # Whoever does not read would keep what was written for it.


# JSON frames to somebody who listens, and what they say: the steps of a websocket that `tailing.Tails.held` holds.
#
# Who does not read for a while is let go with code 1013, and comes again.

NO_JSON: Final = SocketEnd(1003, "say JSON")
TRY_AGAIN: Final = SocketEnd(1012, "it cannot be read any more: come again")
FrameHandler: TypeAlias = Callable[[Json], Awaitable[None]]


class SocketClosed(Exception):
    """The connection is to end like this."""

    def __init__(self, end: SocketEnd) -> None:
        super().__init__(end.why)
        self.end = end


class SocketListener:
    """One who listens on `socket`."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket

    async def tell(self, frame: JsonObject) -> None:
        """Returns when the frame is on its way. Raises SocketClosed for who does not read, ConnectionError for who is
        gone.
        """
        with anyio.move_on_after(SLOW_S) as waiting:
            await self._socket.send_frame(encode(frame), WSMsgType.TEXT)
        if waiting.cancelled_caught:
            raise SocketClosed(SLOW)

    async def hear(self, hear: FrameHandler | None = None) -> SocketEnd:
        """Hands on what they say, until they are gone; pongs and the end are heard so, too."""
        async for message in self._socket:
            if hear is None or message.type is not WSMsgType.TEXT:
                continue
            try:
                said = decode_foreign(message.data)
            except ValueError:
                return NO_JSON
            await hear(said)
        return NORMAL_CLOSE


def socket_steps(
    socket: web.WebSocketResponse, tell: Callable[[SocketListener], Awaitable[SocketEnd]], hear: FrameHandler | None
) -> list[SocketStep]:
    """What `tell` tells, which ends the connection when it ends, and the hearing of what is said."""
    listener = SocketListener(socket)

    async def telling() -> SocketEnd:
        try:
            return await tell(listener)
        except SocketClosed as over:
            return over.end
        except (CommandError, EngineError):  # What was listened to is gone, or its disk: a new request is told which.
            return TRY_AGAIN

    async def hearing() -> SocketEnd:
        try:
            return await listener.hear(hear)
        except SocketClosed as over:
            return over.end

    return [telling, hearing]
