"""HTTP to a server: the SDK's transport over a client of ours, which tells what was never sent.

The SDK lets a refused or broken connection end the whole transport, from where nobody can tell one from the other. Here
it becomes the answer to the one request that it happened to.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CONNECTION_CLOSED

from planloop.controllers.mcp import bodies, over_sse
from planloop.controllers.mcp.wire import NOT_SENT
from planloop.schemas import limits
from planloop.schemas.encoding import JsonObject


@asynccontextmanager
async def http_transport(url: str, headers: Mapping[str, str], lost: Callable[[], None]) -> AsyncIterator[Any]:
    """Speaks with the server at `url`; `lost` is called when nobody is there for something that takes no answer."""
    # How long an answer may take is the request's own bound; nor does one wait for another to end.
    timeout, pool = httpx2.Timeout(limits.SERVER_START_S, read=None), httpx2.Limits(max_connections=None)
    if over_sse.is_for(url):
        async with (
            httpx2.AsyncClient(headers=dict(headers), timeout=timeout, limits=pool) as plain,
            over_sse.sse_transport(plain, url, lost) as streams,
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
                return bodies.listened(response)
            return await bodies.answered(response, asked) if is_asking else response
        except httpx2.TransportError as fault:
            if request.method != "POST":
                raise  # A stream that is opened again, or a farewell.
            if response is not None:
                await response.aclose()
            if is_asking:
                return httpx2.Response(200, json=_failed(asked, fault), request=request)
            self._lost()
            return httpx2.Response(503, request=request)


def _failed(asked: JsonObject, fault: httpx2.TransportError) -> JsonObject:
    code = NOT_SENT if isinstance(fault, over_sse.NEVER_SENT) else CONNECTION_CLOSED
    return bodies.failed(asked, code, str(fault) or type(fault).__name__)
