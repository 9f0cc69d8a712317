"""WebSocket client of a check: connect, send frames, keep the received frames, and disconnect."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio

from planloop.controllers.task.checks.http_exchange import (
    ExchangeTranscript,
    RedirectedAway,
    first_line,
    same_host_trace,
)
from planloop.schemas import limits
from planloop.schemas.canonical_json import Json, decode_foreign
from planloop.schemas.checks.matchers import find_mismatch
from planloop.schemas.frozen import mutable

if TYPE_CHECKING:
    from aiohttp import ClientSession, ClientWebSocketResponse

_CLOSE_S = 0.5


@dataclass(slots=True)
class SocketRefused(Exception):
    """The WebSocket could not be opened. `is_unreachable`: nothing listens on the port."""

    words: str
    is_unreachable: bool = False


@mutable
class SocketClient:
    """A client called `name`. `received` are its frames in order; `used` are the indexes of frames a step matched."""

    name: str
    transcript: ExchangeTranscript
    received: list[str] = field(default_factory=list)
    used: set[int] = field(default_factory=set)
    why_closed: str = ""
    _news: anyio.Event = field(default_factory=anyio.Event)
    _session: ClientSession | None = None
    _socket: ClientWebSocketResponse | None = None

    async def connect(self, url: str, origin: str) -> None:
        """Open a WebSocket at `url`.

        Raises:
            SocketRefused: it could not be opened.
        """
        import aiohttp  # noqa: PLC0415 - takes 150 ms, and most plans have no check that needs it

        timeout = aiohttp.ClientTimeout(total=None)
        self._session = aiohttp.ClientSession(timeout=timeout, trace_configs=[same_host_trace()])
        self.why_closed = ""
        try:
            with anyio.fail_after(limits.SOCKET_CONNECT_S):
                self._socket = await self._session.ws_connect(
                    url,
                    origin=origin,
                    max_msg_size=limits.SOCKET_FRAME_BYTES_MAX,
                    timeout=aiohttp.ClientWSTimeout(ws_close=_CLOSE_S),
                )
        except aiohttp.WSServerHandshakeError as error:
            raise SocketRefused(f"answers {error.status} and does not open a WebSocket") from None
        except RedirectedAway as error:
            raise SocketRefused(f"does not open a WebSocket: it redirects to {error}") from None
        except aiohttp.ClientResponseError as error:
            raise SocketRefused(f"does not open a WebSocket: {first_line(error.message)}") from None
        except aiohttp.ClientConnectorError as error:
            words = f"does not answer: nothing listens there ({error.strerror or error})"
            raise SocketRefused(words, is_unreachable=True) from None
        except TimeoutError:
            raise SocketRefused(f"does not open a WebSocket within {limits.SOCKET_CONNECT_S:g} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise SocketRefused(f"does not open a WebSocket: {first_line(str(error))}") from None
        self.transcript.add(f"{self.name} connects")

    async def listen(self) -> None:
        """Receive frames until either side closes the connection."""
        import aiohttp  # noqa: PLC0415 - as above

        socket = self._socket
        assert socket is not None, "connected before"
        with suppress(aiohttp.ClientError, OSError, RuntimeError):  # An error also ends the connection.
            async for message in socket:
                if message.type is aiohttp.WSMsgType.ERROR or not self._take(message.data):
                    break
        if socket is self._socket:
            error = socket.exception()
            why = f"because of {error}" if error else f"with code {socket.close_code}" if socket.close_code else ""
            self._end(f"the connection of {self.name} was closed {why or 'without a code'}")

    def _take(self, content: str | bytes) -> bool:
        """Keep a frame; return whether there is room for another."""
        text = content if isinstance(content, str) else content.decode(errors="replace")
        self.transcript.add(f"{self.name} < {text}")
        self.received.append(text)
        self._wake()
        if len(self.received) < limits.SOCKET_FRAMES_MAX:
            return True
        self._end(f"{self.name} received {limits.SOCKET_FRAMES_MAX:,} frames, the limit")
        return False

    def _end(self, why: str) -> None:
        self.why_closed = self.why_closed or why
        self.transcript.add(f"{self.name} | {self.why_closed}")
        self._wake()

    def _wake(self) -> None:
        news, self._news = self._news, anyio.Event()
        news.set()

    async def send(self, frame: str) -> str:
        """Send a frame; return why it was not sent, empty if it was."""
        self.transcript.add(f"{self.name} > {frame}")
        assert self._socket is not None, "connected before"
        try:
            with anyio.fail_after(limits.SOCKET_CONNECT_S):
                await self._socket.send_str(frame)
        except TimeoutError:
            return f"the server does not read what {self.name} sends"
        except (OSError, RuntimeError):  # aiohttp raises these for a closed connection.
            return self.why_closed or f"the connection of {self.name} was closed"
        return ""

    async def receives(self, pattern: Json, within_s: float) -> bool:
        """Wait for a matching frame that no earlier step used; return whether it came in time.

        Raises:
            BadPattern: the pattern is invalid.
        """
        looked, is_received = 0, False
        with anyio.move_on_after(within_s):
            while not (is_received := self._use_frame(pattern, looked)) and not self.why_closed:
                looked = len(self.received)
                await self._news.wait()
        # On a busy machine the wait may end before this task looks at a frame that came in time.
        return is_received or self._use_frame(pattern, looked)

    def _use_frame(self, pattern: Json, first: int) -> bool:
        """Find a matching unused frame from index `first` on, and mark it as used. Raises BadPattern."""
        for index in range(first, len(self.received)):
            if index not in self.used and frame_matches(pattern, self.received[index]):
                self.used.add(index)
                return True
        return False

    async def stays(self, for_s: float) -> bool:
        """Wait `for_s` seconds; return whether the connection stayed open."""
        with anyio.move_on_after(for_s):
            while not self.why_closed:
                await self._news.wait()
        return not self.why_closed

    async def drop(self) -> None:
        """Drop the connection without closing it, like a laptop that goes to sleep."""
        self._end(f"{self.name} was dropped")
        session, self._session, self._socket = self._session, None, None
        if session is not None:
            await session.close()

    async def leave(self) -> None:
        """Close the connection; wait only briefly for the server's answer."""
        if self._socket is not None:
            # A program that no longer reads would block the close frame too.
            with suppress(OSError, RuntimeError), anyio.move_on_after(_CLOSE_S * 2):
                await self._socket.close()
        if self._session is not None:
            await self._session.close()


def frame_matches(pattern: Json, frame: str) -> bool:
    """Whether a frame matches: a text pattern if a text in it contains the pattern, other patterns on its JSON.

    Raises:
        BadPattern: the pattern is invalid.
    """
    try:
        value: Json = decode_foreign(frame)
    except ValueError:
        value = frame
    if not isinstance(pattern, str):
        return not find_mismatch(pattern, value)
    return any(not find_mismatch({"contains": pattern}, text) for text in _texts(value))


def _texts(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, int | float):
        yield str(value)
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)
