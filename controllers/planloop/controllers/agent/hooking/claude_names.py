"""Our tools by the names, and with the arguments, that scripts written for Claude Code's hook contract expect. Pure.

A call that has no like there keeps its own name; a tool of a server is `mcp__server__tool`, as there. Paths are given
absolute, as those scripts get them, and taken back relative where they lie in the agent's folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from planloop.schemas.encoding import JsonObject
from planloop.schemas.regular import NotRegular, regular
from planloop.schemas.tools import AGENT_TOOL

NAMES: Final[Mapping[str, str]] = {
    "write": "Write",
    "edit": "Edit",
    "read": "Read",
    "shell": "Bash",
    "list": "Glob",
    "search": "Grep",
    "fetch": "WebFetch",
    "task": "Task",
}
_ALSO: Final[Mapping[str, Sequence[str]]] = {"Task": ("Agent",), "Edit": ("MultiEdit",)}
"""Names that the same calls have, or had, in other versions: who guards one of them means these."""

_PLAIN: Final = re.compile(r"[\w\-|, ]*", re.ASCII)
_PATHS: Final = frozenset({"file_path", "path"})

ARGUMENTS: Final[Mapping[str, Mapping[str, str]]] = {
    "write": {"path": "file_path"},
    "edit": {"path": "file_path", "old": "old_string", "new": "new_string", "every": "replace_all"},
    "read": {"path": "file_path", "first": "offset", "lines": "limit"},
    "shell": {"timeout_s": "timeout"},
    "list": {"glob": "pattern"},
    "search": {"text": "pattern"},
    "task": {"goal": "description"},
}
"""Our argument and theirs, where the two differ."""


def name_of(tool: str) -> str:
    """What the tool is called there; an agent that is called like a tool is a task for a subagent."""
    if tool.startswith(AGENT_TOOL):
        return NAMES["task"]
    server, dot, own = tool.partition(".")
    return f"mcp__{server}__{own}" if dot else NAMES.get(tool, tool)


def matches(matcher: str, tool: str) -> bool:
    """Whether a matcher of a `settings.json` is for `tool`: `Write|Edit`, `Edit, Write`, `^Notebook`, `*`.

    Of plain names one has to be the tool's, with case; anything else is an expression that is found in it somewhere.
    """
    if matcher.strip() in ("", "*"):
        return True
    name = name_of(tool)
    names = (name, *_ALSO.get(name, ()))
    if _PLAIN.fullmatch(matcher):
        return any(one.strip() in names for one in re.split(r"[|,]", matcher))
    try:
        return any(regular(matcher).found_in(each) for each in names)
    except NotRegular:
        return True  # Better asked too often than a guard that is never asked.


def given(tool: str, arguments: JsonObject, cwd: str) -> JsonObject:
    """The arguments of a call as such a script reads them."""
    theirs = ARGUMENTS.get(tool, {})
    named = {theirs.get(name, name): _scaled(name, value) for name, value in arguments.items()}
    return {name: _absolute(value, cwd) if name in _PATHS else value for name, value in named.items()}


def taken(tool: str, updated: JsonObject, cwd: str) -> JsonObject:
    """Inverse of `given`: what such a script wants the arguments to be."""
    ours = {theirs: name for name, theirs in ARGUMENTS.get(tool, {}).items()}
    local = {name: _relative(value, cwd) if name in _PATHS else value for name, value in updated.items()}
    named = {ours.get(name, name): value for name, value in local.items()}
    return {name: _in_seconds(value) if name == "timeout_s" else value for name, value in named.items()}


def _scaled(name: str, value: object) -> object:
    return value * 1000 if name == "timeout_s" and isinstance(value, int | float) else value  # Milliseconds there.


def _in_seconds(value: object) -> object:
    return value / 1000 if isinstance(value, int | float) and not isinstance(value, bool) else value


def _absolute(value: object, cwd: str) -> object:
    return os.path.normpath(Path(cwd) / value) if isinstance(value, str) else value


def _relative(value: object, cwd: str) -> object:
    if not isinstance(value, str) or not value.startswith(f"{cwd}/"):
        return value
    return value.removeprefix(f"{cwd}/")
