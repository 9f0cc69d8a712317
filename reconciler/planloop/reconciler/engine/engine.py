"""The engine: turns changes into reconciles, and outcomes into queue entries and status writes.

It knows no kind by name: it routes an address to the reconciler of its kind, one address never twice at once, and
drops what is deleting and has no finalizers left. A wake-up is only a hint; `run` begins by reconciling everything at
low priority. Effects and waiting are the work plane's (`planloop.reconciler.engine.work_pools`); what a change wakes is
`planloop.reconciler.engine.change_tracker`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, assert_never

import anyio
from anyio.abc import TaskStatus

from planloop.reconciler.clock import Clock
from planloop.reconciler.engine.change_tracker import ChangeWatcher, HotLoopDetector
from planloop.reconciler.engine.queue import AddressQueue
from planloop.reconciler.engine.reconcile import (
    Again,
    AttemptFailure,
    Bug,
    Done,
    Failed,
    LostRace,
    Outcome,
    Reconciler,
    TerminalFailure,
    attempt,
)
from planloop.reconciler.engine.work_pools import WorkPools
from planloop.reconciler.errors import EngineError
from planloop.reconciler.store.store import Store
from planloop.schemas import address as addresses
from planloop.schemas import canonical_json
from planloop.schemas import resource as conditions
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.log.record import Drop, Record, RecordDraft, SetStatus
from planloop.schemas.resource import INTERNAL_ERROR, STALLED, Condition, Resource

ACTOR: Final = "controller:engine"
STARTUP_PRIORITY: Final = -100  # A restart must not delay what a person does meanwhile.
WORKERS_DEFAULT: Final = 16  # A reconcile waits only for a flush; more of them share one flush.
AGAIN_FLOOR_S: Final = 0.005  # "Again at once" from a controller that changes nothing would be a busy loop.
CONFLICT_BASE_S: Final = 0.001  # A lost race is read again at once; it backs off only if it keeps losing.
# That an effect began is news that nobody acts on: told a little later, it is mostly overtaken by the news of its end,
# which saves half the reconciles of short commands.
STARTED_NEWS_S: Final = 0.05

BEGINNINGS: Final = frozenset({"call.started", "model.requested"})

RETRYING: Final = "Retrying"
FIGHTING: Final = "Fighting"


OnReconcile: TypeAlias = Callable[[str, str, float, float], None]
"""Told an address, how its reconcile ended, when it began (seconds since 1970), and how many seconds it took."""


@frozen
class InternalErrorReport:
    """Something of ours raised what it should not: for the person, and for exit code 70."""

    address: str
    error: Exception


class Engine:
    """Drives the objects of one plan. `plan` is the address woken whenever an object is gone.

    Made before anything else writes, so that it hears every change; `run` does the work.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        queue: AddressQueue,
        work: WorkPools,
        reconcilers: Sequence[Reconciler],
        plan: str,
    ) -> None:
        self._store = store
        self._clock = clock
        self._queue = queue
        self._work = work
        self._reconcilers = {reconciler.kind: reconciler for reconciler in reconcilers}
        self._plan = plan
        self._fights = HotLoopDetector()
        self._muted: str | None = None
        self._quiet: list[anyio.Event] = []
        self.on_bug: Callable[[InternalErrorReport], None] = _ignore
        """Called with every bug; the product prints it and exits 70 at the end."""
        self.on_reconcile: OnReconcile | None = None
        """Called after every reconcile, for monitoring; without it no time is taken."""
        self._watcher = ChangeWatcher(self._all())
        work.on_fault = self._job_failed
        store.on_change(self._changed)

    async def run(
        self, *, workers: int = WORKERS_DEFAULT, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Reconciles until cancelled. Raises StoreFailed, StoreCorrupt or NotOwner when the owner must stop."""
        try:
            async with anyio.create_task_group() as group:
                await group.start(self._work.run)
                group.start_soon(self._queue.keep_time)
                for resource in self._all():
                    self._queue.add(resource.address, priority=STARTUP_PRIORITY)
                for _ in range(workers):
                    group.start_soon(self._worker)
                task_status.started()
        except BaseExceptionGroup as raised:
            raise _first_fatal(raised) from None

    def quiescent(self) -> bool:
        """Nothing is ready, running or due: only a change from outside can make anything happen."""
        return self._queue.counts().is_empty and not self._work.live_count

    async def until_quiescent(self) -> None:
        """Returns when `quiescent` is true. A running engine is woken for it; nothing polls."""
        while not self.quiescent():
            event = anyio.Event()
            self._quiet.append(event)
            await event.wait()

    def _all(self) -> list[Resource]:
        view = self._store.view
        return [resource for kind in sorted(addresses.KINDS) for resource in view.list(kind)]

    def _changed(self, record: Record, changed: Sequence[str]) -> None:
        is_controller = record.draft.actor.startswith("controller:")
        last = record.draft.also[-1] if record.draft.also else record.draft
        is_news = last.type not in BEGINNINGS
        view = self._store.view
        for address in self._watcher.concerned(view, changed):
            resource = view.get(address)
            is_driven = address == self._work.driven and not _is_released(resource)
            if is_driven or address == self._muted or not self._is_ours(address, resource):
                continue
            delay_s = self._held_back(resource, address in changed) if resource and is_controller else 0.0
            # What else such a record says is for others.
            is_heard = is_news or (bool(record.draft.also) and address not in (last.subject, record.draft.subject))
            self._queue.add(address, after_s=delay_s if is_heard else max(delay_s, STARTED_NEWS_S))

    def _is_ours(self, address: str, resource: Resource | None) -> bool:
        """Whether reconciling would do anything: calls and approvals have no reconciler and only wake their owners."""
        return address.partition("/")[0] in self._reconcilers or (resource is not None and resource.deleting)

    def _held_back(self, resource: Resource, has_changed: bool) -> float:
        """Seconds to hold back a wake-up of `resource` that a controller caused: more than 0 only in a fight."""
        if has_changed:
            content = [resource.spec, resource.status]
            self._fights.wrote(resource.address, self._queue.now(), lambda: canonical_json.encode_text(content))
        return self._fights.delay_s(resource.address, self._queue.now)

    async def _worker(self) -> None:
        while True:
            address = await self._queue.take()
            try:
                await self._settle(address, await self._attempt(address))
            finally:
                self._queue.done(address)
            self._tell_if_quiet()

    async def _attempt(self, address: str) -> Outcome | AttemptFailure:
        tell = self.on_reconcile
        if tell is None:
            return await attempt(self._step, address)
        began_at, began = self._clock.now(), self._queue.now()
        outcome = await attempt(self._step, address)
        tell(address, type(outcome).__name__, began_at, self._queue.now() - began)
        return outcome

    def _tell_if_quiet(self) -> None:
        if self._quiet and self.quiescent():
            for event in self._quiet:
                event.set()
            self._quiet.clear()

    async def _step(self, address: str) -> Outcome:
        parsed = addresses.parse_address(address)
        resource = self._store.view.get(address)
        if resource is not None and _is_released(resource):
            await self._drop(resource)
            return Done()
        reconciler = self._reconcilers.get(parsed.kind)
        return Done() if reconciler is None else await reconciler.reconcile(parsed)

    async def _drop(self, resource: Resource) -> None:
        draft = RecordDraft("object.deleted", ACTOR, resource.address, (Drop(resource.address, resource.uid),))
        await self._store.append(draft, {resource.address: resource.rev})
        self._queue.add(self._plan)

    async def _settle(self, address: str, outcome: Outcome | AttemptFailure) -> None:
        match outcome:
            case Done():
                self._queue.forget(address)
                await self._clear(address)
            case Again(after_s):
                self._queue.forget(address)
                self._queue.add(address, after_s=max(after_s, AGAIN_FLOOR_S))
                await self._clear(address)
            case Failed(reason, message):
                self._queue.retry(address)
                await self._say(address, RETRYING, reason, message)
            case LostRace():
                self._queue.retry(address, base_s=CONFLICT_BASE_S)
            case TerminalFailure(reason, message):
                self._queue.forget(address)
                await self._say(address, STALLED, reason, message)
            case Bug(error):
                self._queue.forget(address)
                self.on_bug(InternalErrorReport(address, error))
                await self._say(address, STALLED, INTERNAL_ERROR, f"{type(error).__name__}: {error}")
            case _:
                assert_never(outcome)

    async def _job_failed(self, owner: str, key: str, fault: AttemptFailure) -> None:
        """A job that raised is tried again through its owner, with back-off; our bug waits for a change instead."""
        match fault:
            case Failed(reason, message):
                self._queue.retry(owner, row=key)
                await self._say(owner, RETRYING, reason, message)
            case LostRace():
                self._queue.retry(owner, row=key, base_s=CONFLICT_BASE_S)
            case TerminalFailure() | Bug():
                self._queue.forget(key)
                await self._settle(owner, fault)
            case _:
                assert_never(fault)
        self._tell_if_quiet()

    async def _clear(self, address: str) -> None:
        """Takes back what the engine itself said about an object that is well again, and says when it fights."""
        delay_s = self._fights.delay_s(address, self._queue.now)
        if delay_s:
            message = f"controllers keep undoing each other's writes; next look in {delay_s:.0f} s"
            await self._say(address, FIGHTING, "HotLoop", message)
            return
        resource = self._store.view.get(address)
        stated = resource.status.get("conditions") if resource is not None else None
        if resource is None or not stated:
            return
        ours = [type_ for type_ in (STALLED, RETRYING, FIGHTING) if type_ in stated]
        if ours:
            await self._write(resource, {"conditions": dict.fromkeys(ours)})

    async def _say(self, address: str, type_: str, reason: str, message: str) -> None:
        resource = self._store.view.get(address)
        if resource is None:
            return
        new = Condition(type_, "True", reason, message, self._clock.now(), resource.generation)
        condition = conditions.update_condition(conditions.conditions_of_status(resource.status).get(type_), new)
        stated = condition.to_json()
        if resource.status.get("conditions", {}).get(type_) != stated:
            await self._write(resource, {"conditions": {type_: stated}})

    async def _write(self, resource: Resource, status: JsonObject) -> None:
        # The object's own controller has nothing to learn from the engine's conditions: waking it would undo the delay.
        self._muted = resource.address
        try:
            change = SetStatus(resource.address, resource.uid, status)
            draft = RecordDraft("object.updated", ACTOR, resource.address, (change,))
            rev = self._store.propose(draft, {resource.address: resource.rev})
        finally:
            self._muted = None
        await self._store.flush(rev)


def _ignore(report: InternalErrorReport) -> None:
    del report


def _first_fatal(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error that says why the owner must stop, or the group itself when there is none among them."""
    fatal: BaseException | None = group.subgroup(EngineError)
    while isinstance(fatal, BaseExceptionGroup):
        fatal = fatal.exceptions[0]
    return group if fatal is None else fatal


def _is_released(resource: Resource | None) -> bool:
    """Whether an object on its way out waits for nobody but the engine, which drops it."""
    return resource is not None and resource.deleting and not resource.finalizers
