"""Build an owner from real parts: engine, processes, controllers, models, tools.

A controller is imported for the first object of its kind, so a plan without agents, locks, containers or tool servers
imports none of theirs.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from planloop.client import VERSION
from planloop.client.engine_access import container_engine
from planloop.client.plan_paths import PlanPaths, plan_label
from planloop.client.process import TELEMETRY_SWITCH, environment, now
from planloop.containers.sandbox.probe import ProbedSandboxes
from planloop.controllers.plan.controller import PlanReconciler
from planloop.controllers.task.controller import TaskReconciler
from planloop.controllers.task.run_environment import KEPT_VARIABLES, RunEnvironment
from planloop.owner.lazy import BackgroundJobs, LazyReconciler, LazyWorlds
from planloop.owner.sandbox import plan_processes
from planloop.reconciler.effects.processes import Processes
from planloop.reconciler.engine.engine import Engine
from planloop.reconciler.engine.queue import AddressQueue
from planloop.reconciler.engine.work_pools import WorkPools
from planloop.reconciler.store import state_files
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.resource import Resource
from planloop.server.opened_plan import plan_language

if TYPE_CHECKING:
    from planloop.containers.engine.engine import ContainerEngine
    from planloop.controllers.agent.models.port import ModelClient, ModelReply, ModelRequest, OnDelta, TokenPrice
    from planloop.controllers.agent.models.router import ModelRouter
    from planloop.controllers.agent.services import AgentServices, ToolServers
    from planloop.controllers.container.context import ContainerContext
    from planloop.controllers.fork.context import ForkContext
    from planloop.controllers.mcp.server_run import ToolServerContext
    from planloop.controllers.shared.container_exec import PlanContainers
    from planloop.controllers.shared.simulated_worlds import Worlds
    from planloop.owner.replay.assembly import ReplaySetup
    from planloop.reconciler.engine.reconcile import Reconciler
    from planloop.server.opened_plan import OpenedPlan
    from planloop.server.owner_service import OwnerService
    from planloop.server.stream_hub import StreamHub


@frozen
class PlanRuntime:
    """What runs a plan. `servers` returns the tool servers, whose modules are imported then."""

    processes: Processes
    queue: AddressQueue
    work: WorkPools
    engine: Engine
    background: BackgroundJobs
    servers: Callable[[], ToolServers]


def build_runtime(core: OpenedPlan, *, parallel: int, models: Mapping[str, int]) -> PlanRuntime:
    """Queue, work pools, processes, controllers and the engine over them. Nothing runs yet.

    `parallel` commands run at once. `models` limits the requests of each model pattern.
    """
    place, address = core.place, f"plan/{core.place.name}"
    processes = plan_processes(core)
    queue = AddressQueue(time.monotonic, random.random)  # What asyncio counts in; asking anyio asks which loop it is.
    bounds = {"tools": parallel} | {f"models:{pattern}": bound for pattern, bound in models.items()}
    work = WorkPools(queue, bounds)
    one_engine, root = cache(container_engine), place.root.absolute()
    sandboxes = ProbedSandboxes(processes, core.clock, core.ids, str(root.resolve()))

    @cache
    def containers() -> PlanContainers:
        from planloop.controllers.shared.container_exec import PlanContainers

        return PlanContainers(core.store, one_engine)

    surroundings = RunEnvironment(place.name, root, environment(), containers=containers, sandboxes=sandboxes)
    background = BackgroundJobs()

    @cache
    def yard() -> ToolServerContext:
        return mcp_context(core, processes, work, simulated_worlds(place))

    def tool_servers() -> Reconciler:
        from planloop.controllers.mcp.controller import ToolServerReconciler

        return ToolServerReconciler(yard(), work)

    def agents() -> Reconciler:
        from planloop.controllers.agent.controller import AgentReconciler

        return AgentReconciler(agents_context(core, processes, work, background, yard(), containers()))

    def conflicts() -> Reconciler:
        from planloop.controllers.agent.conflicts.controller import ConflictReconciler

        return ConflictReconciler(core.store, core.clock, core.gate)

    def forks() -> Reconciler:
        from planloop.controllers.fork.controller import ForkReconciler

        return ForkReconciler(fork_context(core, processes), work)

    def locks() -> Reconciler:
        from planloop.controllers.lock.controller import LockReconciler

        return LockReconciler(core.store, core.clock, work, root)

    def hooks() -> Reconciler:
        from planloop.controllers.hook.controller import HookReconciler

        return HookReconciler(core.store, core.clock)

    reconcilers: list[Reconciler] = [
        TaskReconciler(core.store, work, processes, core.clock, core.ids, surroundings),
        LazyReconciler("agent", agents),
        LazyReconciler("mcp", tool_servers),
        LazyReconciler("fork", forks),
        LazyReconciler("conflict", conflicts),
        LazyReconciler("case", lambda: case_controller(core, work, processes, one_engine)),
        LazyReconciler("container", lambda: container_controller(core, work, one_engine(), background)),
        LazyReconciler("lock", locks),
        LazyReconciler("hook", hooks),
        PlanReconciler(core.store, plan_language(place).check, clock=core.clock, ids=core.ids, work=work),
    ]
    engine = Engine(core.store, core.clock, queue, work, reconcilers, address)
    return PlanRuntime(processes, queue, work, engine, background, lambda: yard().servers)


def owner_service(
    core: OpenedPlan,
    file: Path,
    stop: Callable[[bool, bool], Awaitable[None]],
    servers: Callable[[], ToolServers],
) -> OwnerService:
    """The service that answers this process's clients; `stop` ends the owner of the plan in `file`."""
    from planloop.server.owner_service import OwnerService
    from planloop.server.read_queries import OwnerInfo

    return OwnerService(core, OwnerInfo(core.place.name, os.getpid(), VERSION, str(file)), stop, servers)


