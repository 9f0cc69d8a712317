"""Build an owner from real parts: engine, processes, controllers, models, tools.

Controllers are imported inside the functions: a plan without agents, containers or tool servers loads none of theirs.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from planloop.client.context import environment, now
from planloop.client.engine_access import container_engine
from planloop.client.plan_paths import PlanPaths
from planloop.owner.container_teardown import container_context
from planloop.owner.lazy import BackgroundJobs
from planloop.owner.sandbox import plan_processes
from planloop.reconciler.effects.processes import Processes
from planloop.reconciler.engine.engine import Engine
from planloop.reconciler.engine.queue import AddressQueue
from planloop.reconciler.engine.work_pools import WorkPools
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.resource import Resource
from planloop.server.opened_plan import open_plan, plan_language

if TYPE_CHECKING:
    from planloop.containers.engine.engine import ContainerEngine
    from planloop.controllers.agent.models.router import ModelRouter
    from planloop.controllers.agent.services import AgentServices, ToolServers
    from planloop.controllers.fork.context import ForkContext as ForkDesk
    from planloop.controllers.mcp.server_run import ToolServerContext
    from planloop.controllers.shared.container_exec import PlanContainers
    from planloop.controllers.shared.simulated_worlds import Worlds
    from planloop.owner.plan_fork import ForkedPlan, PlanForkOptions
    from planloop.owner.replay.assembly import ReplaySetup
    from planloop.reconciler.engine.reconcile import Reconciler
    from planloop.server.opened_plan import OpenedPlan


def image_folder() -> Path:
    """Where stock images are made and their archives kept: this person's cache."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(cache) if Path(cache).is_absolute() else Path.home() / ".cache") / "planloop" / "images"


def fork_plan(wish: PlanForkOptions) -> ForkedPlan:
    """Makes the fork that is wished for. Raises CommandError, StoreCorrupt, StoreFailed."""

    from planloop.owner import plan_fork
    from planloop.reconciler.clock import RandomIds, SystemClock

    return anyio.run(plan_fork.create_plan_fork, wish, SystemClock(), RandomIds())


def build_runtime(core: OpenedPlan, *, parallel: int, models: Mapping[str, int]) -> PlanRuntime:
    """What runs a plan: queue, work plane, processes, controllers and the engine over them. Nothing runs yet."""
    import random

    from planloop.containers.sandbox.probe import ProbedSandboxes
    from planloop.controllers.hook.controller import HookReconciler
    from planloop.controllers.lock.controller import LockReconciler
    from planloop.controllers.plan.controller import PlanReconciler
    from planloop.controllers.shared.container_exec import PlanContainers
    from planloop.controllers.task.controller import TaskReconciler
    from planloop.controllers.task.run_environment import RunEnvironment
    from planloop.owner.lazy import BackgroundJobs, LazyReconciler
    from planloop.reconciler.engine.engine import Engine
    from planloop.reconciler.engine.queue import AddressQueue
    from planloop.reconciler.engine.work_pools import WorkPools

    place, address = core.place, f"plan/{core.place.name}"
    processes = plan_processes(core)
    queue = AddressQueue(time.monotonic, random.random)  # What asyncio counts in; asking anyio asks which loop it is.
    bounds = {"tools": parallel} | {f"models:{pattern}": bound for pattern, bound in models.items()}
    work = WorkPools(queue, bounds)
    one_engine, root = cache(container_engine), place.root.absolute()
    inside = PlanContainers(core.store, one_engine)
    sandboxes = ProbedSandboxes(processes, core.clock, core.ids, str(root.resolve()))
    surroundings = RunEnvironment(place.name, root, environment(), containers=inside, sandboxes=sandboxes)
    background = BackgroundJobs()

    @cache
    def yard() -> ToolServerContext:
        return mcp_context(core, processes, work, simulated_worlds(place))

    def tool_servers() -> Reconciler:
        from planloop.controllers.mcp.controller import ToolServerReconciler

        return ToolServerReconciler(yard(), work)

    def agents() -> Reconciler:
        from planloop.controllers.agent.controller import AgentReconciler

        return AgentReconciler(agents_context(core, processes, work, background, yard(), inside))

    def conflicts() -> Reconciler:
        from planloop.controllers.agent.conflicts.controller import ConflictReconciler

        return ConflictReconciler(core.store, core.clock, core.gate)

    def forks() -> Reconciler:
        from planloop.controllers.fork.controller import ForkReconciler

        return ForkReconciler(fork_context(core, processes), work)

    reconcilers: list[Reconciler] = [
        TaskReconciler(core.store, work, processes, core.clock, core.ids, surroundings),
        LazyReconciler("agent", agents),
        LazyReconciler("mcp", tool_servers),
        LazyReconciler("fork", forks),
        LazyReconciler("conflict", conflicts),
        LazyReconciler("case", lambda: case_controller(core, work, processes, one_engine)),
        LazyReconciler("container", lambda: container_controller(core, work, one_engine(), background)),
        LockReconciler(core.store, core.clock, work, root),
        HookReconciler(core.store, core.clock),
        PlanReconciler(core.store, plan_language(place).check, clock=core.clock, ids=core.ids, work=work),
    ]
    engine = Engine(core.store, core.clock, queue, work, reconcilers, address)
    return PlanRuntime(processes, queue, work, engine, background, lambda: yard().servers)


