"""The reconciler of tasks: observe, decide, act. It keeps nothing about a task between two reconciles."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import nullcontext

from planloop.controllers.task import enclosing, finding, granting, running
from planloop.controllers.task.clearing import Clearing
from planloop.controllers.task.deciding import decide
from planloop.controllers.task.observing import Observed, Observer
from planloop.controllers.task.running import Desk
from planloop.controllers.task.slots import Slots
from planloop.controllers.task.step import CheckJob, Job, RunJob, Step, StopJob, TryJob
from planloop.controllers.task.surroundings import Surroundings
from planloop.controllers.task.tallying import Tallies
from planloop.controllers.task.writing import write
from planloop.reconciler.clock import Clock, Ids
from planloop.reconciler.contract import Again, Done, Outcome
from planloop.reconciler.driving.working import WorkPlane
from planloop.reconciler.effects.processes import Processes
from planloop.reconciler.storing.store import Store
from planloop.schemas.address import Address
from planloop.schemas.resource import Uid
from planloop.schemas.task import ENDED

POOL = "tools"


class TaskController:
    """A `contract.Reconciler` for `task`. Made after the store is open and before anything is reconciled."""

    kind = "task"

    def __init__(
        self,
        store: Store,
        plane: WorkPlane,
        processes: Processes,
        clock: Clock,
        ids: Ids,
        surroundings: Surroundings,
    ) -> None:
        self._store = store
        self._plane = plane
        self._clock = clock
        tallies = Tallies()
        tallies.follow(store)
        self._slots = Slots(plane.poke)
        self._slots.follow(store)
        self._observer = Observer(
            store.view, tallies, plane, surroundings.sandboxes, self._slots, ground=surroundings.ground
        )
        self._desk = Desk(store, processes, clock, ids, self._observer, surroundings, Clearing(store, processes, plane))

    async def reconcile(self, address: Address) -> Outcome:
        """One step for the task at `address`. Raises Conflict when it moved meanwhile."""
        observed = self._observer.observe(str(address), self._clock.now())
        if observed is None:
            return Done()
        step = decide(observed)
        with nullcontext() if _leads_on(observed, step) else self._plane.driving(observed.address):
            write(self._store, observed, step)
        for key in step.cancel:
            self._plane.cancel(key)
        for job in step.start:
            self._start(observed.me.uid, observed.address, job)
        self._slots.settle(observed.address, step.says.reason, is_stuck=step.says.is_stuck)
        return Done() if step.again_s is None else Again(max(0.0, step.again_s))

    def _start(self, uid: Uid, address: str, job: Job) -> None:
        desk = self._desk
        match job:
            case RunJob():
                self._queue(address, job.key, lambda: running.run(desk, uid, address, job), job.priority)
            case CheckJob():
                self._queue(address, job.key, lambda: finding.check(desk, uid, address, job), job.priority)
            case TryJob():
                self._plane.start(job.key, address, lambda: enclosing.find_out(desk, job), pool="free")
            case StopJob():
                self._plane.start(job.key, address, lambda: running.stop(desk, uid, address, job), pool="free")

    def _queue(self, address: str, key: str, job: Callable[[], Awaitable[None]], priority: int) -> None:
        self._plane.start(key, address, job, pool=POOL, priority=priority)


def _leads_on(observed: Observed, step: Step) -> bool:
    """Whether the task is to be looked at again for what it writes itself: grants go back once an end is written.

    Everywhere else a decision on what was just written would write nothing.
    """
    return step.says.state in ENDED and any(map(granting.holds_grant, (observed.me, *observed.above)))
