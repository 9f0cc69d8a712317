"""Our tools by the names, and with the arguments, that scripts written for Claude Code's hook contract expect. Pure.

A call that has no like there keeps its own name; a tool of a server is `mcp__server__tool`, as there. Paths are given
absolute, as those scripts get them, and taken back relative where they lie in the agent's folder.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from schemas.encoding import JsonObject
from schemas.regular import NotRegular, regular

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
    """What the tool is called there."""
    server, dot, own = tool.partition(".")
    return f"mcp__{server}__{own}" if dot else NAMES.get(tool, tool)


def matches(matcher: str, tool: str) -> bool:
    """Whether a matcher of a `settings.json` is for `tool`: `Write|Edit`, `Notebook.*`, `*`, in whole and with case."""
    if matcher in ("", "*"):
        return True
    if matcher.replace("|", "").replace("_", "").isalnum():
        return name_of(tool) in matcher.split("|")
    try:
        return regular(f"^(?:{matcher})$").found_in(name_of(tool))
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
