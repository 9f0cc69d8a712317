"""The built-in tools: names, one-line docs, effect classes and argument names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from planloop.schemas.frozen import frozen
from planloop.schemas.objects.call import EffectClass

# The names of the arguments of each built-in tool, so that a rule with an unknown one is rejected when it is read.
#
# The tools themselves say what their arguments mean; a test holds this table to them. What a tool of a server takes
# only the server knows.

TOOL_ARGUMENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "read": ("path", "first", "lines"),
    "list": ("path", "glob"),
    "search": ("text", "path", "glob", "any_case"),
    "write": ("path", "content", "text"),
    "edit": ("path", "old", "new", "every"),
    "lock": ("paths", "mode", "reason", "wait_s"),
    "release": ("paths",),
    "contest": ("paths", "intent", "proposal"),
    "resolve": ("conflict", "how", "for_agent", "plan"),
    "shell": ("command", "timeout_s", "timeout"),
    "fetch": ("url", "links", "after"),
    "resource": ("server", "uri"),
    "plan_view": ("path",),
    "task": (
        *(
            "goal",
            "prompt",
            "id",
            "instructions",
            "store",
            "wait",
            "from",
            "under",
            "agent",
            "model",
            "tools",
            "budget",
        ),
        *("acceptance", "needs", "run", "cwd", "notes", "retries", "effects", "script", "tasks"),
    ),
    "discuss": ("prompt", "speakers", "listeners"),
    "bridge": ("members", "about", "close"),
    "edit_plan": ("path", "value", "reason"),
    "plan_patch": ("ops", "reason"),
    "terminate": ("name", "id"),
    "dump": ("path", "name"),
    "restore": ("path", "id", "goal", "prompt", "agent"),
    "recall": ("turn", "text"),
    "request": ("kind", "what", "why", "to"),
    "answer": ("to", "answer", "why"),
    "send": ("to", "text", "kind", "delivery", "expires", "key", "untrusted"),
    "done": ("result", "accept"),
    "fail": ("reason",),
    "container": (
        *("name", "image", "cmd", "env", "workdir", "mounts", "ports", "networks", "needs", "health", "more", "wait_s"),
    ),
    "container_exec": ("name", "command", "timeout_s", "timeout", "workdir"),
    "container_logs": ("name", "lines"),
    "container_stop": ("name",),
    "compose_up": ("containers", "file", "wait_s"),
    "hook": (
        *("name", "reason", "on", "to", "match", "prompt", "model", "tools", "rule", "run", "extends", "settings"),
        *("expires", "budget", "more"),
    ),
    "endo": ("subagent", "reason"),
    "meta": ("reason",),
    "transcript": ("text", "turns", "turn", "agent"),
    "verdict": ("decision", "reason", "comment", "updated_input"),
    "quit": ("reason",),
}
"""Argument names by tool, including alternative spellings."""

AGENT_TOOL_ARGUMENTS: Final = ("prompt",)
"""Arguments of a declared agent that is called as a tool."""


# The names of the built-in tools, their one-line docs and their default effect classes.
#
# The plan language checks tool names against this list; the agent controller registers one implementation for each.


@frozen
class BuiltinTool:
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
    BuiltinTool("read", "reads a file, or a range of its lines", _READ, "path", is_outside=True),
    BuiltinTool("list", "lists the files in a folder, by glob", _READ, "path", is_outside=True),
    BuiltinTool("search", "searches files for a pattern", _READ, "path", is_outside=True),
    BuiltinTool(
        "write",
        "writes a whole file: a new one, or one that was read before",
        _IDEMPOTENT,
        "path",
        is_outside=True,
        writes=True,
    ),
    BuiltinTool(
        "edit", "replaces a passage in a file that was read before", _IDEMPOTENT, "path", is_outside=True, writes=True
    ),
)
LOCK_TOOLS: Final = (
    BuiltinTool("lock", "locks files by paths or globs, all or none", _IDEMPOTENT, "path"),
    BuiltinTool("release", "releases locks before the turn or task ends", _IDEMPOTENT),
    BuiltinTool(
        "contest",
        "opens a conflict with the lock holder about required files; the nearest common ancestor resolves it",
        _IDEMPOTENT,
    ),
    BuiltinTool("resolve", "resolves a conflict between two descendants", _IDEMPOTENT, patches=True),
)
WORK_TOOLS: Final = (
    BuiltinTool("shell", "runs a command in the task's workspace", _ONCE, "text", is_outside=True),
    BuiltinTool(
        "fetch", "reads a web page or other text from the network", _READ, "text", is_outside=True, is_online=True
    ),
    BuiltinTool(
        "resource", "reads a resource of a tool server, or lists the resources", _READ, "text", is_outside=True
    ),
)
PLAN_TOOLS: Final = (
    BuiltinTool("plan_view", "shows the plan, or part of it, with status and revision", _READ),
    BuiltinTool("task", "adds one or more child tasks, each with its agent", _IDEMPOTENT, patches=True),
    BuiltinTool("discuss", "asks agents in turn; each sees the others' answers", _IDEMPOTENT),
    BuiltinTool("bridge", "lets descendants message each other, or stops that", _IDEMPOTENT),
    BuiltinTool("edit_plan", "sets one field of the plan in the agent's own subtree", _IDEMPOTENT, patches=True),
    BuiltinTool("plan_patch", "applies RFC 6902 operations to the plan", _IDEMPOTENT, patches=True),
    BuiltinTool("terminate", "removes a child task", _IDEMPOTENT, patches=True),
    BuiltinTool(
        "dump",
        "saves a descendant to a file: transcript, memory and its definition in the plan",
        _IDEMPOTENT,
        "path",
        is_outside=True,
        writes=True,
    ),
    BuiltinTool(
        "restore",
        "creates a child with the transcript and memory of an agent saved in a file",
        _IDEMPOTENT,
        "path",
        patches=True,
    ),
    BuiltinTool("recall", "shows the agent's own earlier turns in full", _READ),
    BuiltinTool("request", "asks the parent or a person for a tool, a model or more budget", _IDEMPOTENT),
    BuiltinTool("answer", "answers a descendant's request, or a question", _IDEMPOTENT),
    BuiltinTool("send", "sends a message to another agent", _IDEMPOTENT),
    BuiltinTool("done", "reports the task as done; the checks then decide", _IDEMPOTENT),
    BuiltinTool("fail", "reports that the task cannot be done, and why", _IDEMPOTENT),
)

CONTAINER_TOOLS: Final = (
    BuiltinTool(
        "container",
        "creates a container, or changes one that the agent created",
        _IDEMPOTENT,
        "text",
        is_outside=True,
        patches=True,
    ),
    BuiltinTool("container_exec", "runs a command in a container", _ONCE, "text", is_outside=True),
    BuiltinTool("container_logs", "shows a container's status and latest output", _READ, "text", is_outside=True),
    BuiltinTool(
        "container_stop",
        "removes a container that the agent created",
        _IDEMPOTENT,
        "text",
        is_outside=True,
        patches=True,
    ),
    BuiltinTool(
        "compose_up",
        "creates the containers of a map or a Compose file",
        _IDEMPOTENT,
        "",
        is_outside=True,
        patches=True,
    ),
)

HOOK_TOOLS: Final = (
    BuiltinTool("hook", "attaches a hook to the agent or a descendant", _IDEMPOTENT, patches=True),
    BuiltinTool("endo", "hands the session to a descendant, and becomes its hook", _IDEMPOTENT, patches=True),
    BuiltinTool("meta", "takes over the session; the watched agent becomes a subagent", _IDEMPOTENT, patches=True),
    BuiltinTool("verdict", "answers a question that the agent gets as a hook", _IDEMPOTENT),
    BuiltinTool("quit", "stops being a hook", _IDEMPOTENT),
    BuiltinTool("transcript", "searches the transcript of an agent that it watches as a hook", _READ),
)
FOR_HOOKS: Final = frozenset({"meta", "verdict", "quit", "transcript"})
"""Tools only for agents that are hooks."""
GRANTED_WITH: Final = {"meta": "endo"}
"""Tools granted together with another: an agent that may hand over the session may also take it back."""
BY_NAME: Final = frozenset({*FOR_HOOKS, *(tool.name for tool in CONTAINER_TOOLS)})
"""Tools that an agent gets only by name or in a toolset: `all` excludes them."""

ON_OCCASION: Final = frozenset({"resolve"})
"""Tools that every agent may use, but is shown only when needed, unless they are granted explicitly."""

FREE_TO_HOOKS: Final = frozenset({"verdict", "quit", "done", "fail"})
"""The only tools that a hook's own agent has without a grant."""

