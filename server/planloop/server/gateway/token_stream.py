"""Text that models write, from the owner's stream to websocket clients over one connection.

The text is sent, not kept: the log has the whole reply later. A client that connects during a reply gets its newest
part; a slow client misses some.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

import anyio

from planloop.client import owner_client
from planloop.schemas.canonical_json import JsonObject, decode
from planloop.schemas.log.record import Record, SubRecord
from planloop.server.api.operations import REV_MAX
from planloop.server.gateway.replica import PlanReplica
from planloop.server.stream_hub import ReplyStream, StreamHub

AGAIN_S: Final = (
    0.25  # Before the next try without an owner, when the log has moved: a new owner writes before it listens.
)
AGAIN_ANYWAY_S: Final = 5.0  # The same when the log does not move.
CONNECT_S: Final = 0.1  # A local socket accepts immediately, unless its owner is overloaded.
LINE_BYTES_MAX: Final = 1 << 20
ENDS: Final = ("model.replied", "turn.ended")  # Records that end the reply of their turn.


class TokenStream:
    """What the models of one plan write. `run` reads the owner's stream while there are listeners."""

    def __init__(self, replica: PlanReplica) -> None:
        self._replica = replica
        self._hub = StreamHub()
        self._replies: dict[str, ReplyStream] = {}
        self._count = 0
        self._wanted = anyio.Event()
        self._scope = anyio.CancelScope()
        replica.on_record(self._recorded)

    async def listen(self) -> AsyncGenerator[JsonObject, None]:
        """Yield the current replies so far, then each stretch of text with its agent and turn, without end."""
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
            pass  # Nobody runs the plan now, or it ended in the middle of a line.
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
        """Ends the replies that the record ends. The log may be read later than the words of the next turn come."""
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
    """The lines of the owner's stream, until it ends. Raises OSError when there is no owner.

    No record comes after the highest revision: what comes is words alone, and costs the owner nothing more.
    """
    connection = owner_client.connect_socket(replica.place.folder, timeout_s=CONNECT_S)
    connection.setblocking(False)
    reader, writer = await asyncio.open_unix_connection(sock=connection, limit=LINE_BYTES_MAX)
    try:
        writer.write(f"GET /v1/watch?after={REV_MAX}&words=1 HTTP/1.0\r\nHost: plan\r\n\r\n".encode())
        while (await reader.readline()).strip():
            pass  # What is no stream of lines is told by its lines.
        while line := await reader.readline():
            if line.strip():
                yield line
    finally:
        writer.close()
