"""A place where real tasks run: store, engine, work plane and processes of the product, over a folder of a test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio

from planloop.controllers.task.controller import TaskReconciler
from planloop.controllers.task.run_environment import RunEnvironment
from planloop.reconciler.effects import journal
from planloop.reconciler.effects.local_processes import LocalProcesses
from planloop.reconciler.engine.engine import Engine, InternalErrorReport
from planloop.reconciler.engine.queue import AddressQueue
from planloop.reconciler.engine.work_pools import WorkPools
from planloop.reconciler.store.sqlite.sqlite_store import SqliteStore
from planloop.schemas.address import Address, parse_address
from tests.fakes import waiting
from tests.product import (
    Change,
    CheckSpec,
    GroupWork,
    Mark,
    Put,
    RandomIds,
    RecordDraft,
    Resource,
    RunWork,
    SystemClock,
    TaskSpec,
    Uid,
    Work,
)

PLAN = "plan/harness"
GROUP = GroupWork()
ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin"}


def spec(work: Work | str = GROUP, **fields: Any) -> TaskSpec:
    """A task's spec; a text is a shell command."""
    run = RunWork(shell=work) if isinstance(work, str) else work
    return TaskSpec(goal=fields.pop("goal", "a goal"), work=run, **fields)


def sh(command: str, key: str = "0", timeout_s: float = 10.0) -> CheckSpec:
    """A shell check."""
    return CheckSpec(key, "sh", {"shell": command}, timeout_s)


def family(tasks: dict[str, TaskSpec]) -> dict[str, TaskSpec]:
    """The tasks with parents and children filled in from their addresses."""
    parents = {address: str(parse_address(address).parent) for address in tasks if address != "task/."}
    children: dict[str, list[str]] = {}
    for address, parent in parents.items():
        children.setdefault(parent, []).append(address)
    return {
        address: replace(wanted, parent=parents.get(address), children=tuple(children.get(address, ())))
        for address, wanted in tasks.items()
    }


def put(address: str, wanted: TaskSpec, uid: Uid | None = None) -> Put:
    """What materialising writes for a task."""
    refs = (*wanted.children, *wanted.needs, *((wanted.parent,) if wanted.parent else ()))
    return Put(address, uid or Uid(f"uid-{address}"), wanted.to_json(), refs, wanted.parent or PLAN, ("task",))


@dataclass
class Harness:
    """A running engine over `folder`. `tasks` are the specs as last written, parents and children not filled in."""

    folder: Path
    store: SqliteStore
    engine: Engine
    work: WorkPools
    processes: LocalProcesses
    bugs: list[InternalErrorReport]
    tasks: dict[str, TaskSpec] = field(default_factory=dict)

    def apply(self, **changes: TaskSpec | None) -> None:
        """Writes tasks by path (`root` is `task/.`, `_` separates ids): new, changed, or None to remove."""
        self.edit({address_of(name): wanted for name, wanted in changes.items()})

    def edit(self, changes: dict[str, TaskSpec | None]) -> None:
        """The same by address, in one append."""
        before = family(self.tasks)
        for address, wanted in changes.items():
            if wanted is None:
                self.tasks = {known: kept for known, kept in self.tasks.items() if not is_at(known, address)}
            else:
                self.tasks[address] = wanted
        after = family(self.tasks)
        writes: list[Change] = [
            put(each, after[each], self._uid(each)) for each in after if after[each] != before.get(each)
        ]
        for gone in [address for address in before if address not in after]:
            found = self.store.view.get(gone)
            if found is not None:
                writes.append(Mark(gone, found.uid, deleting=True))
        self.store.propose(RecordDraft("plan.patched", "human:file", PLAN, tuple(writes)))

    def change(self, address: str, **fields: Any) -> None:
        """Changes fields of one task."""
        self.edit({address: replace(self.tasks[address], **fields)})

    def task(self, address: str) -> Resource:
        found = self.store.view.get(address)
        assert found is not None, f"there is no {address}"
        return found

    def state(self, address: str) -> str:
        return self.task(address).state

    def states(self) -> dict[str, str]:
        return {task.address: task.state for task in self.store.view.list("task")}

    def reason(self, address: str) -> str:
        return str(self.task(address).status["conditions"]["Ready"]["reason"])

    async def until(self, holds: Callable[[], bool]) -> None:
        """Returns when a change makes `holds` true."""
        await waiting.until(self.store, holds)

    async def until_state(self, address: str, *states: str) -> None:
        await self.until(lambda: self.state(address) in states)

    async def settled(self) -> None:
        """Returns when nothing moves any more."""
        await self.engine.until_quiescent()
        assert self.bugs == []

    async def log(self) -> list[RecordDraft]:
        await self.store.flush(self.store.view.rev)
        return [record.draft for record in await self.store.log(0, 100_000)]

    def lines(self, name: str) -> list[str]:
        """The lines of a file that commands wrote."""
        path = self.folder / name
        return path.read_text().split() if path.exists() else []

    def _uid(self, address: str) -> Uid | None:
        found = self.store.view.get(address)
        return None if found is None else found.uid


def address_of(name: str) -> str:
    return "task/." if name == "root" else str(Address("task", tuple(name.split("_"))))


def is_at(address: str, other: str) -> bool:
    return parse_address(address).is_within(parse_address(other))


@asynccontextmanager
async def harness(folder: Path, *, parallel: int = 8, epoch: int = 1, grace_s: float = 1.0) -> AsyncIterator[Harness]:
    """An owner with nothing in its plan, or with what an earlier one in the same folder left."""
    clock, ids = SystemClock(), RandomIds()
    state = folder / ".plan"
    async with SqliteStore.open(state, clock=clock, epoch=epoch) as store:
        processes = LocalProcesses(state / "run", str(folder), epoch, grace_s=grace_s)
        found = await journal.recover_calls(store, processes)
        await processes.sweep(found.keep)
        queue = AddressQueue()
        work = WorkPools(queue, {"tools": parallel})
        bugs: list[InternalErrorReport] = []
        surroundings = RunEnvironment("harness", folder, ENV)
        controller = TaskReconciler(store, work, processes, clock, ids, surroundings)
        engine = Engine(store, clock, queue, work, [controller], PLAN)
        engine.on_bug = bugs.append
        async with anyio.create_task_group() as group:
            await group.start(engine.run)
            yield Harness(folder, store, engine, work, processes, bugs)
            group.cancel_scope.cancel()


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
