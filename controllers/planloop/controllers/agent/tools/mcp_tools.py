"""Tools and resources of MCP servers, and calls in which a server asks for input."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from functools import partial
from typing import Annotated, Any, Final

from pydantic import Field

from planloop.controllers.agent.mail import message_policy
from planloop.controllers.agent.mail.message_policy import DeliveryRefused
from planloop.controllers.agent.services import AgentServices
from planloop.controllers.agent.tools import locks
from planloop.controllers.agent.tools.errors import ToolDenied, ToolFailed
from planloop.controllers.agent.tools.messages import message_from_call
from planloop.controllers.agent.tools.tool import (
    CallEnding,
    PendingCall,
    RegistryObjects,
    Settlement,
    Tool,
    ToolContext,
    all_subjects,
    exact_text_subjects,
    success,
)
from planloop.controllers.shared.simulated_worlds import WORLDS
from planloop.reconciler.effects.truncate import truncate_output
from planloop.schemas import address as addresses
from planloop.schemas import limits, tool_schema
from planloop.schemas.canonical_json import Json, JsonObject, decode
from planloop.schemas.frozen import mutable
from planloop.schemas.log.record import Change, Drop, Put, RecordDraft, SetStatus
from planloop.schemas.objects.approval import APPROVED, WAITING, ApprovalSpec
from planloop.schemas.objects.call import CallResult, CallState, EffectClass
from planloop.schemas.objects.mcp import (
    McpSpec,
    ServedTool,
    ServerFailed,
    full_tool_name,
    mcp_from_json,
    served_tool_from_json,
    tool_effect,
)
from planloop.schemas.resource import Resource, Uid

# If a server asks for a form or for a visit to a page, the call waits (AwaitingInput). An approval of kind `input`
# holds the question until an operator or the parent answers or declines it, or it expires. Then the call starts again,
# under a new intent, and passes the answer to the server.

INPUT_ASKED: Final = "asked"  # The server's question, in the call's status. A list, because merges replace lists.
INPUT_ANSWER: Final = "answer"  # The answer to pass on: [content], or None to decline.


@mutable
class InputProgress:
    """Records the progress of a call, at most every `limits.PROGRESS_EVERY_S` seconds, for `plan describe`."""

    context: ToolContext
    _noted_at: float = field(default=float("-inf"))
    _repeats: int = 0

    def __call__(self, words: str) -> None:
        services, address = self.context.services, self.context.call.address
        now = services.clock.now()
        call = services.store.view.get(address)
        if call is None or call.uid != self.context.call.uid or now - self._noted_at < limits.PROGRESS_EVERY_S:
            return
        self._noted_at = now
        change = SetStatus(address, call.uid, {"progress": words})
        draft = RecordDraft("call.progressed", "controller:mcp", address, (change,), {"progress": words})
        services.store.propose(draft, {address: call.rev})

    def once(self) -> bool:
        """Whether this is the first call of the method: a call whose connection broke is repeated once."""
        self._repeats += 1
        return self._repeats == 1


async def call_or_answer(
    context: ToolContext, server: str, tool: str, arguments: JsonObject, progress: InputProgress
) -> CallResult:
    """Send the call, or the answer that the server waits for, and return the response. Raises ServerFailed."""
    asked, answer = context.call.status.get(INPUT_ASKED), context.call.status.get(INPUT_ANSWER)
    servers, op = context.services.connections.servers, context.spec.op
    if asked and answer:
        return await servers.answer(asked[0], answer[0], op=op, on_progress=progress)
    return await servers.call(server, tool, arguments, by=context.agent, op=op, on_progress=progress)


def is_first_call(context: ToolContext) -> bool:
    """Whether the server has asked nothing yet, so that the whole call can be repeated."""
    return not context.call.status.get(INPUT_ASKED)


def ending_of_server_call(context: ToolContext, result: CallResult) -> CallEnding:
    """Return the settlement of the call, or its wait for an answer, with the approval that asks for it."""
    if result.state is not CallState.AWAITING_INPUT:
        return Settlement(result)
    tool, asked = context.spec.tool, dict(result.value)
    address, uid = _name(context), Uid(context.spec.op)
    due_at = context.services.clock.now() + limits.INPUT_WAIT_S
    what: JsonObject = {"call": context.call.address, "tool": tool, "requests": asked["requests"]}
    spec = ApprovalSpec("input", str(context.author), f"`{tool}` asks: {result.text}", what)
    changes: tuple[Change, ...] = (
        *_dropped(context.services, context.call),
        Put(address, uid, spec.to_json(), owner=context.agent),
        SetStatus(address, uid, {"state": WAITING}),
        *_messages_to_parent(context, address, result.text, asked["requests"]),
    )
    merge: JsonObject = {INPUT_ASKED: [asked], INPUT_ANSWER: None, "approval": address, "expires_at": due_at}
    ways = (f"plan approve {address}", f"plan reject {address}")
    return PendingCall(CallState.AWAITING_INPUT, changes, merge, f"`{tool}` asks: {result.text}", ways, due_at)


def resolve_input(context: ToolContext) -> CallEnding | None:
    """Start the call again when its question is answered, declined or expired; None while it waits."""
    call = context.call
    approval = context.seen.objects.approvals.get(str(call.status.get("approval")))
    is_late = context.seen.now >= float(call.status.get("expires_at") or 0.0)
    if approval is not None and approval.state == WAITING and not is_late:
        return None
    is_yes = approval is not None and approval.state == APPROVED
    content = _content(approval.status, call.status[INPUT_ASKED][0]) if approval is not None and is_yes else None
    merge: JsonObject = {INPUT_ANSWER: [content], "approval": None, "expires_at": None}
    drops = () if approval is None else (Drop(approval.address, approval.uid),)
    why = "answered" if is_yes else "declined"
    return PendingCall(CallState.AUTHORIZED, drops, merge, why)


def _name(context: ToolContext) -> str:
    """The approval's address. It is derived from the call, because a parent reads it and replays must be equal."""
    path, spec = context.agent.partition("/")[2], context.spec
    name = "root" if path == "." else path.replace("/", ".")
    return f"approval/{name}.{spec.incarnation}.{spec.turn}.{spec.index}"


