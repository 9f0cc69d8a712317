"""MCP server of one identity, on the official SDK.

One server is spoken to by many clients. Which of them asks is told by its session: the process's standard input, or the
session of streamable HTTP. The protocol of 2026-07-28 has no sessions over HTTP; there a client says with each call
which task it has.
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
from planloop.server.mcp.tool_handlers import ToolHandlers, has_news
from planloop.server.mcp.tool_list import LEASE, OfferedTool
from planloop.server.mcp.tool_results import ToolAnswer

Context: TypeAlias = ServerRequestContext[Any, Any]
STDIO: Final = "stdio"  # The one client of a process that is spoken to over its standard input.
SESSION_HEADER: Final = "mcp-session-id"
CLIENTS_MAX: Final = 1_000  # Of one identity, kept with or without a task.
LEAVE_S: Final = 5.0  # For all clients to give back what they have when this ends.
TELL_S: Final = 2.0  # For one client to take what it is told.
GATHER_S: Final = 0.02  # Changes that come together are told together.
FACTS: Final = "planloop/facts"
"""The member of a result's `_meta` that has the answer in fields, for programs."""
LEASE_SCHEMA: Final[JsonObject] = {"type": "string", "description": "What take_task gave you as `lease`."}

INSTRUCTIONS: Final = (
    "This server lets you work on tasks of a running plan. Take one with take_task, read what it is about, and do it "
    "with the other tools: what you do counts only through them. Files are read before they are changed. Call done "
    "when the task is finished: its checks are run, and you hear whether they hold. Every answer may tell you what is "
    "new, such as another goal; wait_for_news waits for that."
)


@mutable
class McpSession:
    """One client with what it is to be told: `session` sends to it unasked, None while it cannot be reached."""

    client: McpClientState
    session: ServerSession | None = None
    wanted: set[str] = field(default_factory=set)
    shown: tuple[str, ...] = ()
    knows_news: bool = False


