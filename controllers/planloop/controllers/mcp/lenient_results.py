"""Make results of tool servers acceptable to the SDK, which would reject many of them.

The SDK raises for a result with a null, a kind of content that it does not know, or structured content that does not
fit its schema, although the call has taken effect. So the SDK gets a result that it always accepts, with the original
in `own`, which `results.py` and `planloop.controllers.mcp.server_offer` read.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final

import anyio
from mcp import types
from mcp.shared.message import SessionMessage

from planloop.controllers.mcp import json_rpc
from planloop.controllers.mcp.json_rpc import Id, UnreadableMessage
from planloop.controllers.mcp.results import UNREADABLE
from planloop.schemas import limits
from planloop.schemas.canonical_json import Json, JsonObject

OWN_RESULT: Final = "planloop/own"
"""The member of `_meta` that has a server's own result."""
_WHOLE: Final[JsonObject] = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
_EMPTY: Final[dict[str, JsonObject]] = {
    # An error, so that nothing is checked against a schema.
    "tools/call": {"content": [], "isError": True},
    "tools/list": {"tools": []},
    "prompts/list": {"prompts": []},
    "prompts/get": {"messages": []},
    "resources/list": {"resources": []},
    "resources/read": {"contents": []},
}
_FIRST_VERSION: Final = "2024-11-05"  # Of a server that does not say which it speaks.
_CAPABILITIES: Final = ("completions", "experimental", "logging", "prompts", "resources", "tools", "extensions")


def server_result(result: Any) -> JsonObject:
    """Return the server's own result from a result of the SDK."""
    found: JsonObject = (result.meta or {}).get(OWN_RESULT) or {}
    return found


@asynccontextmanager
async def lenient_transport(
    transport: AbstractAsyncContextManager[Any], heard: Callable[[bytes], None]
) -> AsyncIterator[Any]:
    """Yield `transport` with acceptable incoming messages; `heard` gets text that is not a message."""
    async with transport as (incoming, outgoing), anyio.create_task_group() as group:
        put, take = anyio.create_memory_object_stream[Any](0)
        exchange = RequestTracker()
        group.start_soon(_relay, incoming, put, exchange, heard)
        try:
            yield take, _Tapped(outgoing, exchange.sent)
        finally:
            take.close()
            group.cancel_scope.cancel()


async def _relay(incoming: Any, put: Any, exchange: RequestTracker, heard: Callable[[bytes], None]) -> None:
    try:
        async with incoming, put:
            async for each in incoming:
                item = exchange.came(each)
                if item is not None:
                    await put.send(item)
                else:
                    heard(f"[stdout] {getattr(each, 'text', each)}\n".encode(errors="replace"))
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass  # The end of its output, or ours.


class _Tapped:
    """A stream of outgoing messages, each shown to `seen` before it goes."""

    def __init__(self, stream: Any, seen: Callable[[SessionMessage], None]) -> None:
        self._stream = stream
        self._seen = seen

    async def send(self, item: SessionMessage) -> None:
        self._seen(item)
        await self._stream.send(item)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> _Tapped:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *why: Any) -> Any:
        return await self._stream.__aexit__(*why)


class RequestTracker:
    """Which requests are unanswered, and what their answers become."""

    def __init__(self) -> None:
        self._pending: dict[Id, str] = {}

    def sent(self, item: SessionMessage) -> None:
        """A message goes out."""
        message = item.message
        if isinstance(message, types.JSONRPCRequest):
            self._pending[message.id] = message.method
            if len(self._pending) > limits.SERVER_PENDING_MAX:
                del self._pending[next(iter(self._pending))]
        elif isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
            self._pending.pop((message.params or {}).get("requestId", ""), None)

    def came(self, item: SessionMessage | Exception) -> SessionMessage | Exception | None:
        """Return what the SDK gets for `item`; None for text that is not an answer."""
        if isinstance(item, UnreadableMessage):
            return self._settled(item)
        message = getattr(item, "message", None)
        if isinstance(message, types.JSONRPCResponse):
            method = self._pending.pop(self._asked(message.id), "")
            return SessionMessage(_answer(message.id, method, message.result), item.metadata)  # type: ignore[union-attr]
        if isinstance(message, types.JSONRPCError) and message.id is not None:
            self._pending.pop(self._asked(message.id), None)
        elif isinstance(message, types.JSONRPCError) and len(self._pending) == 1:
            message.id = self._pending.popitem()[0]  # The server could not parse the request, so its answer has no id.
        return item

    def _settled(self, broken: UnreadableMessage) -> SessionMessage | None:
        """An answer that cannot be read ends its request: the effect of that may have happened already."""
        id_ = None if broken.id is None else self._asked(broken.id)
        if id_ is None and len(self._pending) == 1:
            id_ = next(iter(self._pending))
        method = self._pending.pop(id_, None) if id_ is not None else None
        if id_ is None or method is None:
            return None
        return SessionMessage(_answer(id_, method, unreadable_result(broken)))

    def _asked(self, id_: Id) -> Id:
        """The id as it was sent: some servers answer with a number as text."""
        return int(id_) if isinstance(id_, str) and id_ not in self._pending and id_.isdecimal() else id_


