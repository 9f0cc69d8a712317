"""The only place that builds real objects, and the only one besides the clock that reads time and environment.

Imports stay inside the functions: `plan get` asks for the time here and must not pay for the engine.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from planloop.app.places import Place
from planloop.schemas.encoding import Json, JsonObject

if TYPE_CHECKING:
    from planloop.app.background import Background
    from planloop.app.core import Core, Machine
    from planloop.app.forking import Forked, Wish
    from planloop.app.replaying.machine import Stand
    from planloop.containers.engine import Engine as ContainerEngine
    from planloop.containers.engine import Found
    from planloop.containers.sandboxing.bubblewrap import Home
    from planloop.containers.sandboxing.rooms import Room
    from planloop.controllers.agent.models.routed import RoutedModels
    from planloop.controllers.agent.ports import World
    from planloop.controllers.container import Yard as ContainerYard
    from planloop.controllers.fork import Desk as ForkDesk
    from planloop.controllers.inside import PlanContainers
    from planloop.controllers.mcp import Yard
    from planloop.controllers.worlds import Worlds
    from planloop.reconciler.admitting.gate import Gate
    from planloop.reconciler.admitting.language import Language
    from planloop.reconciler.contract import Reconciler
    from planloop.reconciler.driving.engine import Engine
    from planloop.reconciler.driving.working_pools import WorkPools
    from planloop.reconciler.editing.filing import FileSave
    from planloop.reconciler.effects.processes import Processes
    from planloop.schemas.resource import Resource
    from planloop.schemas.sandbox import Answer
    from planloop.server.gateway.benches import Shelves
    from planloop.server.gateway.guarding import Tokens


def now() -> float:
    """Seconds since 1970."""
    return time.time()


def environment() -> Mapping[str, str]:
    """The environment of this process."""
    return os.environ


def container_engine() -> ContainerEngine:
    """The container engine that the environment names. Nothing is asked of it yet."""
    from planloop.containers.docker_engine import DockerEngine

    return DockerEngine(os.environ)


def expect_containers() -> None:
    """Has the engine's client loaded by a thread: it takes 0.1 s, and is asked for soon."""
    import importlib
    from threading import Thread

    # None of our own modules: two threads that load what needs each other may see half of it.
    Thread(target=importlib.import_module, args=("docker",), daemon=True).start()


async def containers_of(place: Place, item: Resource) -> tuple[Found, ...]:
    """What the engine has of the container `item` of the plan. Raises EngineFailed."""
    from planloop.app.core import label_of
    from planloop.containers.naming import ADDRESS, Names, is_ours, tag_of

    names, known = Names(place.name, label_of(place)), (str((item.status.get("seen") or {}).get("id", "")),)
    there = await container_engine().containers({**names.ours, ADDRESS: item.address})
    ours = [(one, tag_of(one.labels)) for one in there if is_ours(one, names, known)]
    return tuple(one for one, tag in ours if tag is not None and tag.uid == item.uid)


