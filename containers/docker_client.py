"""The `docker` package off the event loop: one call in a thread with a deadline, and streams that a cancel closes.

The package is imported in the first call's thread: it takes a fifth of a second. A thread that is given up ends by
itself: each wait on the socket has its own timeout, and what it opens after that is closed by it.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from http.client import HTTPException
from typing import Any, Final, TypeVar

import anyio
import anyio.to_thread

from containers import docker_faults
from containers.engine import EngineFailed
from containers.finding import engine_address
from schemas import limits

T = TypeVar("T")
READ_BYTES: Final = 65_536


class Client:
    """Speaks to one engine. `call` and `stream` are given functions that run in a thread with docker's APIClient."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self.address = engine_address(env)
        self._api: Any = None
        self._making = threading.Lock()
        self._calls = anyio.CapacityLimiter(limits.ENGINE_CALLS_AT_ONCE)
        self._streams = anyio.CapacityLimiter(limits.ENGINE_STREAMS_AT_ONCE)

    async def call(self, ask: Callable[[Any], T], *, timeout_s: float = limits.ENGINE_CALL_S) -> T:
        """What `ask` gives, asked in a thread. Raises EngineFailed."""
        return await self._within(timeout_s, lambda: self._ask(ask), self._calls)

    @asynccontextmanager
    async def stream(self, ask: Callable[[Any], Any]) -> AsyncIterator[Stream]:
        """The answer that `ask` gives (a `requests.Response` asked for with `stream`) as it comes in, then closed."""
        opening = _Opening()
        try:
            await self._within(limits.ENGINE_CALL_S, lambda: opening.fill(self._ask(ask)), self._streams)
            yield Stream(opening.response, self._read)
        finally:
            opening.close()

    async def _read(self, read: Callable[[], bytes]) -> bytes:
        return await anyio.to_thread.run_sync(
            lambda: self._translated(read), limiter=self._streams, abandon_on_cancel=True
        )

    async def _within(self, timeout_s: float, work: Callable[[], T], limiter: anyio.CapacityLimiter) -> T:
        try:
            with anyio.fail_after(timeout_s):
                return await anyio.to_thread.run_sync(work, limiter=limiter, abandon_on_cancel=True)
        except TimeoutError:
            raise docker_faults.too_late(self.address, timeout_s) from None

    def _ask(self, ask: Callable[[Any], T]) -> T:
        return self._translated(lambda: ask(self._connected()))

    def _translated(self, work: Callable[[], T]) -> T:
        """In a thread: what `work` gives, faults of the package and of the line as EngineFailed."""
        try:
            return work()
        except _faults() as error:
            raise self._fault(error) from error

    def _fault(self, error: Exception) -> EngineFailed:
        from docker.errors import APIError
        from requests.exceptions import Timeout

        if isinstance(error, APIError):
            status = error.response.status_code if error.response is not None else 0
            return docker_faults.refusal(error.explanation or str(error), status=status)
        if isinstance(error, Timeout):
            return docker_faults.too_late(self.address, limits.ENGINE_CALL_S)
        return docker_faults.unreachable(self.address, error)

    def _connected(self) -> Any:
        """The package's client, made at the first call that finds an engine."""
        with self._making:
            if self._api is None:
                self._api = _api(self._env, self.address)
            return self._api


def _faults() -> tuple[type[Exception], ...]:
    """What the package raises, and what it lets through of the layers below it. Asked only when something was raised."""
    from docker.errors import DockerException
    from urllib3.exceptions import HTTPError

    return DockerException, HTTPError, HTTPException, OSError


def _api(env: Mapping[str, str], address: str) -> Any:
    from docker import APIClient
    from docker.utils import kwargs_from_env

    return APIClient(
        **{**kwargs_from_env(dict(env)), "base_url": address},
        version="auto",
        timeout=limits.ENGINE_CALL_S,
        max_pool_size=limits.ENGINE_CALLS_AT_ONCE,
        use_ssh_client=True,
        credstore_env=dict(env),
    )


class _Opening:
    """A response that may come when nobody wants it any more."""

    def __init__(self) -> None:
        self.response: Any = None
        self._is_closed = False
        self._lock = threading.Lock()

    def fill(self, response: Any) -> None:
        with self._lock:
            self.response = response
            if self._is_closed:
                _shut(response)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            if self.response is not None:
                _shut(self.response)


class Stream:
    """A response as it comes in. `pieces` decodes HTTP's chunks; `read` and `write` are of an upgraded connection."""

    def __init__(self, response: Any, read: Callable[[Callable[[], bytes]], Any]) -> None:
        self._response = response
        self._read = read

    async def pieces(self) -> AsyncIterator[bytes]:
        """Its body as it comes."""
        source = self._response.raw.stream(READ_BYTES, decode_content=False)
        while piece := await self._read(lambda: next(source, b"")):
            yield piece

    async def values(self) -> AsyncIterator[dict[str, Any]]:
        """The JSON objects of its body, one a line."""
        rest = b""
        async for piece in self.pieces():
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                if line.strip():
                    yield json.loads(line)
        if rest.strip():
            yield json.loads(rest)

    async def read(self) -> bytes:
        """What comes next on the upgraded connection; empty at its end.

        From the buffer that has read the head: what came with that is in there.
        """
        buffer = self._response.raw._fp.fp
        return bytes(await self._read(lambda: buffer.read1(READ_BYTES)))

    async def write(self, data: bytes) -> None:
        """Writes all of it, then tells the other side that this was all."""
        line = _socket_of(self._response)

        def send() -> bytes:
            with suppress(BrokenPipeError, ConnectionResetError):  # It ended without reading all.
                if data:
                    line.sendall(data)
                _end_of_input(line)
            return b""

        await self._read(send)


def _socket_of(response: Any) -> Any:
    """The socket below an open response; of a connection over ssh, what behaves like one."""
    buffer = response.raw._fp.fp
    return getattr(buffer, "channel", None) or getattr(buffer.raw, "_sock", buffer.raw)


def _end_of_input(line: Any) -> None:
    if hasattr(line, "proc"):
        line.proc.stdin.close()
    else:
        line.shutdown(socket.SHUT_WR)


def _shut(response: Any) -> None:
    """Ends whoever waits for more of it, then closes it."""
    with suppress(OSError, AttributeError):
        line = _socket_of(response)
        if hasattr(line, "proc"):
            line.close()
        else:
            line.shutdown(socket.SHUT_RDWR)
    with suppress(OSError):
        response.close()
