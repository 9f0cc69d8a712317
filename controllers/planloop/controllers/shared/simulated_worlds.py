"""Port to simulated worlds: tool servers without a process, whose tools read and write an agent's own tables.

The state of an agent's world is in the agent's status, and is written in one append with each call's result. So a call
has happened exactly if its record exists, and the next owner has the same world.
"""

from __future__ import annotations

from typing import Final, Protocol

from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.call import CallResult
from planloop.schemas.objects.mcp import ServedTool, ServerFailed

WORLDS: Final = "worlds"
"""Key in an agent's status: the differences of its worlds from their files, by file."""


@frozen
class WorldCall:
    """Result of a call, and its merge into the state of the agent's world."""

    result: CallResult
    merge: JsonObject


@frozen
class WorldOffer:
    """The tools that a world offers as one server. `digest` is the digest of its file."""

    name: str
    digest: str
    tools: tuple[ServedTool, ...]


class Worlds(Protocol):
    """The simulated worlds of a plan. Both methods raise ServerFailed (`BadWorld`) for an invalid file."""

    def offer(self, file: str, server: str) -> WorldOffer:
        """Return the tools in `file` (relative to the plan's folder) whose names begin with `server.`."""
        ...

    def call(self, file: str, tool: str, arguments: JsonObject, *, task: str, kept: JsonObject) -> WorldCall:
        """Call `tool`, by its full name, for the agent of `task` whose world has the state `kept`."""
        ...


class NoWorlds:
    """Worlds for callers without simulated servers: each request fails."""

    def offer(self, file: str, server: str) -> WorldOffer:
        raise ServerFailed("BadWorld", f"{file}: `{server}` is simulated, which this process does not support")

    def call(self, file: str, tool: str, arguments: JsonObject, *, task: str, kept: JsonObject) -> WorldCall:
        del arguments, task, kept
        raise ServerFailed("BadWorld", f"{file}: `{tool}` is simulated, which this process does not support")
