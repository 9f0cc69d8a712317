"""Containers as sandboxes (tier 3): what `exec_in_container` is given to run a command there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Final, Protocol

from planloop.containers.engine.engine import ContainerEngine, EngineErrorReason, EngineFailed
from planloop.containers.sandbox.entry import hide_variables
from planloop.containers.sandbox.write_guard import SandboxUnfit
from planloop.reconciler.effects.processes import ProcessCommand
from planloop.schemas.frozen import frozen

EXEC_PROGRAM: Final = Path(__file__).with_name("exec_in_container.py")
OF_THIS_MACHINE: Final = frozenset({"PATH", "HOME", "LANG", "TMPDIR"})
"""Variables that mean something here and nothing in a container, which has its own."""

_GONE: Final = frozenset({EngineErrorReason.NOT_FOUND, EngineErrorReason.NOT_RUNNING})


class SandboxContainers(Protocol):
    """The containers of a plan as places to run commands in."""

    def enclosed(self, op: str, command: ProcessCommand) -> tuple[str, ProcessCommand]:
        """Its container's id, and what to run here so that it runs there, marked `op`. Raises SandboxUnfit."""
        ...

    async def end(self, ref: str, op: str) -> bool:
        """Ends what `op` has left running in the container `ref`; whether that could be done."""
        ...


class NoSandboxContainers:
    """`SandboxContainers` without any container."""

    def enclosed(self, op: str, command: ProcessCommand) -> tuple[str, ProcessCommand]:
        del op, command
        raise SandboxUnfit("there are no containers here")

    async def end(self, ref: str, op: str) -> bool:
        del ref, op
        return True


@frozen
class SandboxContainer:
    """A running container: the engine's `id`, and where it mounts folders of this machine, both absolute."""

    id: str
    mounts: Mapping[str, str] = field(default_factory=dict)

    def place_of(self, cwd: str) -> str:
        """Where the folder `cwd` is inside; empty, for the image's own folder, when it is not there."""
        at = Path(cwd)
        for folder in (at, *at.parents):
            if str(folder) in self.mounts:
                return str(Path(self.mounts[str(folder)]) / at.relative_to(folder))
        return ""


class EngineSandboxContainers:
    """Containers of an engine on this machine. `find` returns the container of a name, or why there is none."""

    def __init__(
        self,
        engine: Callable[[], ContainerEngine],
        address: str,
        python: str,
        find: Callable[[str], SandboxContainer | str],
    ) -> None:
        self._engine = engine
        self._address = address
        self._python = python
        self._find = find

    def enclosed(self, op: str, command: ProcessCommand) -> tuple[str, ProcessCommand]:
        box = command.sandbox
        assert box is not None, "it asks for a container"
        scheme, _, path = self._address.partition("://")
        if scheme != "unix":
            raise SandboxUnfit(
                f"the engine is at {self._address}: commands are run in containers through a unix socket"
            )
        container = self._find(box.container)
        if isinstance(container, str):
            raise SandboxUnfit(container)
        names = ",".join(sorted(set(command.env) - OF_THIS_MACHINE))
        given = "in" if command.stdin else "-"
        # An engine takes both outputs by themselves, and their order would be lost.
        inner = command.argv or ("/bin/sh", "-c", f"exec 2>&1\n{command.shell}")
        folder = container.place_of(command.cwd) if box.inside is None else box.inside
        told = (path, container.id, op, folder, names, given)
        argv = (self._python, "-I", "-S", str(EXEC_PROGRAM), *told, *inner)
        # The container's own bounds apply: the local process only represents the command.
        return container.id, replace(
            command,
            cwd="/",
            argv=argv,
            shell="",
            env=hide_variables(command.env),
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
