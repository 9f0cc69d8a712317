"""Send one HTTP request to a program under test and read its whole answer, bounded in bytes and time; keep a
transcript.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import anyio

from planloop.schemas import limits
from planloop.schemas.canonical_json import Json, encode
from planloop.schemas.frozen import frozen, mutable

# What was said to a program and what it answered, in lines, up to a bound: the evidence of a check.

_SHOWN_CHARS: Final = 2_000


@mutable
class ExchangeTranscript:
    """Grows until it is full; then it says that there was more."""

    _lines: list[bytes] = field(default_factory=list)
    _room: int = limits.TRANSCRIPT_BYTES_MAX

    def add(self, line: str) -> None:
        """One line more, whatever it holds."""
        if self._room <= 0:
            return
        shown = line if len(line) <= _SHOWN_CHARS else f"{line[:_SHOWN_CHARS]}… ({len(line):,} characters)"
        content = shown.replace("\n", "\n  ").encode(errors="replace") + b"\n"
        self._room -= len(content)
        self._lines.append(content if self._room > 0 else "…\n".encode())

    def content(self) -> bytes:
        """All of it."""
        return b"".join(self._lines)


# One request to a program under test, and the whole answer or why there is none. Bounded in bytes and time.

if TYPE_CHECKING:
    from types import SimpleNamespace

    from aiohttp import ClientSession, TraceConfig, TraceRequestRedirectParams

Follows: TypeAlias = Literal["all", "own", "none"]
"""Which redirects are followed: all, those within one program, or none."""

_CHUNK_BYTES: Final = 64 << 10


@frozen
class ProgramRequest:
    """What is asked. `bodies` has at most one of `body`, `json` and `form`."""

    url: str
    method: str = "GET"
    bodies: Mapping[str, Json] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    follows: Follows = "all"


@frozen
class ProgramAnswer:
    """What came back: header names are in small letters, of several by one name the texts are joined."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes


@frozen
class ProgramSilence:
    """Nothing, or nothing whole, came back. `words` follow the URL in a sentence.

    `is_unreachable`: not even a connection. `is_misasked`: what was asked can be sent to nobody.
    """

    words: str
    is_unreachable: bool = False
    is_misasked: bool = False


class RedirectedAway(Exception):
    """A redirect leads to another program."""


@asynccontextmanager
async def http_session() -> AsyncIterator[ClientSession]:
    """What requests are made in: cookies are kept, and each has a connection of its own.

    A kept one may be closed by the other side at any time, which would look like a program that hangs up.
    """
    import aiohttp  # noqa: PLC0415 - takes 150 ms, and most plans have no check that needs it

    connector = aiohttp.TCPConnector(force_close=True, limit=0)
    jar = aiohttp.CookieJar(unsafe=True)  # Programs under test have numbers for names.
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=None)
    async with aiohttp.ClientSession(
        connector=connector, cookie_jar=jar, timeout=timeout, trace_configs=[same_host_trace()]
    ) as made:
        yield made


def same_host_trace() -> TraceConfig:
    """For a session: requests are led to no other program, but where they follow all redirects. It raises
    RedirectedAway.
    """
    import aiohttp  # noqa: PLC0415 - as above

    trace = aiohttp.TraceConfig()
    trace.on_request_redirect.append(_stay)
    return trace


async def _stay(_session: ClientSession, asked: SimpleNamespace, found: TraceRequestRedirectParams) -> None:
    """Keeps a program under test from having others asked for it, who may be near to us and far from it."""
    if asked.trace_request_ctx != "all":
        from yarl import URL  # noqa: PLC0415 - comes with aiohttp

        target = found.response.headers.get("location", "")
        try:
            is_own = found.url.join(URL(target)).origin() == found.url.origin()
        except ValueError:  # It leads nowhere.
            is_own = False
        if not is_own:
            raise RedirectedAway(target)


async def send_request(
    made: ClientSession, request: ProgramRequest, within_s: float | None, bytes_max: int
) -> ProgramAnswer | ProgramSilence:
    """Sends `request` and reads the answer to its end. `within_s` None: the caller bounds the time."""
    import aiohttp  # noqa: PLC0415 - as above

    with anyio.move_on_after(within_s):
        try:
            return await _asked(made, request, bytes_max)
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError) as error:
            if isinstance(error, aiohttp.RedirectClientError):
                return ProgramSilence(f"redirects to what is no http URL: {error}")
            return ProgramSilence("is not an http URL", is_misasked=True)
        except aiohttp.ClientConnectorError as error:
            return ProgramSilence(
                f"does not answer: nothing listens there ({error.strerror or error})", is_unreachable=True
            )
        except (aiohttp.ClientError, OSError, ValueError, RedirectedAway) as error:
            return ProgramSilence(_why(error))
    return ProgramSilence(f"has not answered in whole within {within_s:g} s")


def _why(error: Exception) -> str:
    import aiohttp  # noqa: PLC0415 - as above

    match error:
        case RedirectedAway():
            return f"redirects to another place: {error}"
        case aiohttp.TooManyRedirects():
            return f"redirects more than {limits.HTTP_REDIRECTS_MAX} times"
        case aiohttp.ServerDisconnectedError():
            return "hangs up without an answer"
        case aiohttp.ClientResponseError():
            return f"does not answer in HTTP: {first_line(error.message)}"
        case aiohttp.ClientPayloadError():
            return f"breaks off in the middle of its answer: {first_line(str(error))}"
        case ValueError():  # What was kept of an answer need not fit into a header.
            return f"cannot be asked that: {error}"
        case _:
            return f"does not answer: {error}"


def first_line(words: str) -> str:
    """The first words of a message that draws a picture of what is wrong."""
    return next((line.strip().rstrip(":") for line in words.splitlines() if line.strip()), "it hangs up")


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
                return ProgramSilence(f"answers more than {bytes_max >> 20} MiB")
        found = {name.lower(): ", ".join(response.headers.getall(name)) for name in response.headers}
        return ProgramAnswer(str(response.url), response.status, found, bytes(body))
