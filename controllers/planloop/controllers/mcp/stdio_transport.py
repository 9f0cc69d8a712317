"""The stdio transport: JSON-RPC messages over a tool server's pipes.

The SDK has one of its own. This one gives the server exactly the environment it was given, ties it to our life
(`planloop.controllers.mcp.server_process`), bounds what it may send in one line, and keeps what it says on stderr.
Imported only by `planloop.controllers.mcp.link`, which is loaded when the first server starts: the SDK takes a second
to import.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeAlias

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import types
from mcp.shared.message import SessionMessage

from planloop.controllers.mcp import json_rpc
from planloop.controllers.mcp.server_process import ToolServerPipes
from planloop.schemas import limits
from planloop.schemas.canonical_json import JsonObject

Incoming: TypeAlias = SessionMessage | Exception
Streams: TypeAlias = tuple[MemoryObjectReceiveStream[Incoming], MemoryObjectSendStream[SessionMessage]]

HEAD_BYTES: Final = 64 << 10
BROKEN: Final = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, OSError)


@asynccontextmanager
async def message_streams(
    server: ToolServerPipes, heard: Callable[[bytes], None], gone: anyio.Event
) -> AsyncIterator[Streams]:
    """The streams of messages with `server`. `heard` gets its stderr output, and text that is not a message.

    `gone` is set when it closes its output or breaks the rules of the line. At the end its input is closed; ending the
    server is the caller's work.
    """
    assert server.stdin and server.stdout and server.stderr, "it was started with pipes"
    said, incoming = anyio.create_memory_object_stream[Incoming](0)
    outgoing, wanted = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as group:
        group.start_soon(_read, server.stdout, said, gone, heard)
        group.start_soon(_write, server.stdin, wanted, gone)
        group.start_soon(_listen, server.stderr, heard)
        try:
            yield incoming, outgoing
        finally:
            incoming.close()
            outgoing.close()
            stopping = anyio.move_on_after(limits.SERVER_STOP_S, shield=True)
            with stopping, contextlib.suppress(*BROKEN):  # It may be faster.
                await server.stdin.aclose()
            group.cancel_scope.cancel()


async def _read(
    stdout: ByteReceiveStream, said: MemoryObjectSendStream[Incoming], gone: anyio.Event, heard: Callable[[bytes], None]
) -> None:
    lines = LineSplitter()
    try:
        async with said:
            try:
                while True:
                    for line, dropped in lines.feed(await stdout.receive()):
                        await _say(line, dropped, said, heard)
            except anyio.EndOfStream:
                # A server may end right after its last answer, and without the end of a line.
                await _say(*lines.rest(), said, heard)
    except BROKEN:
        pass  # The end of its output, or ours.
    finally:
        gone.set()


async def _say(
    line: bytes, dropped: int, said: MemoryObjectSendStream[Incoming], heard: Callable[[bytes], None]
) -> None:
    messages, noise = json_rpc.read_messages(line, dropped)
    for message in messages:
        await said.send(message if isinstance(message, Exception) else session_message(message))
    if noise:
        heard(f"[stdout] {noise}\n".encode(errors="replace"))


class LineSplitter:
    """Lines of a stream of bytes. Of one that is too long the middle is left out."""

    def __init__(self, most: int = limits.SERVER_MESSAGE_BYTES_MAX) -> None:
        self._most = most
        self._kept = bytearray()
        self._size = 0

    def feed(self, content: bytes) -> list[tuple[bytes, int]]:
        """The lines that `content` ends, each with the number of bytes that were left out of it."""
        *ended, rest = content.split(b"\n")
        found = []
        for part in ended:
            self.add(part)
            found.append(self.rest())
        self.add(rest)
        return found

    def rest(self) -> tuple[bytes, int]:
        """What has come since the last line ended; after this it is as if a line had ended here."""
        kept, size = bytes(self._kept), self._size
        self._kept, self._size = bytearray(), 0
        return kept, size - len(kept)

    def add(self, part: bytes) -> None:
        """More of the line that has begun."""
        self._kept += part
        self._size += len(part)
        if len(self._kept) > self._most:
            # The id of an answer stands at its beginning or at its end.
            del self._kept[HEAD_BYTES : len(self._kept) - HEAD_BYTES]


def session_message(message: JsonObject) -> SessionMessage:
    """A well-formed message (`json_rpc.read_messages`) as the SDK's."""
    return SessionMessage(types.jsonrpc_message_adapter.validate_python(message, by_name=False))


async def _write(stdin: ByteSendStream, wanted: MemoryObjectReceiveStream[SessionMessage], gone: anyio.Event) -> None:
    try:
        async with wanted:
            async for message in wanted:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await stdin.send(text.encode() + b"\n")
    except BROKEN:
        gone.set()


async def _listen(stderr: ByteReceiveStream, heard: Callable[[bytes], None]) -> None:
    try:
        while True:
            heard(await stderr.receive())
    except BROKEN:
        pass
