"""Tools of servers in the agents' registry: read from the status of `mcp/<name>`, called through `World.servers`.

A tool of server `files` is `files.read_file`. Its effect class is the plan's word, else `once`: what a server says of
itself decides nothing. A call whose connection broke after it was sent is made again only if its class allows that.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from planloop.controllers.agent.tools import inputs, locking
from planloop.controllers.agent.tools.subjects import plain_texts, subjects_of
from planloop.controllers.agent.tools.tool import Context, Ending, Objects, Settlement, Tool
from planloop.controllers.worlds import WORLDS
from planloop.schemas import limits, tool_schema
from planloop.schemas.call import CallResult, CallState, EffectClass
from planloop.schemas.encoding import Json, JsonObject
from planloop.schemas.mcp import McpSpec, ServedTool, ServerFailed, effect_of, full_name, mcp_from_json, tool_from_json
from planloop.schemas.resource import Resource


class ServedTools(Mapping[str, Tool]):
    """`own` tools and whatever the servers of the plan offer at this moment, as one registry.

    Tools that are withheld are there to be refused with the reason, and are not among those that one goes through:
    nobody is shown words that nobody agreed to.
    """

    def __init__(self, own: Mapping[str, Tool], view: Callable[[], Objects]) -> None:
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
        """Why a server of the plan does not offer the tool; empty if there is no such server, or no reason."""
        server, _, tool = name.partition(".")
        resource = self._view().get(f"mcp/{server}") if tool else None
        if resource is None or resource.deleting:
            return ""
        if "tools" not in resource.status:
            return (
                f"the server `{server}` does not run: {resource.status.get('why') or resource.state or 'not started'}"
            )
        return str(dict(resource.status.get("left_out") or ()).get(tool, ""))

    def _of(self, resource: Resource) -> dict[str, Tool]:
        """Made once for each content: the fold keeps the same objects until they change."""
        listed: Json = resource.status.get("tools")
        kept = self._kept.get(resource.address)
        if kept is not None and kept[0] is listed and kept[1] is resource.spec:
            return kept[2]
        if len(self._kept) >= limits.SPECS_KEPT_MAX:
            self._kept.clear()
        server, spec = resource.address.partition("/")[2], mcp_from_json(resource.spec)
        made = [_tool(server, spec, tool_from_json(each)) for each in listed or ()]
        tools = {tool.name: tool for tool in made}
        self._kept[resource.address] = (listed, resource.spec, tools)
        return tools


def _tool(server: str, spec: McpSpec, offered: ServedTool) -> Tool:
    name = full_name(server, offered.name)
    kept = (str(spec.writes[offered.name]),) if offered.name in spec.writes else ()
    parameters, names = tool_schema.plainly_named(tool_schema.acceptable(offered.parameters), kept)
    called = partial(_simulated, spec.world, name) if spec.world else partial(_call, server, offered.name)
    return Tool(
        name=name,
        function=_under(names, called) if names else called,
        effect=effect_of(spec, offered),
        subjects=subjects_of,
        resolve=inputs.resolve,
        parameters=parameters,
        doc=offered.description,
        digest=offered.digest,
        withheld=offered.withheld,
        exact=plain_texts,
        locks=partial(locking.named, str(spec.writes[offered.name])) if offered.name in spec.writes else None,
    )


def _under(names: Mapping[str, str], called: Callable[..., Any]) -> Callable[..., Any]:
    """`called` with the arguments' own names, of those that a model was shown under others (`names`)."""

    def original(arguments: JsonObject) -> JsonObject:
        return {names.get(name, name): value for name, value in arguments.items()}

    if not inspect.iscoroutinefunction(called):
        return lambda context, arguments: called(context, original(arguments))

    async def under(context: Context, arguments: JsonObject) -> Ending:
        ending: Ending = await called(context, original(arguments))
        return ending

    return under


def _simulated(file: str, tool: str, context: Context, arguments: JsonObject) -> Settlement:
    """Calls a tool of a simulated world. Its whole effect is in the record of its result."""
    kept = (context.seen.resource.status.get(WORLDS) or {}).get(file) or {}
    task = context.seen.spec.task.partition("/")[2]
    try:
        made = context.world.worlds.call(file, tool, arguments, task=task, kept=kept)
    except ServerFailed as fault:
        return Settlement(CallResult(CallState.FAILED, f"{tool}: {fault}", fault.reason))
    return Settlement(made.result, agent={WORLDS: {file: made.merge}} if made.merge else {})


async def _call(server: str, tool: str, context: Context, arguments: JsonObject) -> Ending:
    """Calls the tool, or goes on with a call in which the server asked for something."""
    name = full_name(server, tool)
    progress = inputs.Progress(context)
    while True:
        try:
            result = await inputs.asked_or_called(context, server, tool, arguments, progress)
            return inputs.ending_of(context, result)
        except ServerFailed as fault:
            is_again = fault.reason == "Disconnected" and fault.has_begun and context.spec.effect.may_run_again
            if not (is_again and inputs.is_first(context) and progress.once()):
                return Settlement(_failed(name, fault, context.spec.effect))


def _failed(name: str, fault: ServerFailed, effect: EffectClass) -> CallResult:
    """What is known of a call that its server did not answer."""
    is_doubt = fault.has_begun and fault.reason in ("Disconnected", "TimedOut") and not effect.may_run_again
    if is_doubt:
        text = f"{name} was called, and nobody saw how it ended: {fault}. It may have happened"
        return CallResult(CallState.UNKNOWN, text, "Unknown")
    return CallResult(CallState.FAILED, f"{name}: {fault}", fault.reason)
