"""Run real plans without a model: store, gate, compiler, engine, processes and all controllers."""

from __future__ import annotations

import asyncio
import sys
import textwrap
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

import anyio
import anyio.lowlevel

from planloop.benchmarks.worlds.servers import ServedWorlds
from planloop.client.plan_sources import FolderSources
from planloop.compiler import merge, plan_compiler
from planloop.controllers.agent.conflicts.controller import ConflictReconciler
from planloop.controllers.agent.controller import AgentReconciler
from planloop.controllers.agent.mail import message_policy
from planloop.controllers.agent.services import AgentServices, Connections, DeciderServices, ProgramSettings
from planloop.controllers.agent.tools.registry import BUILT_IN_TOOLS
from planloop.controllers.agent.tools.tool import Tool
from planloop.controllers.fork.context import ForkContext
from planloop.controllers.fork.controller import ForkReconciler
from planloop.controllers.fork.git import Git
from planloop.controllers.hook.controller import HookReconciler
from planloop.controllers.lock.controller import LockReconciler
from planloop.controllers.mcp.controller import ToolServerReconciler
from planloop.controllers.mcp.live_servers import LiveServers
from planloop.controllers.mcp.server_process import StartServer, launch_server
from planloop.controllers.mcp.server_run import ToolServerContext, ToolServerHome
from planloop.controllers.plan.controller import PlanReconciler
from planloop.controllers.task.controller import TaskReconciler
from planloop.controllers.task.run_environment import RunEnvironment
from planloop.reconciler.admission.gate import PlanGate
from planloop.reconciler.diff.file_patch import FileSave
from planloop.reconciler.effects import journal
from planloop.reconciler.effects.local_processes import LocalProcesses
from planloop.reconciler.engine.engine import Engine, InternalErrorReport
from planloop.reconciler.engine.queue import AddressQueue
from planloop.reconciler.engine.reconcile import Reconciler
from planloop.reconciler.engine.work_pools import WorkPools
from planloop.reconciler.plan_language_port import PlanLanguage
from planloop.reconciler.store.sqlite.sqlite_store import SqliteStore, StoreOptions
from planloop.schemas.objects.agent import surviving_request
from planloop.schemas.objects.message import Delivery, Message
from planloop.schemas.spec import tables
from planloop.server import reference_check
from tests.fakes import waiting
from tests.product import (
    HUMAN_CLI,
    Clock,
    Json,
    JsonObject,
    ModelClient,
    Patch,
    PatchVerdict,
    ProcessCommand,
    Processes,
    RandomIds,
    RecordDraft,
    Resource,
    SystemClock,
    op_from_json,
)
from tests.product import ProcessExit as Exit

ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
PLAN = "plan/arena"


@dataclass
class Arena:
    """A running owner of the plan `arena` in `folder`."""

    folder: Path
    store: SqliteStore
    gate: PlanGate
    engine: Engine
    work: WorkPools
    queue: AddressQueue
    world: AgentServices
    sources: FolderSources
    bugs: list[InternalErrorReport] = field(default_factory=list)

    async def apply(self, text: str) -> PatchVerdict:
        """Save the plan file: `text` after a first line that names the plan."""
        content = ("plan: arena\n" + textwrap.dedent(text)).encode()
        made = plan_compiler.compile_source(content, file="arena.plan.yaml", sources=self.sources)
        assert made.document is not None, made.diagnostics
        return await self.gate.submit_file(FileSave("arena.plan.yaml", content, made.document))

    async def patch(self, *ops: JsonObject) -> PatchVerdict:
        """Submit an operator's patch from the command line."""
        parsed = tuple(op_from_json(index, op) for index, op in enumerate(ops))
        return await self.gate.submit(Patch(HUMAN_CLI, parsed, self.store.view.rev))

    async def tell(self, agent: str, body: Json, message_id: str, delivery: Delivery = "queue") -> None:
        """Send a message from an operator."""
        message = Message(message_id, "chat", "human:cli", agent, body, self.world.clock.now(), delivery=delivery)
        changes = message_policy.delivery_changes(self.store.view, message)
        assert not isinstance(changes, message_policy.DeliveryRefused), changes
        await self.store.append(RecordDraft("message.sent", "human:cli", agent, changes))

    def find(self, address: str) -> Resource | None:
        return self.store.view.get(address)

    def get(self, address: str) -> Resource:
        found = self.find(address)
        assert found is not None, (
            f"there is no {address}; there are {[each.address for each in self.store.view.list('task')]}"
        )
        return found

    def state(self, address: str) -> str:
        found = self.find(address)
        return "" if found is None else found.state

    async def until(self, holds: Callable[[], bool]) -> None:
        """Return when a change makes `holds` true."""
        await waiting.until(self.store, holds)

    async def until_state(self, address: str, *states: str) -> None:
        await self.until(lambda: self.state(address) in states)

    async def jobs_left(self, count: int) -> None:
        """Return when this number of jobs is left. A job ends a moment after its last record."""
        with anyio.fail_after(45):
            while self.work.live_count != count:
                await anyio.lowlevel.checkpoint()

    async def settled(self) -> None:
        """Return when no job, queue or timer is left."""
        await self.engine.until_quiescent()
        assert self.bugs == []

    async def settled_but_timers(self) -> None:
        """Return when no job or queue is left, even if a timer is."""

        def is_still() -> bool:
            counts = self.queue.counts()
            return not (counts.ready or counts.processing or self.work.live_count)

        await self.until(is_still)
        assert self.bugs == []

    async def log(self) -> list[RecordDraft]:
        """All records of the log, in order; the steps of one record are separate."""
        await self.store.flush(self.store.view.rev)
        drafts = [record.draft for record in await self.store.log(0, 100_000)]
        return [
            replace(draft, type=one.type, subject=one.subject, data=one.data, also=())
            for draft in drafts
            for one in draft.entries
        ]

    async def types(self, subject: str = "agent/.") -> list[str]:
        """The record types about one agent, in order."""
        return [draft.type for draft in await self.log() if draft.subject == subject]

    async def results(self, tool: str = "") -> list[JsonObject]:
        """The results of the settled calls, in order; of one tool if it is named."""
        settled = [draft.data for draft in await self.log() if draft.type == "call.settled"]
        return [data["result"] for data in settled if not tool or data.get("tool") == tool]

    async def said(self) -> list[str]:
        """The texts of all deciders, in order."""
        return [
            draft.data["text"] for draft in await self.log() if draft.type == "model.replied" and draft.data["text"]
        ]

    def read(self, name: str) -> str:
        return (self.folder / name).read_text()


