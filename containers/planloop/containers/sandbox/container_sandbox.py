"""Containers as sandboxes (tier 3): prepare commands for `exec_in_container`."""

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
"""Variables of this machine that are not passed to a container, which has its own."""

_GONE: Final = frozenset({EngineErrorReason.NOT_FOUND, EngineErrorReason.NOT_RUNNING})


class SandboxContainers(Protocol):
    """The containers of a plan as sandboxes for commands."""

    def enclosed(self, op: str, command: ProcessCommand) -> tuple[str, ProcessCommand]:
        """Return the container's id, and the local command that runs `command` in it, marked `op`. Raises
        SandboxUnfit."""
        ...

    async def end(self, ref: str, op: str) -> bool:
        """Kill the processes of `op` in the container `ref`; return whether that succeeded."""
        ...


class NoSandboxContainers:
    """`SandboxContainers` without any container."""

    def enclosed(self, op: str, command: ProcessCommand) -> tuple[str, ProcessCommand]:
        del op, command
        raise SandboxUnfit("this process has no containers")

    async def end(self, ref: str, op: str) -> bool:
        del ref, op
        return True


@frozen
class SandboxContainer:
    """A running container: its id in the engine, and its mounts of folders of this machine, as absolute paths."""

    id: str
    mounts: Mapping[str, str] = field(default_factory=dict)

    def place_of(self, cwd: str) -> str:
        """The path of the folder `cwd` inside; empty, for the image's working directory, if it is not mounted."""
        at = Path(cwd)
        for folder in (at, *at.parents):
            if str(folder) in self.mounts:
                return str(Path(self.mounts[str(folder)]) / at.relative_to(folder))
        return ""


class EngineSandboxContainers:
    """Containers of an engine on this machine. `find` returns the container with a name, or why it is not available."""

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
        assert box is not None, "the command has a container"
        scheme, _, path = self._address.partition("://")
        if scheme != "unix":
            raise SandboxUnfit(
                f"the engine is at {self._address}, but commands in containers need an engine at a unix socket"
            )
        container = self._find(box.container)
        if isinstance(container, str):
            raise SandboxUnfit(container)
        names = ",".join(sorted(set(command.env) - OF_THIS_MACHINE))
        given = "in" if command.stdin else "-"
        # The engine separates both outputs, which would lose their order.
        inner = command.argv or ("/bin/sh", "-c", f"exec 2>&1\n{command.shell}")
        folder = container.place_of(command.cwd) if box.inside is None else box.inside
        told = (path, container.id, op, folder, names, given)
        argv = (self._python, "-I", "-S", str(EXEC_PROGRAM), *told, *inner)
        # The container's limits apply. The local process only represents the command.
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
