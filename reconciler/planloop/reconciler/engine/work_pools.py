"""Run jobs that take time in bounded pools, so that they never block a reconcile: the `WorkPlane` port, `WorkPools`.

A job belongs to an address, its owner, and has a key; starting a key that is live does nothing. Cancelling a job
cancels its scope: the job itself stops its effect and writes the record of it. Controllers ask which jobs are live and
compare them with those that should be. What a job achieved is in the log, so an ended job leaves nothing behind except
a reconcile of its owner.
"""

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


class WorkPlane(Protocol):
    """What a controller may do with jobs."""

    def start(self, key: str, owner: str, job: Callable[[], Awaitable[None]], *, pool: str, priority: int = 0) -> None:
        """Queue `job` until `pool` has room: higher priority first, then first come, first served.

        Does nothing if `key` is live. `pool` is `tools`, `models`, `models:<pattern>`, or `free` (no bound) for jobs
        that only wait. When the job ends, in whatever way, `owner` is reconciled. The exception is a job that has
        taken its owner's next steps itself: it sets its attribute `took_next_steps` and awaits nothing after that.
        """
        ...

    def cancel(self, key: str) -> None:
        """Remove a queued job, or cancel the scope of a running one without waiting. Does nothing for unknown keys."""
        ...

    def is_live(self, key: str) -> bool:
        """Whether the job is queued, running or cleaning up."""
        ...

    def is_running(self, key: str) -> bool:
        """Whether the job has a slot of its pool."""
        ...

    def live_for(self, owner: str) -> Sequence[str]:
        """The keys of live jobs of `owner`."""
        ...

    def without_waking(self, address: str) -> AbstractContextManager[None]:
        """In the block, writes do not wake `address`, because the writer takes its next steps itself."""
        ...

    def poke(self, address: str, *, after_s: float = 0.0, priority: int = 0) -> None:
        """Ask the engine to reconcile `address` in `after_s` seconds. Only a hint: the state decides what happens."""
        ...


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


class _WithoutWaking:
    """The block of `without_waking`. A class, because a generator takes three times as long."""

    __slots__ = ("_address", "_before", "_pools")

    def __init__(self, pools: WorkPools, address: str) -> None:
        self._pools = pools
        self._address = address
        self._before: str | None = None

    def __enter__(self) -> None:
        self._before, self._pools.unwoken_address = self._pools.unwoken_address, self._address

    def __exit__(self, *ended: object) -> None:
        self._pools.unwoken_address = self._before


class WorkPools:
    """A `WorkPlane` whose jobs run in the task group of `run`, each in its own cancel scope, on asyncio or trio.

    `bounds` are the numbers of slots by pool; `free` has no bound, any other pool `limits.PARALLEL_DEFAULT`.
    """

    def __init__(self, queue: AddressQueue, bounds: Mapping[str, int] | None = None) -> None:
        self._queue = queue
        self._bounds = dict(bounds or {})
        self._pools: dict[str, _Pool] = {"free": _Pool(None)}
        self._jobs: dict[str, _Job] = {}
        self._by_owner: dict[str, dict[str, None]] = {}
        self._arrivals = 0
        self._group: TaskGroup | None = None
        self.unwoken_address: str | None = None
        """The address of the current `without_waking` block, None outside."""
        self.on_failure: Callable[[str, str, AttemptFailure], Awaitable[None]] = self._reconcile_owner
        """Called with the owner, the key and the failure of a job that raised, instead of reconciling the owner."""

    def start(self, key: str, owner: str, job: Callable[[], Awaitable[None]], *, pool: str, priority: int = 0) -> None:
        """As `WorkPlane.start`. Jobs wait until `run` has begun."""
        if key in self._jobs:
            return
        started = self._jobs[key] = _Job(key, owner, job, pool)
        self._by_owner.setdefault(owner, {})[key] = None
        self._arrivals += 1
        heapq.heappush(self._pool(pool).waiting, (-priority, self._arrivals, started))
        self._start_waiting(pool)

    def cancel(self, key: str) -> None:
        job = self._jobs.get(key)
        if job is None:
            return
        job.scope.cancel()
        if not job.is_running:
            self._forget(job)  # Its entry in the heap of the pool is skipped later.
            self._queue.add(job.owner)

    def is_live(self, key: str) -> bool:
        return key in self._jobs

    def is_running(self, key: str) -> bool:
        job = self._jobs.get(key)
        return job is not None and job.is_running

    def live_for(self, owner: str) -> Sequence[str]:
        return tuple(self._by_owner.get(owner, ()))

    def without_waking(self, address: str) -> AbstractContextManager[None]:
        return _WithoutWaking(self, address)

    def poke(self, address: str, *, after_s: float = 0.0, priority: int = 0) -> None:
        self._queue.add(address, after_s=after_s, priority=priority)

    @property
    def live_count(self) -> int:
        """The number of jobs that are queued, running or cleaning up."""
        return len(self._jobs)

    def resize(self, pool: str, bound: int) -> None:
        """Change the number of slots. Running jobs over a smaller bound are not cancelled."""
        self._bounds[pool] = bound
        self._pool(pool).bound = bound
        self._start_waiting(pool)

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Run jobs until cancelled. Every running job is then cancelled and has cleaned up before this returns."""
        async with anyio.create_task_group() as group:
            self._group = group
            try:
                for pool in list(self._pools):
                    self._start_waiting(pool)
                task_status.started()
                await anyio.sleep_forever()
            finally:
                self._group = None

    def _pool(self, name: str) -> _Pool:
        pool = self._pools.get(name)
        if pool is None:
            pool = self._pools[name] = _Pool(self._bounds.get(name, limits.PARALLEL_DEFAULT))
        return pool

    def _start_waiting(self, name: str) -> None:
        pool = self._pool(name)
        while self._group is not None and pool.waiting and pool.has_room:
            _, _, job = heapq.heappop(pool.waiting)
            if job.scope.cancel_called:
                continue
            pool.running += 1
            job.is_running = True
            self._group.start_soon(self._run_job, job, pool, name=job.key)

    async def _run_job(self, job: _Job, pool: _Pool) -> None:
        failure: AttemptFailure | None = None
        try:
            with job.scope:
                failure = await attempt(job.work)
        finally:
            pool.running -= 1
            self._forget(job)
            self._start_waiting(job.pool)
        if failure is None:
            self._queue.forget(job.key)
            if not getattr(job.work, "took_next_steps", False):
                self._queue.add(job.owner)
        else:
            await self.on_failure(job.owner, job.key, failure)

    async def _reconcile_owner(self, owner: str, key: str, failure: AttemptFailure) -> None:
        del key, failure
        self._queue.add(owner)

    def _forget(self, job: _Job) -> None:
        del self._jobs[job.key]
        keys = self._by_owner[job.owner]
        del keys[job.key]
        if not keys:
            del self._by_owner[job.owner]
