"""Build the `Processes` of a plan, with the sandboxes that its commands require.

Sandboxes are imported for the first command that runs in one, because plans without agents have none.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from planloop.client.plan_paths import plan_label
from planloop.client.process import environment
from planloop.reconciler.effects.local_processes import LocalProcesses
from planloop.reconciler.effects.processes import OperationTrace, ProcessCommand, Processes, ProcessExit
from planloop.reconciler.store import state_files

if TYPE_CHECKING:
    from planloop.containers.sandbox.bubblewrap import SandboxHome
    from planloop.containers.sandbox.container_sandbox import SandboxContainer
    from planloop.schemas.objects.sandbox import SandboxAvailability
    from planloop.server.opened_plan import OpenedPlan


SANDBOXES: Final = "enclosed"
"""The folder, next to the files of processes, for data of sandboxes."""


def plan_processes(core: OpenedPlan) -> Processes:
    """Return the processes of the plan, which run in the sandboxes that their commands require."""
    place, view = core.place, core.store.view
    root, run_folder = place.root.absolute(), state_files.run_folder(place.folder).absolute()
    local = LocalProcesses(run_folder, plan_label(place), core.owner.epoch)

    def container(name: str) -> SandboxContainer | str:
        from planloop.controllers.shared.container_exec import sandbox_container

        return sandbox_container(view, name, root)

    def sandboxed() -> Processes:
        return sandboxed_processes(local, root, run_folder, plan_label(place), room=container)

    return PlanProcesses(local, run_folder / SANDBOXES, sandboxed, is_sandboxed=bool(view.list("agent")))


class PlanProcesses:
    """`Processes` that use `local` until a command requires a sandbox, and then the result of `make_sandboxed`.

    The folder `mark` exists from then on, so that the next owner finds sandboxed commands. With `is_sandboxed`,
    sandboxes are used from the start.
    """

    def __init__(
        self, local: Processes, mark: Path, make_sandboxed: Callable[[], Processes], *, is_sandboxed: bool
    ) -> None:
        self._processes = local
        self._mark = mark
        self._make: Callable[[], Processes] | None = make_sandboxed
        if is_sandboxed or mark.is_dir():
            self._load_sandboxes()

    def _load_sandboxes(self) -> None:
        if self._make is not None:
            self._mark.mkdir(0o700, parents=True, exist_ok=True)
            self._processes, self._make = self._make(), None

    async def run(self, op: str, command: ProcessCommand) -> ProcessExit:
        """See `Processes.run`."""
        if command.sandbox is not None:
            self._load_sandboxes()
        return await self._processes.run(op, command)

    async def trace(self, op: str) -> OperationTrace:
        """See `Processes.trace`."""
        return await self._processes.trace(op)

    async def adopt(self, op: str, timeout_s: float | None = None) -> ProcessExit:
        """See `Processes.adopt`."""
        return await self._processes.adopt(op, timeout_s)

    async def stop(self, op: str) -> None:
        """See `Processes.stop`."""
        await self._processes.stop(op)

    async def read_output(self, op: str, after: int = 0) -> bytes:
        """See `Processes.read_output`."""
        return await self._processes.read_output(op, after)

    def forget(self, ops: Sequence[str]) -> None:
        """See `Processes.forget`."""
        self._processes.forget(ops)

    async def sweep(self, keep: frozenset[str]) -> list[str]:
        """See `Processes.sweep`."""
        return await self._processes.sweep(keep)


def sandboxed_processes(
    local: LocalProcesses, root: Path, run_folder: Path, label: str, *, room: Callable[[str], SandboxContainer | str]
) -> Processes:
    """Return processes for the plan in `root`. `label` marks its sandboxes; `local` runs other commands.

    All paths are absolute. `room` returns the container with a name, or why no command can run in it.
    """
    from planloop.client.engine_access import container_engine
    from planloop.containers.engine.engine import engine_address
    from planloop.containers.sandbox import cgroups
    from planloop.containers.sandbox.container_sandbox import EngineSandboxContainers
    from planloop.containers.sandbox.sandboxed_processes import SandboxedProcesses

    rooms = EngineSandboxContainers(cache(container_engine), engine_address(environment()), sys.executable, room)
    folder, home = run_folder / SANDBOXES, sandbox_home(root)
    return SandboxedProcesses(local, folder, home, groups=lambda: cgroups.find_cgroups(label), rooms=rooms)


def try_bubblewrap() -> tuple[SandboxAvailability, str]:
    """Return whether bubblewrap works on this machine, and a text on the limits for memory and processes."""
    import tempfile

    import anyio

    from planloop.containers.sandbox import cgroups
    from planloop.containers.sandbox.probe import ProbedSandboxes
    from planloop.containers.sandbox.sandboxed_processes import SandboxedProcesses
    from planloop.reconciler.clock import RandomIds, SystemClock
    from planloop.schemas.objects.sandbox import BUBBLEWRAP, SandboxRequest

    groups = cgroups.find_cgroups("doctor")
    version = "" if groups is None else "version 2" if groups.is_unified else "version 1"
    bounds = (
        f"cgroups ({version}) limit each command" if version else "rlimits limit each process; cgroups are not writable"
    )
    with tempfile.TemporaryDirectory(prefix="planloop-doctor-") as name:
        folder = Path(os.path.realpath(name))
        (folder / "work").mkdir()
        local = LocalProcesses(folder / "run", f"doctor-{os.getpid()}", 0)
        home = sandbox_home(folder / "work")
        processes = SandboxedProcesses(local, folder / SANDBOXES, home, groups=lambda: groups)
        tried = ProbedSandboxes(processes, SystemClock(), RandomIds(), str(folder / "work")).tried
        answer = anyio.run(tried, SandboxRequest(BUBBLEWRAP))
        if groups is not None:
            groups.close()
    return answer, bounds


def sandbox_home(folder: Path) -> SandboxHome:
    """Return the paths of this installation that sandboxes of the plan in `folder` need."""
    from planloop.client import plan_sources
    from planloop.containers.sandbox.bubblewrap import SandboxHome

    programs = (sys.prefix, sys.base_prefix, *sys.modules["planloop"].__path__, str(plan_sources.plans()))
    return SandboxHome(os.path.realpath(folder), sys.executable, programs, os.path.realpath(Path.home()))
