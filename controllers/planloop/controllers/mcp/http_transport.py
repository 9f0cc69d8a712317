"""The HTTP transports of tool servers: streamable HTTP and HTTP with server-sent events, with their bodies normalized
into JSON or events.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import anyio
import httpx2
from anyio.abc import TaskStatus
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp.types import CONNECTION_CLOSED, INTERNAL_ERROR, METHOD_NOT_FOUND

from planloop.controllers.mcp import json_rpc, lenient_results
from planloop.controllers.mcp.json_rpc import NO_SESSION, NOT_SENT, ReadMessage, UnreadableMessage
from planloop.controllers.mcp.stdio_transport import BROKEN, LineSplitter, session_message
from planloop.schemas import limits
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.objects.mcp import ServerFailed

# Bodies. The SDK drops answers that are not strict JSON, of another content type, or larger than its own limit, and it
# reports only that a request was refused. So bodies are normalized before the SDK reads them.

SESSION_HEADER: Final = "mcp-session-id"
_EVENTS: Final = "text/event-stream"
_EXCERPT_CHARS: Final = 200
_IS_LOST: Final = frozenset({HTTPStatus.BAD_GATEWAY, HTTPStatus.GATEWAY_TIMEOUT})
"""Statuses of a gateway that forwarded the request and got no answer."""
_KEPT: Final = frozenset({b"event", b"id", b"retry", b""})
"""Fields of an event beside its data, and comments, whose field has no name."""
_FIELDS: Final = (b"data", b"event", b"id", b"retry", b":")


async def readable_answer(response: httpx2.Response, asked: JsonObject) -> httpx2.Response:
    """`response` to the request `asked`, with a body that the SDK reads to its end. Raises TransportError."""
    if response.status_code >= HTTPStatus.BAD_REQUEST:
        return _with(response, await _refusal(response, asked))
    if response.is_redirect:
        return response
    pieces = response.aiter_bytes()
    begin = b""
    async for piece in pieces:
        begin = (begin + piece).lstrip(b"\xef\xbb\xbf \t\r\n")
        if begin:
            break
    if begin[:1] in (b"{", b"["):
        return _with(response, *_mine(*await _whole(begin, pieces), asked))
    if begin.startswith(_FIELDS):
        return _streamed(response, _events(_resumed(begin, pieces), asked))
    return _with(response, await _nothing(response, begin, asked))


def readable_event_stream(response: httpx2.Response) -> httpx2.Response:
    """A stream of events that answers no request, with data that the SDK reads."""
    if response.status_code != HTTPStatus.OK or not response.headers.get("content-type", "").startswith(_EVENTS):
        return response
    return _streamed(response, _events(response.aiter_bytes(), None))


def error_answer(asked: JsonObject, code: int, why: str) -> JsonObject:
    """Return an answer made by planloop."""
    return {"jsonrpc": json_rpc.VERSION, "id": asked["id"], "error": {"code": code, "message": why}}


class _Body(httpx2.AsyncByteStream):
    """A body that is made of another one while that is read."""

    def __init__(self, response: httpx2.Response, pieces: AsyncIterator[bytes]) -> None:
        self._response = response
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._pieces:
            yield piece

    async def aclose(self) -> None:
        await self._response.aclose()


def _with(response: httpx2.Response, *messages: JsonObject) -> httpx2.Response:
    """The response with these messages; several are events."""
    printed = [json.dumps(message, ensure_ascii=False) for message in messages]
    if len(printed) == 1:
        return _streamed(response, _once(printed[0].encode()), "application/json")
    return _streamed(response, _once("".join(f"data: {each}\n\n" for each in printed).encode()))


def _streamed(response: httpx2.Response, pieces: AsyncIterator[bytes], kind: str = _EVENTS) -> httpx2.Response:
    """The response with another body."""
    headers = {"content-type": kind}
    if SESSION_HEADER in response.headers:
        headers[SESSION_HEADER] = response.headers[SESSION_HEADER]
    return httpx2.Response(200, headers=headers, stream=_Body(response, pieces), request=response.request)


async def _once(content: bytes) -> AsyncIterator[bytes]:
    yield content


async def _resumed(begin: bytes, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield begin
    async for piece in pieces:
        yield piece


async def _whole(begin: bytes, pieces: AsyncIterator[bytes]) -> tuple[bytes, int]:
    """A body, and how many bytes were left out of its middle because it was too long."""
    lines = LineSplitter()
    lines.add(begin)
    async for piece in pieces:
        lines.add(piece)
    return lines.rest()


def _mine(body: bytes, dropped: int, asked: JsonObject) -> list[JsonObject]:
    """The messages of a body that answers `asked`; at least one of them is the answer."""
    messages = [_readable(each, asked) for each in json_rpc.read_messages(body, dropped)[0]]
    answers = [each for each in messages if "method" not in each]
    if not answers:
        messages.append(error_answer(asked, INTERNAL_ERROR, "the server sent no answer"))
    elif not any(_is_for(each, asked) for each in answers):
        answers[0]["id"] = asked["id"]
    return messages


def _is_for(message: JsonObject, asked: JsonObject) -> bool:
    return str(message.get("id")) == str(asked["id"])


def _readable(message: ReadMessage, asked: JsonObject | None) -> JsonObject:
    if not isinstance(message, UnreadableMessage):
        return message
    id_ = message.id if asked is None else asked["id"]
    # The relay knows what was asked, and makes an error of it where nothing can have happened
    # (`planloop.controllers.mcp.lenient_results`).
    return {"jsonrpc": json_rpc.VERSION, "id": id_, "result": lenient_results.unreadable_result(message)}


async def _events(pieces: AsyncIterator[bytes], asked: JsonObject | None) -> AsyncIterator[bytes]:
    """Events with strict JSON as data. The last event needs no line that ends it."""
    lines, event = LineSplitter(), _Event(asked)
    ends = b""
    async for piece in pieces:
        # A line ends with CR, LF or both, and both may come in two pieces.
        content = ends + piece
        ends = b"\r" if content.endswith(b"\r") else b""
        content = content.removesuffix(b"\r").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        for line, dropped in lines.feed(content):
            if printed := event.take(line, dropped):
                yield printed
    for line, dropped in (lines.rest(), (b"", 0)):
        if printed := event.take(line, dropped):
            yield printed


class _Event:
    """The lines of one event as they come."""

    def __init__(self, asked: JsonObject | None) -> None:
        self._asked = asked
        self._begin()

    def _begin(self) -> None:
        self._data: list[bytes] = []
        self._others: dict[bytes, bytes] = {}  # The last line of each field.
        self._dropped = 0
        self._size = 0

    def take(self, line: bytes, dropped: int) -> bytes:
        """One more line; the event that it ends, as it is to be read."""
        name, _, value = line.partition(b":")
        if name.strip() == b"data":
            self._data.append(value.removeprefix(b" "))
            self._dropped += dropped
            self._size += len(value)
            self._bound()
        elif line.strip():
            # Of a comment, which keeps the connection up, the last one is enough.
            if name.strip() in _KEPT and len(line) <= limits.SERVER_FIELD_BYTES_MAX:
                self._others[name.strip()] = line
        else:
            printed = self._printed()
            self._begin()
            return printed
        return b""

    def _bound(self) -> None:
        if self._size > limits.SERVER_MESSAGE_BYTES_MAX or len(self._data) > limits.SERVER_DATA_LINES_MAX:
            joined = LineSplitter()
            joined.add(b"\n".join(self._data))
            kept, dropped = joined.rest()
            self._data, self._dropped, self._size = [kept], self._dropped + dropped, len(kept)

    def _printed(self) -> bytes:
        others = b"".join(each + b"\n" for each in self._others.values())
        data = b"\n".join(self._data)
        if not data.strip() or b"message" not in self._others.get(b"event", b"message"):
            kept = b"".join(b"data: " + each + b"\n" for each in self._data)
            return others + kept + b"\n" if others or kept else b""
        messages = [_readable(each, self._asked) for each in json_rpc.read_messages(data, self._dropped)[0]]
        printed = (json.dumps(each, ensure_ascii=False).encode() for each in messages)
        return b"".join(others + b"data: " + each + b"\n\n" for each in printed)


async def _refusal(response: httpx2.Response, asked: JsonObject) -> JsonObject:
    """What a status of 400 or more says: the server's own error, or the status and how the body begins."""
    status = response.status_code
    body = b""
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) > limits.SERVER_REFUSAL_BYTES_MAX:
            break
    messages = json_rpc.read_messages(body)[0] if len(body) <= limits.SERVER_REFUSAL_BYTES_MAX else []
    own = next((each for each in messages if isinstance(each, dict) and "error" in each), None)
    error: Json = None if own is None else own["error"]
    if _is_session_lost(response, body, error):
        return error_answer(asked, NO_SESSION, "the server does not know the session any more")
    if error is not None:
        return {"jsonrpc": json_rpc.VERSION, "id": asked["id"], "error": error}
    code = CONNECTION_CLOSED if status in _IS_LOST else INTERNAL_ERROR
    return error_answer(asked, code, f"HTTP {status} {response.reason_phrase}{_excerpt(body)}")