def _answer(id_: Id, method: str, result: JsonObject) -> types.JSONRPCResponse | types.JSONRPCError:
    """What the SDK is given for a server's own result."""
    why = result.get(UNREADABLE)
    if why is None or method == "tools/call":
        return types.JSONRPCResponse(jsonrpc="2.0", id=id_, result=acceptable_result(method, result))
    error = types.ErrorData(code=json_rpc.PARSE_ERROR, message=f"the answer to {method} cannot be read: {why}")
    return types.JSONRPCError(jsonrpc="2.0", id=id_, error=error)


def unreadable_result(broken: UnreadableMessage) -> JsonObject:
    """A result of ours for a call whose answer cannot be read."""
    return {"content": [{"type": "text", "text": broken.text}], UNREADABLE: broken.why}


def acceptable_result(method: str, result: JsonObject) -> JsonObject:
    """A result of `method` that the SDK accepts, whatever protocol version is spoken."""
    if result.get("resultType") == "input_required":
        return json_rpc.without_nan(json_rpc.without_nulls(result))  # type: ignore[no-any-return]
    if method in _EMPTY:
        # Tool schemas are corrected later, where they are used: a text instead of a number is not a limit.
        raw = result if method == "tools/list" else json_rpc.without_nan(result)
        made = {**_WHOLE, **_EMPTY[method], "_meta": {OWN_RESULT: raw}}
        if method == "tools/list":
            made["tools"] = [*_named(result)]
        cursor = result.get("nextCursor")
        return made | {"nextCursor": str(cursor)} if method.endswith("/list") and cursor else made
    plain: JsonObject = json_rpc.without_nan(json_rpc.without_nulls(result))
    return _handshake(plain) if method == "initialize" else plain


def _named(result: JsonObject) -> list[JsonObject]:
    """Names and schemas of tools, for the headers that the SDK makes of some arguments."""
    tools = result.get("tools")
    named = [each for each in tools if isinstance(each, dict)] if isinstance(tools, list) else []
    return [
        {"name": each["name"], "inputSchema": _schema(each.get("inputSchema"))}
        for each in named
        if isinstance(each.get("name"), str)
    ]


def _schema(value: Json) -> JsonObject:
    given: JsonObject = json_rpc.without_nan(json_rpc.without_nulls(value)) if isinstance(value, dict) else {}
    return {**given, "type": "object"}


def _handshake(result: JsonObject) -> JsonObject:
    """Return the identity and capabilities of a server, with defaults for missing members."""
    told, can = result.get("serverInfo"), result.get("capabilities")
    info = told if isinstance(told, dict) else {}
    able = can if isinstance(can, dict) else {}
    words = result.get("instructions")
    return {
        "protocolVersion": str(result.get("protocolVersion") or _FIRST_VERSION),
        "serverInfo": {"name": str(info.get("name") or ""), "version": str(info.get("version") or "")},
        "capabilities": {name: _ability(able[name]) for name in _CAPABILITIES if able.get(name) not in (None, False)},
        **({"instructions": words} if isinstance(words, str) else {}),
    }


def _ability(value: Json) -> JsonObject:
    """A capability: an object whose flags are true or false, and whose parts are objects."""
    given = value if isinstance(value, dict) else {}
    return {name: each for name, each in given.items() if isinstance(each, bool | dict)}