def _messages_to_parent(context: ToolContext, address: str, words: str, requests: JsonObject) -> tuple[Change, ...]:
    """The changes that ask the parent, which may answer like an operator. A full inbox gets no message."""
    view = context.services.store.view
    above = message_policy.nearest_agent_above(view, addresses.parse_address(context.agent))
    if above is None:
        return ()
    fields = {name: field for request in requests.values() for name, field in form_fields(request).items()}
    body = {"question": words, "of": context.spec.tool, "fields": fields, "name": address}
    delivered = message_policy.delivery_changes(view, message_from_call(context, above, body, "approval", 0))
    return () if isinstance(delivered, DeliveryRefused) else tuple(delivered)


def form_fields(request: JsonObject) -> JsonObject:
    """Return the fields of a form by name; none for a request to visit a page."""
    found: JsonObject = (request.get("schema") or {}).get("properties") or {}
    return found


def form_content(approval: Resource, answer: str) -> JsonObject | None:
    """Return an answer as the content of the form: a JSON map, or the text of its only field; None if it is neither."""
    names = [name for each in approval.spec["what"]["requests"].values() for name in form_fields(each)]
    try:
        given = decode(answer)
    except ValueError:
        given = None
    if isinstance(given, dict):
        return given
    return {names[0]: answer} if len(names) == 1 else {} if not names else None


def _content(answer: JsonObject, asked: JsonObject) -> JsonObject:
    """The content for the server. For a text field, `zip=10115` on a command line means the text `10115`."""
    given = dict(answer.get("content") or {})
    fields = [form_fields(request) for request in asked["requests"].values()]
    texts = {name for each in fields for name, field in each.items() if field.get("type") == "string"}
    return {
        name: str(value) if name in texts and isinstance(value, int | float) else value for name, value in given.items()
    }


def _dropped(services: AgentServices, call: Resource) -> tuple[Change, ...]:
    """Drop the approval of an earlier question of the same call."""
    old = services.store.view.get(str(call.status.get("approval")))
    return () if old is None else (Drop(old.address, old.uid),)


# Tools of servers are read from the status of `mcp/<name>` and called through `AgentServices.servers`. A tool of
# server `files` is `files.read_file`. The plan sets its effect class (default `once`); the server's own hints are
# ignored. A call whose connection broke after it was sent is repeated only if its effect class allows it.


class McpTools(Mapping[str, Tool]):
    """The `own` tools and the current tools of the plan's servers, as one registry.

    Withheld tools can be looked up, so that calls get the reason, but are not listed: models read only approved
    descriptions.
    """

    def __init__(self, own: Mapping[str, Tool], view: Callable[[], RegistryObjects]) -> None:
        self._own = own
        self._view = view
        self._kept: dict[str, tuple[Json, JsonObject, dict[str, Tool]]] = {}

    def __getitem__(self, name: str) -> Tool:
        if name in self._own:
            return self._own[name]
        server, _, _ = name.partition(".")
        resource = self._view().get(f"mcp/{server}")
        if resource is None or resource.deleting:
            raise KeyError(name)
        return self._of(resource)[name]

    def __iter__(self) -> Iterator[str]:
        yield from self._own
        for resource in self._view().list("mcp"):
            if not resource.deleting:
                yield from (name for name, tool in self._of(resource).items() if not tool.withheld)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def why_missing(self, name: str) -> str:
        """Return why a server of the plan does not offer the tool; empty if the server or the reason is unknown."""
        server, _, tool = name.partition(".")
        resource = self._view().get(f"mcp/{server}") if tool else None
        if resource is None or resource.deleting:
            return ""
        if "tools" not in resource.status:
            return (
                f"the server `{server}` is not running: {resource.status.get('why') or resource.state or 'not started'}"
            )
        return str(dict(resource.status.get("left_out") or ()).get(tool, ""))

    def _of(self, resource: Resource) -> dict[str, Tool]:
        """The tools of a server, cached by identity: the fold keeps the same objects until they change."""
        listed: Json = resource.status.get("tools")
        kept = self._kept.get(resource.address)
        if kept is not None and kept[0] is listed and kept[1] is resource.spec:
            return kept[2]
        if len(self._kept) >= limits.SPECS_KEPT_MAX:
            self._kept.clear()
        server, spec = resource.address.partition("/")[2], mcp_from_json(resource.spec)
        made = [_tool(server, spec, served_tool_from_json(each)) for each in listed or ()]
        tools = {tool.name: tool for tool in made}
        self._kept[resource.address] = (listed, resource.spec, tools)
        return tools


