"""Build what runs the processes of a plan, with the sandboxes that their commands ask for."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from planloop.client.context import environment
from planloop.client.engine_access import container_engine

if TYPE_CHECKING:
    from planloop.containers.sandbox.bubblewrap import SandboxHome
    from planloop.containers.sandbox.container_sandbox import SandboxContainer
    from planloop.reconciler.effects.processes import Processes
    from planloop.schemas.objects.sandbox import SandboxAvailability
    from planloop.server.opened_plan import OpenedPlan


def plan_processes(core: OpenedPlan) -> Processes:
    """The processes of the plan, in what sandboxes their commands ask for."""
    from planloop.client.plan_paths import plan_label
    from planloop.controllers.shared.sandbox import sandbox_container
    from planloop.reconciler.store import state_files

    place, root = core.place, core.place.root.absolute()
    run_folder = state_files.run_folder(place.folder).absolute()
    return sandboxed_processes(
        root,
        run_folder,
        plan_label(place),
        epoch=core.owner.epoch,
        room=lambda name: sandbox_container(core.store.view, name, root),
    )


def sandboxed_processes(
    root: Path, run_folder: Path, label: str, *, epoch: int = 0, room: Callable[[str], SandboxContainer | str]
) -> Processes:
    """Processes of the plan in `root`, all absolute, that are told from others by `label`.

    `room` finds the container of a name, or says why nobody can be in it.
    """
    from planloop.containers.engine.engine import engine_address
    from planloop.containers.sandbox import cgroups
    from planloop.containers.sandbox.container_sandbox import EngineSandboxContainers
    from planloop.containers.sandbox.sandboxed_processes import SandboxedProcesses
    from planloop.reconciler.effects.local_processes import LocalProcesses

    rooms = EngineSandboxContainers(cache(container_engine), engine_address(environment()), sys.executable, room)
    local, home = LocalProcesses(run_folder, label, epoch), sandbox_home(root)
    return SandboxedProcesses(
        local, run_folder / "enclosed", home, groups=lambda: cgroups.find_cgroups(label), rooms=rooms
    )


def try_bubblewrap() -> tuple[SandboxAvailability, str]:
    """Whether this machine encloses commands in bubblewrap, and in words what bounds their memory and processes."""
    import tempfile

    import anyio

    from planloop.containers.sandbox import cgroups
    from planloop.containers.sandbox.probe import ProbedSandboxes
    from planloop.containers.sandbox.sandboxed_processes import SandboxedProcesses
    from planloop.reconciler.clock import RandomIds, SystemClock
    from planloop.reconciler.effects.local_processes import LocalProcesses
    from planloop.schemas.objects.sandbox import BUBBLEWRAP, SandboxRequest

    groups = cgroups.find_cgroups("doctor")
    version = "" if groups is None else "version 2" if groups.is_unified else "version 1"
    bounds = (
        f"cgroups ({version}) bound each command" if version else "rlimits bound each process, no cgroup may be made"
    )
    with tempfile.TemporaryDirectory(prefix="planloop-doctor-") as name:
        folder = Path(os.path.realpath(name))
        (folder / "work").mkdir()
        local = LocalProcesses(folder / "run", f"doctor-{os.getpid()}", 0)
        home = sandbox_home(folder / "work")
        processes = SandboxedProcesses(local, folder / "enclosed", home, groups=lambda: groups)
        tried = ProbedSandboxes(processes, SystemClock(), RandomIds(), str(folder / "work")).tried
        answer = anyio.run(tried, SandboxRequest(BUBBLEWRAP))
        if groups is not None:
            groups.close()
    return answer, bounds


def sandbox_home(folder: Path) -> SandboxHome:
    """What an enclosure around the commands of the plan in `folder` needs to know of this installation."""
    from planloop.client import package_data
    from planloop.containers.sandbox.bubblewrap import SandboxHome

    programs = (sys.prefix, sys.base_prefix, *sys.modules["planloop"].__path__, str(package_data.plans()))
    return SandboxHome(os.path.realpath(folder), sys.executable, programs, os.path.realpath(Path.home()))
