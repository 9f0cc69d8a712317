"""A plan's engine on a stage: a real store without threads, virtual time, and reconcilers made of functions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from planloop.reconciler.engine.engine import Engine, InternalErrorReport
from planloop.reconciler.engine.queue import AddressQueue
from planloop.reconciler.engine.reconcile import Done, Outcome, Reconciler
from planloop.reconciler.engine.work_pools import WorkPools
from planloop.reconciler.store.sqlite.sqlite_store import SqliteStore
from planloop.reconciler.store.store import Store
from planloop.schemas.address import Address
from tests.fakes.virtual_time import VirtualClock
from tests.product import Change, JsonObject, Mark, Put, RecordDraft, Resource, SetStatus, Uid

PLAN = "plan/p"
Step = Callable[[Store, str], Awaitable[Outcome]]


@dataclass
class Acts:
    """A reconciler that does `step` and counts."""

    kind: str
    step: Step
    store: Store
    seen: list[str] = field(default_factory=list)
    at_work: list[str] = field(default_factory=list)

    async def reconcile(self, address: Address) -> Outcome:
        text = str(address)
        assert text not in self.at_work, f"{text} is reconciled twice at once"
        self.at_work.append(text)
        self.seen.append(text)
        try:
            return await self.step(self.store, text)
        finally:
            self.at_work.remove(text)


async def nothing(store: Store, address: str) -> Outcome:
    return Done()


@dataclass
class Stage:
    store: SqliteStore
    engine: Engine
    queue: AddressQueue
    work: WorkPools
    acts: dict[str, Acts]
    bugs: list[InternalErrorReport] = field(default_factory=list)

    def write(self, *changes: Change, actor: str = "human:cli") -> int:
        return self.store.propose(RecordDraft("object.updated", actor, changes[0].address, changes))

    def put(
        self, address: str, uid: str = "u", owner: str | None = None, refs: tuple[str, ...] = (), **spec: object
    ) -> None:
        self.write(Put(address, Uid(uid), dict(spec), refs, owner))

    def set(self, address: str, **merge: object) -> None:
        self.write(SetStatus(address, self.get(address).uid, dict(merge)))

    def delete(self, address: str, finalizers: tuple[str, ...] | None = None) -> None:
        self.write(Mark(address, self.get(address).uid, deleting=True, finalizers=finalizers))

    def get(self, address: str) -> Resource:
        found = self.store.view.get(address)
        assert found is not None, f"there is no {address}"
        return found

    def condition(self, address: str, type_: str) -> JsonObject | None:
        found: JsonObject | None = self.get(address).status.get("conditions", {}).get(type_)
        return found

    def seen(self, kind: str = "task") -> list[str]:
        return self.acts[kind].seen

    async def quiet(self) -> None:
        with anyio.fail_after(10_000):
            await self.engine.until_quiescent()


@asynccontextmanager
async def stage(folder: Path, runs: bool = True, epoch: int = 1, **steps: Step) -> AsyncIterator[Stage]:
    """A stage whose reconcilers are `steps` by kind; with `runs` false its engine is not started."""
    clock = VirtualClock()
    async with SqliteStore.open(folder, clock=clock, epoch=epoch, inline=True) as store:
        queue = AddressQueue()
        work = WorkPools(queue)
        acts = {kind: Acts(kind, step, store) for kind, step in steps.items()}
        reconcilers: Sequence[Reconciler] = list(acts.values())
        engine = Engine(store, clock, queue, work, reconcilers, PLAN)
        made = Stage(store, engine, queue, work, acts)
        engine.on_bug = made.bugs.append
        async with anyio.create_task_group() as group:
            if runs:
                await group.start(engine.run)
            yield made
            group.cancel_scope.cancel()


async def set_status(store: Store, address: str, **merge: object) -> None:
    """What a controller does: a status computed from what it just read."""
    resource = store.view.get(address)
    assert resource is not None
    draft = RecordDraft(
        "object.updated", f"controller:{resource.kind}", address, (SetStatus(address, resource.uid, dict(merge)),)
    )
    await store.append(draft, {address: resource.rev})
