"""The port to simulated worlds: tool servers without a process that act on an agent's own tables.

The port, and where the state of an agent's world is: in the agent's status, with each call's result in one append. So a
call has happened when its record is there, and not before; whoever owns the plan next has the same world.
"""

from __future__ import annotations

from typing import Final, Protocol

from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.call import CallResult
from planloop.schemas.objects.mcp import ServedTool, ServerFailed

WORLDS: Final = "worlds"
"""In an agent's status: what is otherwise in its worlds than in their files, by file."""


@frozen
class WorldCall:
    """What came of a call: its result, and what it merges into what is kept of the agent's world."""

    result: CallResult
    merge: JsonObject


@frozen
class WorldOffer:
    """What a world offers as one server. `digest` is that of the file."""

    name: str
    digest: str
    tools: tuple[ServedTool, ...]


class Worlds(Protocol):
    """The simulated worlds of a plan. Both raise ServerFailed (`BadWorld`) for a file that is none."""

    def offer(self, file: str, server: str) -> WorldOffer:
        """The tools in `file`, a path relative to the plan's folder, whose names begin with `server.`."""
        ...

    def call(self, file: str, tool: str, arguments: JsonObject, *, task: str, kept: JsonObject) -> WorldCall:
        """A call of `tool`, by its full name, for an agent of `task` of whose world `kept` is known."""
        ...


class NoWorlds:
    """`Worlds` of whoever has none."""

    def offer(self, file: str, server: str) -> WorldOffer:
        raise ServerFailed("BadWorld", f"{file}: `{server}` is simulated, and nobody here simulates worlds")

    def call(self, file: str, tool: str, arguments: JsonObject, *, task: str, kept: JsonObject) -> WorldCall:
        del arguments, task, kept
        raise ServerFailed("BadWorld", f"{file}: `{tool}` is simulated, and nobody here simulates worlds")