def fork_context(core: OpenedPlan, processes: Processes) -> ForkDesk:
    """What the forks of the plan are made and brought back with."""
    from planloop.containers.sandbox.write_guard import search_path_outside
    from planloop.controllers.fork.context import ForkContext
    from planloop.controllers.fork.git import Git
    from planloop.controllers.task.run_environment import KEPT_VARIABLES

    place = core.place
    kept = {name: value for name, value in environment().items() if name in KEPT_VARIABLES}
    kept["PATH"] = search_path_outside(kept.get("PATH", ""), str(place.root))
    git = Git(processes, core.ids, kept)
    return ForkContext(
        core.store, processes, core.clock, git, place.name, place.root.absolute(), place.folder.absolute()
    )


def container_controller(
    core: OpenedPlan, work: WorkPools, engine: ContainerEngine, background: BackgroundJobs
) -> Reconciler:
    """What brings the plan's containers up, and its watcher, which begins with the first of them."""
    from planloop.controllers.container.controller import ContainerReconciler
    from planloop.controllers.container.watch import ContainerWatch

    yard = container_context(core, work, engine)
    return ContainerReconciler(yard, lambda: background.start(ContainerWatch(yard).__call__))


def case_controller(
    core: OpenedPlan, work: WorkPools, processes: Processes, engine: Callable[[], ContainerEngine]
) -> Reconciler:
    """What grades the entries of a benchmark's run, by the `plan.json` in the plan's folder."""

    from planloop.benchmarks.case_controller import CaseReconciler
    from planloop.benchmarks.events.evidence import EvidenceFold
    from planloop.benchmarks.grading.context import BlobFolder, GradingContext
    from planloop.benchmarks.grading.grade import grade_attempt
    from planloop.benchmarks.runs.run_compiler import compiled_run_from_json
    from planloop.client.plan_paths import plan_label
    from planloop.controllers.task.checks.run import run_check
    from planloop.controllers.task.run_environment import KEPT_VARIABLES
    from planloop.schemas.canonical_json import decode

    place, root = core.place, core.place.root.absolute()
    compiled = compiled_run_from_json(decode((root / "plan.json").read_bytes()))
    kept = {name: value for name, value in environment().items() if name in KEPT_VARIABLES}
    witness = EvidenceFold(core.store, compiled).evidence
    view = core.store.view

    def containers(case: Resource) -> list[Resource]:
        return [one for ref in case.refs if (one := view.get(ref)) is not None and one.kind == "container"]

    ground = GradingContext(
        root,
        BlobFolder(root),
        compiled,
        run_check,
        processes,
        core.ids,
        core.clock,
        witness,
        engine,
        containers,
        plan_label(place),
        kept,
    )
    return CaseReconciler(core.store, work, core.clock, core.gate, partial(grade_attempt, ground))


