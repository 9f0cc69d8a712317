"""Configuration of MCP clients that starts `plan mcp`. Pure.

Each client has a format of its own, and some do not wait for a server, or hide its tools behind a search, unless they
are told otherwise; a model that does not see `take_task` at once does the task by other means.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen

START_S: Final = 60
CALL_S: Final = 3_600
"""How long a client should wait for an answer: `done` runs checks, and a call may wait for a lock or a person."""


@frozen
class ConfigSnippet:
    """`text` belongs into `file`, whole or merged; `notes` are what the file cannot say."""

    file: str
    text: str
    notes: tuple[str, ...] = ()


def config_snippet(client: str, name: str, argv: Sequence[str]) -> ConfigSnippet:
    """The configuration of `client` (one of CLIENTS) for the server `name`, which `argv` starts."""
    return _SNIPPETS[client](server_name(name), list(argv))


def server_name(plan: str) -> str:
    """A server's name of letters, digits and hyphens: clients make names of tools of it, and Gemini splits at `_`."""
    return re.sub(r"[^A-Za-z0-9]+", "-", plan).strip("-") or "planloop"


def _printed(value: JsonObject) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _program(argv: list[str]) -> JsonObject:
    return {"command": argv[0], "args": argv[1:]}


def _claude(name: str, argv: list[str]) -> ConfigSnippet:
    # Of this server alone: its tools are not behind a search, and a session waits until it is connected.
    server = {"type": "stdio", **_program(argv), "alwaysLoad": True}
    notes = (
        "before Claude Code 2.1.121, set this in its environment, or as `env` in .claude/settings.json:",
        "  ENABLE_TOOL_SEARCH=false MCP_CONNECTION_NONBLOCKING=0",
    )
    return ConfigSnippet(".mcp.json", _printed({"mcpServers": {name: server}}), notes)


def _codex(name: str, argv: list[str]) -> ConfigSnippet:
    lines = [
        f"[mcp_servers.{name}]",
        f"command = {_toml(argv[0])}",
        f"args = [{', '.join(map(_toml, argv[1:]))}]",
        "required = true",
        f"startup_timeout_sec = {START_S}",
        f"tool_timeout_sec = {CALL_S}",
    ]
    return ConfigSnippet("~/.codex/config.toml", "".join(f"{line}\n" for line in lines))


def _toml(text: str) -> str:
    """A basic string of TOML, which has the escapes of JSON; one more character has to be escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _opencode(name: str, argv: list[str]) -> ConfigSnippet:
    server = {"type": "local", "command": argv, "enabled": True, "timeout": CALL_S * 1_000}
    whole = {"$schema": "https://opencode.ai/config.json", "mcp": {name: server}}
    return ConfigSnippet("opencode.json", _printed(whole))


def _gemini(name: str, argv: list[str]) -> ConfigSnippet:
    server = {**_program(argv), "timeout": CALL_S * 1_000}
    return ConfigSnippet(".gemini/settings.json", _printed({"mcpServers": {name: server}}))


def _qwen(name: str, argv: list[str]) -> ConfigSnippet:
    return ConfigSnippet(".qwen/settings.json", _gemini(name, argv).text)


def _vscode(name: str, argv: list[str]) -> ConfigSnippet:
    return ConfigSnippet(".vscode/mcp.json", _printed({"servers": {name: {"type": "stdio", **_program(argv)}}}))


def _cursor(name: str, argv: list[str]) -> ConfigSnippet:
    return ConfigSnippet(".cursor/mcp.json", _printed({"mcpServers": {name: {"type": "stdio", **_program(argv)}}}))


_Make: TypeAlias = Callable[[str, list[str]], ConfigSnippet]
_SNIPPETS: Final[Mapping[str, _Make]] = {
    "claude": _claude,
    "codex": _codex,
    "opencode": _opencode,
    "gemini": _gemini,
    "qwen": _qwen,
    "vscode": _vscode,
    "cursor": _cursor,
}
CLIENTS: Final = tuple(_SNIPPETS)
