"""MCP server of one identity, on the official SDK.

A server has many clients. The session of a request identifies its client: standard input, or a session of streamable
HTTP. The protocol of 2026-07-28 has no sessions over HTTP; there each call names its lease.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import field
from functools import partial
from typing import Any, Final, TypeAlias

import anyio
from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from planloop.client import VERSION
from planloop.client.exit_codes import CommandError
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import mutable
from planloop.schemas.objects.call import EffectClass
from planloop.server.mcp import resources
from planloop.server.mcp.leases import McpClientState, McpContext, ReportProgress
from planloop.server.mcp.resources import ListedResource
from planloop.server.mcp.tool_handlers import LEASE, OfferedTool, ToolAnswer, ToolHandlers, has_news

Context: TypeAlias = ServerRequestContext[Any, Any]
STDIO: Final = "stdio"  # The session of the only client, if the transport is standard input and output.
SESSION_HEADER: Final = "mcp-session-id"
CLIENTS_MAX: Final = 1_000  # Clients kept for one identity, with or without a task.
LEAVE_S: Final = 5.0  # For all clients to release their leases when the server stops.
NOTIFY_S: Final = 2.0  # For one client to read its notifications.
GATHER_S: Final = 0.02  # Changes within this time are sent together.
FACTS: Final = "planloop/facts"
"""The key in a result's `_meta` under which programs find the answer as fields."""
LEASE_SCHEMA: Final[JsonObject] = {"type": "string", "description": "The `lease` from take_task's answer."}

INSTRUCTIONS: Final = (
    "This server lets you work on tasks of a running plan. Take a task with take_task, read its description, and do "
    "it with the other tools. Only work done through these tools counts. Read a file before you change it. When the "
    "task is finished, call done: it runs the task's checks and returns whether they pass. Any answer may include "
    "news, such as a changed goal. Call wait_for_news to wait for news."
)


@mutable
class McpSession:
    """One client and its subscriptions. `sender` sends it notifications; None while it is not reachable."""

    client: McpClientState
    sender: ServerSession | None = None
    subscriptions: set[str] = field(default_factory=set)
    tools_listed: tuple[str, ...] = ()
    knows_news: bool = False


