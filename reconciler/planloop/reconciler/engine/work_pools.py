"""Long-running jobs in bounded pools, so that they never block a reconcile: the `WorkPlane` port and `WorkPools`."""

from __future__ import annotations

import heapq
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

import anyio
from anyio.abc import TaskGroup, TaskStatus

from planloop.reconciler.engine.queue import AddressQueue
from planloop.reconciler.engine.reconcile import AttemptFailure, attempt
from planloop.schemas import limits
from planloop.schemas.frozen import mutable

# The work plane: jobs that take time, in bounded pools, beside the control plane that is never blocked.
#
# A job belongs to an address and has a key; starting a key that is live does nothing. Cancelling a job cancels its
# scope: the job's own clean-up stops its effect, and its record says so. What is live is observable, so a controller
# can compare it with what should be.


class WorkPlane(Protocol):
    """`pool` names a bound: `tools`, `models`, `models:<pattern>`, or `free` for jobs that only wait."""

    def start(self, key: str, owner: str, job: Callable[[], Awaitable[None]], *, pool: str, priority: int = 0) -> None:
        """Queues `job`; it runs when `pool` has room, higher priority first. A live or queued key is left alone.

        When the job ends, however it ends, `owner` is reconciled; but for a job that says (`went_on` is true of it)
        that its last act, with nothing awaited after it, was to take its owner's next steps itself.
        """
        ...

    def cancel(self, key: str) -> None:
        """Takes a queued job out, or cancels the scope of a running one. Returns at once; unknown keys are ignored."""
        ...

    def is_live(self, key: str) -> bool:
        """Whether the job is queued, running or still cleaning up."""
        ...

    def is_running(self, key: str) -> bool:
        """Whether the job has its slot in the pool."""
        ...

    def live_for(self, owner: str) -> Sequence[str]:
        """The keys of live jobs of `owner`."""
        ...

    def driving(self, address: str) -> AbstractContextManager[None]:
        """While it holds, what is written does not wake `address`: whoever writes it takes its next steps already."""
        ...

    def poke(self, address: str, *, after_s: float = 0.0, priority: int = 0) -> None:
        """Asks the engine to reconcile `address`. Only a hint: state decides what happens."""
        ...


# The work plane for real: jobs in bounded pools, each in a cancel scope of its own.
#
# A job waits in its pool's queue, higher priority first and first come first served within one, then runs in the task
# group of `run`. A finished or failed job leaves nothing behind but a poke of its owner; what it achieved is in the
# log. Works on asyncio and trio. Who starts which job is the controllers' business.


@dataclass(slots=True, eq=False)
class _Job:
    key: str
    owner: str
    work: Callable[[], Awaitable[None]]
    pool: str
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    is_running: bool = False


@mutable
class _Pool:
    bound: int | None  # None: no bound
    running: int = 0
    waiting: list[tuple[int, int, _Job]] = field(default_factory=list)  # a heap of (-priority, arrival, job)

    @property
    def has_room(self) -> bool:
        return self.bound is None or self.running < self.bound


class _Driving:
    """One object is driven meanwhile. A class, since one that is a generator takes three times as long."""

    __slots__ = ("_address", "_before", "_pools")

    def __init__(self, pools: WorkPools, address: str) -> None:
        self._pools = pools
        self._address = address
        self._before: str | None = None

    def __enter__(self) -> None:
        self._before, self._pools.driven = self._pools.driven, self._address

    def __exit__(self, *ended: object) -> None:
        self._pools.driven = self._before


