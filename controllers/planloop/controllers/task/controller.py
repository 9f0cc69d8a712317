"""The task controller: observe, decide, act. It keeps nothing about a task between two reconciles."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import nullcontext

from planloop.controllers.task import jobs, observe
from planloop.controllers.task.counters import TaskCounters, TaskSlots
from planloop.controllers.task.decide import decide_task
from planloop.controllers.task.jobs import OutputCleaner, TaskJobContext, write_step
from planloop.controllers.task.observe import ObservedTask, TaskObserver
from planloop.controllers.task.run_environment import RunEnvironment
from planloop.controllers.task.step import CheckJob, RunJob, StopJob, TaskJob, TaskStep, TryJob
from planloop.reconciler.clock import Clock, Ids
from planloop.reconciler.effects.processes import Processes
from planloop.reconciler.engine.reconcile import Again, Done, Outcome
from planloop.reconciler.engine.work_pools import WorkPlane
from planloop.reconciler.store.store import Store
from planloop.schemas.address import Address
from planloop.schemas.objects.task import ENDED
from planloop.schemas.resource import Uid

POOL = "tools"


class TaskReconciler:
    """The `Reconciler` of tasks. Made after the store is open and before anything is reconciled."""

    kind = "task"

    def __init__(
        self,
        store: Store,
        plane: WorkPlane,
        processes: Processes,
        clock: Clock,
        ids: Ids,
        surroundings: RunEnvironment,
    ) -> None:
        self._store = store
        self._plane = plane
        self._clock = clock
        tallies = TaskCounters()
        tallies.follow(store)
        self._slots = TaskSlots(plane.poke)
        self._slots.follow(store)
        self._observer = TaskObserver(
            store.view, tallies, plane, surroundings.sandboxes, self._slots, ground=surroundings.ground
        )
        self._desk = TaskJobContext(
            store, processes, clock, ids, self._observer, surroundings, OutputCleaner(store, processes, plane)
        )

    async def reconcile(self, address: Address) -> Outcome:
        """One step for the task at `address`. Raises Conflict when it moved meanwhile."""
        observed = self._observer.observe(str(address), self._clock.now())
        if observed is None:
            return Done()
        step = decide_task(observed)
        with nullcontext() if _leads_on(observed, step) else self._plane.without_waking(observed.address):
            write_step(self._store, observed, step)
        for key in step.cancel:
            self._plane.cancel(key)
        for job in step.start:
            self._start(observed.me.uid, observed.address, job)
        self._slots.settle(observed.address, step.says.reason, is_stuck=step.says.is_stuck)
        return Done() if step.again_s is None else Again(max(0.0, step.again_s))

    def _start(self, uid: Uid, address: str, job: TaskJob) -> None:
        desk = self._desk
        match job:
            case RunJob():
                self._queue(address, job.key, lambda: jobs.run_command(desk, uid, address, job), job.priority)
            case CheckJob():
                self._queue(address, job.key, lambda: jobs.run_task_check(desk, uid, address, job), job.priority)
            case TryJob():
                self._plane.start(job.key, address, lambda: jobs.try_sandbox(desk, job), pool="free")
            case StopJob():
                self._plane.start(job.key, address, lambda: jobs.stop_command(desk, uid, address, job), pool="free")

    def _queue(self, address: str, key: str, job: Callable[[], Awaitable[None]], priority: int) -> None:
        self._plane.start(key, address, job, pool=POOL, priority=priority)


def _leads_on(observed: ObservedTask, step: TaskStep) -> bool:
    """Whether the task is to be looked at again for what it writes itself: grants go back once an end is written.

    Everywhere else a decision on what was just written would write nothing.
    """
    return step.says.state in ENDED and any(map(observe.holds_grant, (observed.me, *observed.budget.above)))
