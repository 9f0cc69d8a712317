"""A tool server at `mcp/<name>`: its lowered spec, and the tools and prompts it offers.

The server controller writes the status. Agents read their tools only from it, so the log has every tool that a model
saw. New tools are appended to the list: a model's prompt starts with it, and prompt caches stay valid while it does not
change.
"""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum
from typing import Final, Literal, TypeAlias

from planloop.schemas import codec, patterns
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.call import EffectClass

ShareMode: TypeAlias = Literal["plan", "agent"]


SERVER_HINTS: Final = {
    "npx": "install Node.js 20 or newer; on Debian: apt-get install nodejs npm",
    "node": "install Node.js 20 or newer; on Debian: apt-get install nodejs",
    "uvx": "install uv: pip install uv",
    "uv": "install uv: pip install uv",
}
"""How to get the programs that servers are mostly started with."""

SHARED: Final = "plan"
"""The name of the run that all agents share; the other runs have the address of the agent that they are for."""


class ServerState(StrEnum):
    """`status.state` of a server."""

    IDLE = "idle"  # No agent that may use it is working.
    STARTING = "starting"
    READY = "ready"
    RESTARTING = "restarting"  # It exited or was unreachable, and will be restarted.
    FAILED = "failed"  # Several starts failed. It is retried rarely, and agents work without it.


class ServerFailed(Exception):
    """A server did not do what was asked. `reason` is one CamelCase word.

    NoServer: unknown or not running. Unreachable: no connection. Disconnected: it ended or
    the connection broke. TimedOut. ServerError: it answered with an error. `has_begun` says that the request was sent,
    so that it may have had its effect.
    """

    def __init__(self, reason: str, message: str, *, has_begun: bool = False) -> None:
        super().__init__(message)
        self.reason = reason
        self.has_begun = has_begun


@frozen
class McpSpec:
    """Exactly one of `command` (a program and its arguments, over stdio), `url` (streamable HTTP) and `world` is given.

    `world` is a file of simulated tools, relative to the plan's folder: nothing is started for it.

    `env` are its own variables; a value `env:NAME` is read from the owner's environment when it starts. `headers` go
    with every request to a `url`; a value `env:NAME` or `file:path` is read when it is connected to. `tools` are
    the names it may offer, None for all; `effects` the effect classes that the plan gives them. `share` is whether
    all agents use one process or each has its own; `timeout_s` bounds one call (None: `limits.CALL_TIMEOUT_S`);
    `prompts` are those of its prompts that agents begin with; `writes` names tools that write a file, each with the
    argument that says which.
    """

    command: tuple[str, ...] = ()
    url: str = ""
    env: JsonObject = field(default_factory=dict)
    tools: tuple[str, ...] | None = None
    effects: JsonObject = field(default_factory=dict)
    share: ShareMode = "plan"
    timeout_s: float | None = None
    prompts: tuple[str, ...] = ()
    headers: JsonObject = field(default_factory=dict)
    writes: JsonObject = field(default_factory=dict)
    world: str = ""

    def to_json(self) -> JsonObject:
        return codec.to_json(self, "writes", "world")


def mcp_from_json(raw: JsonObject) -> McpSpec:
    """Inverse of `McpSpec.to_json`."""
    return codec.from_json(McpSpec, raw)


@frozen
class ServedTool:
    """A tool as its server describes it. `digest` is that of everything a model reads of it.

    `hints` are the server's own words about effects, which decide nothing. `withheld` is why it may not be used now,
    empty when it may.
    """

    name: str
    description: str
    parameters: JsonObject
    hints: JsonObject
    digest: str
    withheld: str = ""

    def to_json(self) -> JsonObject:
        return codec.to_json(self)


def served_tool_from_json(raw: JsonObject) -> ServedTool:
    """Inverse of `ServedTool.to_json`."""
    return codec.from_json(ServedTool, raw)


def tool_effect(spec: McpSpec, tool: ServedTool) -> EffectClass:
    """The effect class of a tool: the plan's word, else `once`.

    A simulated call that is not in the log did not happen, so that nothing stands against making it again.
    """
    if (word := spec.effects.get(tool.name)) is not None:
        return EffectClass(word)
    if not spec.world:
        return EffectClass.ONCE
    return EffectClass.READ if tool.hints.get("read_only_hint") else EffectClass.IDEMPOTENT


def is_offer_known(status: JsonObject) -> bool:
    """Return whether the tools of the server are known, or that it is unavailable: waiting is then useless."""
    return "tools" in status or status.get("state") == ServerState.FAILED


@frozen
class ServedPrompt:
    """The text of a server's prompt at the time of the request, or the error (`fault`)."""

    text: str = ""
    fault: str = ""

    def to_json(self) -> JsonObject:
        return codec.to_json(self)


def find_served_prompt(status: JsonObject, name: str) -> ServedPrompt | None:
    """What is known of the prompt `name`; None when the server has not been asked for it yet."""
    raw = (status.get("texts") or {}).get(name)
    return None if raw is None else codec.from_json(ServedPrompt, raw)


def full_tool_name(server: str, tool: str) -> str:
    """What plans, rights and the log call a tool of a server: `files.read_file`."""
    return f"{server}.{tool}"


def may_use_server(allowed: tuple[str, ...] | None, server: str) -> bool:
    """Whether patterns of tools leave any tool of `server`; None allows everything, and so does the word `all`."""
    if allowed is None:
        return True
    return any(_reaches(pattern.partition("(")[0], server) for pattern in allowed)


def _reaches(pattern: str, server: str) -> bool:
    if pattern in ("all", server) or patterns.name_matches((pattern,), f"{server}."):
        return True
    head, star, _ = pattern.partition("*")
    return pattern.startswith(f"{server}.") or bool(star and f"{server}.".startswith(head))