def _tool(server: str, spec: McpSpec, offered: ServedTool) -> Tool:
    name = full_tool_name(server, offered.name)
    kept = (str(spec.writes[offered.name]),) if offered.name in spec.writes else ()
    parameters, names = tool_schema.rename_properties(tool_schema.to_accepted_schema(offered.parameters), kept)
    called = partial(_simulated, spec.world, name) if spec.world else partial(_call, server, offered.name)
    return Tool(
        name=name,
        function=_under(names, called) if names else called,
        effect=tool_effect(spec, offered),
        subjects=all_subjects,
        resolve=resolve_input,
        parameters=parameters,
        doc=offered.description,
        digest=offered.digest,
        withheld=offered.withheld,
        exact=exact_text_subjects,
        locks=partial(locks.locks_of_argument, str(spec.writes[offered.name])) if offered.name in spec.writes else None,
    )


def _under(names: Mapping[str, str], called: Callable[..., Any]) -> Callable[..., Any]:
    """Return `called` with the original argument names; `names` maps the names shown to models to them."""

    def original(arguments: JsonObject) -> JsonObject:
        return {names.get(name, name): value for name, value in arguments.items()}

    if not inspect.iscoroutinefunction(called):
        return lambda context, arguments: called(context, original(arguments))

    async def under(context: ToolContext, arguments: JsonObject) -> CallEnding:
        ending: CallEnding = await called(context, original(arguments))
        return ending

    return under


def _simulated(file: str, tool: str, context: ToolContext, arguments: JsonObject) -> Settlement:
    """Call a tool of a simulated world. Its whole effect is in the record of its result."""
    kept = (context.seen.resource.status.get(WORLDS) or {}).get(file) or {}
    task = context.seen.spec.task.partition("/")[2]
    try:
        made = context.services.connections.worlds.call(file, tool, arguments, task=task, kept=kept)
    except ServerFailed as error:
        return Settlement(CallResult(CallState.FAILED, f"{tool}: {error}", error.reason))
    return Settlement(made.result, agent={WORLDS: {file: made.merge}} if made.merge else {})


async def _call(server: str, tool: str, context: ToolContext, arguments: JsonObject) -> CallEnding:
    """Call the tool, or continue a call in which the server asked for input."""
    name = full_tool_name(server, tool)
    progress = InputProgress(context)
    while True:
        try:
            result = await call_or_answer(context, server, tool, arguments, progress)
            return ending_of_server_call(context, result)
        except ServerFailed as error:
            is_repeatable = error.reason == "Disconnected" and error.has_begun and context.spec.effect.may_run_again
            if not (is_repeatable and is_first_call(context) and progress.once()):
                return Settlement(_failed(name, error, context.spec.effect))


def _failed(name: str, error: ServerFailed, effect: EffectClass) -> CallResult:
    """The result of a call that its server did not answer."""
    is_unknown = error.has_begun and error.reason in ("Disconnected", "TimedOut") and not effect.may_run_again
    if is_unknown:
        text = f"{name} was called, but its outcome is unknown: {error}. It may have taken effect"
        return CallResult(CallState.UNKNOWN, text, "Unknown")
    return CallResult(CallState.FAILED, f"{name}: {error}", error.reason)


# `resource` lists the resources of servers from their status and reads them through the server.


async def resource(
    context: ToolContext,
    server: Annotated[str, Field(min_length=1)],
    uri: str = "",
) -> Settlement:
    """Read a resource of a tool server; without `uri`, list its resources."""
    found = next((each for each in context.seen.context.servers if each.address == f"mcp/{server}"), None)
    if found is None:
        names = ", ".join(each.address.partition("/")[2] for each in context.seen.context.servers) or "none"
        raise ToolDenied(f"you may not read from the server `{server}`; you may use: {names}")
    if not uri:
        return Settlement(success(_listed(found) or f"`{server}` lists no resources"))
    try:
        text = await context.services.connections.servers.resource(server, uri, by=context.agent)
    except ServerFailed as error:
        raise ToolFailed(error.reason, f"{server}: {error}") from error
    whole = text.encode()
    shown = truncate_output(whole, limits.FILE_SHOWN_BYTES)
    if len(whole) > limits.FILE_SHOWN_BYTES:
        shown += f"\n[the complete text is blob {context.services.store.put_blob(whole)}]"
    return Settlement(success(shown))


def _listed(server: Resource) -> str:
    return "\n".join(f"{each['uri']}  {each['name']}  {each['type']}" for each in server.status.get("resources", ()))