def image_folder() -> Path:
    """Where stock images are made and their archives kept: this person's cache."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(cache) if Path(cache).is_absolute() else Path.home() / ".cache") / "planloop" / "images"


def language(place: Place) -> Language:
    """The compiler as the engine sees it, reading what the plan of `place` refers to."""
    from planloop.app import referring
    from planloop.app.sources import FolderSources
    from planloop.compiler import change_class, check_document, merging
    from planloop.compiler.codes import STOPS_APPLY
    from planloop.reconciler.admitting.language import Language

    check = partial(check_document, sources=FolderSources(place.root))
    check_by = partial(referring.check_by, folder=place.root)
    return Language(check, merging.merge, change_class, STOPS_APPLY, check_by)


def preview_without_owner(place: Place, save: FileSave) -> Json:
    """What an owner would answer to POST `diff`, writing nothing; `place` may have no state yet."""
    from planloop.schemas.collecting import collector_off
    from planloop.server.forms import file_preview

    with collector_off():  # The process ends with the answer.
        return file_preview(gate_without_owner(place), save)


def gate_without_owner(place: Place) -> Gate:
    """A gate that can only preview: over the log as it is, or over nothing for a plan that was never applied."""
    from planloop.app.cold import ColdStore
    from planloop.reconciler.admitting.gate import Gate
    from planloop.reconciler.clock import RandomIds, SystemClock

    return Gate(ColdStore(place), place.name, ids=RandomIds(), clock=SystemClock(), language=language(place))


def why_without_owner(place: Place, at: str) -> Json:
    """What an owner would answer to GET `why`: who set the value at the pointer `at`. Raises Halt."""
    import anyio

    from planloop.app.cold import ColdStore
    from planloop.server.forms import why_answer

    present = gate_without_owner(place).present

    async def ask() -> Json:
        return await why_answer(ColdStore(place), present, at)

    return anyio.run(ask)


def fork(wish: Wish) -> Forked:
    """Makes the fork that is wished for. Raises Halt, StoreCorrupt, StoreFailed."""
    import anyio

    from planloop.app import forking
    from planloop.reconciler.clock import RandomIds, SystemClock

    return anyio.run(forking.fork, wish, SystemClock(), RandomIds())


@asynccontextmanager
async def opened(place: Place) -> AsyncIterator[Core]:
    """The plan of `place`, owned by this process and open for changes. Raises NotOwner, StoreFailed, StoreCorrupt."""
    from planloop.app.core import Core
    from planloop.reconciler.admitting.gate import Gate
    from planloop.reconciler.clock import RandomIds, SystemClock
    from planloop.reconciler.storing import owning, sqlite_log
    from planloop.reconciler.storing.sqlite_store import SqliteStore

    clock, ids = SystemClock(), RandomIds()
    with owning.own(place.folder, now=clock.now(), stored_epoch=sqlite_log.stored_epoch) as owner:
        async with SqliteStore.open(place.folder, clock=clock, epoch=owner.epoch) as store:
            had_plan = store.view.get(f"plan/{place.name}") is not None
            gate = Gate(store, place.name, ids=ids, clock=clock, language=language(place))
            await store.append(owning.taken(owner, place.name))
            yield Core(place, store, gate, clock, ids, owner, had_plan)


def machine(core: Core, *, parallel: int, models: Mapping[str, int]) -> Machine:
    """What runs a plan: queue, work plane, processes, controllers and the engine over them. Nothing runs yet."""
    import random

    from planloop.app.background import Background
    from planloop.app.core import Machine
    from planloop.app.postponing import Postponed
    from planloop.containers.sandboxing.probing import TriedSandboxes
    from planloop.controllers.hook import HookReconciler
    from planloop.controllers.inside import PlanContainers
    from planloop.controllers.lock import LockReconciler
    from planloop.controllers.plan import PlanReconciler
    from planloop.controllers.task.controller import TaskController
    from planloop.controllers.task.surroundings import Surroundings
    from planloop.reconciler.driving.engine import Engine
    from planloop.reconciler.driving.queueing import AddressQueue
    from planloop.reconciler.driving.working_pools import WorkPools

    place, address = core.place, f"plan/{core.place.name}"
    processes = enclosing_processes(core)
    queue = AddressQueue(time.monotonic, random.random)  # What asyncio counts in; asking anyio asks which loop it is.
    bounds = {"tools": parallel} | {f"models:{pattern}": bound for pattern, bound in models.items()}
    work = WorkPools(queue, bounds)
    one_engine, root = cache(container_engine), place.root.absolute()
    inside = PlanContainers(core.store, one_engine)
    sandboxes = TriedSandboxes(processes, core.clock, core.ids, str(root.resolve()))
    surroundings = Surroundings(place.name, root, environment(), containers=inside, sandboxes=sandboxes)
    background = Background()

    @cache
    def yard() -> Yard:
        return tool_yard(core, processes, work, worlds_of(place))

    def tool_servers() -> Reconciler:
        from planloop.controllers.mcp import McpReconciler

        return McpReconciler(yard(), work)

    def agents() -> Reconciler:
        from planloop.controllers.agent import AgentReconciler

        return AgentReconciler(agents_world(core, processes, work, background, yard(), inside))

    def conflicts() -> Reconciler:
        from planloop.controllers.agent.conflicts import ConflictReconciler

        return ConflictReconciler(core.store, core.clock, core.gate)

    def forks() -> Reconciler:
        from planloop.controllers.fork import ForkReconciler

        return ForkReconciler(fork_desk(core, processes), work)

    reconcilers: list[Reconciler] = [
        TaskController(core.store, work, processes, core.clock, core.ids, surroundings),
        Postponed("agent", agents),
        Postponed("mcp", tool_servers),
        Postponed("fork", forks),
        Postponed("conflict", conflicts),
        Postponed("case", lambda: case_controller(core, work, processes, one_engine)),
        Postponed("container", lambda: container_controller(core, work, one_engine(), background)),
        LockReconciler(core.store, core.clock, work, root),
        HookReconciler(core.store, core.clock),
        PlanReconciler(core.store, language(place).check, clock=core.clock, ids=core.ids, work=work),
    ]
    engine = Engine(core.store, core.clock, queue, work, reconcilers, address)
    return Machine(processes, queue, work, engine, background, lambda: yard().servers)


def enclosing_processes(core: Core) -> Processes:
    """The processes of the plan, in what sandboxes their commands ask for."""
    from planloop.app.core import label_of
    from planloop.controllers.sandboxes import room_of
    from planloop.reconciler.storing import layout

    place, root = core.place, core.place.root.absolute()
    run_folder = layout.run_folder(place.folder).absolute()
    return enclosing(
        root,
        run_folder,
        label_of(place),
        epoch=core.owner.epoch,
        room=lambda name: room_of(core.store.view, name, root),
    )


def enclosing(
    root: Path, run_folder: Path, label: str, *, epoch: int = 0, room: Callable[[str], Room | str]
) -> Processes:
    """Processes of the plan in `root`, all absolute, that are told from others by `label`.

    `room` finds the container of a name, or says why nobody can be in it.
    """
    from planloop.containers.finding import engine_address
    from planloop.containers.sandboxing import cgroups
    from planloop.containers.sandboxing.enclosing import EnclosingProcesses
    from planloop.containers.sandboxing.rooms import EngineRooms
    from planloop.reconciler.effects.local_processes import LocalProcesses

    rooms = EngineRooms(cache(container_engine), engine_address(environment()), sys.executable, room)
    local, home = LocalProcesses(run_folder, label, epoch), sandbox_home(root)
    return EnclosingProcesses(local, run_folder / "enclosed", home, groups=lambda: cgroups.found(label), rooms=rooms)


def bubblewrap_here() -> tuple[Answer, str]:
    """Whether this machine encloses commands in bubblewrap, and in words what bounds their memory and processes."""
    import tempfile

    import anyio

    from planloop.containers.sandboxing import cgroups
    from planloop.containers.sandboxing.enclosing import EnclosingProcesses
    from planloop.containers.sandboxing.probing import TriedSandboxes
    from planloop.reconciler.clock import RandomIds, SystemClock
    from planloop.reconciler.effects.local_processes import LocalProcesses
    from planloop.schemas.sandbox import BUBBLEWRAP, Wish

    groups = cgroups.found("doctor")
    version = "" if groups is None else "version 2" if groups.is_unified else "version 1"
    bounds = (
        f"cgroups ({version}) bound each command" if version else "rlimits bound each process, no cgroup may be made"
    )
    with tempfile.TemporaryDirectory(prefix="planloop-doctor-") as name:
        folder = Path(os.path.realpath(name))
        (folder / "work").mkdir()
        local = LocalProcesses(folder / "run", f"doctor-{os.getpid()}", 0)
        home = sandbox_home(folder / "work")
        processes = EnclosingProcesses(local, folder / "enclosed", home, groups=lambda: groups)
        tried = TriedSandboxes(processes, SystemClock(), RandomIds(), str(folder / "work")).tried
        answer = anyio.run(tried, Wish(BUBBLEWRAP))
        if groups is not None:
            groups.close()
    return answer, bounds


def sandbox_home(folder: Path) -> Home:
    """What an enclosure around the commands of the plan in `folder` needs to know of this installation."""
    from planloop.app import shipped
    from planloop.containers.sandboxing.bubblewrap import Home

    programs = (sys.prefix, sys.base_prefix, *sys.modules["planloop"].__path__, str(shipped.plans()))
    return Home(os.path.realpath(folder), sys.executable, programs, os.path.realpath(Path.home()))


def fork_desk(core: Core, processes: Processes) -> ForkDesk:
    """What the forks of the plan are made and brought back with."""
    from planloop.containers.sandboxing.guarding import path_outside
    from planloop.controllers.fork import Desk, Git
    from planloop.controllers.task.surroundings import KEPT

    place = core.place
    kept = {name: value for name, value in environment().items() if name in KEPT}
    kept["PATH"] = path_outside(kept.get("PATH", ""), str(place.root))
    git = Git(processes, core.ids, kept)
    return Desk(core.store, processes, core.clock, git, place.name, place.root.absolute(), place.folder.absolute())


def container_controller(core: Core, work: WorkPools, engine: ContainerEngine, background: Background) -> Reconciler:
    """What brings the plan's containers up, and its watcher, which begins with the first of them."""
    from planloop.controllers.container import ContainerReconciler, Watching

    yard = container_yard(core, work, engine)
    return ContainerReconciler(yard, lambda: background.start(Watching(yard).__call__))


