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

# What the SDK would print on our terminal belongs to nobody there.
logging.getLogger("mcp").addHandler(logging.NullHandler())
logging.getLogger("mcp").propagate = False
_NAME: Final = "planloop"
_LISTS: Final = (
    types.ToolListChangedNotification,
    types.PromptListChangedNotification,
    types.ResourceListChangedNotification,
)


class ToolServerLink:
    """Requests to a connected server. `changed` is set when it says that a list of its is no longer right."""

    def __init__(self, heard: Callable[[bytes], None]) -> None:
        self.changed = anyio.Event()
        self.gone = anyio.Event()
        self.is_hung = False
        self.fault: ServerFailed | None = None  # What showed that the connection is of no more use.
        self._heard = heard
        self._client: Client | None = None
        self._put, self._take = anyio.create_memory_object_stream[ToolServerRequest](limits.SERVER_QUEUE_MAX)
        self._running: list[ToolServerRequest] = []
        self._ended = anyio.Event()
        self._outputs: dict[str, Json] = {}  # The output schemas of its tools.

    @property
    def client(self) -> Client:
        assert self._client is not None, "a link is used while it is open"
        return self._client

    @asynccontextmanager
    async def opened(self, transport: AbstractAsyncContextManager[Streams]) -> AsyncIterator[ToolServerLink]:
        """Connects, by whichever protocol version the server speaks. For one task, from beginning to end."""
        way: Any = lenient_results.lenient_transport(transport, self._heard)
        client = Client(
            way,
            elicitation_callback=self._asked,
            logging_callback=self._logged,
            message_handler=self._told,
            client_info=types.Implementation(name=_NAME, version="1"),
            cache=None,
        )
        async with client:
            self._client = client
            yield self

    async def serve(self) -> None:
        """Makes requests until cancelled."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._listen)
            async for request in self._take:
                group.start_soon(self._perform, request)

    def close(self) -> None:
        """Takes no more requests, and leaves none without an end."""
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
        """Returns when no request is under way: one that was answered just before the end has its result."""
        with anyio.move_on_after(limits.SERVER_SETTLE_S):
            while self._running:
                self._ended = anyio.Event()
                await self._ended.wait()

    async def _probe(self) -> None:
        """A server that let a request time out is to show that it lives: one that hangs is of no more use."""
        with anyio.move_on_after(limits.SERVER_PROBE_S):
            await attempt(self.client.list_tools)
            return
        self.is_hung = True
        self.gone.set()

    def submit(self, request: ToolServerRequest) -> None:
        """Puts `request` in the queue of the serving task. Raises ServerFailed."""
        try:
            self._put.send_nowait(request)
        except anyio.WouldBlock:
            raise ServerFailed("Busy", f"{limits.SERVER_QUEUE_MAX} requests wait for it already") from None
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            raise ServerFailed("NoServer", "it does not run") from None

    def explained(self, error: Exception) -> ServerFailed:
        """What the SDK raised, in our words."""
        was_gone = self.gone.is_set()
        fault = _explained(error, self.gone.set)
        if self.gone.is_set() and not was_gone:
            self.fault = fault
        return fault

    # What a request does, inside the serving task.

    async def call(self, call: JsonObject, progress: Any, again: JsonObject) -> Any:
        """One round of a tool call: its `ToolServerAnswer`, or a map of the questions that the server asks first.

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
        told = lenient_results.server_result(result)
        return ToolServerAnswer(told, server_offer.schema_misfit(self._outputs.get(call["tool"]), told))

    async def prompt(self, name: str, arguments: JsonObject) -> JsonObject:
        """The server's own result."""
        return lenient_results.server_result(
            await self.client.get_prompt(name, {key: str(value) for key, value in arguments.items()})
        )

    async def resource(self, uri: str) -> JsonObject:
        """The server's own result."""
        return lenient_results.server_result(await self.client.read_resource(uri))

    async def offered(self) -> ToolServerOffer:
        """Every list of the server, page by page. Raises what the SDK raises when there are no tools to be listed."""
        able = self.client.server_capabilities
        # A server may have tools that it did not declare.
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
        """The tools of a server that declared some, which may be none. Without them, it is of no use."""
        try:
            return await _pages(lambda cursor: self.client.list_tools(cursor=cursor), "tools"), ""
        except MCPError as fault:
            if fault.code != types.METHOD_NOT_FOUND:
                raise
            return [], fault.message

    async def _optional(self, kind: str, ask: Callable[..., Any]) -> tuple[list[Json], str]:
        """A list without which the server is still of use, and why it is not there."""
        with anyio.move_on_after(limits.SERVER_LIST_S):
            try:
                return await _pages(lambda cursor: ask(cursor=cursor), kind), ""
            except MCPError as fault:
                if fault.code in (NOT_SENT, NO_SESSION, types.CONNECTION_CLOSED):
                    raise
                return [], fault.message
        return [], f"no answer within {limits.SERVER_LIST_S:g} s"

    def server(self) -> JsonObject:
        """Who the server says it is."""
        named = self.client.server_info
        return {
            "name": "" if named is None else named.name,
            "version": "" if named is None else named.version,
            "protocol": self.client.protocol_version,
        }

    # What the server says by itself.

    async def _asked(self, context: Any, params: Any) -> types.ElicitResult:
        """A question in the middle of a call, from a server of an older protocol, which does not say of which call.

        It goes to the one that has run longest without a question; the answer finds the question whichever it was.
        """
        del context
        asking = next((each for each in self._running if each.takes_questions and each.question is None), None)
        if asking is None:
            return types.ElicitResult(action="cancel")
        content = await asking.put({"requests": {"": question_to_json(params)}})
        return answer_to_sdk(content)

    async def _told(self, message: Any) -> None:
        if isinstance(message, _LISTS):
            self.changed.set()

    async def _logged(self, params: Any) -> None:
        self._heard(f"[{params.level}] {params.data}\n".encode())

    async def _listen(self) -> None:
        """Newer servers tell of changes only to those who listen."""
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
            return  # An older server, whose notifications come to `_told`, or one that does not keep its word.


