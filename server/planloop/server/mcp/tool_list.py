"""Tools that an MCP client sees: those of its agent, and a few for tasks. Pure.

What an agent has is computed by what rules on its calls, so that nothing is offered that is refused by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from planloop.controllers.agent.tools.delegation import AgentTools
from planloop.controllers.agent.tools.mcp_tools import McpTools
from planloop.controllers.agent.tools.registry import BUILT_IN_TOOLS
from planloop.controllers.agent.tools.tool import Tool, arguments_schema
from planloop.controllers.agent.turn import permissions
from planloop.controllers.agent.turn.transcript import wire_name
from planloop.schemas import limits
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.agent import agent_from_json
from planloop.schemas.objects.call import EffectClass
from planloop.server.mcp.identities import ExternalRole, IdentityObjects

WAIT_S: Final = 60.0  # For news, when a client does not say: most give up on a call that takes longer.
WAIT_MAX_S: Final = 3_600.0
LEASE: Final = "lease"
"""The argument by which a client without a session says which task it has."""

_TASK: Final[JsonObject] = {"type": "string", "description": "Its path, as list_tasks has it."}


@frozen
class OfferedTool:
    """One tool: `tool` is its name in the plan, empty for one of ours."""

    name: str
    description: str
    schema: JsonObject
    tool: str = ""
    effect: EffectClass = EffectClass.ONCE


def _ours(name: str, description: str, properties: JsonObject, required: Iterable[str] = ()) -> OfferedTool:
    schema: JsonObject = {"type": "object", "properties": properties, "additionalProperties": False}
    effect = EffectClass.READ if name in ("list_tasks", "plan_diff", "wait_for_news") else EffectClass.IDEMPOTENT
    return OfferedTool(name, description, schema | {"required": list(required)} if required else schema, effect=effect)


TASK_TOOLS: Final = (
    _ours("list_tasks", "Lists the tasks that you may take, how they stand, and who has them.", {}),
    _ours(
        "take_task",
        "Takes a task, the first free one if you name none, and says what it is about. You have it for as long as you "
        "go on calling tools.",
        {"task": _TASK},
    ),
    _ours(
        "leave_task",
        "Gives your task back for somebody else to take. To finish it, call `done` instead.",
        {"reason": {"type": "string", "maxLength": limits.REASON_CHARS_MAX}},
    ),
    _ours(
        "wait_for_news",
        "Waits until there is something new for you: a message, another goal, a subtask that ended.",
        {"for_s": {"type": "number", "minimum": 0, "maximum": WAIT_MAX_S, "default": WAIT_S}},
    ),
    _ours(
        "plan_diff",
        "Says what plan_patch with the same operations would change, or why it would be refused. Changes nothing.",
        {"ops": {"type": "array", "items": {"type": "object"}, "minItems": 1}},
        ("ops",),
    ),
)


def agent_tools(objects: IdentityObjects) -> Mapping[str, Tool]:
    """Every tool of the plan by its name there."""
    return McpTools(AgentTools(BUILT_IN_TOOLS, lambda: objects), lambda: objects)


def offered_tools(objects: IdentityObjects, parts: Iterable[ExternalRole]) -> list[OfferedTool]:
    """What a client with these tasks is shown: ours, then whatever their agents have, each tool once."""
    tools = agent_tools(objects)
    found: dict[str, OfferedTool] = {}
    for part in parts:
        for name in permissions.granted_tools(agent_from_json(part.agent.spec), tools):
            found.setdefault(name, _offer(tools[name]))
    return [*TASK_TOOLS, *found.values()]


def _offer(tool: Tool) -> OfferedTool:
    parameters = tool.parameters if tool.parameters is not None else arguments_schema(tool.function)
    return OfferedTool(wire_name(tool.name), tool.description, {"type": "object", **parameters}, tool.name, tool.effect)