Wrapping: TypeAlias = Callable[[Processes], Processes]
"""Processes with something between them and who uses them."""


class LeftBehind(LocalProcesses):
    """Processes that survive their owner, as after SIGKILL: stopping the waiter does not stop them."""

    async def run(self, op: str, command: ProcessCommand) -> Exit:
        return await asyncio.shield(asyncio.ensure_future(super().run(op, command)))


@asynccontextmanager
async def arena(
    folder: Path,
    *,
    epoch: int = 1,
    options: StoreOptions | None = None,
    is_inline: bool = False,
    tools: Mapping[str, Tool] = BUILT_IN_TOOLS,
    models: ModelClient | None = None,
    surrounding: Mapping[str, str] | None = None,
    clock: Clock | None = None,
    git: Wrapping | None = None,
    start: StartServer = launch_server,
) -> AsyncIterator[Arena]:
    """An owner of what an earlier one left in `folder`, or of nothing yet.

    `is_inline`: every flush is a batch of its own, and commands outlive the owner. For crashes. `git` stands between
    forks and the processes of git. `start` starts tool servers.
    """
    clock, ids = clock or SystemClock(), RandomIds()
    state = folder / ".plan" / "arena"
    sources = FolderSources(folder)

    check = partial(plan_compiler.check_document, sources=sources)
    check_by = partial(reference_check.check_as_author, folder=folder)
    language = PlanLanguage(check, merge.merge_documents, tables.change_class, check_by=check_by)
    async with SqliteStore.open(
        state, clock=clock, epoch=epoch, inline=is_inline, options=options or StoreOptions()
    ) as store:
        gate = PlanGate(store, "arena", ids=ids, clock=clock, language=language)
        kind = LeftBehind if is_inline else LocalProcesses
        processes = kind(state / "run", str(folder), epoch, grace_s=1.0)
        found = await journal.recover_calls(store, processes)
        await processes.sweep(
            found.keep | {op for each in store.view.list("agent") if (op := surviving_request(each.spec, each.status))}
        )
        queue = AddressQueue()
        work = WorkPools(queue, {"tools": 8})
        servers = LiveServers(store, work)
        programs = ProgramSettings(processes, ENV, sys.executable, surrounding or {})
        deciders = DeciderServices(models) if models else DeciderServices()
        connections = Connections(servers, worlds=ServedWorlds(lambda file: (folder / file).read_bytes()))
        world = AgentServices(store, clock, ids, work, gate, PLAN, folder, programs, deciders, connections)
        home = ToolServerHome(str(folder), epoch, folder, state / "run", ENV)
        servers_context = ToolServerContext(
            store, clock, processes, servers, home, ids.mint, world.connections.worlds, start
        )
        tool_servers = ToolServerReconciler(servers_context, work)
        tasks = TaskReconciler(store, work, processes, clock, ids, RunEnvironment("arena", folder, ENV))
        plans = PlanReconciler(store, check, clock=clock, ids=ids, work=work)
        agents = AgentReconciler(world, tools)
        controllers: list[Reconciler] = [
            tasks,
            agents,
            LockReconciler(store, clock, work, folder),
            HookReconciler(store, clock),
            plans,
            tool_servers,
        ]
        controllers.append(ConflictReconciler(store, clock, gate))
        wrapped = processes if git is None else git(processes)
        desk = ForkContext(store, wrapped, clock, Git(wrapped, ids, ENV), "arena", folder, state)
        controllers.append(ForkReconciler(desk, work))
        engine = Engine(store, clock, queue, work, controllers, PLAN)
        made = Arena(folder, store, gate, engine, work, queue, world, sources)
        engine.on_bug = made.bugs.append
        async with anyio.create_task_group() as group:
            await group.start(engine.run)
            yield made
            group.cancel_scope.cancel()