async def describe_error_status(response: httpx2.Response) -> str:
    """Return the message for an error status, with the beginning of the body."""
    body = b""
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) > limits.SERVER_REFUSAL_BYTES_MAX:
            break
    return f"HTTP {response.status_code} {response.reason_phrase}{_excerpt(body)}"


def _is_session_lost(response: httpx2.Response, body: bytes, error: Json) -> bool:
    """The protocol asks for 404; servers that keep sessions in a table of their own often answer 400."""
    if SESSION_HEADER not in response.request.headers:
        return False
    if response.status_code == HTTPStatus.NOT_FOUND:
        return error is None or error["code"] != METHOD_NOT_FOUND
    return response.status_code == HTTPStatus.BAD_REQUEST and b"session" in body.lower()


async def _nothing(response: httpx2.Response, first: bytes, asked: JsonObject) -> JsonObject:
    """An answer without any message: taken, as far as that can be seen, or of another program altogether."""
    status = f"HTTP {response.status_code} {response.reason_phrase}"
    if not first:
        return error_answer(asked, CONNECTION_CLOSED, f"the server answered {status} and sent no result")
    kind = response.headers.get("content-type", "no content type")
    return error_answer(asked, INTERNAL_ERROR, f"{status} with {kind} in place of an answer{_excerpt(first)}")