class WorkPools:
    """A `WorkPlane`. `bounds` gives each pool its number of slots; `free` has none, a pool not named the default.

    `on_fault` hears the owner and key of a job that raised, instead of the poke; the engine sets it.
    """

    def __init__(self, queue: AddressQueue, bounds: Mapping[str, int] | None = None) -> None:
        self._queue = queue
        self._bounds = dict(bounds or {})
        self._pools: dict[str, _Pool] = {"free": _Pool(None)}
        self._jobs: dict[str, _Job] = {}
        self._by_owner: dict[str, dict[str, None]] = {}
        self._arrivals = 0
        self._group: TaskGroup | None = None
        self.driven: str | None = None
        """The address that nobody needs to wake for what is being written."""
        self.on_fault: Callable[[str, str, AttemptFailure], Awaitable[None]] = self._only_poke

    def start(self, key: str, owner: str, job: Callable[[], Awaitable[None]], *, pool: str, priority: int = 0) -> None:
        """See `WorkPlane.start`. Before `run` has begun, jobs wait."""
        if key in self._jobs:
            return
        started = self._jobs[key] = _Job(key, owner, job, pool)
        self._by_owner.setdefault(owner, {})[key] = None
        self._arrivals += 1
        heapq.heappush(self._pool(pool).waiting, (-priority, self._arrivals, started))
        self._fill(pool)

    def cancel(self, key: str) -> None:
        job = self._jobs.get(key)
        if job is None:
            return
        job.scope.cancel()
        if not job.is_running:
            self._forget(job)  # Its entry in the pool's heap is skipped when its turn comes.
            self._queue.add(job.owner)

    def is_live(self, key: str) -> bool:
        return key in self._jobs

    def is_running(self, key: str) -> bool:
        job = self._jobs.get(key)
        return job is not None and job.is_running

    def live_for(self, owner: str) -> Sequence[str]:
        return tuple(self._by_owner.get(owner, ()))

    def driving(self, address: str) -> AbstractContextManager[None]:
        return _Driving(self, address)

    def poke(self, address: str, *, after_s: float = 0.0, priority: int = 0) -> None:
        self._queue.add(address, after_s=after_s, priority=priority)

    @property
    def live_count(self) -> int:
        """How many jobs are queued, running or cleaning up."""
        return len(self._jobs)

    def resize(self, pool: str, bound: int) -> None:
        """Changes the number of slots at once; running jobs above a smaller bound are left to finish."""
        self._bounds[pool] = bound
        self._pool(pool).bound = bound
        self._fill(pool)

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Runs jobs until cancelled; then every running job is cancelled and has cleaned up before this returns."""
        async with anyio.create_task_group() as group:
            self._group = group
            try:
                for pool in list(self._pools):
                    self._fill(pool)
                task_status.started()
                await anyio.sleep_forever()
            finally:
                self._group = None

    def _pool(self, name: str) -> _Pool:
        pool = self._pools.get(name)
        if pool is None:
            pool = self._pools[name] = _Pool(self._bounds.get(name, limits.PARALLEL_DEFAULT))
        return pool

    def _fill(self, name: str) -> None:
        pool = self._pool(name)
        while self._group is not None and pool.waiting and pool.has_room:
            _, _, job = heapq.heappop(pool.waiting)
            if job.scope.cancel_called:
                continue
            pool.running += 1
            job.is_running = True
            self._group.start_soon(self._perform, job, pool, name=job.key)

    async def _perform(self, job: _Job, pool: _Pool) -> None:
        fault: AttemptFailure | None = None
        try:
            with job.scope:
                fault = await attempt(job.work)
        finally:
            pool.running -= 1
            self._forget(job)
            self._fill(job.pool)
        if fault is None:
            self._queue.forget(job.key)
            if not getattr(job.work, "went_on", False):
                self._queue.add(job.owner)
        else:
            await self.on_fault(job.owner, job.key, fault)

    async def _only_poke(self, owner: str, key: str, fault: AttemptFailure) -> None:
        del key, fault
        self._queue.add(owner)

    def _forget(self, job: _Job) -> None:
        del self._jobs[job.key]
        keys = self._by_owner[job.owner]
        del keys[job.key]
        if not keys:
            del self._by_owner[job.owner]