def case_controller(
    core: Core, work: WorkPools, processes: Processes, engine: Callable[[], ContainerEngine]
) -> Reconciler:
    """What grades the entries of a benchmark's run, by the `plan.json` in the plan's folder."""
    from functools import partial

    from planloop.app.core import label_of
    from planloop.benchmarks.compiling.compiled import compiled_from_json
    from planloop.benchmarks.controller import CaseReconciler
    from planloop.benchmarks.events.witness import Witness
    from planloop.benchmarks.grading.blobs import Blobs
    from planloop.benchmarks.grading.grading import grade
    from planloop.benchmarks.grading.ground import Ground
    from planloop.controllers.task.checking import run_check
    from planloop.controllers.task.surroundings import KEPT
    from planloop.schemas.encoding import decode

    place, root = core.place, core.place.root.absolute()
    compiled = compiled_from_json(decode((root / "plan.json").read_bytes()))
    kept = {name: value for name, value in environment().items() if name in KEPT}
    witness = Witness(core.store, compiled).evidence
    view = core.store.view

    def containers(case: Resource) -> list[Resource]:
        return [one for ref in case.refs if (one := view.get(ref)) is not None and one.kind == "container"]

    ground = Ground(
        root,
        Blobs(root),
        compiled,
        run_check,
        processes,
        core.ids,
        core.clock,
        witness,
        engine,
        containers,
        label_of(place),
        kept,
    )
    return CaseReconciler(core.store, work, core.clock, core.gate, partial(grade, ground))


