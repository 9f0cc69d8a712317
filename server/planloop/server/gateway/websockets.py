"""Websockets of the gateway, which send the log and, while it is written, the text of models."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from functools import partial
from typing import Final, TypeAlias

import anyio
from aiohttp import WSMsgType, web

from planloop.client import owner_client
from planloop.client.exit_codes import CommandError
from planloop.reconciler.errors import EngineError
from planloop.schemas.canonical_json import Json, JsonObject, decode, decode_foreign, encode
from planloop.schemas.frozen import frozen
from planloop.schemas.log.record import Record, SubRecord
from planloop.server.api.operations import REV_MAX
from planloop.server.gateway.auth import PROTOCOL, Links
from planloop.server.gateway.replica import LogReplaced, PlanReplica
from planloop.server.stream_hub import ReplyStream, StreamHub

# Text of models. One connection to the owner's stream serves all websocket clients.
#
# The text is not kept, because the log has the whole reply later. A client that connects during a reply gets the newest
# part of it; a slow client misses some text.

# Time until the next attempt to connect to an owner, after the log has changed: a new owner writes before it listens.
AGAIN_S: Final = 0.25
AGAIN_ANYWAY_S: Final = 5.0  # The same if the log does not change.
CONNECT_S: Final = 0.1  # A local socket accepts immediately, unless its owner is overloaded.
LINE_BYTES_MAX: Final = 1 << 20
ENDS: Final = ("model.replied", "turn.ended")  # Records that end the reply of their turn.


class TokenStream:
    """The text of the models of one plan. `run` reads the owner's stream while there are listeners."""

    def __init__(self, replica: PlanReplica) -> None:
        self._replica = replica
        self._hub = StreamHub()
        self._replies: dict[str, ReplyStream] = {}
        self._count = 0
        self._wanted = anyio.Event()
        self._scope = anyio.CancelScope()
        replica.on_record(self._recorded)

    async def listen(self) -> AsyncGenerator[JsonObject, None]:
        """Yield the current replies so far, then each piece of text with its agent and turn. Does not end."""
        self._count += 1
        self._wanted.set()
        try:
            async with aclosing(self._hub.listen()) as heard:
                async for said in heard:
                    yield said
        finally:
            self._count -= 1
            if not self._count:
                self._scope.cancel()

    async def run(self) -> None:
        """Read the stream of the current owner while there are listeners, until cancelled."""
        while True:
            if not self._count:
                self._wanted = anyio.Event()
                await self._wanted.wait()
            with anyio.CancelScope() as self._scope:
                while True:
                    await self._read()
                    with anyio.move_on_after(AGAIN_ANYWAY_S):
                        await self._replica.moved()
                        await anyio.sleep(AGAIN_S)
            self._forget()

    async def _read(self) -> None:
        try:
            async with aclosing(_stream(self._replica)) as lines:
                async for line in lines:
                    self._tell(line)
        except (OSError, ValueError):
            pass  # No owner is running, or it stopped in the middle of a line.
        self._forget()

    def _tell(self, line: bytes) -> None:
        said = decode(line).get("said")
        if said is None:
            return
        agent, name = str(said["agent"]), str(said["reply"])
        reply = self._replies.get(agent)
        if reply is None or reply.name != name:
            reply = self._replies[agent] = self._hub.begin(agent, int(said["turn"]), name)
        self._hub.tell(reply, str(said["text"]))

    def _recorded(self, record: Record) -> None:
        """End the replies that the record ends. Text of the next turn may arrive before the record does."""
        if not self._replies:
            return
        for one in record.draft.entries:
            reply = self._replies.get(one.subject)
            if reply is not None and _ends(one, reply):
                self._hub.end(self._replies.pop(one.subject))

    def _forget(self) -> None:
        for reply in self._replies.values():
            self._hub.end(reply)
        self._replies.clear()


def _ends(entry: SubRecord, reply: ReplyStream) -> bool:
    if entry.type not in ENDS:
        return False
    return "called_off" in entry.data or entry.data.get("turn") == reply.turn


async def _stream(replica: PlanReplica) -> AsyncGenerator[bytes, None]:
    """Yield the lines of the owner's stream, until it ends. Raises OSError if no owner is running.

    It asks for records after the highest possible revision, so that the owner sends only text.
    """
    connection = owner_client.connect_socket(replica.place.folder, timeout_s=CONNECT_S)
    connection.setblocking(False)
    reader, writer = await asyncio.open_unix_connection(sock=connection, limit=LINE_BYTES_MAX)
    try:
        writer.write(f"GET /v1/watch?after={REV_MAX}&words=1 HTTP/1.0\r\nHost: plan\r\n\r\n".encode())
        while (await reader.readline()).strip():
            pass  # Skip the header. If the answer is not a stream, its lines are not valid.
        while line := await reader.readline():
            if line.strip():
                yield line
    finally:
        writer.close()


