"""Call the `docker` package outside of the event loop: one thread per call, with deadlines, and cancellable streams."""

from __future__ import annotations

import _thread
import json
import socket
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from http.client import HTTPException, IncompleteRead
from queue import SimpleQueue
from typing import Any, Final, Generic, TypeAlias, TypeVar
from weakref import finalize

import anyio
import anyio.from_thread
import anyio.lowlevel
from anyio.abc import TaskGroup

from planloop.containers.engine import docker_errors
from planloop.containers.engine.docker_frames import ChunkDecoder
from planloop.containers.engine.engine import EngineFailed, engine_address
from planloop.schemas import limits

# anyio's worker threads are not usable: the process joins them when it ends, so a hanging engine would delay its exit.
# These threads are reused, and started with `_thread`, because `threading` blocks the event loop until the kernel
# runs the new thread: tens of milliseconds on a busy machine.

Returned = TypeVar("Returned")
Raised = TypeVar("Raised", bound=Exception)
_Work: TypeAlias = "SimpleQueue[Callable[[], bool] | None]"

IDLE_MAX: Final = 8  # Threads beyond this end when they are idle.


class CallThreads(Generic[Raised]):
    """Reusable threads for calls from one event loop. The work may raise only `failure`."""

    def __init__(self, failure: type[Raised]) -> None:
        self._failure = failure
        self._idle: list[_Work] = []
        finalize(self, _let_go, self._idle)

    async def run(self, work: Callable[[], Returned], limiter: anyio.CapacityLimiter) -> Returned:
        """Run `work` in a thread and return its result. If this is cancelled, the thread is abandoned."""
        token, is_done = anyio.lowlevel.current_token(), anyio.Event()
        given: list[Returned] = []
        failed: list[Raised] = []

        def body() -> bool:
            """Run the work; return whether the thread is used again."""
            try:
                given.append(work())
            except self._failure as failure:
                failed.append(failure)
            finally:
                is_wanted = False
                with suppress(anyio.RunFinishedError):
                    is_wanted = anyio.from_thread.run_sync(finish, token=token)
            return is_wanted

        def finish() -> bool:
            is_done.set()
            is_wanted = bool(given or failed) and len(self._idle) < IDLE_MAX
            if is_wanted:
                self._idle.append(own)
            return is_wanted

        async with limiter:
            own = self._idle.pop() if self._idle else _started()
            own.put(body)
            await is_done.wait()
        if failed:
            raise failed[0]
        assert given, "a call in a thread raised an unexpected exception, which the thread reported"
        return given[0]


def _started() -> _Work:
    work: _Work = SimpleQueue()
    _thread.start_new_thread(_live, (work,))
    return work


def _live(work: _Work) -> None:
    while (body := work.get()) is not None and body():
        del body  # Free the objects of the body before the next wait.


def _let_go(idle: list[_Work]) -> None:
    for work in idle:
        work.put(None)


# The `docker` package is imported in the thread of the first call, because the import takes 0.2 s. An abandoned thread
# does not delay anything, not even the end of the process, and closes what it opens afterwards.

T = TypeVar("T")
Decode: TypeAlias = Callable[[bytes], bytes]
"""Decodes a piece in the thread that read it; returns empty bytes while there is no output."""
READ_BYTES: Final = 65_536
NO_DEADLINE: Final = (limits.ENGINE_CALL_S, None)
"""`timeout` of a streamed request: the connection has a deadline, the pieces have none."""
LOOK_FIRST_S: Final = 0.01
LOOK_LAST_S: Final = 0.5