AGENT_TOOL: Final = "agent:"
"""Prefix of a declared agent that is called as a tool."""

CORE_TOOLS: Final = ("plan_view", "recall", "send", "request", "answer", "done", "fail")
"""Tools that every agent has unless denied, whatever its toolset: it can always ask its parent, and finish."""

TOOLS: Final = {
    tool.name: tool for tool in (*FILE_TOOLS, *LOCK_TOOLS, *WORK_TOOLS, *PLAN_TOOLS, *CONTAINER_TOOLS, *HOOK_TOOLS)
}

PATH_TOOLS: Final = frozenset(name for name, tool in TOOLS.items() if tool.about == "path")
"""Tools with calls about one path. Patterns of these calls contain a glob."""

TOLD_APART: Final = frozenset(name for name, tool in TOOLS.items() if tool.about)
"""Tools with calls that patterns such as `shell(git *)` can select. Tools of servers are selectable too."""

PATCHING_TOOLS: Final = frozenset(name for name, tool in TOOLS.items() if tool.patches)
WRITING_TOOLS: Final = tuple(name for name, tool in TOOLS.items() if tool.writes)
OUTSIDE_TOOLS: Final = frozenset(name for name, tool in TOOLS.items() if tool.is_outside)
ONLINE_TOOLS: Final = frozenset(name for name, tool in TOOLS.items() if tool.is_online)
