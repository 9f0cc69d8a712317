"""The acceptance checks of a plan file, run now and outside of any plan: for `plan diff --checks`. Nothing is kept.

Commands are enclosed as they would be in the plan. Where the sandbox is not to be had the task would not begin, so none
of its checks is run, and each says why.
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

from planloop.app import wiring
from planloop.app.compiling import PlanFile
from planloop.app.places import Place
from planloop.containers.sandboxing.probing import TriedSandboxes
from planloop.containers.sandboxing.rooms import Room
from planloop.controllers.inside import SeenContainers
from planloop.controllers.sandboxes import Astray, agent_above, room_of
from planloop.controllers.task import Bench, Finding, Surroundings, run_checks
from planloop.reconciler.clock import RandomIds, SystemClock
from planloop.reconciler.effects.processes import Processes
from planloop.reconciler.storing import folders, layout
from planloop.reconciler.storing.store import View
from planloop.reconciler.storing.view import MemoryView
from planloop.schemas.container import KIND as CONTAINER
from planloop.schemas.frozen import frozen
from planloop.schemas.resource import Resource, Uid
from planloop.schemas.sandbox import wish_of
from planloop.schemas.task import TaskSpec, task_from_json

_NOBODY: Final = Uid("")


@frozen
class CheckedNow:
    """What the check `key` of the task at `address` found."""

    address: str
    key: str
    finding: Finding


def run(place: Place, file: PlanFile, known: Sequence[Resource]) -> list[CheckedNow]:
    """Runs every acceptance check of `file`, those in containers in those of `known` that are up."""
    with tempfile.TemporaryDirectory(prefix="planloop-checks-") as folder, _state(place.root):
        return anyio.run(_run, place, file, known, Path(folder))


@contextmanager
def _state(root: Path) -> Iterator[None]:
    """The folder of the plans' states is there meanwhile: what is not there cannot be hidden, and could be made."""
    state = root / layout.STATE
    with suppress(OSError):  # Where we may not make it, commands may not either.
        state.mkdir(folders.FOLDER_MODE)
    try:
        yield
    finally:
        with suppress(OSError):  # It stays when there is something in it, as what is noted of who was let in.
            state.rmdir()


async def _run(place: Place, file: PlanFile, known: Sequence[Resource], folder: Path) -> list[CheckedNow]:
    root, view, label = place.root.absolute(), _view(file, known), f"checks-{place.name}-{os.getpid()}"
    names = [one.address.partition("/")[2] for one in view.list(CONTAINER)]
    containers = SeenContainers(names, known, wiring.container_engine)
    room = partial(_room, view, containers, root)
    processes = wiring.enclosing(root, folder, label, room=room)
    sandboxes = TriedSandboxes(processes, SystemClock(), RandomIds(), str(root.resolve()))
    environment = wiring.environment()
    surroundings = Surroundings(place.name, root, environment, containers=containers, sandboxes=sandboxes)
    checks = _Checks(view, surroundings, processes, room)
    tasks = [task for address, task in file.graph.objects.items() if address.startswith("task/")]
    try:
        return [one for task in tasks for one in await checks.of(task.address, task_from_json(task.spec))]
    finally:
        with anyio.CancelScope(shield=True):
            await processes.sweep(frozenset())


def _view(file: PlanFile, known: Sequence[Resource]) -> View:
    """The objects as they would be had the plan just been applied, and the containers `known` as they are."""
    plan = Resource(f"plan/{file.name}", _NOBODY, 1, {}, {"file": {"path": file.path.name}})
    wanted = [Resource(one.address, _NOBODY, 1, one.spec, {}) for one in file.graph.objects.values()]
    return MemoryView({one.address: one for one in (plan, *wanted, *known)}.values())


def _room(view: View, containers: SeenContainers, root: Path, name: str) -> Room | str:
    found = containers.find(name)
    return found.words if found is not None and not found.is_up else room_of(view, name, root)


@frozen
class _Checks:
    """`room` finds the container of a sandbox, or says why nobody can be in it."""

    view: View
    surroundings: Surroundings
    processes: Processes
    room: Callable[[str], Room | str]

    async def of(self, address: str, spec: TaskSpec) -> list[CheckedNow]:
        """What the checks of the task at `address` find."""
        encloser, surroundings = agent_above(self.view, address), self.surroundings
        if spec.acceptance and (why := await self._lack(spec, encloser)):
            return [CheckedNow(address, one.key, Finding("error", f"not run: {why}")) for one in spec.acceptance]
        ground = surroundings.ground(self.view, address, spec, encloser)
        if isinstance(ground, Astray):
            return [
                CheckedNow(address, one.key, Finding("error", f"not run: {ground.words}")) for one in spec.acceptance
            ]
        bench = Bench(
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
        return [CheckedNow(address, key, finding) for key, finding in found.items()]

    async def _lack(self, spec: TaskSpec, encloser: Resource | None) -> str:
        """Why the sandbox of a task is not to be had, and what would help; empty when it is."""
        wish = wish_of(None if encloser is None else encloser.spec.get("sandbox"))
        if wish.container and spec.fork:
            return f"`{wish.container}` shows {spec.fork}, which is made when the task begins"
        if wish.container and isinstance(why := self.room(wish.container), str):
            return why
        answer = await self.surroundings.sandboxes.tried(wish)
        return "" if answer.is_had else f"{answer.why}; {answer.cure}"