class DockerClient:
    """Client of one engine. `call` and `stream` run a function in a thread with docker's APIClient."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self.address = engine_address(env)
        self._api: Any = None
        self._making = threading.Lock()
        self._threads = CallThreads(EngineFailed)
        self._calls = anyio.CapacityLimiter(limits.ENGINE_CALLS_AT_ONCE)
        self._streams = anyio.CapacityLimiter(limits.ENGINE_STREAMS_AT_ONCE)

    async def call(self, ask: Callable[[Any], T], *, timeout_s: float = limits.ENGINE_CALL_S) -> T:
        """Call `ask` in a thread and return its result. Raises EngineFailed."""
        with self.deadline(timeout_s):
            return await self._threads.run(lambda: self._translated(lambda: ask(self._connected())), self._calls)

    async def work(self, work: Callable[[], T]) -> T:
        """Run slow `work` that needs no engine in a thread and return its result. It may raise only EngineFailed."""
        return await self._threads.run(work, self._calls)

    @asynccontextmanager
    async def stream(
        self, ask: Callable[[Any], Any], *, timeout_s: float = limits.ENGINE_CALL_S
    ) -> AsyncGenerator[DockerStream]:
        """Yield the streamed response of `ask` (a `requests.Response` with `stream`), and close it afterwards.

        `timeout_s` limits its start. The body has no deadline, because it may be in a generator.
        """
        opening = _Opening(self.address)
        try:
            with self.deadline(timeout_s):
                await self._threads.run(lambda: self._translated(lambda: self._open(ask, opening)), self._streams)
            yield DockerStream(opening, lambda read: self._threads.run(lambda: self._translated(read), self._streams))
        finally:
            opening.close()

    def _open(self, ask: Callable[[Any], Any], opening: _Opening) -> None:
        api = self._connected()
        opening.fill(ask(api))
        api._raise_for_status(opening.response)

    @contextmanager
    def deadline(self, timeout_s: float) -> Iterator[None]:
        """Raise EngineFailed TIMED_OUT if the block takes longer."""
        with anyio.move_on_after(timeout_s) as scope:
            yield
        if scope.cancelled_caught:
            raise docker_errors.timeout_error(self.address, timeout_s)

    def broken_off(self) -> EngineFailed:
        """The error for a stream that ends although it should last as long as the engine runs."""
        return docker_errors.unreachable_error(self.address, ConnectionResetError())

    def _translated(self, work: Callable[[], T]) -> T:
        """Call `work`, in a thread; failures of the package and the connection become EngineFailed."""
        try:
            return work()
        except _failures() as error:
            raise self._failure(error) from error

    def _failure(self, error: Exception) -> EngineFailed:
        from docker.errors import APIError, DockerException
        from requests.exceptions import InvalidURL, Timeout

        if isinstance(error, APIError):
            status = error.response.status_code if error.response is not None else 0
            return docker_errors.engine_error(str(error.explanation or error), status=status)
        if isinstance(error, Timeout):
            return docker_errors.timeout_error(self.address, limits.ENGINE_CALL_S)
        if isinstance(error, InvalidURL) or (isinstance(error, DockerException) and not error.__cause__):
            return docker_errors.configuration_error(self.address, error)
        return docker_errors.unreachable_error(self.address, error)

    def _connected(self) -> Any:
        """The package's client, created at the first call that finds an engine."""
        with self._making:
            if self._api is None:
                self._api = _api(self._env, self.address)
            return self._api


@asynccontextmanager
async def engine_task_group() -> AsyncGenerator[TaskGroup]:
    """A task group that raises an EngineFailed directly, not in an exception group."""
    try:
        async with anyio.create_task_group() as group:
            yield group
    except BaseExceptionGroup as grouped:
        failures, others = grouped.split(EngineFailed)
        if failures is None or others is not None:
            raise
        first: BaseException = failures
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from None


async def poll_until(is_so: Callable[[], Awaitable[bool]]) -> None:
    """Return when `is_so` is true. Polls at growing intervals, because no event reports it."""
    look_s = LOOK_FIRST_S
    while True:
        if await is_so():
            return
        await anyio.sleep(look_s)
        look_s = min(2 * look_s, LOOK_LAST_S)


def _failures() -> tuple[type[Exception], ...]:
    """Exceptions of the package and of the layers below it. Called only when something is raised."""
    from docker.errors import DockerException
    from urllib3.exceptions import HTTPError

    return DockerException, HTTPError, HTTPException, OSError


def _api(env: Mapping[str, str], address: str) -> Any:
    from docker import APIClient
    from docker.utils import kwargs_from_env

    if address.startswith("unix://"):  # The package forgets to close a socket that it could not connect.
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(address.removeprefix("unix://"))
    return APIClient(
        **{**kwargs_from_env(dict(env)), "base_url": address},
        version="auto",
        timeout=limits.ENGINE_CALL_S,
        max_pool_size=limits.ENGINE_CALLS_AT_ONCE,
        use_ssh_client=True,
        credstore_env=dict(env),
    )


