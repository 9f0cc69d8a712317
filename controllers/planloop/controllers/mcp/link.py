"""A live connection to one tool server: one task enters and leaves the SDK's client and makes every request.

The one module, with `planloop.controllers.mcp.stdio_transport` and `planloop.controllers.mcp.http_transport`, that
imports the SDK. It is loaded in a thread when the first server starts.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final

import anyio
from mcp import Client, types
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared.exceptions import MCPError

from planloop.controllers.mcp import lenient_results, server_offer
from planloop.controllers.mcp.http_transport import http_transport
from planloop.controllers.mcp.json_rpc import NO_SESSION, NOT_SENT
from planloop.controllers.mcp.results import ToolServerAnswer
from planloop.controllers.mcp.server_offer import ToolServerOffer
from planloop.controllers.mcp.server_process import ToolServerPipes
from planloop.controllers.mcp.server_request import ToolServerRequest
from planloop.controllers.mcp.stdio_transport import Streams, message_streams
from planloop.reconciler.engine.reconcile import attempt
from planloop.schemas import limits
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.objects.mcp import ServerFailed

__all__ = ["ToolServerLink", "http_transport", "stdio_transport"]

# The SDK must not print on the owner's terminal.
logging.getLogger("mcp").addHandler(logging.NullHandler())
logging.getLogger("mcp").propagate = False
_NAME: Final = "planloop"
_LISTS: Final = (
    types.ToolListChangedNotification,
    types.PromptListChangedNotification,
    types.ResourceListChangedNotification,
)


class ToolServerLink:
    """Requests to a connected server. `changed` is set when the server says that one of its lists has changed."""

    def __init__(self, heard: Callable[[bytes], None]) -> None:
        self.changed = anyio.Event()
        self.gone = anyio.Event()
        self.is_hung = False
        self.fault: ServerFailed | None = None  # The error that ended the use of the connection.
        self._heard = heard
        self._client: Client | None = None
        self._put, self._take = anyio.create_memory_object_stream[ToolServerRequest](limits.SERVER_QUEUE_MAX)
        self._running: list[ToolServerRequest] = []
        self._ended = anyio.Event()
        self._outputs: dict[str, Json] = {}  # The output schemas of the server's tools.

    @property
    def client(self) -> Client:
        assert self._client is not None, "a link is used while it is open"
        return self._client

    @asynccontextmanager
    async def opened(self, transport: AbstractAsyncContextManager[Streams]) -> AsyncIterator[ToolServerLink]:
        """Connect with the protocol version of the server. Enter and leave it in the same task."""
        way: Any = lenient_results.lenient_transport(transport, self._heard)
        client = Client(
            way,
            elicitation_callback=self._asked,
            logging_callback=self._logged,
            message_handler=self._on_message,
            client_info=types.Implementation(name=_NAME, version="1"),
            cache=None,
        )
        async with client:
            self._client = client
            yield self

    async def serve(self) -> None:
        """Make requests until cancelled."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._listen)
            async for request in self._take:
                group.start_soon(self._perform, request)

    def close(self) -> None:
        """Accept no more requests, and fail those in the queue."""
        self._put.close()
        while self._take.statistics().current_buffer_used:
            self._take.receive_nowait().fail(ServerFailed("NoServer", "the server ended before it was asked"))
        self._take.close()

    async def _perform(self, request: ToolServerRequest) -> None:
        self._running.append(request)
        try:
            await request.perform(self.explained)
        finally:
            self._running.remove(request)
            self._ended.set()
        if request.is_late:
            await self._probe()

    async def until_idle(self) -> None:
        """Return when no request is in progress, so that answers that just arrived are used."""
        with anyio.move_on_after(limits.SERVER_SETTLE_S):
            while self._running:
                self._ended = anyio.Event()
                await self._ended.wait()

    async def _probe(self) -> None:
        """Check whether a server answers after a request timed out; if it does not, end the link."""
        with anyio.move_on_after(limits.SERVER_PROBE_S):
            await attempt(self.client.list_tools)
            return
        self.is_hung = True
        self.gone.set()

    def submit(self, request: ToolServerRequest) -> None:
        """Enter `request` into the queue of the serving task. Raises ServerFailed."""
        try:
            self._put.send_nowait(request)
        except anyio.WouldBlock:
            raise ServerFailed("Busy", f"{limits.SERVER_QUEUE_MAX} requests are already waiting for it") from None
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            raise ServerFailed("NoServer", "it is not running") from None

    def explained(self, error: Exception) -> ServerFailed:
        """Return the ServerFailed for an exception of the SDK."""
        was_gone = self.gone.is_set()
        fault = _explained(error, self.gone.set)
        if self.gone.is_set() and not was_gone:
            self.fault = fault
        return fault

    # The work of requests, inside the serving task.

    async def call(self, call: JsonObject, progress: Any, again: JsonObject) -> Any:
        """Make one round of a tool call; return its `ToolServerAnswer`, or the questions that the server asks first.

        `again` has `asked` (such a map) and its answer, `content`, in every round but the first.
        """
        meta: Any = {"planloop/operation": call["op"]}
        round_: Any = _answered_round(again["asked"], again["content"]) if again else {}
        result = await self.client.session.call_tool(
            call["tool"],
            call["arguments"],
            progress_callback=progress,
            meta=meta,
            allow_input_required=True,
            input_responses=round_.get("input_responses"),
            request_state=round_.get("request_state"),
        )
        if isinstance(result, types.InputRequiredResult):
            return _questions_in(result)
        raw = lenient_results.server_result(result)
        return ToolServerAnswer(raw, server_offer.schema_misfit(self._outputs.get(call["tool"]), raw))

    async def prompt(self, name: str, arguments: JsonObject) -> JsonObject:
        """Return the server's own result."""
        return lenient_results.server_result(
            await self.client.get_prompt(name, {key: str(value) for key, value in arguments.items()})
        )

    async def resource(self, uri: str) -> JsonObject:
        """Return the server's own result."""
        return lenient_results.server_result(await self.client.read_resource(uri))

    async def offered(self) -> ToolServerOffer:
        """Return all lists of the server. Raises the SDK's exceptions if the tools cannot be listed."""
        able = self.client.server_capabilities
        # Some servers have tools without declaring the capability.
        tools, why = await (self._tools() if able.tools else self._optional("tools", self.client.list_tools))
        self._outputs = {
            each["name"]: each.get("outputSchema")
            for each in tools
            if isinstance(each, dict) and isinstance(each.get("name"), str)
        }
        prompts, no_prompts = await self._optional("prompts", self.client.list_prompts) if able.prompts else ([], "")
        resources, none = await self._optional("resources", self.client.list_resources) if able.resources else ([], "")
        faults = (("tools/list", why if able.tools else ""), ("prompts/list", no_prompts), ("resources/list", none))
        return server_offer.server_offer(tools, prompts, resources, tuple(each for each in faults if each[1]))

    async def _tools(self) -> tuple[list[Json], str]:
        """Return the tools of a server that declared some; raises if it cannot list them, as it is then useless."""
        try:
            return await _pages(lambda cursor: self.client.list_tools(cursor=cursor), "tools"), ""
        except MCPError as fault:
            if fault.code != types.METHOD_NOT_FOUND:
                raise
            return [], fault.message

    async def _optional(self, kind: str, ask: Callable[..., Any]) -> tuple[list[Json], str]:
        """Return an optional list, and why it is missing."""
        with anyio.move_on_after(limits.SERVER_LIST_S):
            try:
                return await _pages(lambda cursor: ask(cursor=cursor), kind), ""
            except MCPError as fault:
                if fault.code in (NOT_SENT, NO_SESSION, types.CONNECTION_CLOSED):
                    raise
                return [], fault.message
        return [], f"no answer within {limits.SERVER_LIST_S:g} s"

    def server(self) -> JsonObject:
        """Return the name, version and protocol that the server reports."""
        named = self.client.server_info
        return {
            "name": "" if named is None else named.name,
            "version": "" if named is None else named.version,
            "protocol": self.client.protocol_version,
        }

    # Messages that the server sends by itself.

    async def _asked(self, context: Any, params: Any) -> types.ElicitResult:
        """Handle a question during a call from a server with an older protocol, which does not name the call.

        It is assigned to the call that has run longest without a question; the answer reaches the server anyway.
        """
        del context
        asking = next((each for each in self._running if each.takes_questions and each.question is None), None)
        if asking is None:
            return types.ElicitResult(action="cancel")
        content = await asking.put({"requests": {"": question_to_json(params)}})
        return answer_to_sdk(content)

    async def _on_message(self, message: Any) -> None:
        if isinstance(message, _LISTS):
            self.changed.set()

    async def _logged(self, params: Any) -> None:
        self._heard(f"[{params.level}] {params.data}\n".encode())

    async def _listen(self) -> None:
        """Subscribe to changes, which newer servers send only to subscribers."""
        able = self.client.server_capabilities
        tools, prompts, resources = (
            bool(each and each.list_changed) for each in (able.tools, able.prompts, able.resources)
        )
        if not (tools or prompts or resources):
            return
        try:
            async with self.client.listen(
                tools_list_changed=tools, prompts_list_changed=prompts, resources_list_changed=resources
            ) as events:
                async for _ in events:
                    self.changed.set()
        except (ListenNotSupportedError, SubscriptionLost, MCPError):
            return  # An older server, whose notifications come to `_on_message`, or the subscription was lost.


