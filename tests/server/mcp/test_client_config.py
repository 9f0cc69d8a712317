"""What `plan mcp --print-config` prints: in the format of each client, for any path and name of a plan."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

from planloop.server.mcp.client_config import CLIENTS, config_snippet, server_name
from tests import rows

ARGV = ["/opt/my tools/plan", "mcp", "--plan", '/srv/ü/it\'s "quoted" \\ here/a b.plan.yaml', "--as", "helper"]


def server(client: str) -> tuple[str, Any]:
    """The one server in the snippet of `client`: its name and its configuration."""
    text = config_snippet(client, "hand_book v2", ARGV).text
    whole = tomllib.loads(text) if client == "codex" else json.loads(text)
    member = {"codex": "mcp_servers", "opencode": "mcp", "vscode": "servers"}.get(client, "mcpServers")
    ((name, said),) = whole[member].items()
    return name, said


@rows.each("client", CLIENTS)
def test_the_snippet_of_each_client_starts_the_server(client: str) -> None:
    name, said = server(client)
    started = said["command"] if client == "opencode" else [said["command"], *said["args"]]

    assert (name, started) == ("hand-book-v2", ARGV)


@rows.each(
    ("client", "words"),
    [
        ("claude", {"type": "stdio", "alwaysLoad": True}),
        ("codex", {"required": True}),
        ("opencode", {"type": "local", "enabled": True}),
        ("vscode", {"type": "stdio"}),
    ],
)
def test_client_is_configured_to_wait_for_the_server(client: str, words: dict[str, Any]) -> None:
    assert words.items() <= server(client)[1].items()


def test_the_variables_of_older_versions_of_claude_code_are_in_its_notes() -> None:
    notes = " ".join(config_snippet("claude", "x", ARGV).notes)

    assert "ENABLE_TOOL_SEARCH=false" in notes and "MCP_CONNECTION_NONBLOCKING=0" in notes


@rows.each("plan", ["a.b", "ä", "_x_", "..", "two words", "0"])
def test_a_server_has_a_name_that_every_client_takes(plan: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9]+(-[A-Za-z0-9]+)*", server_name(plan))