def fork_context(core: OpenedPlan, processes: Processes) -> ForkContext:
    """What the forks of the plan are made and brought back with."""
    from planloop.containers.sandbox.write_guard import search_path_outside
    from planloop.controllers.fork.context import ForkContext
    from planloop.controllers.fork.git import Git

    place = core.place
    kept = {name: value for name, value in environment().items() if name in KEPT_VARIABLES}
    kept["PATH"] = search_path_outside(kept.get("PATH", ""), str(place.root))
    git = Git(processes, core.ids, kept)
    return ForkContext(
        core.store, processes, core.clock, git, place.name, place.root.absolute(), place.folder.absolute()
    )


def container_context(core: OpenedPlan, work: WorkPools, engine: ContainerEngine) -> ContainerContext:
    """What the controller of containers works with. The engine is not asked yet."""
    from planloop.containers.engine.names import ContainerNames
    from planloop.controllers.container.context import ContainerContext

    place = core.place
    names = ContainerNames(place.name, plan_label(place))
    root, run_folder = place.root.absolute(), state_files.run_folder(place.folder)
    return ContainerContext(
        core.store, core.clock, work, engine, names, core.owner.epoch, root, run_folder, environment()
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
    from planloop.controllers.task.checks.run import run_check
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
    """Services of the plan's agents. Their models run in `background`, their tool servers in `yard`."""
    from planloop.controllers.agent.services import AgentServices, Connections, DeciderServices, ProgramSettings

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


class PublishedModels:
    """`ModelClient` that sends the text of replies to `hub` while models write it."""

    def __init__(self, models: ModelClient, hub: StreamHub) -> None:
        self._models = models
        self._hub = hub

    async def complete(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        reply = self._hub.begin(request.key.agent, request.key.turn, str(request.key))

        def publish(text: str) -> None:
            if text:
                self._hub.tell(reply, text)
            if on_delta is not None:
                on_delta(text)

        try:
            return await self._models.complete(request, publish)
        finally:
            self._hub.end(reply)

    def price(self, model: str) -> TokenPrice | None:
        return self._models.price(model)

    def window(self, model: str) -> int:
        return self._models.window(model)

    def output_max(self, model: str) -> int:
        return self._models.output_max(model)


def mcp_context(core: OpenedPlan, processes: Processes, work: WorkPools, worlds: Worlds) -> ToolServerContext:
    """Where the tool servers of the plan run, and the way to them. Nothing is started."""
    from planloop.controllers.mcp.live_servers import LiveServers
    from planloop.controllers.mcp.server_run import ToolServerContext, ToolServerHome

    place = core.place
    run_folder = state_files.run_folder(place.folder)
    home = ToolServerHome(plan_label(place), core.owner.epoch, place.root.absolute(), run_folder, environment())
    live = LiveServers(core.store, work)
    return ToolServerContext(core.store, core.clock, processes, live, home, core.ids.mint, worlds)


def simulated_worlds(place: PlanPaths) -> Worlds:
    """The simulated worlds in the folder of the plan of `place`. None is read yet."""
    root = place.root.absolute()

    def served() -> Worlds:
        from planloop.benchmarks.worlds.servers import ServedWorlds

        return ServedWorlds(lambda file: (root / file).read_bytes())

    return LazyWorlds(served)


def plan_models(core: OpenedPlan) -> ModelRouter:
    """The models of the plan as its `models:` table has them at each request. Nothing is open yet."""
    return routed_models(core.place, lambda: core.plan.spec if core.plan is not None else {}, core.clock.now)


def start_telemetry(core: OpenedPlan, engine: Engine) -> ExitStack:
    """Export telemetry if the environment asks for it, until the result is closed. Raises CommandError."""
    open_ = ExitStack()
    if not environment().get(TELEMETRY_SWITCH):
        return open_
    from planloop.owner import telemetry

    if telemetry.is_telemetry_enabled(environment()):
        exporter = open_.enter_context(telemetry.start_exporter(core.place.name, core.store.view.get))
        core.store.on_change(lambda record, _: exporter.note(record))
        engine.on_reconcile = exporter.reconciled
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
