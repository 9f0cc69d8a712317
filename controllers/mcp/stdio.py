"""Messages of a tool server over its pipes: a transport for the SDK, which does the protocol on top of it.

The SDK has one of its own. This one gives the server exactly the environment it was given, ties it to our life
(`lifeline.py`), bounds what it may send in one line, and keeps what it says on stderr. Imported only by `linking.py`,
which is loaded when the first server starts: the SDK takes a second to import.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeAlias

import anyio
import mcp_types as types
from anyio.abc import ByteReceiveStream, ByteSendStream
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from controllers.mcp.lifeline import Pipes
from schemas import limits

Incoming: TypeAlias = SessionMessage | Exception
Streams: TypeAlias = tuple[MemoryObjectReceiveStream[Incoming], MemoryObjectSendStream[SessionMessage]]

BROKEN: Final = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, OSError)


@asynccontextmanager
async def spoken(server: Pipes, heard: Callable[[bytes], None], gone: anyio.Event) -> AsyncIterator[Streams]:
    """The streams of messages with `server`. `heard` is given what it prints on stderr.

    `gone` is set when it closes its output or breaks the rules of the line. At the end its input is closed; ending the
    server is the caller's work.
    """
    assert server.stdin and server.stdout and server.stderr, "it was started with pipes"
    said, incoming = anyio.create_memory_object_stream[Incoming](0)
    outgoing, wanted = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as group:
        group.start_soon(_read, server.stdout, said, gone)
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


async def _read(stdout: ByteReceiveStream, said: MemoryObjectSendStream[Incoming], gone: anyio.Event) -> None:
    rest = b""
    try:
        async with said:
            while len(rest) <= limits.SERVER_MESSAGE_BYTES_MAX:
                *lines, rest = (rest + await stdout.receive()).split(b"\n")
                for line in lines:
                    if line.strip():
                        await said.send(_parsed(line))
    except BROKEN:
        pass  # The end of its output, or ours.
    finally:
        gone.set()


def _parsed(line: bytes) -> Incoming:
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error


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
