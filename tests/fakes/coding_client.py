"""A coding CLI as documentation pages start it: `coding_client.py claude|codex|opencode ARGUMENTS`.

Asked for JSON, it writes notes.md and prints what the CLI would. Otherwise it reads the CLI's own configuration, takes
its task over MCP, writes guide.md and calls `done`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

WANTS_JSON = {"claude": "--output-format", "codex": "--json", "opencode": "--format"}
ANSWER = "The notes are in notes.md."


def server_command(client: str) -> list[str]:
    """The command of the only tool server in the configuration of `client`."""
    if client == "codex":
        servers = tomllib.loads((Path.home() / ".codex/config.toml").read_text())["mcp_servers"]
    elif client == "claude":
        servers = json.loads(Path(".mcp.json").read_text())["mcpServers"]
    else:
        servers = json.loads(Path("opencode.json").read_text())["mcp"]
    (server,) = servers.values()
    command = server["command"]
    return command if isinstance(command, list) else [command, *server["args"]]


def work_over_mcp(command: Sequence[str]) -> None:
    """Take the task and do it."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None

        def send(message: dict[str, Any]) -> None:
            assert process.stdin is not None
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            process.stdin.flush()

        def ask(number: int, method: str, params: dict[str, Any]) -> Any:
            assert process.stdout is not None
            send({"id": number, "method": method, "params": params})
            return next(answer for line in process.stdout if (answer := json.loads(line)).get("id") == number)

        who = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "client", "version": "1"}}
        ask(0, "initialize", who)
        send({"method": "notifications/initialized"})
        calls: tuple[tuple[str, dict[str, Any]], ...] = (
            ("take_task", {}),
            ("write", {"path": "guide.md", "content": "# Guide\n\nStart with guide.plan.yaml.\n"}),
            ("done", {"result": "the guide is written"}),
        )
        for number, (name, arguments) in enumerate(calls, 1):
            ask(number, "tools/call", {"name": name, "arguments": arguments})
        process.stdin.close()


def printed(client: str) -> list[dict[str, Any]]:
    """The lines of JSON that `client` prints for a turn."""
    if client == "claude":
        usage = {"input_tokens": 1200, "output_tokens": 310}
        return [{"type": "result", "result": ANSWER, "session_id": "s1", "total_cost_usd": 0.0213, "usage": usage}]
    if client == "codex":
        item = {"id": "item_0", "type": "agent_message", "text": ANSWER}
        return [
            {"type": "thread.started", "thread_id": "s1"},
            {"type": "item.completed", "item": item},
            {"type": "turn.completed", "usage": {"input_tokens": 1200, "output_tokens": 310}},
        ]
    return [{"type": "text", "sessionID": "s1", "part": {"type": "text", "text": ANSWER}}]


def main(client: str, arguments: Sequence[str]) -> None:
    """One run of the CLI."""
    if WANTS_JSON[client] not in arguments:
        work_over_mcp(server_command(client))
        return
    Path("notes.md").write_text("First release.\n")
    for line in printed(client):
        sys.stdout.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
