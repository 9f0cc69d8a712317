"""Tier 3 as the enclosing processes see it: a container that commands run in."""

from __future__ import annotations

from typing import Protocol

from containers.sandboxing.bubblewrap import Unfit
from reconciler.effects.processes import Command


class Rooms(Protocol):
    """The containers of a plan as places to run commands in."""

    def enclosed(self, op: str, command: Command) -> Command:
        """What to run here so that `command` runs in its container, marked `op`. Raises Unfit."""
        ...

    async def end(self, container: str, op: str) -> None:
        """Ends what `op` has left running inside; none is left when this returns."""
        ...


class NoRooms:
    """`Rooms` of who has no containers."""

    def enclosed(self, op: str, command: Command) -> Command:
        del op, command
        raise Unfit("there are no containers here")

    async def end(self, container: str, op: str) -> None:
        del container, op