def agents_context(
    core: OpenedPlan,
    processes: Processes,
    work: WorkPools,
    background: BackgroundJobs,
    yard: ToolServerContext,
    containers: PlanContainers,
) -> AgentServices:
    """What the agents of the plan live in; their models are open in `background`, their tool servers in `yard`."""
    from planloop.controllers.agent.services import AgentServices, Connections, DeciderServices, ProgramSettings
    from planloop.controllers.task.run_environment import KEPT_VARIABLES
    from planloop.owner.model_publisher import PublishedModels

    asked = plan_models(core)
    background.start(asked.run)
    kept = {name: value for name, value in environment().items() if name in KEPT_VARIABLES}
    return AgentServices(
        core.store,
        core.clock,
        core.ids,
        work,
        core.gate,
        f"plan/{core.place.name}",
        core.place.root.absolute(),
        ProgramSettings(processes, kept, sys.executable, environment()),
        DeciderServices(PublishedModels(asked, core.hearing)),
        Connections(yard.servers, containers, yard.worlds),
    )


def mcp_context(core: OpenedPlan, processes: Processes, work: WorkPools, worlds: Worlds) -> ToolServerContext:
    """Where the tool servers of the plan run, and the way to them. Nothing is started."""
    from planloop.client.plan_paths import plan_label
    from planloop.controllers.mcp.live_servers import LiveServers
    from planloop.controllers.mcp.server_run import ToolServerContext, ToolServerHome
    from planloop.reconciler.store import state_files

    place = core.place
    run_folder = state_files.run_folder(place.folder)
    home = ToolServerHome(plan_label(place), core.owner.epoch, place.root.absolute(), run_folder, environment())
    live = LiveServers(core.store, work)
    return ToolServerContext(core.store, core.clock, processes, live, home, core.ids.mint, worlds)


def simulated_worlds(place: PlanPaths) -> Worlds:
    """The simulated worlds in the folder of the plan of `place`. None is read yet."""
    from planloop.owner.lazy import LazyWorlds

    root = place.root.absolute()

    def served() -> Worlds:
        from planloop.benchmarks.worlds.servers import ServedWorlds

        return ServedWorlds(lambda file: (root / file).read_bytes())

    return LazyWorlds(served)


def plan_models(core: OpenedPlan) -> ModelRouter:
    """The models of the plan as its `models:` table has them at each request. Nothing is open yet."""
    return routed_models(core.place, lambda: core.plan.spec if core.plan is not None else {}, core.clock.now)


def start_telemetry(core: OpenedPlan, engine: Engine) -> ExitStack:
    """What tells a collector of the plan, if the environment asks for it; closed when the owner ends. Raises
    CommandError.
    """
    from planloop.owner import telemetry as telling

    open_ = ExitStack()
    if telling.is_telemetry_enabled(os.environ):
        told = open_.enter_context(telling.start_exporter(core.place.name, core.store.view.get))
        core.store.on_change(lambda record, _: told.note(record))
        engine.on_reconcile = told.reconciled
    return open_


def replay_setup(place: PlanPaths) -> ReplaySetup:
    """What the plan of `place` is replayed on."""
    from planloop.owner.replay.assembly import ReplaySetup

    return ReplaySetup(
        place, plan_language(place), lambda document: routed_models(place, document, now), simulated_worlds(place)
    )


def routed_models(place: PlanPaths, document: Callable[[], JsonObject], clock: Callable[[], float]) -> ModelRouter:
    """The models by the `models:` table of the plan document as it is at each request."""
    from planloop.controllers.agent.models.router import ModelRouter, RouteContext
    from planloop.schemas.objects.model import ModelTable, model_table

    read: tuple[JsonObject, ModelTable] = ({}, ModelTable())

    def table() -> ModelTable:
        nonlocal read
        spec = document()
        if spec is not read[0]:
            read = (spec, model_table(spec))
        return read[1]

    return ModelRouter(table, RouteContext(environment(), place.root.absolute()), clock)


def stop_strays(place: PlanPaths) -> int:
    """Stops every process of the plan that an owner left behind; how many there were. Raises NotOwner."""

    from planloop.owner import container_teardown
    from planloop.owner.stopped_commands import record_stopped

    async def stop() -> int:
        async with open_plan(place) as core:
            stopped = await plan_processes(core).sweep(frozenset())
            await container_teardown.sweep_grading(core)
            await record_stopped(core)
            return len(stopped)

    return anyio.run(stop)


@frozen
class PlanRuntime:
    """What makes things happen. `servers` is asked for late: nothing of tool servers is loaded before."""

    processes: Processes
    queue: AddressQueue
    work: WorkPools
    engine: Engine
    background: BackgroundJobs
    servers: Callable[[], ToolServers]