def container_yard(core: Core, work: WorkPools, engine: ContainerEngine) -> ContainerYard:
    """What the containers of the plan live in. Nothing is asked of it yet."""
    from planloop.app.core import label_of
    from planloop.containers.naming import Names
    from planloop.controllers.container import Yard
    from planloop.reconciler.storing import layout

    place = core.place
    names = Names(place.name, label_of(place))
    root, run_folder = place.root.absolute(), layout.run_folder(place.folder)
    return Yard(core.store, core.clock, work, engine, names, core.owner.epoch, root, run_folder, environment())


def agents_world(
    core: Core,
    processes: Processes,
    work: WorkPools,
    background: Background,
    yard: Yard,
    containers: PlanContainers,
) -> World:
    """What the agents of the plan live in; their models are open in `background`, their tool servers in `yard`."""
    from planloop.controllers.agent import World
    from planloop.controllers.task.surroundings import KEPT
    from planloop.server.heard_models import HeardModels

    asked = models_of(core)
    background.start(asked.run)
    return World(
        core.store,
        core.clock,
        core.ids,
        processes,
        work,
        core.gate,
        f"plan/{core.place.name}",
        core.place.root.absolute(),
        {name: value for name, value in environment().items() if name in KEPT},
        sys.executable,
        surrounding=environment(),
        models=HeardModels(asked, core.hearing),
        servers=yard.servers,
        containers=containers,
        worlds=yard.worlds,
    )


def tool_yard(core: Core, processes: Processes, work: WorkPools, worlds: Worlds) -> Yard:
    """Where the tool servers of the plan run, and the way to them. Nothing is started."""
    from planloop.app.core import label_of
    from planloop.controllers.mcp import Home, LiveServers, Yard
    from planloop.reconciler.storing import layout

    place = core.place
    run_folder = layout.run_folder(place.folder)
    home = Home(label_of(place), core.owner.epoch, place.root.absolute(), run_folder, environment())
    live = LiveServers(core.store, work)
    return Yard(core.store, core.clock, processes, live, home, core.ids.mint, worlds)


def worlds_of(place: Place) -> Worlds:
    """The simulated worlds in the folder of the plan of `place`. None is read yet."""
    from planloop.app.postponing import PostponedWorlds

    root = place.root.absolute()

    def served() -> Worlds:
        from planloop.benchmarks.worlds.serving import ServedWorlds

        return ServedWorlds(lambda file: (root / file).read_bytes())

    return PostponedWorlds(served)


def models_of(core: Core) -> RoutedModels:
    """The models of the plan as its `models:` table has them at each request. Nothing is open yet."""
    return models_for(core.place, lambda: core.plan.spec if core.plan is not None else {}, core.clock.now)


def telemetry(core: Core, engine: Engine) -> ExitStack:
    """What tells a collector of the plan, if the environment asks for it; closed when the owner ends. Raises Halt."""
    from planloop.app.observing import telemetry as telling

    open_ = ExitStack()
    if telling.is_wanted(os.environ):
        told = open_.enter_context(telling.telling(core.place.name, core.store.view.get))
        core.store.on_change(lambda record, _: told.note(record))
        engine.on_reconcile = told.reconciled
    return open_


