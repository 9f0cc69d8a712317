"""The names of the arguments of each built-in tool, so that a rule about one that there is not is told when it is read.

The tools themselves say what their arguments mean; a test holds this table to them. What a tool of a server takes only
the server knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

ARGUMENTS: Final[Mapping[str, tuple[str, ...]]] = {
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
"""By tool, other spellings that it takes included."""

AGENT_ARGUMENTS: Final = ("prompt",)
"""Of a declared agent that is called like a tool."""
