"""The log as a websocket: every record over a revision, in order, none twice, for as long as one listens.

With `words=1` there are also frames `{"said": {...}}`: what models write, as they write it; without `after` there are
those alone. Nobody is waited for long: whoever does not read is let go, and whoever comes again says the last revision
that it has and misses nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Final, TypeAlias

import anyio
from aiohttp import WSMsgType, web

from planloop.schemas.encoding import encode
from planloop.schemas.frozen import frozen
from planloop.server.gateway.guarding import PROTOCOL
from planloop.server.gateway.replica import Anew, Replica
from planloop.server.gateway.tokens import Links
from planloop.server.gateway.words import Words

SLOW_S: Final = 10.0  # So long a client may leave a frame unread before it is let go.
CLOSE_S: Final = 1.0  # For the other side to take note of an end.
HEARTBEAT_S: Final = 25.0  # A client that is gone without a word is noticed after one and a half of these.
HEARD_BYTES_MAX: Final = 64 << 10  # A message of a person, with room for its wrapping; most have nothing to say.
TAILS_MAX: Final = 500  # At once; each holds a connection and at most a few frames.


@frozen
class End:
    """How we end a connection: the code, and why in some words."""

    code: int
    why: str


LEAVING: Final = End(1001, "plan serve ends")
SLOW: Final = End(1013, "read faster, then come again")
CROWDED: Final = End(1013, "too many listen; come again later")
ANEW: Final = End(4409, "the log is another: load the plan again")
DEAD: Final = End(1008, "this link is dead")
THEIRS: Final = End(1000, "")

Step: TypeAlias = Callable[[], Awaitable[End]]
Talk: TypeAlias = Callable[[web.WebSocketResponse], End | list[Step]]
"""What goes on over a websocket, all at once; the first that ends ends it. One of the steps hears the other side."""


class Tails:
    """All who listen to the log of `replica`. `leaving` is set when the gateway ends; `links` when tokens die."""

    def __init__(self, replica: Replica, words: Words, leaving: anyio.Event, links: Links) -> None:
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

    def talk(self, request: web.Request, after: int | None) -> Talk:
        """The records over `after` (None: none), and what models write if the request wants it."""
        return lambda socket: self._steps(socket, request, after)

    async def held(self, request: web.Request, talk: Talk) -> web.StreamResponse:
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

    async def _listened(self, steps: End | list[Step]) -> End:
        if self._count > TAILS_MAX:
            return CROWDED
        if isinstance(steps, End):
            return steps
        ours: list[Step] = [lambda: _ended(self._leaving, LEAVING), lambda: _ended(self._links.dead, DEAD)]
        return await _first([*steps, *ours])

    def _steps(self, socket: web.WebSocketResponse, request: web.Request, after: int | None) -> End | list[Step]:
        replica = self._replica
        # "" while there is no record yet: who then listens has all that there is.
        if (after or 0) > replica.rev or request.query.get("log", "") not in ("", replica.log):
            return ANEW
        generation = replica.generation
        steps: list[Step] = [lambda: _hear(socket)]
        if after is not None:
            steps.append(lambda: _send(socket, replica, after, generation))
        if request.query.get("words", "0") != "0":
            steps.append(lambda: _say(socket, self._words))
        return steps


async def _first(steps: list[Step]) -> End:
    """How the first of `steps` ended, with which the others do."""
    ends: list[End] = []
    async with anyio.create_task_group() as group:

        async def run(step: Step) -> None:
            end = THEIRS
            with suppress(ConnectionError):  # The client is gone.
                end = await step()
            ends.append(end)
            group.cancel_scope.cancel()

        for step in steps:
            group.start_soon(run, step)
    return ends[0] if ends else LEAVING


async def _hear(socket: web.WebSocketResponse) -> End:
    async for _ in socket:
        pass  # Reading is how pongs and the end are heard.
    return THEIRS


async def _ended(event: anyio.Event, end: End) -> End:
    await event.wait()
    return end


async def _send(socket: web.WebSocketResponse, replica: Replica, after: int, generation: int) -> End:
    while True:
        try:
            frame = await replica.frame_after(after, generation)
        except Anew:
            return ANEW
        with anyio.move_on_after(SLOW_S) as waiting:
            await socket.send_frame(frame.body, WSMsgType.TEXT)
        if waiting.cancelled_caught:
            return SLOW
        after = frame.last


async def _say(socket: web.WebSocketResponse, words: Words) -> End:
    async with aclosing(words.listen()) as heard:
        async for said in heard:
            with anyio.move_on_after(SLOW_S) as waiting:
                await socket.send_frame(encode({"said": said}), WSMsgType.TEXT)
            if waiting.cancelled_caught:
                return SLOW
    return LEAVING


async def _close(socket: web.WebSocketResponse, request: web.Request, end: End) -> None:
    with anyio.move_on_after(CLOSE_S), suppress(ConnectionError):
        await socket.close(code=end.code, message=end.why.encode())
    if request.transport is not None:
        request.transport.abort()  # Whoever does not read would keep what was written for it.
