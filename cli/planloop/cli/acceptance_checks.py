"""Run the acceptance checks of a plan file now: `plan diff --checks`.

Commands run in the same sandbox as in the plan. If the sandbox is not available, the task would not start, so none of
its checks runs, and each result has the reason.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

import anyio

from planloop.client import engine_access, process
from planloop.client.plan_file import PlanFile
from planloop.client.plan_paths import PlanPaths
from planloop.containers.sandbox.container_sandbox import SandboxContainer
from planloop.containers.sandbox.probe import ProbedSandboxes
from planloop.controllers.shared.container_exec import SeenContainers, sandbox_container
from planloop.controllers.shared.sandbox import nearest_agent
from planloop.controllers.shared.workspace import WorkspaceFault
from planloop.controllers.task.checks.run import CheckEnvironment, CheckFinding, run_checks
from planloop.controllers.task.run_environment import RunEnvironment
from planloop.owner import sandbox
from planloop.reconciler.clock import RandomIds, SystemClock
from planloop.reconciler.effects.local_processes import LocalProcesses
from planloop.reconciler.effects.processes import Processes
from planloop.reconciler.store import state_files
from planloop.reconciler.store.memory_view import MemoryView
from planloop.reconciler.store.store import View
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.container import CONTAINER_KIND
from planloop.schemas.objects.sandbox import sandbox_request
from planloop.schemas.objects.task import TaskSpec, task_from_json
from planloop.schemas.resource import Resource, Uid

_NO_TASK: Final = Uid("")


@frozen
class CheckedTask:
    """Result of the check `key` of the task at `address`."""

    address: str
    key: str
    finding: CheckFinding


def check_plan_file(place: PlanPaths, file: PlanFile, known: Sequence[Resource]) -> list[CheckedTask]:
    """Runs every acceptance check of `file`, those in containers in those of `known` that are up."""
    with tempfile.TemporaryDirectory(prefix="planloop-checks-") as folder, _state(place.root):
        return anyio.run(_run, place, file, known, Path(folder))


@contextmanager
def _state(root: Path) -> Iterator[None]:
    """Create the state folder meanwhile: a missing folder cannot be hidden, and a check could create it."""
    state = root / state_files.STATE
    with suppress(OSError):  # Where we may not make it, commands may not either.
        state.mkdir(state_files.FOLDER_MODE)
    try:
        yield
    finally:
        with suppress(OSError):  # It stays when there is something in it, as what is noted of who was let in.
            state.rmdir()


async def _run(place: PlanPaths, file: PlanFile, known: Sequence[Resource], folder: Path) -> list[CheckedTask]:
    root, view, label = place.root.absolute(), _view(file, known), f"checks-{place.name}-{os.getpid()}"
    names = [one.address.partition("/")[2] for one in view.list(CONTAINER_KIND)]
    containers = SeenContainers(names, known, engine_access.container_engine)
    room = partial(_room, view, containers, root)
    processes = sandbox.sandboxed_processes(LocalProcesses(folder, label, 0), root, folder, label, room=room)
    sandboxes = ProbedSandboxes(processes, SystemClock(), RandomIds(), str(root.resolve()))
    environment = process.environment()
    surroundings = RunEnvironment(place.name, root, environment, containers=lambda: containers, sandboxes=sandboxes)
    checks = _Checks(view, surroundings, processes, room)
    tasks = [task for address, task in file.graph.objects.items() if address.startswith("task/")]
    try:
        return [one for task in tasks for one in await checks.of(task.address, task_from_json(task.spec))]
    finally:
        with anyio.CancelScope(shield=True):
            await processes.sweep(frozenset())


def _view(file: PlanFile, known: Sequence[Resource]) -> View:
    """The objects as they would be had the plan just been applied, and the containers `known` as they are."""
    plan = Resource(f"plan/{file.name}", _NO_TASK, 1, {}, {"file": {"path": file.path.name}})
    wanted = [Resource(one.address, _NO_TASK, 1, one.spec, {}) for one in file.graph.objects.values()]
    return MemoryView({one.address: one for one in (plan, *wanted, *known)}.values())


def _room(view: View, containers: SeenContainers, root: Path, name: str) -> SandboxContainer | str:
    found = containers.find(name)
    return found.words if found is not None and not found.is_up else sandbox_container(view, name, root)


@frozen
class _Checks:
    """`room` returns the container of a sandbox, or the reason why it cannot be used."""

    view: View
    surroundings: RunEnvironment
    processes: Processes
    room: Callable[[str], SandboxContainer | str]

    async def of(self, address: str, spec: TaskSpec) -> list[CheckedTask]:
        """Return the results of the checks of the task at `address`."""
        encloser, surroundings = nearest_agent(self.view, address), self.surroundings
        if spec.acceptance and (why := await self._lack(spec, encloser)):
            return [CheckedTask(address, one.key, CheckFinding("error", f"not run: {why}")) for one in spec.acceptance]
        ground = surroundings.ground(self.view, address, spec, encloser)
        if isinstance(ground, WorkspaceFault):
            return [
                CheckedTask(address, one.key, CheckFinding("error", f"not run: {ground.words}"))
                for one in spec.acceptance
            ]
        bench = CheckEnvironment(
            self.processes,
            RandomIds(),
            ground,
            surroundings.no_links_from(encloser),
            surroundings.env(address, spec, 0, encloser),
            containers=surroundings.containers,
            label=f"preview {os.getpid()} {address}",  # Never that of the plan, whose checks may run as well.
            sandbox=surroundings.sandbox(self.view, encloser),
        )
        found = await run_checks(spec.acceptance, bench)
        return [CheckedTask(address, key, finding) for key, finding in found.items()]

    async def _lack(self, spec: TaskSpec, encloser: Resource | None) -> str:
        """Return why the sandbox of a task is not available, with a fix; empty if it is available."""
        requested = sandbox_request(None if encloser is None else encloser.spec.get("sandbox"))
        if requested.container and spec.fork:
            return f"`{requested.container}` shows {spec.fork}, which is created when the task starts"
        if requested.container and isinstance(why := self.room(requested.container), str):
            return why
        answer = await self.surroundings.sandboxes.tried(requested)
        return "" if answer.is_had else f"{answer.why}; {answer.cure}"
