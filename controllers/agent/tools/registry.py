"""The built-in tools by name: an implementation for each name of `schemas/tools.py`, which has their effect classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from controllers.agent.tools import delegating, discussing, files, planning, shell, talking
from controllers.agent.tools.arguments import schema_of
from controllers.agent.tools.tool import Resolve, Subjects, Tool, ToolFunction, no_subjects
from schemas.encoding import JsonObject
from schemas.shell_lines import commands_in
from schemas.tools import TOOLS


def _path(arguments: JsonObject) -> tuple[str, ...]:
    return (str(arguments.get("path", ".")),)


def _command(arguments: JsonObject) -> tuple[str, ...]:
    return commands_in(str(arguments.get("command", "")))


def _tool(
    name: str,
    function: ToolFunction,
    subjects: Subjects = no_subjects,
    *,
    is_process: bool = False,
    resolve: Resolve | None = None,
) -> Tool:
    return Tool(name, function, TOOLS[name].effect, subjects, is_process, name in FREE, resolve)


FREE: Final = frozenset({"done", "fail", "send", "request"})
"""An agent can always end and always ask upward; topology and the gate bound the rest."""

BUILT_IN: Final[Mapping[str, Tool]] = {
    tool.name: tool
    for tool in (
        _tool("read", files.read, _path),
        _tool("list", files.list_files, _path),
        _tool("search", files.search, _path),
        _tool("write", files.write, _path),
        _tool("edit", files.edit, _path),
        _tool("shell", shell.shell, _command, is_process=True),
        _tool("plan_view", planning.plan_view),
        _tool("task", delegating.task, resolve=delegating.resolve),
        _tool("discuss", discussing.discuss, resolve=discussing.resolve),
        _tool("edit_plan", planning.edit_plan),
        _tool("plan_patch", planning.plan_patch),
        _tool("terminate", planning.terminate),
        _tool("request", talking.request),
        _tool("send", talking.send),
        _tool("done", talking.done),
        _tool("fail", talking.fail),
    )
}


def described(tool: Tool) -> JsonObject:
    """A tool as a model is told of it: name, description and the JSON Schema of its arguments."""
    return {"name": tool.name, "description": tool.description, "parameters": schema_of(tool.function)}
