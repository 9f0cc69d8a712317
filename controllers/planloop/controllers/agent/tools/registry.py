"""The built-in tools by name: an implementation for each name of `planloop.schemas.tools`, which has their effect
classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from planloop.controllers.agent.tools import (
    attaching,
    bridging,
    containing,
    contesting,
    delegating,
    discussing,
    fetching,
    files,
    hooks,
    keeping,
    locking,
    planning,
    recalling,
    requesting,
    resources,
    shell,
    subjects,
    talking,
)
from planloop.controllers.agent.tools.arguments import schema_of
from planloop.controllers.agent.tools.tool import Ended, Exact, Locks, Resolve, Subjects, Tool, ToolFunction
from planloop.schemas.encoding import JsonObject
from planloop.schemas.tools import TOOLS


def _tool(
    name: str,
    function: ToolFunction,
    wide: Subjects = subjects.untold,
    *,
    exact: Exact = subjects.untellable,
    ended: Ended | None = None,
    resolve: Resolve | None = None,
) -> Tool:
    is_free, is_apart = name in FREE, name in APART
    return Tool(name, function, TOOLS[name].effect, wide, is_free, resolve, exact=exact, ended=ended, is_apart=is_apart)


def _writing(name: str, function: ToolFunction, locks: Locks = locking.written) -> Tool:
    """A tool that writes the file at its `path`."""
    return replace(_tool(name, function, subjects.path), locks=locks)


FREE: Final = frozenset({"done", "fail", "send", "request", "answer", "recall", "resolve"})
"""An agent can always end, ask upward, answer, rule and look at its own past; topology and the gate bound the rest."""

APART: Final = frozenset({"read", "list", "done", "fail"})
"""They look at files, and at their own agent, and wait for nothing: what came before them is not in the log yet."""

BUILT_IN: Final[Mapping[str, Tool]] = {
    tool.name: tool
    for tool in (
        _tool("read", files.read, subjects.path),
        _tool("list", files.list_files, subjects.path),
        _tool("search", files.search, subjects.path),
        _writing("write", files.write),
        _writing("edit", files.edit),
        _tool("lock", locking.lock, subjects.paths),
        _tool("release", locking.release),
        _tool("shell", shell.shell, subjects.commands, exact=subjects.plain_commands, ended=shell.ended),
        _tool("fetch", fetching.fetch, subjects.wide_url, exact=subjects.plain_url),
        _tool("resource", resources.resource, subjects.subjects_of, exact=subjects.plain_texts),
        _tool("plan_view", planning.plan_view),
        _tool("task", delegating.task, resolve=delegating.resolve),
        _tool("discuss", discussing.discuss, resolve=discussing.resolve),
        _tool("edit_plan", planning.edit_plan),
        _tool("plan_patch", planning.plan_patch),
        _tool("terminate", planning.terminate),
        _tool("bridge", bridging.bridge),
        _writing("dump", keeping.dump, locking.dumped),
        _tool("restore", keeping.restore, subjects.path, resolve=delegating.resolve),
        _tool("contest", contesting.contest),
        _tool("resolve", contesting.resolve),
        _tool("container", containing.container, subjects.image, exact=subjects.image),
        _tool(
            "container_exec",
            containing.container_exec,
            subjects.commands_inside,
            exact=subjects.plain_commands_inside,
            ended=containing.ended,
        ),
        _tool("container_logs", containing.container_logs, subjects.name, exact=subjects.name),
        _tool("container_stop", containing.container_stop, subjects.name, exact=subjects.name),
        _tool("compose_up", containing.compose_up),
        _tool("hook", attaching.hook),
        _tool("endo", hooks.endo),
        _tool("meta", hooks.meta),
        _tool("verdict", hooks.verdict),
        _tool("quit", hooks.leave),
        _tool("transcript", hooks.transcript),
        _tool("recall", recalling.recall),
        _tool("request", requesting.request),
        _tool("answer", requesting.answer),
        _tool("send", talking.send),
        _tool("done", talking.done),
        _tool("fail", talking.fail),
    )
}


def described(tool: Tool) -> JsonObject:
    """A tool as a model is told of it: name, description and the JSON Schema of its arguments."""
    return {"name": tool.name, "description": tool.description, "parameters": schema_of(tool.function)}
