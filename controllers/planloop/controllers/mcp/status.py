"""What the server controller keeps in `status`, read into typed records; what agents read of it is
`planloop.schemas.mcp`'s.

A server has one run, `plan`, or one for each agent that needs it. Schemas hold nulls and lists, so tools are kept in a
list: a merge replaces it whole.
"""

from __future__ import annotations

from dataclasses import field

from planloop.schemas.encoding import JsonObject, digest_of
from planloop.schemas.frozen import frozen
from planloop.schemas.mcp import McpSpec, ServedPrompt, ServedTool, ServerState, tool_from_json


@frozen
class Run:
    """One process or connection. Times in seconds since 1970.

    `failures` counts ends in a row that came too soon; it is tried again at `next_at`. `failing_since` is the time of
    the first failure since it was last ready. `idle_since` is the time since which no agent needs it.
    """

    state: ServerState = ServerState.IDLE
    op: str = ""
    started_at: float | None = None
    ready_at: float | None = None
    next_at: float | None = None
    idle_since: float | None = None
    failures: int = 0
    failing_since: float | None = None
    restarts: int = 0
    reason: str = ""
    why: str = ""


@frozen
class McpStatus:
    """`of` is the digest of what is run. `agreed` and `refused` are digests of tools by name, `texts` prompts."""

    state: str = ""
    of: str = ""
    runs: dict[str, Run] = field(default_factory=dict)
    tools: tuple[ServedTool, ...] = ()
    agreed: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    texts: dict[str, ServedPrompt] = field(default_factory=dict)


def read(raw: JsonObject) -> McpStatus:
    """The typed form of a server's `status`."""
    return McpStatus(
        state=raw.get("state", ""),
        of=raw.get("of", ""),
        runs={name: _run(value) for name, value in raw.get("runs", {}).items()},
        tools=tuple(tool_from_json(tool) for tool in raw.get("tools", ())),
        agreed=raw.get("agreed", {}),
        refused=raw.get("refused", {}),
        texts={name: ServedPrompt(each["text"], each["fault"]) for name, each in (raw.get("texts") or {}).items()},
    )


def _run(raw: JsonObject) -> Run:
    known = {key: value for key, value in raw.items() if key != "state"}
    return Run(state=ServerState(raw.get("state", "idle")), **known)


def what_runs(spec: McpSpec, world: str = "") -> str:
    """The digest of what has to be started anew when it changes; the rest of a spec counts at once.

    `world` is the digest of the file of a simulated one.
    """
    if spec.world:
        return digest_of([spec.world, world])[:16]
    return digest_of([list(spec.command), spec.url, spec.env, spec.headers, spec.share])[:16]
