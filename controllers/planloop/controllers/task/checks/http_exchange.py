"""Send an HTTP request to a program under test and read its answer, bounded in bytes and time; keep a transcript."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import anyio

from planloop.schemas import limits
from planloop.schemas.canonical_json import Json, encode
from planloop.schemas.frozen import frozen, mutable

_SHOWN_CHARS: Final = 2_000


@mutable
class ExchangeTranscript:
    """What a check sent and received, in lines: its evidence. Ends with `…` when it is full."""

    _lines: list[bytes] = field(default_factory=list)
    _room: int = limits.TRANSCRIPT_BYTES_MAX

    def add(self, line: str) -> None:
        """Add a line, shortened if it is long."""
        if self._room <= 0:
            return
        shown = line if len(line) <= _SHOWN_CHARS else f"{line[:_SHOWN_CHARS]}… ({len(line):,} characters)"
        content = shown.replace("\n", "\n  ").encode(errors="replace") + b"\n"
        self._room -= len(content)
        self._lines.append(content if self._room > 0 else "…\n".encode())

    def content(self) -> bytes:
        """Return the whole transcript."""
        return b"".join(self._lines)


if TYPE_CHECKING:
    from types import SimpleNamespace

    from aiohttp import ClientSession, TraceConfig, TraceRequestRedirectParams

Follows: TypeAlias = Literal["all", "own", "none"]
"""Which redirects are followed: all, those within one program, or none."""

_CHUNK_BYTES: Final = 64 << 10


@frozen
class ProgramRequest:
    """An HTTP request. `bodies` has at most one of `body`, `json` and `form`."""

    url: str
    method: str = "GET"
    bodies: Mapping[str, Json] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    follows: Follows = "all"


@frozen
class ProgramAnswer:
    """An HTTP answer. Header names are in lower case; the values of repeated headers are joined with commas."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes


@frozen
class ProgramSilence:
    """No complete answer. `words` follow the URL in a sentence.

    `is_unreachable`: there was no connection. `is_invalid`: the request cannot be sent, as its URL is not an http URL.
    """

    words: str
    is_unreachable: bool = False
    is_invalid: bool = False


class RedirectedAway(Exception):
    """A redirect leads to another server."""


@asynccontextmanager
async def http_session() -> AsyncIterator[ClientSession]:
    """Yield a session that keeps cookies and opens a new connection for each request.

    The server may close a kept connection at any time, which would look like a program that closes connections.
    """
    import aiohttp  # noqa: PLC0415 - takes 150 ms, and most plans have no check that needs it

    connector = aiohttp.TCPConnector(force_close=True, limit=0)
    jar = aiohttp.CookieJar(unsafe=True)  # Programs under test are reached by IP address.
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=None)
    async with aiohttp.ClientSession(
        connector=connector, cookie_jar=jar, timeout=timeout, trace_configs=[same_host_trace()]
    ) as made:
        yield made


def same_host_trace() -> TraceConfig:
    """Return a trace for a session: a redirect to another server raises RedirectedAway, unless all are followed."""
    import aiohttp  # noqa: PLC0415 - as above

    trace = aiohttp.TraceConfig()
    trace.on_request_redirect.append(_stay)
    return trace


async def _stay(_session: ClientSession, asked: SimpleNamespace, found: TraceRequestRedirectParams) -> None:
    """Reject redirects to other servers, which the program under test might not be able to reach itself."""
    if asked.trace_request_ctx != "all":
        from yarl import URL  # noqa: PLC0415 - comes with aiohttp

        target = found.response.headers.get("location", "")
        try:
            is_own = found.url.join(URL(target)).origin() == found.url.origin()
        except ValueError:  # Not a URL.
            is_own = False
        if not is_own:
            raise RedirectedAway(target)


async def send_request(
    made: ClientSession, request: ProgramRequest, within_s: float | None, bytes_max: int
) -> ProgramAnswer | ProgramSilence:
    """Send `request` and read the complete answer. If `within_s` is None, the caller limits the time."""
    import aiohttp  # noqa: PLC0415 - as above

    with anyio.move_on_after(within_s):
        try:
            return await _asked(made, request, bytes_max)
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError) as error:
            if isinstance(error, aiohttp.RedirectClientError):
                return ProgramSilence(f"redirects to an invalid URL: {error}")
            return ProgramSilence("is not an http URL", is_invalid=True)
        except aiohttp.ClientConnectorError as error:
            return ProgramSilence(
                f"does not answer: nothing listens there ({error.strerror or error})", is_unreachable=True
            )
        except (aiohttp.ClientError, OSError, ValueError, RedirectedAway) as error:
            return ProgramSilence(_describe_failure(error))
    return ProgramSilence(f"does not answer completely within {within_s:g} s")


def _describe_failure(error: Exception) -> str:
    import aiohttp  # noqa: PLC0415 - as above

    match error:
        case RedirectedAway():
            return f"redirects to another server: {error}"
        case aiohttp.TooManyRedirects():
            return f"redirects more than {limits.HTTP_REDIRECTS_MAX} times"
        case aiohttp.ServerDisconnectedError():
            return "closes the connection without an answer"
        case aiohttp.ClientResponseError():
            return f"does not answer with HTTP: {first_line(error.message)}"
        case aiohttp.ClientPayloadError():
            return f"closes the connection in the middle of its answer: {first_line(str(error))}"
        case ValueError():  # For example, a kept value that is not valid in a header.
            return f"cannot be sent this request: {error}"
        case _:
            return f"does not answer: {error}"


def first_line(words: str) -> str:
    """Return the first line of a message that may have several."""
    return next((line.strip().rstrip(":") for line in words.splitlines() if line.strip()), "the connection was closed")


async def _asked(made: ClientSession, request: ProgramRequest, bytes_max: int) -> ProgramAnswer | ProgramSilence:
    bodies = request.bodies
    sent: dict[str, Any] = {}
    headers = {name.lower(): text for name, text in request.headers.items()}
    if "json" in bodies:
        sent["data"] = encode(bodies["json"])
        headers = {"content-type": "application/json", **headers}
    elif "form" in bodies:
        sent["data"] = bodies["form"]
    elif "body" in bodies:
        sent["data"] = bodies["body"].encode()
        headers = {"content-type": "text/plain; charset=utf-8", **headers}
    asking = made.request(
        request.method,
        request.url,
        headers=headers,
        allow_redirects=request.follows != "none",
        trace_request_ctx=request.follows,
        max_redirects=limits.HTTP_REDIRECTS_MAX,
        **sent,
    )
    async with asking as response:
        body = bytearray()
        async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
            body += chunk
            if len(body) > bytes_max:
                return ProgramSilence(f"answers with more than {bytes_max >> 20} MiB")
        found = {name.lower(): ", ".join(response.headers.getall(name)) for name in response.headers}
        return ProgramAnswer(str(response.url), response.status, found, bytes(body))