def _excerpt(body: bytes) -> str:
    words = " ".join(body[: 4 * _EXCERPT_CHARS].decode(errors="replace").split())[:_EXCERPT_CHARS]
    return f": {words}" if words else ""


# HTTP with server-sent events to a server of the protocol of 2024: one stream of answers, and separate POST requests.
#
# It is spoken at addresses that end in `/sse`, where such servers are.

PATH_END: Final = "/sse"
_STREAM: Final = {"accept": "text/event-stream", "cache-control": "no-store"}
NEVER_SENT: Final = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError)


def is_sse_url(url: str) -> bool:
    """Whether the server at `url` is one of 2024, as its address tells."""
    return urlsplit(url).path.rstrip("/").endswith(PATH_END)


@asynccontextmanager
async def sse_transport(client: httpx2.AsyncClient, url: str, lost: Callable[[], None]) -> AsyncIterator[Any]:
    """Connect to the server at `url`; `lost` is called when its stream ends. Raises ServerFailed."""
    put, take = anyio.create_memory_object_stream[Any](0)
    outgoing, wanted = anyio.create_memory_object_stream[SessionMessage](0)
    async with put, take, outgoing, wanted, anyio.create_task_group() as group:
        endpoint = await group.start(_listen, client, url, put, lost)

        async def write() -> None:
            async for item in wanted:
                group.start_soon(_post, client, endpoint, item, put)

        group.start_soon(write)
        try:
            yield take, outgoing
        finally:
            group.cancel_scope.cancel()