async def _pages(fetch: Callable[[str | None], Any], member: str) -> list[Json]:
    """The entries of all pages. A cursor that comes again would never end; nor does an empty one lead further."""
    found: list[Json] = []
    cursor: str | None = None
    seen: set[str | None] = {None, ""}
    for _ in range(limits.SERVER_PAGES_MAX):
        page = await fetch(cursor)
        told = lenient_results.server_result(page)
        entries = told.get(member, told.get("content"))
        found += entries if isinstance(entries, list) else []
        cursor = page.next_cursor
        if cursor in seen:
            break
        seen.add(cursor)
    return found


def _explained(error: BaseException, lost: Callable[[], None]) -> ServerFailed:
    """What the SDK raised, in our words; `lost` is called when it means that the connection is of no more use."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    match error:
        case MCPError() if error.code == NOT_SENT:
            lost()
            return ServerFailed("Unreachable", f"nobody is there: {error}")
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
    """One thing that a server asks of a person: a form with its schema, or an address to go to."""
    if params.mode == "url":
        return {"message": params.message, "url": params.url}
    return {"message": params.message, "schema": params.requested_schema}


def answer_to_sdk(content: JsonObject | None) -> types.ElicitResult:
    """A person's answer for the wire; None is a refusal."""
    if content is None:
        return types.ElicitResult(action="decline")
    return types.ElicitResult(action="accept", content=content)


def _questions_in(result: types.InputRequiredResult) -> JsonObject:
    """What a round of a call asks for, with the server's sealed state.

    Raises ServerFailed for a server that wants to use our models or roots, which are not lent.
    """
    requests: JsonObject = {}
    for key, request in (result.input_requests or {}).items():
        if not isinstance(request, types.ElicitRequest):
            raise ServerFailed("Refused", f"the server asks for {request.method}, which planloop does not lend to it")
        requests[key] = question_to_json(request.params)
    return {"requests": requests, "state": result.request_state}


def _answered_round(asked: JsonObject, content: JsonObject | None) -> JsonObject:
    """The arguments of the next round of a call. With several questions the answers are keyed as they are."""
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
    """Starts `server` and speaks with it over its pipes."""
    async with server as pipes, message_streams(pipes, heard, gone) as streams:
        yield streams
