"""Task controller: observe a task, decide its next step, write that step and start its jobs."""

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
    """The `Reconciler` of tasks. Create it after the store is open and before the first reconcile."""

    kind = "task"

    def __init__(
        self,
        store: Store,
        plane: WorkPlane,
        processes: Processes,
        clock: Clock,
        ids: Ids,
        environment: RunEnvironment,
    ) -> None:
        self._store = store
        self._plane = plane
        self._clock = clock
        counters = TaskCounters()
        counters.follow(store)
        self._slots = TaskSlots(plane.poke)
        self._slots.follow(store)
        self._observer = TaskObserver(
            store.view, counters, plane, environment.sandboxes, self._slots, ground=environment.ground
        )
        self._context = TaskJobContext(
            store, processes, clock, ids, self._observer, environment, OutputCleaner(store, processes, plane)
        )

    async def reconcile(self, address: Address) -> Outcome:
        """Take one step for the task at `address`.

        Raises:
            Conflict: the task changed since it was observed.
        """
        observed = self._observer.observe(str(address), self._clock.now())
        if observed is None:
            return Done()
        step = decide_task(observed)
        with nullcontext() if _reconciles_again(observed, step) else self._plane.without_waking(observed.address):
            write_step(self._store, observed, step)
        for key in step.cancel:
            self._plane.cancel(key)
        for job in step.start:
            self._start(observed.me.uid, observed.address, job)
        self._slots.settle(observed.address, step.says.reason, is_stuck=step.says.is_stuck)
        return Done() if step.again_s is None else Again(max(0.0, step.again_s))

    def _start(self, uid: Uid, address: str, job: TaskJob) -> None:
        context = self._context
        match job:
            case RunJob():
                self._queue(address, job.key, lambda: jobs.run_command(context, uid, address, job), job.priority)
            case CheckJob():
                self._queue(address, job.key, lambda: jobs.run_task_check(context, uid, address, job), job.priority)
            case TryJob():
                self._plane.start(job.key, address, lambda: jobs.try_sandbox(context, job), pool="free")
            case StopJob():
                self._plane.start(job.key, address, lambda: jobs.stop_command(context, uid, address, job), pool="free")

    def _queue(self, address: str, key: str, job: Callable[[], Awaitable[None]], priority: int) -> None:
        self._plane.start(key, address, job, pool=POOL, priority=priority)


def _reconciles_again(observed: ObservedTask, step: TaskStep) -> bool:
    """Whether the write of `step` wakes the task itself: once its end is written, it returns its budget grants.

    After any other write, deciding again would write nothing.
    """
    return step.says.state in ENDED and any(map(observe.holds_grant, (observed.me, *observed.budget.above)))