class IdentityServer:
    """The MCP server of the identity `name` of the plan `plan`. `is_http` selects HTTP sessions, else stdio."""

    def __init__(self, context: McpContext, plan: str, name: str, *, is_http: bool) -> None:
        self._context, self._plan, self._name, self._is_http = context, plan, name, is_http
        self._sessions: dict[str, McpSession] = {}
        self._bus = InMemorySubscriptionBus()
        self._listening = ListenHandler(self._bus)  # Shared by all clients, so that its limit covers all of them.
        self._paths: list[str] | None = None
        self.server: Server[Any] = Server(
            "planloop",
            version=VERSION,
            title=f"plan {plan} as {name}",
            instructions=INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_subscribe_resource=self._subscribe,
            on_unsubscribe_resource=self._unsubscribe,
            on_subscriptions_listen=self._listening,
        )
        self.server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, _any_level)

    @property
    def options(self) -> Any:
        """The server's part of the handshake."""
        return self.server.create_initialization_options(NotificationOptions(tools_changed=True))

    @asynccontextmanager
    async def notifying(self) -> AsyncIterator[None]:
        """Notify clients while the block runs; at its end, release their leases."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._notify)
            try:
                yield
            finally:
                self._listening.close()
                group.cancel_scope.cancel()
                # A lease that is not released in time expires later.
                with anyio.move_on_after(LEAVE_S, shield=True):
                    for session in list(self._sessions.values()):
                        await session.client.leave("its connection ended")

    async def end_session(self, session_id: str) -> None:
        """Forget a client that has ended its session, and release its lease."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            await session.client.leave("it ended its session")

    def _session(self, ctx: Context, lease_key: str = "") -> McpSession:
        """Return the client of a request, by its lease or session; a new one if neither is known."""
        key = lease_key or self._session_id(ctx)
        found = self._sessions.get(key) if key else None
        if found is None:
            client = McpClientState(self._context, self._name)
            found = McpSession(client)
            if lease_key:
                client.resume(lease_key)
            elif key:
                self._forget_some()
                self._sessions[key] = found
        info = ctx.session.client_params
        if info is not None:
            found.client.label = f"{info.client_info.name} {info.client_info.version}".strip()[:100]
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            found.sender = ctx.session
        return found

    def _session_id(self, ctx: Context) -> str:
        if not self._is_http:
            return STDIO
        return "" if ctx.request is None else str(ctx.request.headers.get(SESSION_HEADER, ""))

    def _is_sessionless(self, ctx: Context) -> bool:
        return not self._session_id(ctx)

    def _forget_some(self) -> None:
        """Make room for a session, since clients may disappear without ending theirs."""
        for key in surplus(self._sessions, CLIENTS_MAX - 1):
            del self._sessions[key]

    async def _list_tools(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        del params
        session, is_bare = self._session(ctx), self._is_sessionless(ctx)
        offers = ToolHandlers(session.client).offers()
        session.tools_listed = tuple(offer.name for offer in offers)
        return types.ListToolsResult(tools=[_tool(offer, with_lease=is_bare) for offer in offers])

    async def _call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        arguments: JsonObject = dict(params.arguments or {})
        is_bare = self._is_sessionless(ctx)
        lease_key = str(arguments.pop(LEASE, "")) if is_bare else ""
        session = self._session(ctx, lease_key)
        answer = await ToolHandlers(session.client, is_bare).do(params.name, arguments, _reporting(ctx))
        lease = session.client.lease
        if is_bare and lease is not None:
            self._forget_some()
            self._sessions.setdefault(lease.key, session)
        if params.name in ("take_task", "leave_task"):
            await self._tools_changed(session)
        return _result(answer)

    async def _list_resources(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        del params
        parts = self._session(ctx).client.parts()
        return types.ListResourcesResult(
            resources=[_resource(one) for one in resources.list_resources(self._plan, parts)]
        )

    async def _list_templates(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        del ctx, params
        found = [
            types.ResourceTemplate(uri_template=one.uri, name=one.name, description=one.words, mime_type=one.mime)
            for one in resources.resource_templates(self._plan)
        ]
        return types.ListResourceTemplatesResult(resource_templates=found)

    async def _read_resource(self, ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        session = self._session(ctx)
        await session.client.keep_alive()
        with _as_errors():
            content, mime = resources.read_resource(
                self._context.log, self._plan, session.client.parts(), str(params.uri)
            )
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, indent=2)
        contents = types.TextResourceContents(uri=params.uri, mime_type=mime, text=text)
        return types.ReadResourceResult(contents=[contents])

    async def _subscribe(self, ctx: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        session = self._session(ctx)
        with _as_errors():
            resources.read_resource(self._context.log, self._plan, session.client.parts(), str(params.uri))
        session.subscriptions.add(str(params.uri))
        return types.EmptyResult()

    async def _unsubscribe(self, ctx: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        self._session(ctx).subscriptions.discard(str(params.uri))
        return types.EmptyResult()

    async def _tools_changed(self, session: McpSession) -> None:
        """Notify a client that has listed its tools when they have changed."""
        if not session.tools_listed:
            return
        now = tuple(offer.name for offer in ToolHandlers(session.client).offers())
        if now != session.tools_listed:
            session.tools_listed = now
            await self._bus.publish(ToolsListChanged())
            if session.sender is not None:
                await session.sender.send_tool_list_changed()

    async def _notify(self) -> None:
        with self._context.tracker.changes() as changes:
            while True:
                await changes.some()
                await anyio.sleep(GATHER_S)
                await self._notify_all(changes.take())

    async def _notify_all(self, changed: set[str]) -> None:
        # Agents and their tools change only with the plan and its tool servers.
        is_about_tools = any(address.startswith(("plan/", "mcp/")) for address in changed)
        if self._paths is None or is_about_tools:
            self._paths = [part.path for part in McpClientState(self._context, self._name).parts()]
        uris = resources.changed_resources(self._plan, self._paths, changed)
        for uri in sorted(uris):
            await self._bus.publish(ResourceUpdated(uri=uri))
        async with anyio.create_task_group() as group:
            for session in list(self._sessions.values()):
                mine = sorted(uris & session.subscriptions)
                group.start_soon(partial(self._notify_in_time, session, mine, is_about_tools=is_about_tools))

    async def _notify_in_time(self, session: McpSession, uris: Sequence[str], *, is_about_tools: bool) -> None:
        """Notify one client. One that does not read delays the others once, until its next request."""
        with anyio.move_on_after(NOTIFY_S) as scope:
            await self._notify_one(session, uris, is_about_tools=is_about_tools)
        if scope.cancelled_caught:
            session.sender = None

    async def _notify_one(self, session: McpSession, uris: Sequence[str], *, is_about_tools: bool) -> None:
        for uri in uris:
            if session.sender is not None:
                await session.sender.send_resource_updated(uri)
        await self._notify_of_news(session)
        if is_about_tools:
            await self._tools_changed(session)

    async def _notify_of_news(self, session: McpSession) -> None:
        """Notify a client once that its agent has news. Its next answer contains the news."""
        lease = session.client.lease
        is_new = lease is not None and has_news(session.client, lease)
        if is_new and not session.knows_news and lease is not None and session.sender is not None:
            words = f"news for {lease.task}: the answer to your next call has it, or call wait_for_news"
            params = types.LoggingMessageNotificationParams(level="notice", logger="planloop", data=words)
            await session.sender.send_notification(types.LoggingMessageNotification(params=params))
        session.knows_news = is_new


def surplus(sessions: Mapping[str, McpSession], kept_max: int) -> list[str]:
    """Return the sessions to forget so that `kept_max` stay: first those without lease or subscription, then by age."""

    def use(key: str) -> tuple[bool, bool]:
        return sessions[key].client.lease is not None, bool(sessions[key].subscriptions)

    return sorted(sessions, key=use)[: max(0, len(sessions) - kept_max)]


async def _any_level(ctx: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
    """Accept any log level: all log messages have the same one."""
    del ctx, params
    return types.EmptyResult()


@contextmanager
def _as_errors() -> Iterator[None]:
    try:
        yield
    except CommandError as halt:
        raise MCPError(types.INVALID_PARAMS, f"{halt.summary} ({halt.hint})") from None


def _reporting(ctx: Context) -> ReportProgress:
    """Return a function that sends progress to a client that asked for it: a rising number with a text."""
    count = 0

    async def report(words: str) -> None:
        nonlocal count
        count += 1
        await ctx.session.report_progress(float(count), None, words)

    return report


def _tool(offer: OfferedTool, *, with_lease: bool) -> types.Tool:
    schema = offer.schema
    if with_lease and offer.name not in ("list_tasks", "take_task"):
        schema = {**schema, "properties": {**schema.get("properties", {}), LEASE: LEASE_SCHEMA}}
        schema["required"] = [*schema.get("required", ()), LEASE]
    hints = types.ToolAnnotations(
        read_only_hint=offer.effect is EffectClass.READ,
        idempotent_hint=offer.effect is not EffectClass.ONCE,
    )
    return types.Tool(name=offer.name, description=offer.description, input_schema=schema, annotations=hints)


def _result(answer: ToolAnswer) -> types.CallToolResult:
    """Return the whole answer as one text. Its fields are in `_meta`, which clients do not show to a model.

    The result has no structured content, because some clients would show a model only that.
    """
    content: list[Any] = [types.TextContent(type="text", text="\n\n".join(answer.texts))]
    return types.CallToolResult(content=content, is_error=answer.is_error, _meta={FACTS: answer.facts})


def _resource(shown: ListedResource) -> types.Resource:
    return types.Resource(uri=shown.uri, name=shown.name, description=shown.words, mime_type=shown.mime)