async def _pages(fetch: Callable[[str | None], Any], member: str) -> list[Json]:
    """Return the entries of all pages. Stops at an empty or repeated cursor, which would never end."""
    found: list[Json] = []
    cursor: str | None = None
    seen: set[str | None] = {None, ""}
    for _ in range(limits.SERVER_PAGES_MAX):
        page = await fetch(cursor)
        raw = lenient_results.server_result(page)
        entries = raw.get(member, raw.get("content"))
        found += entries if isinstance(entries, list) else []
        cursor = page.next_cursor
        if cursor in seen:
            break
        seen.add(cursor)
    return found


def _explained(error: BaseException, lost: Callable[[], None]) -> ServerFailed:
    """Return the ServerFailed for an exception; calls `lost` if the connection cannot be used any more."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    match error:
        case MCPError() if error.code == NOT_SENT:
            lost()
            return ServerFailed("Unreachable", f"the server cannot be reached: {error}")
        case MCPError() if error.code == NO_SESSION:
            lost()
            return ServerFailed("Unreachable", error.message)
        case MCPError() if error.code == types.CONNECTION_CLOSED:
            lost()
            why = error.message if error.message.startswith(("HTTP", "the server")) else ""
            return ServerFailed("Disconnected", why or "the connection to the server broke", has_begun=True)
        case MCPError() if error.code == types.REQUEST_TIMEOUT:
            return ServerFailed("TimedOut", str(error), has_begun=True)
        case ServerFailed():
            return error
        case _:
            return ServerFailed("ServerError", str(error) or type(error).__name__, has_begun=True)


def question_to_json(params: Any) -> JsonObject:
    """Return a question to a person as JSON: a form with its schema, or a URL to open."""
    if params.mode == "url":
        return {"message": params.message, "url": params.url}
    return {"message": params.message, "schema": params.requested_schema}


def answer_to_sdk(content: JsonObject | None) -> types.ElicitResult:
    """Return a person's answer for the SDK; None is a refusal."""
    if content is None:
        return types.ElicitResult(action="decline")
    return types.ElicitResult(action="accept", content=content)