class IdentityServer:
    """The MCP server of the identity `name` of the plan `plan`. `is_http`: clients come with sessions, or without."""

    def __init__(self, house: McpContext, plan: str, name: str, *, is_http: bool) -> None:
        self._house, self._plan, self._name, self._is_http = house, plan, name, is_http
        self._visitors: dict[str, McpSession] = {}
        self._bus = InMemorySubscriptionBus()
        self._listening = ListenHandler(self._bus)  # One for all, so that its bound is on all of them.
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
        """What the server says of itself at a handshake."""
        return self.server.create_initialization_options(NotificationOptions(tools_changed=True))

    @asynccontextmanager
    async def telling(self) -> AsyncIterator[None]:
        """Tells clients what they have subscribed to, for as long as the block lasts; then they leave."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._tell)
            try:
                yield
            finally:
                self._listening.close()
                group.cancel_scope.cancel()
                # Whoever is not through by then loses its task by being silent.
                with anyio.move_on_after(LEAVE_S, shield=True):
                    for visitor in list(self._visitors.values()):
                        await visitor.client.leave("its connection ended")

    async def gone(self, session: str) -> None:
        """The client of that session has ended it."""
        visitor = self._visitors.pop(session, None)
        if visitor is not None:
            await visitor.client.leave("it ended its session")

    def _visitor(self, ctx: Context, lease: str = "") -> McpSession:
        """Who asks. Without a session that is whoever has the lease, or nobody yet."""
        key = lease or self._session_of(ctx)
        found = self._visitors.get(key) if key else None
        if found is None:
            client = McpClientState(self._house, self._name)
            found = McpSession(client)
            if lease:
                client.go_on(lease)
            elif key:
                self._forget_some()
                self._visitors[key] = found
        info = ctx.session.client_params
        if info is not None:
            found.client.label = f"{info.client_info.name} {info.client_info.version}".strip()[:100]
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            found.session = ctx.session
        return found

    def _session_of(self, ctx: Context) -> str:
        if not self._is_http:
            return STDIO
        return "" if ctx.request is None else str(ctx.request.headers.get(SESSION_HEADER, ""))

    def _is_sessionless(self, ctx: Context) -> bool:
        return not self._session_of(ctx)

    def _forget_some(self) -> None:
        """Sessions end unsaid: before one more comes, some go."""
        for key in surplus(self._visitors, CLIENTS_MAX - 1):
            del self._visitors[key]

    async def _list_tools(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        del params
        visitor, is_bare = self._visitor(ctx), self._is_sessionless(ctx)
        offers = ToolHandlers(visitor.client).offers()
        visitor.shown = tuple(offer.name for offer in offers)
        return types.ListToolsResult(tools=[_tool(offer, with_lease=is_bare) for offer in offers])

    async def _call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        arguments: JsonObject = dict(params.arguments or {})
        is_bare = self._is_sessionless(ctx)
        lease = str(arguments.pop(LEASE, "")) if is_bare else ""
        visitor = self._visitor(ctx, lease)
        answer = await ToolHandlers(visitor.client, is_bare).do(params.name, arguments, _reporting(ctx))
        taken = visitor.client.taken
        if is_bare and taken is not None:
            self._forget_some()
            self._visitors.setdefault(taken.key, visitor)
        if params.name in ("take_task", "leave_task"):
            await self._tools_changed(visitor)
        return _result(answer)

    async def _list_resources(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        del params
        parts = self._visitor(ctx).client.parts()
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
        visitor = self._visitor(ctx)
        await visitor.client.seen()
        with _as_errors():
            content, mime = resources.read_resource(
                self._house.log, self._plan, visitor.client.parts(), str(params.uri)
            )
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, indent=2)
        contents = types.TextResourceContents(uri=params.uri, mime_type=mime, text=text)
        return types.ReadResourceResult(contents=[contents])

    async def _subscribe(self, ctx: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        visitor = self._visitor(ctx)
        with _as_errors():
            resources.read_resource(self._house.log, self._plan, visitor.client.parts(), str(params.uri))
        visitor.wanted.add(str(params.uri))
        return types.EmptyResult()

    async def _unsubscribe(self, ctx: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        self._visitor(ctx).wanted.discard(str(params.uri))
        return types.EmptyResult()

    async def _tools_changed(self, visitor: McpSession) -> None:
        """Tells a client that it has other tools now, if it has asked for them before."""
        if not visitor.shown:
            return
        now = tuple(offer.name for offer in ToolHandlers(visitor.client).offers())
        if now != visitor.shown:
            visitor.shown = now
            await self._bus.publish(ToolsListChanged())
            if visitor.session is not None:
                await visitor.session.send_tool_list_changed()

    async def _tell(self) -> None:
        with self._house.following.changes() as changes:
            while True:
                await changes.some()
                await anyio.sleep(GATHER_S)
                await self._told(changes.taken())

    async def _told(self, changed: set[str]) -> None:
        # What agents there are, and what they may do, moves with the plan alone, and with its servers.
        is_about_tools = any(address.startswith(("plan/", "mcp/")) for address in changed)
        if self._paths is None or is_about_tools:
            self._paths = [part.path for part in McpClientState(self._house, self._name).parts()]
        uris = resources.changed_resources(self._plan, self._paths, changed)
        for uri in sorted(uris):
            await self._bus.publish(ResourceUpdated(uri=uri))
        async with anyio.create_task_group() as group:
            for visitor in list(self._visitors.values()):
                mine = sorted(uris & visitor.wanted)
                group.start_soon(partial(self._tell_in_time, visitor, mine, is_about_tools=is_about_tools))

    async def _tell_in_time(self, visitor: McpSession, uris: Sequence[str], *, is_about_tools: bool) -> None:
        """One that does not read holds up the others of its name once, and is told again when it asks something."""
        with anyio.move_on_after(TELL_S) as scope:
            await self._tell_one(visitor, uris, is_about_tools=is_about_tools)
        if scope.cancelled_caught:
            visitor.session = None

    async def _tell_one(self, visitor: McpSession, uris: Sequence[str], *, is_about_tools: bool) -> None:
        for uri in uris:
            if visitor.session is not None:
                await visitor.session.send_resource_updated(uri)
        await self._tell_of_news(visitor)
        if is_about_tools:
            await self._tools_changed(visitor)

    async def _tell_of_news(self, visitor: McpSession) -> None:
        """A client whose agent has something to hear is told that, once: what it is comes with its next answer."""
        taken = visitor.client.taken
        is_new = taken is not None and has_news(visitor.client, taken)
        if is_new and not visitor.knows_news and taken is not None and visitor.session is not None:
            words = f"there is news for {taken.task}: the next call tells it, or wait_for_news"
            params = types.LoggingMessageNotificationParams(level="notice", logger="planloop", data=words)
            await visitor.session.send_notification(types.LoggingMessageNotification(params=params))
        visitor.knows_news = is_new


def surplus(visitors: Mapping[str, McpSession], kept_max: int) -> list[str]:
    """Who is forgotten first, over so many: those that have nothing, then who only listens, then the oldest."""

    def use(key: str) -> tuple[bool, bool]:
        return visitors[key].client.taken is not None, bool(visitors[key].wanted)

    return sorted(visitors, key=use)[: max(0, len(visitors) - kept_max)]


async def _any_level(ctx: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
    """There is one level."""
    del ctx, params
    return types.EmptyResult()


@contextmanager
def _as_errors() -> Iterator[None]:
    try:
        yield
    except CommandError as halt:
        raise MCPError(types.INVALID_PARAMS, f"{halt.summary} ({halt.hint})") from None


def _reporting(ctx: Context) -> ReportProgress:
    """Sends progress to a client that wants it, a number that rises with words."""
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
    """All of the answer as one text, and its facts where programs find them and no client shows them to a model.

    Clients that get structured content show a model that alone, so there is none.
    """
    content: list[Any] = [types.TextContent(type="text", text="\n\n".join(answer.texts))]
    return types.CallToolResult(content=content, is_error=answer.is_error, _meta={FACTS: answer.facts})


def _resource(shown: ListedResource) -> types.Resource:
    return types.Resource(uri=shown.uri, name=shown.name, description=shown.words, mime_type=shown.mime)
