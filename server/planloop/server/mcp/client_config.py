"""Configuration of MCP clients that starts `plan mcp`. Pure.

The clients have different formats. Some do not wait until a server is connected, or hide its tools behind a search,
unless they are configured otherwise. A model that does not see `take_task` from the start works without these tools.
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
"""How long a client should wait for an answer: `done` runs checks, and a call may wait for a lock or an approval."""


@frozen
class ConfigSnippet:
    """The content of `file`, or the part to merge into it. `notes` are further instructions for the user."""

    file: str
    text: str
    notes: tuple[str, ...] = ()


def config_snippet(client: str, name: str, argv: Sequence[str]) -> ConfigSnippet:
    """Return the configuration of `client` (one of CLIENTS) for the server `name`, which `argv` starts."""
    return _SNIPPETS[client](server_name(name), list(argv))


def server_name(plan: str) -> str:
    """Return a server name of letters, digits and hyphens: clients prefix tool names with it; Gemini splits at `_`."""
    return re.sub(r"[^A-Za-z0-9]+", "-", plan).strip("-") or "planloop"


def _printed(value: JsonObject) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _program(argv: list[str]) -> JsonObject:
    return {"command": argv[0], "args": argv[1:]}


def _claude(name: str, argv: list[str]) -> ConfigSnippet:
    # With `alwaysLoad`, the tools are not behind a search, and a session waits until the server is connected.
    server = {"type": "stdio", **_program(argv), "alwaysLoad": True}
    notes = (
        "Before Claude Code 2.1.121, also set these in its environment, or as `env` in .claude/settings.json:",
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
    """Return a basic string of TOML. Its escapes are those of JSON, except that it escapes DEL, too."""
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
