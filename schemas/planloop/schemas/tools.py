"""The names of the built-in tools, their one-line docs and their default effect classes.

The plan language checks tool names against this list; the agent controller registers one implementation for each.
"""

from __future__ import annotations

from typing import Final, Literal

from planloop.schemas.call import EffectClass
from planloop.schemas.frozen import frozen


@frozen
class ToolName:
    """A built-in tool. `effect` holds unless the plan says otherwise under the agent's `effects`.

    `about` is what patterns of its calls are matched with: a path of the workspace, a text (a command line, an
    address), or nothing, and then its calls are not told apart. `is_outside`: what it looks at or changes is not in
    the log. `writes`: a file of the workspace. `is_online`: it asks the network, and so needs the right to that.
    `patches`: it changes the plan, so that hooks are asked `on-patch`.
    """

    name: str
    doc: str
    effect: EffectClass
    about: Literal["path", "text", ""] = ""
    is_outside: bool = False
    writes: bool = False
    is_online: bool = False
    patches: bool = False


_READ, _IDEMPOTENT, _ONCE = EffectClass.READ, EffectClass.IDEMPOTENT, EffectClass.ONCE

FILE_TOOLS: Final = (
    ToolName("read", "reads a file, or a range of its lines", _READ, "path", is_outside=True),
    ToolName("list", "lists files below a folder, by glob", _READ, "path", is_outside=True),
    ToolName("search", "finds a pattern in files", _READ, "path", is_outside=True),
    ToolName(
        "write",
        "writes a whole file that was read before, or a new one",
        _IDEMPOTENT,
        "path",
        is_outside=True,
        writes=True,
    ),
    ToolName(
        "edit", "replaces one stretch of a file that was read before", _IDEMPOTENT, "path", is_outside=True, writes=True
    ),
)
LOCK_TOOLS: Final = (
    ToolName("lock", "takes files for itself, by paths or globs, all of them or none", _IDEMPOTENT, "path"),
    ToolName("release", "gives locks back before its turn or task ends", _IDEMPOTENT),
    ToolName("contest", "opens a conflict with who holds files that it needs; who is above both rules", _IDEMPOTENT),
    ToolName("resolve", "rules on a conflict between two agents below", _IDEMPOTENT, patches=True),
)
WORK_TOOLS: Final = (
    ToolName("shell", "runs a command in the task's workspace", _ONCE, "text", is_outside=True),
    ToolName(
        "fetch", "reads a web page, or another text, from the network", _READ, "text", is_outside=True, is_online=True
    ),
    ToolName("resource", "reads a resource of a tool server, or lists what there is", _READ, "text", is_outside=True),
)
PLAN_TOOLS: Final = (
    ToolName("plan_view", "shows the plan, or a part of it, with status and revision", _READ),
    ToolName("task", "adds one or more child tasks, each with its agent", _IDEMPOTENT, patches=True),
    ToolName("discuss", "asks agents in turn; each hears what the others answer", _IDEMPOTENT),
    ToolName("bridge", "lets agents below write to each other, or ends that", _IDEMPOTENT),
    ToolName("edit_plan", "sets one field of the plan in the agent's own subtree", _IDEMPOTENT, patches=True),
    ToolName("plan_patch", "applies RFC 6902 operations to the plan", _IDEMPOTENT, patches=True),
    ToolName("terminate", "removes a child task", _IDEMPOTENT, patches=True),
    ToolName(
        "dump",
        "writes an agent below to a file: transcript, memory and what the plan says of it",
        _IDEMPOTENT,
        "path",
        is_outside=True,
        writes=True,
    ),
    ToolName(
        "restore",
        "makes a child that begins with what the agent in a file lived through",
        _IDEMPOTENT,
        "path",
        patches=True,
    ),
    ToolName("recall", "reads back the agent's own earlier turns in full", _READ),
    ToolName("request", "asks the parent or a person for a tool, a model or more budget", _IDEMPOTENT),
    ToolName("answer", "answers a request from below, or a question", _IDEMPOTENT),
    ToolName("send", "sends a message to another agent", _IDEMPOTENT),
    ToolName("done", "says that the task is finished; the checks then decide", _IDEMPOTENT),
    ToolName("fail", "says that the task cannot be finished, and why", _IDEMPOTENT),
)

CONTAINER_TOOLS: Final = (
    ToolName(
        "container", "makes a container, or changes one it made", _IDEMPOTENT, "text", is_outside=True, patches=True
    ),
    ToolName("container_exec", "runs a command in a container", _ONCE, "text", is_outside=True),
    ToolName("container_logs", "shows how a container is, and what it wrote last", _READ, "text", is_outside=True),
    ToolName("container_stop", "removes a container that it made", _IDEMPOTENT, "text", is_outside=True, patches=True),
    ToolName(
        "compose_up", "makes the containers of a map or a Compose file", _IDEMPOTENT, "", is_outside=True, patches=True
    ),
)

HOOK_TOOLS: Final = (
    ToolName("hook", "attaches a hook to the agent itself or to one below it", _IDEMPOTENT, patches=True),
    ToolName("endo", "hands the session to an agent below, and becomes a hook of it", _IDEMPOTENT, patches=True),
    ToolName("meta", "takes the session: what the hook watches becomes its subagent", _IDEMPOTENT, patches=True),
    ToolName("verdict", "answers what the agent is asked as a hook", _IDEMPOTENT),
    ToolName("quit", "ends the agent's being a hook", _IDEMPOTENT),
    ToolName("transcript", "searches the transcript of an agent that it watches as a hook", _READ),
)
FOR_HOOKS: Final = frozenset({"meta", "verdict", "quit", "transcript"})
"""Of use to agents only that are hooks."""
GRANTED_WITH: Final = {"meta": "endo"}
"""Tools that come with another: an agent that may hand the session over may also take it back."""
BY_NAME: Final = frozenset({*FOR_HOOKS, *(tool.name for tool in CONTAINER_TOOLS)})
"""What an agent has only when it is given it by name or in a toolset: `all` tools are all but these."""

ON_OCCASION: Final = frozenset({"resolve"})
"""What every agent may use and is shown only when there is something to use it on, unless it is given."""

FREE_TO_HOOKS: Final = frozenset({"verdict", "quit", "done", "fail"})
"""What an agent that was made for a hook has without being given it, and nothing else."""

AGENT_TOOL: Final = "agent:"
"""Before the name of a declared agent that is called like a tool."""

CORE_TOOLS: Final = ("plan_view", "recall", "send", "request", "answer", "done", "fail")
"""Every agent has these whatever its toolset says, unless denied: asking upward and ending are always possible."""

TOOLS: Final = {
    tool.name: tool for tool in (*FILE_TOOLS, *LOCK_TOOLS, *WORK_TOOLS, *PLAN_TOOLS, *CONTAINER_TOOLS, *HOOK_TOOLS)
}

PATH_TOOLS: Final = frozenset(name for name, tool in TOOLS.items() if tool.about == "path")
"""Tools whose calls are about one path: patterns of their calls hold a glob."""

TOLD_APART: Final = frozenset(name for name, tool in TOOLS.items() if tool.about)
"""Tools whose calls have something that patterns such as `shell(git *)` can be about; so have those of servers."""

PATCHING_TOOLS: Final = frozenset(name for name, tool in TOOLS.items() if tool.patches)
WRITING_TOOLS: Final = tuple(name for name, tool in TOOLS.items() if tool.writes)
OUTSIDE_TOOLS: Final = frozenset(name for name, tool in TOOLS.items() if tool.is_outside)
ONLINE_TOOLS: Final = frozenset(name for name, tool in TOOLS.items() if tool.is_online)
