"""MCP servers in words: their tools, effect classes and messages."""

from __future__ import annotations

from planloop.schemas import quantities
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.limits import VALUE_SHOWN_CHARS
from planloop.schemas.objects.mcp import SHARED, McpSpec, ServedTool, mcp_from_json, served_tool_from_json, tool_effect
from planloop.schemas.resource import Resource

LINES_MAX = 12  # Of one sort, in a description; `-o yaml` has all of them.
HINTS = {"read_only_hint": "read-only", "idempotent_hint": "idempotent", "destructive_hint": "destructive"}


def mcp_server_row(item: Resource, now: float) -> tuple[str, ...]:
    """State, tools, age and words of one server, for a table."""
    status = item.status
    tools = [served_tool_from_json(each) for each in status.get("tools", ())]
    withheld = sum(1 for tool in tools if tool.withheld)
    count = f"{len(tools)}, {withheld} withheld" if withheld else str(len(tools)) if "tools" in status else ""
    ready_at = _run(status).get("ready_at")
    age = "" if ready_at is None else quantities.format_duration(now - float(ready_at))
    server: JsonObject = status.get("server") or {}
    words = str(status.get("why") or " ".join(filter(None, (server.get("name"), server.get("version")))))
    return (item.address.partition("/")[2], item.state or "new", count, age, words)


def mcp_server_facts(item: Resource) -> list[tuple[str, str]]:
    """Return labelled lines of a server: its version, tools, prompts and resources."""
    status, spec = item.status, mcp_from_json(item.spec)
    out = [("world", spec.world)] if spec.world else [("runs", spec.url or " ".join(spec.command))]
    server: JsonObject = status.get("server") or {}
    if server and not spec.world:
        out.append(("server", f"{server['name']} {server['version']}, protocol {server['protocol']}"))
    if (restarts := _run(status).get("restarts")) and server:
        out.append(("restarts", str(restarts)))
    tools = [served_tool_from_json(each) for each in status.get("tools", ())]
    out += [("tool", _tool_words(tool, spec)) for tool in tools[:LINES_MAX]]
    if len(tools) > LINES_MAX:
        out.append(("tools", f"{len(tools) - LINES_MAX} more: plan get {item.address} -o yaml"))
    out += [("prompt", _named(each)) for each in status.get("prompts", ())[:LINES_MAX]]
    out += [("resource", f"{each['uri']}  {each['name']}") for each in status.get("resources", ())[:LINES_MAX]]
    return out


def _run(status: JsonObject) -> JsonObject:
    found: JsonObject = (status.get("runs") or {}).get(SHARED) or {}
    return found


def _tool_words(tool: ServedTool, spec: McpSpec) -> str:
    effect = tool_effect(spec, tool)
    hints = ", ".join(words for hint, words in HINTS.items() if tool.hints.get(hint))
    said = f" (says: {hints})" if hints and not spec.world else ""
    held = f"  WITHHELD: {tool.withheld}" if tool.withheld else ""
    words = quantities.truncate_cells(tool.description.strip().partition("\n")[0], VALUE_SHOWN_CHARS)
    return f"{tool.name}  {effect}{said}{held}  {words}"


def _named(prompt: JsonObject) -> str:
    arguments = ", ".join(str(each["name"]) for each in prompt["arguments"])
    return f"{prompt['name']}({arguments})  {prompt['description']}".rstrip()