def _questions_in(result: types.InputRequiredResult) -> JsonObject:
    """Return the questions of a round of a call, with the opaque state of the server.

    Raises ServerFailed if the server asks to use models or roots of planloop.
    """
    requests: JsonObject = {}
    for key, request in (result.input_requests or {}).items():
        if not isinstance(request, types.ElicitRequest):
            raise ServerFailed(
                "Refused", f"the server asks for {request.method}, which planloop does not offer to servers"
            )
        requests[key] = question_to_json(request.params)
    return {"requests": requests, "state": result.request_state}


def _answered_round(asked: JsonObject, content: JsonObject | None) -> JsonObject:
    """Return the arguments of the next round of a call. Several answers have the keys of their questions."""
    keys = list(asked["requests"])
    is_one = len(keys) == 1
    each = {key: content if is_one or content is None else dict(content.get(key) or {}) for key in keys}
    return {
        "input_responses": {key: answer_to_sdk(value) for key, value in each.items()} or None,
        "request_state": asked.get("state"),
    }


@asynccontextmanager
async def stdio_transport(
    server: AbstractAsyncContextManager[ToolServerPipes], heard: Callable[[bytes], None], gone: anyio.Event
) -> AsyncIterator[Streams]:
    """Start `server` and connect to it over its pipes."""
    async with server as pipes, message_streams(pipes, heard, gone) as streams:
        yield streams