class _Opening:
    """A response that may arrive after the caller was cancelled."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.response: Any = None
        self.is_closed = False
        self._lock = threading.Lock()

    def fill(self, response: Any) -> None:
        with self._lock:
            self.response = response
            if self.is_closed:
                _shut(response)

    def close(self) -> None:
        with self._lock:
            self.is_closed = True
            if self.response is not None:
                _shut(self.response)


class DockerStream:
    """A streamed response. `pieces` decodes HTTP chunks; `read` and `write` are for an upgraded connection."""

    def __init__(self, opening: _Opening, in_thread: Callable[[Callable[[], bytes]], Awaitable[bytes]]) -> None:
        self._opening = opening
        self._response = opening.response
        self._in_thread = in_thread

    async def pieces(self, decode: Decode = bytes) -> AsyncIterator[bytes]:
        """Yield the body, decoded by `decode`, as it arrives."""
        answer = self._response.raw._fp
        # The package and the library read one chunk, which is a line, at a time: each would be a switch to a thread.
        chunks = ChunkDecoder() if answer.chunked else None

        def more() -> bytes:
            return bytes(answer.read1(READ_BYTES)) if chunks is None else _unchunked(answer.fp, chunks)

        while piece := await self._read(lambda: _decoded(more, decode)):
            yield piece

    async def _read(self, read: Callable[[], bytes]) -> bytes:
        return await self._in_thread(lambda: self._until_closed(read))

    def _until_closed(self, read: Callable[[], bytes]) -> bytes:
        """Read in a thread, possibly after the stream was closed, which the library reports by various exceptions."""
        try:
            return read()
        except (AttributeError, ValueError):
            if self._opening.is_closed:
                return b""
            raise

    async def values(self) -> AsyncIterator[dict[str, Any]]:
        """Yield the JSON objects of the body, one per line."""
        rest = b""
        async for piece in self.pieces():
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                if line.strip():
                    yield self._value(line)
        if rest.strip():
            yield self._value(rest)

    def _value(self, line: bytes) -> dict[str, Any]:
        try:
            return dict(json.loads(line))
        except ValueError as error:  # The engine stopped in the middle of a line.
            raise docker_errors.unreachable_error(self._opening.address, error) from error

    async def read(self, decode: Decode = bytes) -> bytes:
        """Return the next decoded part of the upgraded connection; empty at its end.

        Reads from the buffer that read the head, because output may have arrived with it.
        """
        buffer = self._response.raw._fp.fp
        return await self._read(lambda: _decoded(lambda: bytes(buffer.read1(READ_BYTES)), decode))

    async def write(self, data: bytes) -> None:
        """Write all of `data`, then close the input."""
        line = _socket_of(self._response)

        def send() -> bytes:
            with suppress(OSError):  # The command ended without reading all input.
                if data:
                    line.sendall(data)
                _end_input(line)
            return b""

        await self._read(send)


def _unchunked(line: Any, chunks: ChunkDecoder) -> bytes:
    """Return the content of the next chunks that `line` has bytes of; empty after the last. Raises IncompleteRead."""
    piece = b""
    while not piece and not chunks.is_over:
        if not (came := line.read1(READ_BYTES)):
            raise IncompleteRead(came)
        try:
            piece = chunks.feed(came)
        except ValueError as error:  # Callers would take a ValueError for a closed line, as from `read1`.
            raise IncompleteRead(came) from error
    return piece


def _decoded(more: Callable[[], bytes], decode: Decode) -> bytes:
    """The next non-empty result of `decode`; empty at the end."""
    while piece := more():
        if made := decode(piece):
            return made
    return b""


def _socket_of(response: Any) -> Any:
    """The socket of an open response, or the object that stands for it in a connection over ssh."""
    buffer = response.raw._fp.fp
    return getattr(buffer, "channel", None) or getattr(buffer.raw, "_sock", buffer.raw)


def _end_input(line: Any) -> None:
    if hasattr(line, "proc"):
        line.proc.stdin.close()
    else:
        line.shutdown(socket.SHUT_WR)


def _shut(response: Any) -> None:
    """End pending reads of the response, then close it."""
    with suppress(OSError, AttributeError):
        line = _socket_of(response)
        if hasattr(line, "proc"):
            line.close()
        else:
            line.shutdown(socket.SHUT_RDWR)
    with suppress(OSError):
        response.close()
