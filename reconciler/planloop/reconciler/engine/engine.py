"""The worker loop of one plan: takes an address off the queue, reconciles it, and handles the outcome.

    change in the store → addresses to wake → queue → worker → reconciler of the kind → outcome → queue, conditions

The engine knows no kind by name. It never reconciles one address twice at the same time, and it deletes an object that
is marked `deleting` once its last finalizer is gone. A wake-up is only a hint that can be lost: `run` begins by
reconciling every object. The contract of a reconciler and its outcomes is `planloop.reconciler.engine.reconcile`;
`change_tracker` decides what a change wakes, `queue` when an address is next, and `work_pools` runs what takes time.
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
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.log.record import Drop, Record, RecordDraft, SetStatus
from planloop.schemas.resource import (
    INTERNAL_ERROR,
    STALLED,
    Condition,
    Resource,
    conditions_of_status,
    update_condition,
)

ACTOR: Final = "controller:engine"
STARTUP_PRIORITY: Final = -100  # The reconciles of a restart must not delay a change that an operator makes meanwhile.
WORKERS_DEFAULT: Final = 16  # A reconcile waits only for a flush, and many reconciles share one flush.
AGAIN_MIN_S: Final = 0.005  # `Again(0)` from a controller that changes nothing would be a busy loop.
CONFLICT_BASE_S: Final = 0.001  # Retry a lost race immediately; back off only if it is lost again and again.

START_RECORDS: Final = frozenset({"call.started", "model.requested"})
# No controller acts on the start of an effect. After this delay the effect has often ended, and one reconcile handles
# both records, which saves half the reconciles of short commands.
START_RECORD_DELAY_S: Final = 0.05

RETRYING: Final = "Retrying"
FIGHTING: Final = "Fighting"


ReconcileListener: TypeAlias = Callable[[str, str, float, float], None]
"""Called with an address, the name of the outcome, the start (seconds since 1970), and the duration in seconds."""


@frozen
class InternalErrorReport:
    """An exception that a reconciler or job must not raise. The command that owns the plan exits with code 70."""

    address: str
    error: Exception


class Engine:
    """Reconciles the objects of one plan.

    `reconcilers` has at most one per kind. `plan` is the address to reconcile whenever an object has been deleted.
    Create the engine before anything else writes to `store`, because it subscribes to changes on creation; `run` does
    the work.
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
        self._hot_loops = HotLoopDetector()
        self._muted_address: str | None = None
        self._quiescence_events: list[anyio.Event] = []
        self.on_bug: Callable[[InternalErrorReport], None] = _ignore
        """Called with every exception that is neither transient nor terminal. The object waits for a change."""
        self.on_reconcile: ReconcileListener | None = None
        """Called after every reconcile, for monitoring. If it is None, nothing is measured."""
        self._watcher = ChangeWatcher(self._all_objects())
        work.on_failure = self._job_failed
        store.on_change(self._wake_for_change)

    async def run(
        self, *, workers: int = WORKERS_DEFAULT, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Reconcile until cancelled, beginning with every object at low priority.

        `workers` is the number of reconciles at the same time; jobs are bounded by their pools. `task_status` reports
        that every object is queued. On cancellation, running jobs have cleaned up before this returns. Raises
        StoreFailed, StoreCorrupt or NotOwner if this process must stop writing the plan.
        """
        try:
            async with anyio.create_task_group() as group:
                await group.start(self._work.run)
                group.start_soon(self._queue.keep_time)
                for resource in self._all_objects():
                    self._queue.add(resource.address, priority=STARTUP_PRIORITY)
                for _ in range(workers):
                    group.start_soon(self._worker)
                task_status.started()
        except BaseExceptionGroup as raised:
            raise _first_fatal(raised) from None

    def is_quiescent(self) -> bool:
        """Whether no address is ready, processing or delayed and no job is live: only an outside change can wake it."""
        return self._queue.counts().is_empty and not self._work.live_count

    async def until_quiescent(self) -> None:
        """Return when `is_quiescent` is true, without polling. `run` must be active."""
        while not self.is_quiescent():
            event = anyio.Event()
            self._quiescence_events.append(event)
            await event.wait()

    async def _worker(self) -> None:
        while True:
            address = await self._queue.take()
            try:
                await self._handle_outcome(address, await self._reconcile(address))
            finally:
                self._queue.done(address)
            self._notify_if_quiescent()

    async def _reconcile(self, address: str) -> Outcome | AttemptFailure:
        listener = self.on_reconcile
        if listener is None:
            return await attempt(self._dispatch, address)
        began_at, began = self._clock.now(), self._queue.now()
        outcome = await attempt(self._dispatch, address)
        listener(address, type(outcome).__name__, began_at, self._queue.now() - began)
        return outcome

    async def _dispatch(self, address: str) -> Outcome:
        parsed = addresses.parse_address(address)
        resource = self._store.view.get(address)
        if resource is not None and _can_delete(resource):
            await self._delete(resource)
            return Done()
        reconciler = self._reconcilers.get(parsed.kind)
        return Done() if reconciler is None else await reconciler.reconcile(parsed)

    async def _delete(self, resource: Resource) -> None:
        draft = RecordDraft("object.deleted", ACTOR, resource.address, (Drop(resource.address, resource.uid),))
        await self._store.append(draft, {resource.address: resource.rev})
        self._queue.add(self._plan)

    async def _handle_outcome(self, address: str, outcome: Outcome | AttemptFailure) -> None:
        match outcome:
            case Done():
                self._queue.forget(address)
                await self._update_after_success(address)
            case Again(after_s):
                self._queue.forget(address)
                self._queue.add(address, after_s=max(after_s, AGAIN_MIN_S))
                await self._update_after_success(address)
            case Failed(reason, message):
                self._queue.retry(address)
                await self._set_condition(address, RETRYING, reason, message)
            case LostRace():
                self._queue.retry(address, base_s=CONFLICT_BASE_S)
            case TerminalFailure(reason, message):
                self._queue.forget(address)
                await self._set_condition(address, STALLED, reason, message)
            case Bug(error):
                self._queue.forget(address)
                self.on_bug(InternalErrorReport(address, error))
                await self._set_condition(address, STALLED, INTERNAL_ERROR, f"{type(error).__name__}: {error}")
            case _:
                assert_never(outcome)

    async def _job_failed(self, owner: str, key: str, failure: AttemptFailure) -> None:
        """Retry a failed job by reconciling its owner after a back-off.

        Failures are counted by job, not by owner. After a terminal failure or a bug the owner waits for a change.
        """
        match failure:
            case Failed(reason, message):
                self._queue.retry(owner, key=key)
                await self._set_condition(owner, RETRYING, reason, message)
            case LostRace():
                self._queue.retry(owner, key=key, base_s=CONFLICT_BASE_S)
            case TerminalFailure() | Bug():
                self._queue.forget(key)
                await self._handle_outcome(owner, failure)
            case _:
                assert_never(failure)
        self._notify_if_quiescent()

    def _notify_if_quiescent(self) -> None:
        if self._quiescence_events and self.is_quiescent():
            for event in self._quiescence_events:
                event.set()
            self._quiescence_events.clear()

    def _wake_for_change(self, record: Record, changed: Sequence[str]) -> None:
        is_controller = record.draft.actor.startswith("controller:")
        last = record.draft.also[-1] if record.draft.also else record.draft
        is_start = last.type in START_RECORDS
        view = self._store.view
        for address in self._watcher.concerned(view, changed):
            resource = view.get(address)
            is_unwoken = address == self._work.unwoken_address and not _can_delete(resource)
            if is_unwoken or address == self._muted_address or not self._is_reconciled(address, resource):
                continue
            delay_s = self._hot_loop_delay_s(resource, address in changed) if resource and is_controller else 0.0
            # A start that was written together with other changes delays its own subjects, not the objects they wake.
            is_delayed = is_start and not (record.draft.also and address not in (last.subject, record.draft.subject))
            self._queue.add(address, after_s=max(delay_s, START_RECORD_DELAY_S) if is_delayed else delay_s)

    def _is_reconciled(self, address: str, resource: Resource | None) -> bool:
        """Whether a reconcile can do anything: calls and approvals have no reconciler, they only wake their owners."""
        return address.partition("/")[0] in self._reconcilers or (resource is not None and resource.deleting)

    def _hot_loop_delay_s(self, resource: Resource, has_changed: bool) -> float:
        """Seconds to delay a wake-up of `resource` that a controller caused: over 0 only in a hot loop."""
        if has_changed:
            content = [resource.spec, resource.status]
            self._hot_loops.wrote(resource.address, self._queue.now(), lambda: canonical_json.encode_text(content))
        return self._hot_loops.delay_s(resource.address, self._queue.now)

    async def _update_after_success(self, address: str) -> None:
        """Remove the engine's conditions from a resource that was reconciled, or report its hot loop."""
        delay_s = self._hot_loops.delay_s(address, self._queue.now)
        if delay_s:
            message = f"controllers keep undoing each other's writes; next look in {delay_s:.0f} s"
            await self._set_condition(address, FIGHTING, "HotLoop", message)
            return
        resource = self._store.view.get(address)
        stated = resource.status.get("conditions") if resource is not None else None
        if resource is None or not stated:
            return
        ours = [type_ for type_ in (STALLED, RETRYING, FIGHTING) if type_ in stated]
        if ours:
            await self._write_status(resource, {"conditions": dict.fromkeys(ours)})

    async def _set_condition(self, address: str, type_: str, reason: str, message: str) -> None:
        resource = self._store.view.get(address)
        if resource is None:
            return
        new = Condition(type_, "True", reason, message, self._clock.now(), resource.generation)
        condition = update_condition(conditions_of_status(resource.status).get(type_), new)
        stated = condition.to_json()
        if resource.status.get("conditions", {}).get(type_) != stated:
            await self._write_status(resource, {"conditions": {type_: stated}})

    async def _write_status(self, resource: Resource, status: JsonObject) -> None:
        # A condition of the engine must not wake the controller of its object: that would undo the delay.
        self._muted_address = resource.address
        try:
            change = SetStatus(resource.address, resource.uid, status)
            draft = RecordDraft("object.updated", ACTOR, resource.address, (change,))
            rev = self._store.propose(draft, {resource.address: resource.rev})
        finally:
            self._muted_address = None
        await self._store.flush(rev)

    def _all_objects(self) -> list[Resource]:
        view = self._store.view
        return [resource for kind in sorted(addresses.KINDS) for resource in view.list(kind)]


def _ignore(report: InternalErrorReport) -> None:
    del report


def _first_fatal(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error for which the owner must stop, or `group` if it has none."""
    fatal: BaseException | None = group.subgroup(EngineError)
    while isinstance(fatal, BaseExceptionGroup):
        fatal = fatal.exceptions[0]
    return group if fatal is None else fatal


def _can_delete(resource: Resource | None) -> bool:
    """Whether `resource` is marked `deleting` and no finalizer is left, so that the engine deletes it."""
    return resource is not None and resource.deleting and not resource.finalizers
