"""JSON frames to somebody who listens, and what they say: the steps of a websocket that `tailing.Tails.held` holds.

Who does not read for a while is let go with code 1013, and comes again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import anyio
from aiohttp import WSMsgType, web

from planloop.app.exits import Halt
from planloop.reconciler.errors import EngineError
from planloop.schemas.encoding import Json, JsonObject, decode_foreign, encode
from planloop.server.gateway.tailing import SLOW, SLOW_S, THEIRS, End, Step

NO_JSON: Final = End(1003, "say JSON")
AGAIN: Final = End(1012, "it cannot be read any more: come again")
Hear: TypeAlias = Callable[[Json], Awaitable[None]]


class Over(Exception):
    """The connection is to end like this."""

    def __init__(self, end: End) -> None:
        super().__init__(end.why)
        self.end = end


class Listener:
    """One who listens on `socket`."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket

    async def tell(self, frame: JsonObject) -> None:
        """Returns when the frame is on its way. Raises Over for who does not read, ConnectionError for who is gone."""
        with anyio.move_on_after(SLOW_S) as waiting:
            await self._socket.send_frame(encode(frame), WSMsgType.TEXT)
        if waiting.cancelled_caught:
            raise Over(SLOW)

    async def hear(self, hear: Hear | None = None) -> End:
        """Hands on what they say, until they are gone; pongs and the end are heard so, too."""
        async for message in self._socket:
            if hear is None or message.type is not WSMsgType.TEXT:
                continue
            try:
                said = decode_foreign(message.data)
            except ValueError:
                return NO_JSON
            await hear(said)
        return THEIRS


def steps(socket: web.WebSocketResponse, tell: Callable[[Listener], Awaitable[End]], hear: Hear | None) -> list[Step]:
    """What `tell` tells, which ends the connection when it ends, and the hearing of what is said."""
    listener = Listener(socket)

    async def telling() -> End:
        try:
            return await tell(listener)
        except Over as over:
            return over.end
        except (Halt, EngineError):  # What was listened to is gone, or its disk: a new request is told which.
            return AGAIN

    async def hearing() -> End:
        try:
            return await listener.hear(hear)
        except Over as over:
            return over.end

    return [telling, hearing]
