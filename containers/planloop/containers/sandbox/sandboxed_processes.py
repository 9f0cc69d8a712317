"""A `Processes` that runs each command in the sandbox of its `ProcessCommand.sandbox`.

A sandboxed command runs under the same shim, so it survives a crash of the owner and the next owner adopts it. Other
resources of a sandbox (cgroups, a proxy, commands in a container) are named by the operation, so that they end with it.
If the requested sandbox is not possible, the command is NOT_STARTED: it never runs with a weaker one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Final

import anyio

from planloop.containers.engine.docker_frames import GONE, GONE_EXIT
from planloop.containers.sandbox import bubblewrap, cgroups, proxy, seccomp
from planloop.containers.sandbox.bubblewrap import BwrapPrograms, SandboxHome
from planloop.containers.sandbox.cgroups import PlanCgroups
from planloop.containers.sandbox.container_sandbox import NoSandboxContainers, SandboxContainers
from planloop.containers.sandbox.entry import hide_variables
from planloop.containers.sandbox.probe import FILTER_NAME, NO_BWRAP
from planloop.containers.sandbox.write_guard import SandboxUnfit, note_outside_access, search_path_outside
from planloop.reconciler.effects.local_processes import start_obstacle
from planloop.reconciler.effects.processes import (
    CommandSandbox,
    ExitCause,
    OperationTrace,
    ProcessCommand,
    Processes,
    ProcessExit,
)
from planloop.schemas import limits
from planloop.schemas.canonical_json import JsonObject, decode, encode
from planloop.schemas.objects import sandbox
from planloop.schemas.objects.sandbox import BUBBLEWRAP, CONTAINER, NOTHING

BWRAP: Final = "bwrap"
SANDBOX_NOTE: Final = "enclosed.json"
FILTER_FILE: Final = "calls.bpf"
"""The file with the seccomp filter, next to the folder of sandboxes."""

EMPTY_LOOK_S: Final = 0.01
MESSAGE_PREFIX: Final = "[planloop] "
PROXY_VARIABLES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")


class SandboxedProcesses:
    """A `Processes` over `inner`. `folder` stores what is needed about an operation after a crash."""

    def __init__(
        self,
        inner: Processes,
        folder: Path,
        home: SandboxHome,
        *,
        groups: Callable[[], PlanCgroups | None] = lambda: None,
        rooms: SandboxContainers | None = None,
    ) -> None:
        self._inner = inner
        self._folder = folder
        self._home = home
        self._find_groups = groups
        self._containers = rooms or NoSandboxContainers()

    @cached_property
    def _own(self) -> str:
        return os.path.realpath(self._folder)

    @cached_property
    def _groups(self) -> PlanCgroups | None:
        return self._find_groups()

    async def run(self, op: str, command: ProcessCommand) -> ProcessExit:
        """Implements `Processes.run`."""
        box = command.sandbox
        if box is None or box.tier == NOTHING:
            return await self._inner.run(op, command)
        command = replace(
            command,
            memory_bytes_max=_least(box.memory_bytes, command.memory_bytes_max),
            processes_max=_least(box.processes, command.processes_max),
        )
        if box.tier < CONTAINER and (obstacle := start_obstacle(command)):
            return _not_started(obstacle)
        try:
            async with self._way_out(op, box) as refused:
                return self._with_sandbox_lines(
                    op, refused, await self._inner.run(op, self._enclosed(op, command, box))
                )
        except SandboxUnfit as unfit:
            return _not_started(str(unfit))
        finally:
            with anyio.CancelScope(shield=True):
                await self._clear(op)

    async def trace(self, op: str) -> OperationTrace:
        """Implements `Processes.trace`. A lost command is also killed in its container."""
        found = await self._inner.trace(op)
        if found is OperationTrace.LOST:
            await self._clear(op)
        return found

    async def adopt(self, op: str, timeout_s: float | None = None) -> ProcessExit:
        """Implements `Processes.adopt`. Starts its proxy again."""
        try:
            async with self._reopened(op) as refused:
                return self._with_sandbox_lines(op, refused, await self._inner.adopt(op, timeout_s))
        finally:
            with anyio.CancelScope(shield=True):
                await self._clear(op)

    async def stop(self, op: str) -> None:
        """Implements `Processes.stop`."""
        try:
            await self._inner.stop(op)
        finally:
            with anyio.CancelScope(shield=True):
                await self._clear(op)

    async def read_output(self, op: str, after: int = 0) -> bytes:
        return await self._inner.read_output(op, after)

    def forget(self, ops: Sequence[str]) -> None:
        self._inner.forget(ops)

    async def sweep(self, keep: frozenset[str]) -> list[str]:
        """Implements `Processes.sweep`. Also kills commands in containers, and removes empty cgroups."""
        swept = await self._inner.sweep(keep)
        for op in self._noted() - keep:
            await self._clear(op)
        if self._groups is not None:
            for op in set(self._groups.ops()) - keep:
                await self._ungroup(op)
            if not keep:
                self._groups.close()
        return swept

    def _enclosed(self, op: str, command: ProcessCommand, box: CommandSandbox) -> ProcessCommand:
        """Return the command for the inner processes. Raises SandboxUnfit."""
        match box.tier:
            case sandbox.GROUP:
                return self._bounded(op, command, replace(command, sandbox=None), ())
            case sandbox.BUBBLEWRAP:
                return self._wrapped(op, command)
            case _:
                ref, enclosed = self._containers.enclosed(op, command)
                self._note(op, {"container": ref, "of": self._own})
                return enclosed

    def _wrapped(self, op: str, command: ProcessCommand) -> ProcessCommand:
        own = search_path_outside(os.pathsep.join(os.get_exec_path()), self._home.folder)
        box, bwrap = command.sandbox, shutil.which(BWRAP, path=own)
        assert box is not None, "the command has a sandbox"
        if bwrap is None:
            raise SandboxUnfit(NO_BWRAP)
        door, env = "", dict(command.env)
        if box.hosts and not box.network:
            door = str(self._folder / op)
            here = f"http://127.0.0.1:{limits.SANDBOX_PROXY_PORT}"
            env |= dict.fromkeys(PROXY_VARIABLES, here)
        processes = command.processes_max or limits.SANDBOX_PROCESSES
        has_groups = self._groups is not None
        calls, keyctl = self._calls(), seccomp.syscall_numbers(self._home.machine)["keyctl"]
        means = BwrapPrograms(bwrap, calls, keyctl, door, None if has_groups else processes)
        argv = bubblewrap.bwrap_argv(means, self._home, command)
        note_outside_access(self._home.folder)
        # The task's environment must not affect outer programs: it may contain PATH and LD_PRELOAD.
        outside = {"PATH": own, **hide_variables(env)}
        wrapped = replace(command, argv=tuple(argv), shell="", env=outside, sandbox=None, processes_max=None)
        bounded = replace(command, processes_max=processes)
        return self._bounded(op, bounded, wrapped, wrapped.argv)

    def _calls(self) -> str:
        """Return the file with the seccomp filter for this machine; write it if it is missing. Raises SandboxUnfit."""
        wanted, file = seccomp.seccomp_program(self._home.machine), self._folder.with_name(FILTER_FILE)
        if wanted is None:
            known = " and ".join(seccomp.KNOWN)
            raise SandboxUnfit(f"no {FILTER_NAME} for {self._home.machine}, only for {known}")
        try:
            if not file.exists() or file.read_bytes() != wanted:
                file.parent.mkdir(parents=True, exist_ok=True)
                fresh = file.with_suffix(".new")
                fresh.write_bytes(wanted)
                fresh.replace(file)
        except OSError as error:
            raise SandboxUnfit(f"the {FILTER_NAME} cannot be written to {file}: {error.strerror}") from error
        return str(file)

    def _bounded(self, op: str, wanted: ProcessCommand, command: ProcessCommand, argv: Sequence[str]) -> ProcessCommand:
        """Return `command` with the limits of `wanted`, by a cgroup if possible, else by rlimits."""
        groups = self._groups
        if groups is None or (wanted.memory_bytes_max is None and wanted.processes_max is None):
            return command
        try:
            folders = groups.make(op, wanted.memory_bytes_max, wanted.processes_max)
        except OSError as error:
            raise SandboxUnfit(f"its memory and processes cannot be limited: {error}") from error
        enter = ("/bin/sh", "-c", cgroups.ENTER + 'exec "$@"', "sh", str(len(folders)), *folders)
        inner = argv or command.argv or ("/bin/sh", "-c", command.shell)
        return replace(command, argv=(*enter, *inner), shell="", memory_bytes_max=None, processes_max=None)

    @asynccontextmanager
    async def _way_out(self, op: str, box: CommandSandbox) -> AsyncIterator[Sequence[str]]:
        """Run the proxy of a sandbox that may access some hosts. Yields the refused hosts."""
        if box.tier != BUBBLEWRAP or box.network or not box.hosts:
            yield ()
            return
        self._note(op, {"hosts": list(box.hosts)})
        async with proxy.serve_proxy(self._folder / op, box.hosts) as refused:
            yield refused

    @asynccontextmanager
    async def _reopened(self, op: str) -> AsyncIterator[Sequence[str]]:
        hosts = self._read(op).get("hosts")
        if not hosts:
            yield ()
            return
        async with proxy.serve_proxy(self._folder / op, hosts) as refused:
            yield refused

    def _with_sandbox_lines(self, op: str, refused: Sequence[str], ended: ProcessExit) -> ProcessExit:
        """`ended`, with lines about limits and refused hosts at the end of the output."""
        if ended.code == GONE_EXIT and ended.output.endswith(GONE) and self._read(op).get("container"):
            return replace(ended, ending=ExitCause.LOST, code=None)
        lines = []
        if self._groups is not None:
            events = self._groups.limit_events(op)
            if events.memory_kills:
                lines.append("the command exceeded the memory limit of its sandbox, and was killed")
            if events.refused_processes:
                lines.append("the command reached the process limit of its sandbox")
        if refused:
            lines.append(
                f"the sandbox refused access to {', '.join(refused)}. Add the hosts to `hosts` in the plan's `rights`"
            )
        if not lines:
            return ended
        gap = b"" if not ended.output or ended.output.endswith(b"\n") else b"\n"
        return replace(
            ended, output=ended.output + gap + "".join(f"{MESSAGE_PREFIX}{line}\n" for line in lines).encode()
        )

    async def _clear(self, op: str) -> None:
        """Clean up what the inner processes do not know of `op`, and forget it."""
        await self._ungroup(op)
        note = self._read(op)
        # A copy of the plan's folder also has the notes, but what they describe belongs to the original.
        container = note.get("container") if note.get("of", self._own) == self._own else None
        # If the engine is not reachable now, the next owner tries again.
        if note and (not container or await self._containers.end(str(container), op)):
            shutil.rmtree(self._folder / op, ignore_errors=True)

    async def _ungroup(self, op: str) -> None:
        """Remove the cgroups of `op`; killed processes take a moment to leave them."""
        groups = self._groups
        with anyio.move_on_after(limits.SANDBOX_EMPTY_S):
            while groups is not None and not groups.remove(op):  # noqa: ASYNC110 - no event reports an empty group
                await anyio.sleep(EMPTY_LOOK_S)

    def _note(self, op: str, what: JsonObject) -> None:
        folder = self._folder / op
        folder.mkdir(0o700, parents=True, exist_ok=True)
        (folder / SANDBOX_NOTE).touch(mode=0o600)
        (folder / SANDBOX_NOTE).write_bytes(encode(what))

    def _read(self, op: str) -> JsonObject:
        with suppress(OSError, ValueError):
            found = decode((self._folder / op / SANDBOX_NOTE).read_bytes())
            if isinstance(found, dict):
                return found
        return {}

    def _noted(self) -> frozenset[str]:
        try:
            return frozenset(entry.name for entry in self._folder.iterdir())
        except OSError:
            return frozenset()


def _not_started(why: str) -> ProcessExit:
    return ProcessExit(ExitCause.NOT_STARTED, None, why.encode())


def _least(one: int | None, other: int | None) -> int | None:
    return min((each for each in (one, other) if each is not None), default=None)