async def _listen(
    client: httpx2.AsyncClient,
    url: str,
    put: Any,
    lost: Callable[[], None],
    *,
    task_status: TaskStatus[str] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Passes on what comes, from when the server has said where it takes requests."""
    begun = anyio.Event()

    def begin(path: str) -> None:
        if not begun.is_set():
            task_status.started(_endpoint(url, path))
            begun.set()

    why = "the server did not say where it takes requests"
    try:
        async with put, client.stream("GET", url, headers=_STREAM) as response:
            if response.status_code != HTTPStatus.OK:
                raise ServerFailed("ServerError", await describe_error_status(response))
            await _pass_on(response, begin, put)
    except httpx2.ConnectError as fault:
        raise ServerFailed("Unreachable", str(fault)) from None
    except (httpx2.SSEError, httpx2.TransportError) as fault:
        why = str(fault) or type(fault).__name__
    except BROKEN:
        pass  # The end of the link.
    if not begun.is_set():
        raise ServerFailed("ServerError", why)
    lost()


async def _pass_on(response: httpx2.Response, begin: Callable[[str], None], put: Any) -> None:
    async for event in httpx2.EventSource(response, max_event_size=limits.SERVER_MESSAGE_BYTES_MAX):
        if event.event == "endpoint":
            begin(event.data)
        elif event.event == "message" and event.data.strip():
            for message in json_rpc.read_messages(event.data.encode(errors="replace"))[0]:
                await put.send(message if isinstance(message, Exception) else session_message(message))


def _endpoint(url: str, path: str) -> str:
    """Return the URL for requests, which must be on the same server. Raises ServerFailed."""
    endpoint = urljoin(url, path.strip())
    if urlsplit(endpoint)[:2] != urlsplit(url)[:2]:
        raise ServerFailed("ServerError", f"the server wants its requests sent elsewhere: {endpoint}")
    return endpoint


async def _post(client: httpx2.AsyncClient, endpoint: str, item: SessionMessage, put: Any) -> None:
    """Post a message. If the server rejects it, answer it with an error."""
    content = item.message.model_dump_json(by_alias=True, exclude_unset=True)
    asked: JsonObject = json.loads(content)
    fault: JsonObject | None = None
    try:
        headers = {"content-type": "application/json"}
        async with client.stream("POST", endpoint, content=content, headers=headers) as response:
            if response.status_code >= HTTPStatus.BAD_REQUEST:
                is_lost = response.status_code == HTTPStatus.NOT_FOUND
                why = await describe_error_status(response)
                fault = error_answer(asked, NO_SESSION if is_lost else json_rpc.UNKNOWN_ERROR, why)
    except httpx2.TransportError as error:
        code = NOT_SENT if isinstance(error, NEVER_SENT) else CONNECTION_CLOSED
        fault = error_answer(asked, code, str(error) or type(error).__name__)
    if fault is not None and "id" in asked and "method" in asked:
        with suppress(*BROKEN):  # The link may have ended.
            await put.send(session_message(fault))


# Streamable HTTP: the SDK's transport over our own client, which reports requests that were never sent.
#
# In the SDK, a refused or broken connection ends the whole transport, and the two cannot be distinguished.
# Here it becomes the answer to the one request that it happened to.


@asynccontextmanager
async def http_transport(url: str, headers: Mapping[str, str], lost: Callable[[], None]) -> AsyncIterator[Any]:
    """Connect to the server at `url`; `lost` is called if a message without an answer cannot be delivered."""
    # How long an answer may take is the request's own bound; nor does one wait for another to end.
    timeout, pool = httpx2.Timeout(limits.SERVER_START_S, read=None), httpx2.Limits(max_connections=None)
    if is_sse_url(url):
        async with (
            httpx2.AsyncClient(headers=dict(headers), timeout=timeout, limits=pool) as plain,
            sse_transport(plain, url, lost) as streams,
        ):
            yield streams
        return
    async with (
        _Client(lost, headers=dict(headers), timeout=timeout, limits=pool) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=None) as streams,
    ):
        yield streams


class _Client(httpx2.AsyncClient):
    def __init__(self, lost: Callable[[], None], **how: Any) -> None:
        super().__init__(**how)
        self._lost = lost

    async def send(self, request: httpx2.Request, **how: Any) -> httpx2.Response:
        """As the SDK expects it; we answer a message whose connection failed."""
        asked: JsonObject = json.loads(request.content) if request.method == "POST" else {}
        is_asking = "id" in asked and "method" in asked
        response: httpx2.Response | None = None
        try:
            response = await super().send(request, **how)
            if request.method == "GET":
                return readable_event_stream(response)
            return await readable_answer(response, asked) if is_asking else response
        except httpx2.TransportError as fault:
            if request.method != "POST":
                raise  # A stream that is reopened, or the end of a session.
            if response is not None:
                await response.aclose()
            if is_asking:
                return httpx2.Response(200, json=_http_failure(asked, fault), request=request)
            self._lost()
            return httpx2.Response(503, request=request)


def _http_failure(asked: JsonObject, fault: httpx2.TransportError) -> JsonObject:
    code = NOT_SENT if isinstance(fault, NEVER_SENT) else CONNECTION_CLOSED
    return error_answer(asked, code, str(fault) or type(fault).__name__)