# The log, and JSON frames in general.

SLOW_S: Final = 10.0  # A client that leaves a frame unread for this time is disconnected.
CLOSE_S: Final = 1.0  # For the client to confirm a close.
HEARTBEAT_S: Final = 25.0  # A lost client is detected after 1.5 times this.
HEARD_BYTES_MAX: Final = 64 << 10  # A chat message as JSON. Most clients send nothing.
SOCKETS_MAX: Final = 500  # At the same time. Each has a connection and at most a few frames.


@frozen
class SocketEnd:
    """The code and reason with which the server closes a connection."""

    code: int
    why: str


LEAVING: Final = SocketEnd(1001, "plan serve is stopping")
SLOW: Final = SocketEnd(1013, "the client reads too slowly: reconnect")
TOO_MANY: Final = SocketEnd(1013, "too many connections: reconnect later")
LOG_REPLACED: Final = SocketEnd(4409, "the log was replaced: load the plan again")
LINK_REVOKED: Final = SocketEnd(1008, "this link was revoked")
NORMAL_CLOSE: Final = SocketEnd(1000, "")
NO_JSON: Final = SocketEnd(1003, "the message is not JSON")
TRY_AGAIN: Final = SocketEnd(1012, "reading failed: reconnect")

FrameHandler: TypeAlias = Callable[[Json], Awaitable[None]]


class SocketClosed(Exception):
    """The connection must be closed with `end`."""

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
        """Pass the client's JSON frames to `handle` until it closes. Reading also handles pongs and the close."""
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
"""The concurrent steps of a websocket, one of which is `hear`. The first step that ends closes the websocket."""
HoldSocket: TypeAlias = Callable[[web.Request, SocketHandler], Awaitable[web.StreamResponse]]
"""Answers a request with a websocket."""


class LogSockets:
    """All websockets of a gateway. They close when `leaving` is set or the tokens of `links` are replaced."""

    def __init__(self, replica: PlanReplica, tokens: TokenStream, leaving: anyio.Event, links: Links) -> None:
        self._replica = replica
        self._tokens = tokens
        self._leaving = leaving
        self._links = links
        self._count = 0
        self._gone = anyio.Event()

    @property
    def count(self) -> int:
        """The number of open websockets."""
        return self._count

    def follow(self, request: web.Request) -> SocketHandler:
        """Send the records after the revision `after` (without `after`: none) and, if `words=1`, the text of models.

        Records are sent in order and once. To continue, a client reconnects with the last revision that it has.
        """
        return lambda listener: self._steps(listener, request.query)

    async def held(self, request: web.Request, handler: SocketHandler) -> web.StreamResponse:
        """Answer with a websocket that is open until the first step of `handler` ends or the gateway stops."""
        socket = web.WebSocketResponse(
            protocols=(PROTOCOL,),
            timeout=CLOSE_S,
            heartbeat=HEARTBEAT_S,
            compress=False,  # Frames are small and shared; a compressor per client would be expensive.
            max_msg_size=HEARD_BYTES_MAX,
        )
        try:
            await socket.prepare(request)
        except ConnectionError:
            return web.Response(status=400)  # The client disconnected during the handshake.
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
        """Wait until no websocket is open."""
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
        # The log's id is "" while it has no record. A client that got this id has missed nothing.
        if (after or 0) > replica.rev or query.get("log", "") not in ("", replica.log):
            return LOG_REPLACED
        steps: list[SocketStep] = [listener.hear]
        if after is not None:
            steps.append(partial(_send_records, listener, replica, after, replica.generation))
        if query.get("words", "0") != "0":
            steps.append(partial(_send_tokens, listener, self._tokens))
        return steps


async def _first(steps: list[SocketStep]) -> SocketEnd:
    """Run `steps` concurrently. Return the result of the first that ends, and cancel the others."""
    ends: list[SocketEnd] = []
    async with anyio.create_task_group() as group:

        async def run(step: SocketStep) -> None:
            try:
                ends.append(await step())
            except ConnectionError:  # The client has disconnected.
                ends.append(NORMAL_CLOSE)
            except SocketClosed as closed:
                ends.append(closed.end)
            except LogReplaced:
                ends.append(LOG_REPLACED)
            except (CommandError, EngineError):  # The client's next request gets the error.
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
        request.transport.abort()  # Otherwise unread data would stay in memory.
