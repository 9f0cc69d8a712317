"""The built-in tools by name: an implementation for each name of `planloop.schemas.tools`, which has their effect
classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from planloop.controllers.agent.tools import (
    agent_dump,
    containers,
    delegation,
    fetch,
    files,
    hooks,
    locks,
    mcp_tools,
    messages,
    plan,
    request,
    shell,
)
from planloop.controllers.agent.tools import tool as tools_tool
from planloop.controllers.agent.tools.tool import (
    ExactSubjects,
    LocksFunction,
    ResolveFunction,
    SettleProcess,
    SubjectsFunction,
    Tool,
    ToolFunction,
    arguments_schema,
)
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.tools import TOOLS


def _tool(
    name: str,
    function: ToolFunction,
    wide: SubjectsFunction = tools_tool.any_subject,
    *,
    exact: ExactSubjects = tools_tool.no_exact_subject,
    ended: SettleProcess | None = None,
    resolve: ResolveFunction | None = None,
) -> Tool:
    is_free, is_apart = name in FREE_TOOLS, name in TOOLS_THAT_READ_ALONE
    return Tool(name, function, TOOLS[name].effect, wide, is_free, resolve, exact=exact, ended=ended, is_apart=is_apart)


def _writing(name: str, function: ToolFunction, locks: LocksFunction = locks.locks_of_write) -> Tool:
    """A tool that writes the file at its `path`."""
    return replace(_tool(name, function, tools_tool.path_subject), locks=locks)


FREE_TOOLS: Final = frozenset({"done", "fail", "send", "request", "answer", "recall", "resolve"})
"""An agent can always end, ask upward, answer, rule and look at its own past; topology and the gate bound the rest."""

TOOLS_THAT_READ_ALONE: Final = frozenset({"read", "list", "done", "fail"})
"""They look at files, and at their own agent, and wait for nothing: what came before them is not in the log yet."""

BUILT_IN_TOOLS: Final[Mapping[str, Tool]] = {
    tool.name: tool
    for tool in (
        _tool("read", files.read, tools_tool.path_subject),
        _tool("list", files.list_files, tools_tool.path_subject),
        _tool("search", files.search, tools_tool.path_subject),
        _writing("write", files.write),
        _writing("edit", files.edit),
        _tool("lock", locks.lock, tools_tool.path_subjects),
        _tool("release", locks.release),
        _tool(
            "shell",
            shell.shell,
            tools_tool.command_subjects,
            exact=tools_tool.exact_command_subjects,
            ended=shell.shell_settlement,
        ),
        _tool("fetch", fetch.fetch, tools_tool.url_subjects, exact=tools_tool.exact_url_subject),
        _tool("resource", mcp_tools.resource, tools_tool.all_subjects, exact=tools_tool.exact_text_subjects),
        _tool("plan_view", plan.plan_view),
        _tool("task", delegation.task, resolve=delegation.resolve_children),
        _tool("discuss", messages.discuss, resolve=messages.resolve_discussion),
        _tool("edit_plan", plan.edit_plan),
        _tool("plan_patch", plan.plan_patch),
        _tool("terminate", plan.terminate),
        _tool("bridge", messages.bridge),
        _writing("dump", agent_dump.dump, locks.locks_of_dump),
        _tool("restore", agent_dump.restore, tools_tool.path_subject, resolve=delegation.resolve_children),
        _tool("contest", locks.contest),
        _tool("resolve", locks.resolve),
        _tool("container", containers.container, tools_tool.image_subject, exact=tools_tool.image_subject),
        _tool(
            "container_exec",
            containers.container_exec,
            tools_tool.container_command_subjects,
            exact=tools_tool.exact_container_command_subjects,
            ended=containers.exec_settlement,
        ),
        _tool(
            "container_logs",
            containers.container_logs,
            tools_tool.container_subject,
            exact=tools_tool.container_subject,
        ),
        _tool(
            "container_stop",
            containers.container_stop,
            tools_tool.container_subject,
            exact=tools_tool.container_subject,
        ),
        _tool("compose_up", containers.compose_up),
        _tool("hook", hooks.hook),
        _tool("endo", hooks.endo),
        _tool("meta", hooks.meta),
        _tool("verdict", hooks.verdict),
        _tool("quit", hooks.leave),
        _tool("transcript", hooks.transcript),
        _tool("recall", agent_dump.recall),
        _tool("request", request.request),
        _tool("answer", request.answer),
        _tool("send", messages.send),
        _tool("done", messages.done),
        _tool("fail", messages.fail),
    )
}


def describe_tool(tool: Tool) -> JsonObject:
    """A tool as models get it: name, description and the JSON Schema of its arguments."""
    return {"name": tool.name, "description": tool.description, "parameters": arguments_schema(tool.function)}
