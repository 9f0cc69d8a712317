"""One websocket client: connects, sends, remembers what it receives, and leaves."""

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
    """No websocket was opened. `is_unreachable`: nothing listens at all."""

    words: str
    is_unreachable: bool = False


@mutable
class SocketClient:
    """A client called `name`. `heard` are the frames in order, `told` the indexes of those that a step has had."""

    name: str
    transcript: ExchangeTranscript
    heard: list[str] = field(default_factory=list)
    told: set[int] = field(default_factory=set)
    why_closed: str = ""
    _news: anyio.Event = field(default_factory=anyio.Event)
    _session: ClientSession | None = None
    _socket: ClientWebSocketResponse | None = None

    async def connect(self, url: str, origin: str) -> None:
        """Opens a websocket at `url`. Raises SocketRefused."""
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
            raise SocketRefused(f"answers {error.status} and opens no websocket") from None
        except RedirectedAway as error:
            raise SocketRefused(f"opens no websocket: it redirects to {error}") from None
        except aiohttp.ClientResponseError as error:
            raise SocketRefused(f"opens no websocket: {first_line(error.message)}") from None
        except aiohttp.ClientConnectorError as error:
            words = f"does not answer: nothing listens there ({error.strerror or error})"
            raise SocketRefused(words, is_unreachable=True) from None
        except TimeoutError:
            raise SocketRefused(f"opens no websocket within {limits.SOCKET_CONNECT_S:g} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise SocketRefused(f"opens no websocket: {first_line(str(error))}") from None
        self.transcript.add(f"{self.name} connects")

    async def listen(self) -> None:
        """Hears frames until the connection is closed, by whomever."""
        import aiohttp  # noqa: PLC0415 - as above

        socket = self._socket
        assert socket is not None, "connected before"
        with suppress(aiohttp.ClientError, OSError, RuntimeError):  # Whatever breaks, it is closed.
            async for message in socket:
                if message.type is aiohttp.WSMsgType.ERROR or not self._take(message.data):
                    break
        if socket is self._socket:
            fault = socket.exception()
            code = f"with {socket.close_code}" if socket.close_code else "without a word"
            self._end(f"the connection of {self.name} was closed {f'for {fault}' if fault else code}")

    def _take(self, content: str | bytes) -> bool:
        """Remembers a frame; whether there is room for another."""
        text = content if isinstance(content, str) else content.decode(errors="replace")
        self.transcript.add(f"{self.name} < {text}")
        self.heard.append(text)
        self._tell()
        if len(self.heard) < limits.SOCKET_FRAMES_MAX:
            return True
        self._end(f"{self.name} is sent {limits.SOCKET_FRAMES_MAX:,} frames and more")
        return False

    def _end(self, why: str) -> None:
        self.why_closed = self.why_closed or why
        self.transcript.add(f"{self.name} | {self.why_closed}")
        self._tell()

    def _tell(self) -> None:
        news, self._news = self._news, anyio.Event()
        news.set()

    async def say(self, frame: str) -> str:
        """Sends a frame; why that cannot be, empty when it is done."""
        self.transcript.add(f"{self.name} > {frame}")
        assert self._socket is not None, "connected before"
        try:
            with anyio.fail_after(limits.SOCKET_CONNECT_S):
                await self._socket.send_str(frame)
        except TimeoutError:
            return f"nobody takes what {self.name} says"
        except (OSError, RuntimeError):  # What aiohttp raises for a connection that has gone.
            return self.why_closed or f"the connection of {self.name} was closed"
        return ""

    async def hears(self, pattern: Json, within_s: float) -> bool:
        """Whether it hears in time what fits and no step has had yet. Raises BadPattern."""
        looked, is_heard = 0, False
        with anyio.move_on_after(within_s):
            while not (is_heard := self._has(pattern, looked)) and not self.why_closed:
                looked = len(self.heard)
                await self._news.wait()
        # On a busy machine the wait may end before this task looks at a frame that came in time.
        return is_heard or self._has(pattern, looked)

    def _has(self, pattern: Json, first: int) -> bool:
        """Whether a frame from `first` on fits and no step has had it; this step has it then. Raises BadPattern."""
        for index in range(first, len(self.heard)):
            if index not in self.told and frame_matches(pattern, self.heard[index]):
                self.told.add(index)
                return True
        return False

    async def stays(self, for_s: float) -> bool:
        """Whether its connection is open all this time."""
        with anyio.move_on_after(for_s):
            while not self.why_closed:
                await self._news.wait()
        return not self.why_closed

    async def drop(self) -> None:
        """Is gone without a word, as when a lid is shut."""
        self._end(f"{self.name} was dropped")
        session, self._session, self._socket = self._session, None, None
        if session is not None:
            await session.close()

    async def leave(self) -> None:
        """Goes as clients do, and waits for no answer to that for long."""
        if self._socket is not None:
            # A program that reads nothing any more would keep even the goodbye waiting.
            with suppress(OSError, RuntimeError), anyio.move_on_after(_CLOSE_S * 2):
                await self._socket.close()
        if self._session is not None:
            await self._session.close()


def frame_matches(pattern: Json, frame: str) -> bool:
    """Whether a frame is what is waited for: a text when some text in it contains it, else the frame as JSON.

    Raises BadPattern.
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
