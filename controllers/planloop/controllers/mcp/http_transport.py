"""The HTTP transports: streamable HTTP, and HTTP with server-sent events for servers of the 2024 protocol."""

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
from mcp.types import CONNECTION_CLOSED

from planloop.controllers.mcp import http_bodies, json_rpc
from planloop.controllers.mcp.json_rpc import NO_SESSION, NOT_SENT
from planloop.controllers.mcp.stdio_transport import BROKEN, session_message
from planloop.schemas import limits
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.objects.mcp import ServerFailed

# HTTP with server-sent events to a server of the protocol of 2024: one stream of answers, requests posted beside it.
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
    """Speaks with the server at `url`; `lost` is called when its stream ends. Raises ServerFailed."""
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
                raise ServerFailed("ServerError", await http_bodies.describe_error_status(response))
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
    """Where requests go: at the server itself, whatever it says. Raises ServerFailed."""
    endpoint = urljoin(url, path.strip())
    if urlsplit(endpoint)[:2] != urlsplit(url)[:2]:
        raise ServerFailed("ServerError", f"the server wants its requests sent elsewhere: {endpoint}")
    return endpoint


async def _post(client: httpx2.AsyncClient, endpoint: str, item: SessionMessage, put: Any) -> None:
    """Posts a message. One that is not taken is answered at once."""
    content = item.message.model_dump_json(by_alias=True, exclude_unset=True)
    asked: JsonObject = json.loads(content)
    fault: JsonObject | None = None
    try:
        headers = {"content-type": "application/json"}
        async with client.stream("POST", endpoint, content=content, headers=headers) as response:
            if response.status_code >= HTTPStatus.BAD_REQUEST:
                is_lost = response.status_code == HTTPStatus.NOT_FOUND
                why = await http_bodies.describe_error_status(response)
                fault = http_bodies.error_answer(asked, NO_SESSION if is_lost else json_rpc.UNKNOWN_ERROR, why)
    except httpx2.TransportError as error:
        code = NOT_SENT if isinstance(error, NEVER_SENT) else CONNECTION_CLOSED
        fault = http_bodies.error_answer(asked, code, str(error) or type(error).__name__)
    if fault is not None and "id" in asked and "method" in asked:
        with suppress(*BROKEN):  # The link may have ended.
            await put.send(session_message(fault))


# HTTP to a server: the SDK's transport over a client of ours, which tells what was never sent.
#
# The SDK lets a refused or broken connection end the whole transport, from where nobody can tell one from the other.
# Here it becomes the answer to the one request that it happened to.


@asynccontextmanager
async def http_transport(url: str, headers: Mapping[str, str], lost: Callable[[], None]) -> AsyncIterator[Any]:
    """Speaks with the server at `url`; `lost` is called when nobody is there for something that takes no answer."""
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
                return http_bodies.readable_event_stream(response)
            return await http_bodies.readable_answer(response, asked) if is_asking else response
        except httpx2.TransportError as fault:
            if request.method != "POST":
                raise  # A stream that is opened again, or a farewell.
            if response is not None:
                await response.aclose()
            if is_asking:
                return httpx2.Response(200, json=_http_failure(asked, fault), request=request)
            self._lost()
            return httpx2.Response(503, request=request)


def _http_failure(asked: JsonObject, fault: httpx2.TransportError) -> JsonObject:
    code = NOT_SENT if isinstance(fault, NEVER_SENT) else CONNECTION_CLOSED
    return http_bodies.error_answer(asked, code, str(fault) or type(fault).__name__)