def replay_stand(place: Place) -> Stand:
    """What the plan of `place` is replayed on."""
    from planloop.app.replaying.machine import Stand

    return Stand(place, language(place), lambda document: models_for(place, document, now), worlds_of(place))


def models_for(place: Place, document: Callable[[], JsonObject], clock: Callable[[], float]) -> RoutedModels:
    """The models by the `models:` table of the plan document as it is at each request."""
    from planloop.controllers.agent.models.routed import RoutedModels
    from planloop.controllers.agent.models.routing import Surroundings
    from planloop.schemas.model import ModelTable, model_table

    read: tuple[JsonObject, ModelTable] = ({}, ModelTable())

    def table() -> ModelTable:
        nonlocal read
        spec = document()
        if spec is not read[0]:
            read = (spec, model_table(spec))
        return read[1]

    return RoutedModels(table, Surroundings(environment(), place.root.absolute()), clock)


def post_without_owner(place: Place, path: str, body: JsonObject) -> Json:
    """What an owner would answer to POST `path`, by owning the plan for a moment. Raises NotOwner, Halt."""
    import anyio

    from planloop.server.desk import PlanDesk

    async def post() -> Json:
        async with opened(place) as core:
            return await PlanDesk(core).post(path, body)

    return anyio.run(post)


@dataclass(frozen=True, slots=True)
class Serving:
    """How `plan serve` was asked to: `names` beside the address, the files of TLS, another build of the `page`."""

    names: tuple[str, ...] = ()
    tls: tuple[Path | None, Path | None] = (None, None)
    read_only: bool = False
    new_links: bool = False
    page: Path | None = None
    shelves: Shelves | None = None


def serve(place: Place, listener: socket.socket, wish: Serving) -> None:
    """Serves the plan of `place` on `listener` until Ctrl-C, and prints its links. Raises Halt, StoreFailed."""
    import secrets
    import signal
    import threading

    import anyio
    import click

    from planloop.server.gateway import guarding, tokens
    from planloop.server.gateway.application import Gateway
    from planloop.server.gateway.replica import Replica
    from planloop.server.gateway.serving import serving
    from planloop.server.gateway.transport import context_of

    secure = context_of(*wish.tls)
    scheme: guarding.Scheme = "https" if secure else "http"
    address, port = listener.getsockname()[:2]
    machine = socket.gethostname()
    names = guarding.names_of(scheme, port, [*wish.names, machine, "localhost"])
    mint = partial(secrets.token_urlsafe, 32)
    made = (tokens.made if wish.new_links else tokens.kept)(place.folder, mint)

    async def run() -> None:
        links = tokens.Links(place.folder, made, read_only=wish.read_only)
        page = wish.page or Path(guarding.__file__).parents[1] / "page"
        gateway = Gateway(Replica(place), links, names, page, wish.shelves)
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as received:
            async with serving(gateway, listener, secure):
                for line in link_lines(place.name, names.link(wish.names, address, machine), links.tokens):
                    click.echo(line)
                async for _ in received:
                    return

    anyio.run(run)
    if any(not one.daemon for one in threading.enumerate() if one is not threading.main_thread()):
        # A thread that still asks an owner which hangs would hold up the end; what it was asked to do is the owner's.
        sys.stdout.flush()
        os._exit(0)


def link_lines(plan: str, site: str, links: Tokens) -> list[str]:
    """What a person clicks on: the page with a token behind the `#`, which browsers send to nobody.

    Without a `plan` there is nothing to change.
    """
    if not plan:
        return [f"reports  {site}/#token={links.read}", "Ctrl-C ends this"]
    lines = [f"{plan}  {site}/#token={links.change}"] if links.change else []
    return [
        *lines,
        f"{'to look only' if lines else plan}  {site}/#token={links.read}",
        "Ctrl-C ends this; the plan goes on",
    ]


def stop_strays(place: Place) -> int:
    """Stops every process of the plan that an owner left behind; how many there were. Raises NotOwner."""
    import anyio

    from planloop.app import parting
    from planloop.app.stopping import note_stopped

    async def stop() -> int:
        async with opened(place) as core:
            stopped = await enclosing_processes(core).sweep(frozenset())
            await parting.sweep_grading(core)
            await note_stopped(core)
            return len(stopped)

    return anyio.run(stop)


def command_line(*arguments: str) -> list[str]:
    """How to start another `plan` of this very installation, and nothing of the folder that it is started in."""
    return [sys.executable, "-P", "-m", "planloop", *arguments]
