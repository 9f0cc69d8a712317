"""The tricky server in the loop of a test instead of a process of its own: over the same pipes, or over HTTP.

Over pipes it replaces `server_process.launch_server`: the product prepares the same command and environment and writes
the same lines, and the SDK's own server reads and answers them. `tests/contracts/test_tool_servers.py` holds both forms
to one contract. Tests that kill, count or look for processes start real ones.
"""

from __future__ import annotations

import itertools
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol, cast

import anyio
import uvicorn
from anyio.abc import ByteReceiveStream, ByteSendStream
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server import MCPServer
from mcp.server.stdio import stdio_server

from planloop.controllers.mcp.server_process import OnServerExit, ToolServerLaunch
from planloop.schemas import limits
from tests.servers.tricky import Host, Tricky

PIPE_CHUNKS = 64
"""How many pieces a pipe holds before its writer waits."""


class Reader(ByteReceiveStream):
    """The end of a pipe that is read."""

    def __init__(self, inner: MemoryObjectReceiveStream[bytes]) -> None:
        self._inner = inner
        self._rest = b""

    async def receive(self, max_bytes: int = 65536) -> bytes:
        got = self._rest or await self._inner.receive()
        self._rest = got[max_bytes:]
        return got[:max_bytes]

    async def aclose(self) -> None:
        self._inner.close()


class Writer(ByteSendStream):
    """The end of a pipe that is written."""

    def __init__(self, inner: MemoryObjectSendStream[bytes]) -> None:
        self._inner = inner

    async def send(self, item: bytes) -> None:
        await self._inner.send(item)

    def send_nowait(self, item: bytes) -> None:
        """Write without waiting. Raises WouldBlock if the pipe is full."""
        self._inner.send_nowait(item)

    async def aclose(self) -> None:
        self._inner.close()


def _pipe() -> tuple[Reader, Writer]:
    put, take = anyio.create_memory_object_stream[bytes](PIPE_CHUNKS)
    return Reader(take), Writer(put)


@dataclass(frozen=True)
class Ends:
    """The owner's ends of the pipes."""

    stdin: ByteSendStream
    stdout: ByteReceiveStream
    stderr: ByteReceiveStream


@dataclass
class InProcess:
    """Starts tricky servers in this loop, as `planloop.controllers.mcp.server_process.StartServer`. `running` are
    their pids.
    """

    running: set[str] = field(default_factory=set)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @asynccontextmanager
    async def __call__(self, launch: ToolServerLaunch, ended: OnServerExit) -> AsyncIterator[Ends]:
        """The server that the command of `launch` would start. It has no process that `ended` could stop."""
        assert launch.argv[1].endswith("tricky.py"), f"{launch.argv} needs a real process"
        pid = f"in-process-{next(self._numbers)}"
        (wanted, stdin), (stdout, said), (stderr, printed) = _pipe(), _pipe(), _pipe()
        life, gone = anyio.CancelScope(), anyio.Event()
        host = Host(launch.env, pid, life.cancel, lambda text: printed.send_nowait(f"{text}\n".encode()))

        async def serve() -> None:
            try:
                with life:
                    await _serve(Tricky(host).server, wanted, said)
            finally:
                self.running.remove(pid)
                for each in (wanted, said, printed):
                    await each.aclose()
                gone.set()

        self.running.add(pid)
        async with anyio.create_task_group() as group:
            group.start_soon(serve)
            try:
                yield Ends(stdin, stdout, stderr)
            finally:
                with anyio.move_on_after(limits.SERVER_STOP_S, shield=True):
                    await gone.wait()
                life.cancel()
                for each in (stdin, stdout, stderr):
                    await each.aclose()


class _LowLevel(Protocol):
    """The part of the SDK's server that takes any pair of streams."""

    async def run(self, incoming: Any, outgoing: Any, options: Any) -> None: ...
    def create_initialization_options(self) -> Any: ...


async def _serve(server: MCPServer, wanted: Reader, said: Writer) -> None:
    """As `MCPServer.run_stdio_async`, which takes no streams."""
    low = cast("_LowLevel", server._lowlevel_server)
    lines: Any = _Lines(wanted)
    out: Any = _Out(said)
    try:
        async with stdio_server(lines, out) as (incoming, outgoing):
            await low.run(incoming, outgoing, low.create_initialization_options())
    except* (anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass  # Its client left; a process would end by a broken pipe.


@dataclass
class _Lines:
    """Standard input as text."""

    inner: Reader

    async def __aiter__(self) -> AsyncIterator[str]:
        rest = b""
        async for chunk in self.inner:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield f"{line.decode()}\n"


@dataclass
class _Out:
    """Standard output as text."""

    inner: Writer

    async def write(self, text: str) -> None:
        await self.inner.send(text.encode())

    async def flush(self) -> None: ...


class _Http(uvicorn.Server):
    """A server that handles no signals and runs until `is_over` is set."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_up, self.is_over = anyio.Event(), anyio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def main_loop(self) -> None:
        self.is_up.set()
        await self.is_over.wait()


@asynccontextmanager
async def over_http(port: int, notes: Path) -> AsyncIterator[None]:
    """The tricky server on a port of the loopback, in this loop. At the end its connections are closed."""
    host = Host({"TRICKY_NOTES": str(notes)}, "in-process", _no_end, _no_end)
    app = Tricky(host).server.streamable_http_app()
    listener = socket.create_server(("127.0.0.1", port))
    config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=0)
    server = _Http(config)
    async with anyio.create_task_group() as group:
        group.start_soon(partial(server.serve, sockets=[listener]))
        await server.is_up.wait()
        try:
            yield
        finally:
            server.is_over.set()


def _no_end(*_: object) -> None:
    raise AssertionError("over HTTP, only a process of its own can die or print")
