"""A place where real plans run without a model: store, gate, compiler, engine, processes and all controllers."""

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

from planloop import compiler
from planloop.app import referring
from planloop.app.sources import FolderSources
from planloop.benchmarks.worlds.serving import ServedWorlds
from planloop.compiler import merging
from planloop.controllers.agent import AgentReconciler, World
from planloop.controllers.agent.conflicts import ConflictReconciler
from planloop.controllers.agent.mail import inbox
from planloop.controllers.agent.tools.registry import BUILT_IN
from planloop.controllers.agent.tools.tool import Tool
from planloop.controllers.fork import Desk, ForkReconciler, Git
from planloop.controllers.hook import HookReconciler
from planloop.controllers.lock import LockReconciler
from planloop.controllers.mcp import Home, LiveServers, McpReconciler, Yard
from planloop.controllers.mcp.lifeline import Start, launched
from planloop.controllers.plan import PlanReconciler
from planloop.controllers.task import Surroundings, TaskController
from planloop.reconciler.admitting.gate import Gate
from planloop.reconciler.admitting.language import Language
from planloop.reconciler.contract import Reconciler
from planloop.reconciler.driving.engine import BugReport, Engine
from planloop.reconciler.driving.queueing import AddressQueue
from planloop.reconciler.driving.working_pools import WorkPools
from planloop.reconciler.editing.filing import FileSave
from planloop.reconciler.effects import journal
from planloop.reconciler.effects.local_processes import LocalProcesses
from planloop.reconciler.storing.sqlite_store import SqliteStore, StoreOptions
from planloop.schemas.agent import outliving
from planloop.schemas.message import Delivery, Message
from tests.fakes import waiting
from tests.product import (
    HUMAN_CLI,
    Clock,
    Command,
    Draft,
    Json,
    JsonObject,
    Models,
    Patch,
    Processes,
    RandomIds,
    Resource,
    SystemClock,
    Verdict,
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
    gate: Gate
    engine: Engine
    work: WorkPools
    queue: AddressQueue
    world: World
    sources: FolderSources
    bugs: list[BugReport] = field(default_factory=list)

    async def apply(self, text: str) -> Verdict:
        """Saves the plan file: `text` without its first line, which names the plan."""
        content = ("plan: arena\n" + textwrap.dedent(text)).encode()
        made = compiler.compile_source(content, file="arena.plan.yaml", sources=self.sources)
        assert made.document is not None, made.diagnostics
        return await self.gate.submit_file(FileSave("arena.plan.yaml", content, made.document))

    async def patch(self, *ops: JsonObject) -> Verdict:
        """A person's patch on the command line."""
        parsed = tuple(op_from_json(index, op) for index, op in enumerate(ops))
        return await self.gate.submit(Patch(HUMAN_CLI, parsed, self.store.view.rev))

    async def tell(self, agent: str, body: Json, message_id: str, delivery: Delivery = "queue") -> None:
        """A person's message."""
        message = Message(message_id, "chat", "human:cli", agent, body, self.world.clock.now(), delivery=delivery)
        changes = inbox.delivery(self.store.view, message)
        assert not isinstance(changes, inbox.Refusal), changes
        await self.store.append(Draft("message.sent", "human:cli", agent, changes))

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
        """Returns when a change makes `holds` true."""
        await waiting.until(self.store, holds)

    async def until_state(self, address: str, *states: str) -> None:
        await self.until(lambda: self.state(address) in states)

    async def jobs_left(self, count: int) -> None:
        """Returns when so many jobs are there: one is gone a moment after its last word."""
        with anyio.fail_after(45):
            while self.work.live_count != count:
                await anyio.lowlevel.checkpoint()

    async def settled(self) -> None:
        """Returns when nothing moves any more."""
        await self.engine.until_quiescent()
        assert self.bugs == []

    async def settled_but_timers(self) -> None:
        """The same when something is to be looked at again at a later time."""

        def is_still() -> bool:
            counts = self.queue.counts()
            return not (counts.ready or counts.processing or self.work.live_count)

        await self.until(is_still)
        assert self.bugs == []

    async def log(self) -> list[Draft]:
        """Everything that the log says, in order: the steps of one record are told apart."""
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
        """What minds said, in order."""
        return [
            draft.data["text"] for draft in await self.log() if draft.type == "model.replied" and draft.data["text"]
        ]

    def read(self, name: str) -> str:
        return (self.folder / name).read_text()


Wrapping: TypeAlias = Callable[[Processes], Processes]
"""Processes with something between them and who uses them."""


class LeftBehind(LocalProcesses):
    """Processes that go on when their owner dies, as after SIGKILL: stopping the waiter does not stop them."""

    async def run(self, op: str, command: Command) -> Exit:
        return await asyncio.shield(asyncio.ensure_future(super().run(op, command)))


@asynccontextmanager
async def arena(
    folder: Path,
    *,
    epoch: int = 1,
    options: StoreOptions | None = None,
    is_inline: bool = False,
    tools: Mapping[str, Tool] = BUILT_IN,
    models: Models | None = None,
    surrounding: Mapping[str, str] | None = None,
    clock: Clock | None = None,
    git: Wrapping | None = None,
    start: Start = launched,
) -> AsyncIterator[Arena]:
    """An owner of what an earlier one left in `folder`, or of nothing yet.

    `is_inline`: every flush is a batch of its own, and commands outlive the owner. For crashes. `git` stands between
    forks and the processes of git. `start` starts tool servers.
    """
    clock, ids = clock or SystemClock(), RandomIds()
    state = folder / ".plan" / "arena"
    sources = FolderSources(folder)

    check = partial(compiler.check_document, sources=sources)
    check_by = partial(referring.check_by, folder=folder)
    language = Language(check, merging.merge, compiler.change_class, check_by=check_by)
    async with SqliteStore.open(
        state, clock=clock, epoch=epoch, inline=is_inline, options=options or StoreOptions()
    ) as store:
        gate = Gate(store, "arena", ids=ids, clock=clock, language=language)
        kind = LeftBehind if is_inline else LocalProcesses
        processes = kind(state / "run", str(folder), epoch, grace_s=1.0)
        found = await journal.recover(store, processes)
        await processes.sweep(
            found.keep | {op for each in store.view.list("agent") if (op := outliving(each.spec, each.status))}
        )
        queue = AddressQueue()
        work = WorkPools(queue, {"tools": 8})
        world = World(store, clock, ids, processes, work, gate, PLAN, folder, ENV, sys.executable)
        servers = LiveServers(store, work)
        world = replace(world, models=models or world.models, servers=servers, surrounding=surrounding or {})
        world = replace(world, worlds=ServedWorlds(lambda file: (folder / file).read_bytes()))
        home = Home(str(folder), epoch, folder, state / "run", ENV)
        servers_yard = Yard(store, clock, processes, servers, home, ids.mint, world.worlds, start)
        tool_servers = McpReconciler(servers_yard, work)
        tasks = TaskController(store, work, processes, clock, ids, Surroundings("arena", folder, ENV))
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
        desk = Desk(store, wrapped, clock, Git(wrapped, ids, ENV), "arena", folder, state)
        controllers.append(ForkReconciler(desk, work))
        engine = Engine(store, clock, queue, work, controllers, PLAN)
        made = Arena(folder, store, gate, engine, work, queue, world, sources)
        engine.on_bug = made.bugs.append
        async with anyio.create_task_group() as group:
            await group.start(engine.run)
            yield made
            group.cancel_scope.cancel()
