"""Tier 3: containers as places to run commands in. The program that does it is `inside.py`; here is what it is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Final, Protocol

from planloop.containers.engine import Engine, EngineFailed, Reason
from planloop.containers.sandboxing.entry import hidden
from planloop.containers.sandboxing.guarding import Unfit
from planloop.reconciler.effects.processes import Command
from planloop.schemas.frozen import frozen

CLIENT: Final = Path(__file__).with_name("inside.py")
OF_THIS_MACHINE: Final = frozenset({"PATH", "HOME", "LANG", "TMPDIR"})
"""Variables that mean something here and nothing in a container, which has its own."""

_GONE: Final = frozenset({Reason.NOT_FOUND, Reason.NOT_RUNNING})


class Rooms(Protocol):
    """The containers of a plan as places to run commands in."""

    def enclosed(self, op: str, command: Command) -> tuple[str, Command]:
        """Its container's id, and what to run here so that it runs there, marked `op`. Raises Unfit."""
        ...

    async def end(self, ref: str, op: str) -> bool:
        """Ends what `op` has left running in the container `ref`; whether that could be done."""
        ...


class NoRooms:
    """`Rooms` of who has no containers."""

    def enclosed(self, op: str, command: Command) -> tuple[str, Command]:
        del op, command
        raise Unfit("there are no containers here")

    async def end(self, ref: str, op: str) -> bool:
        del ref, op
        return True


@frozen
class Room:
    """A container that runs: the engine's `id`, and where folders of this machine stand in it, absolute both."""

    id: str
    mounts: Mapping[str, str] = field(default_factory=dict)

    def place_of(self, cwd: str) -> str:
        """Where the folder `cwd` is inside; empty, for the image's own folder, when it is not there."""
        at = Path(cwd)
        for folder in (at, *at.parents):
            if str(folder) in self.mounts:
                return str(Path(self.mounts[str(folder)]) / at.relative_to(folder))
        return ""


class EngineRooms:
    """Those of an engine on this machine. `find` gives the container of a name, or says why there is none to be in."""

    def __init__(
        self, engine: Callable[[], Engine], address: str, python: str, find: Callable[[str], Room | str]
    ) -> None:
        self._engine = engine
        self._address = address
        self._python = python
        self._find = find

    def enclosed(self, op: str, command: Command) -> tuple[str, Command]:
        box = command.sandbox
        assert box is not None, "it asks for a container"
        scheme, _, path = self._address.partition("://")
        if scheme != "unix":
            raise Unfit(f"the engine is at {self._address}: commands are run in containers through a unix socket")
        room = self._find(box.container)
        if isinstance(room, str):
            raise Unfit(room)
        names = ",".join(sorted(set(command.env) - OF_THIS_MACHINE))
        given = "in" if command.stdin else "-"
        # An engine takes both outputs by themselves, and their order would be lost.
        inner = command.argv or ("/bin/sh", "-c", f"exec 2>&1\n{command.shell}")
        folder = room.place_of(command.cwd) if box.inside is None else box.inside
        told = (path, room.id, op, folder, names, given)
        argv = (self._python, "-I", "-S", str(CLIENT), *told, *inner)
        # The bounds are the container's own: what runs here only stands for it.
        return room.id, replace(
            command,
            cwd="/",
            argv=argv,
            shell="",
            env=hidden(command.env),
            sandbox=None,
            memory_bytes_max=None,
            processes_max=None,
            cpu_s_max=None,
        )

    async def end(self, ref: str, op: str) -> bool:
        try:
            await self._engine().end(ref, op)
        except EngineFailed as failed:
            return failed.reason in _GONE
        return True
