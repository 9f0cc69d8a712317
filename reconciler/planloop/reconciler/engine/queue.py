"""The work queue of addresses: which address is reconciled next, and not before what time.

An address is in one of three sets: ready (ordered by priority, then arrival), delayed (until a time), or processing. An
address that is added while it is processing becomes ready again when it is done, so it is never reconciled twice at the
same time. Adding an address twice keeps the higher priority and the earlier time. Time and randomness are arguments.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Final

import anyio

from planloop.schemas import limits
from planloop.schemas.frozen import frozen

DOUBLINGS_COUNTED: Final = 32  # 2**32 base delays are over any cap; without a limit the power grows without bound.


@frozen
class Backoff:
    """Delays after failures in a row: `base_s`, doubled each time up to `cap_s`, plus or minus the share `jitter`."""

    base_s: float = limits.BACKOFF_BASE_S
    cap_s: float = limits.BACKOFF_CAP_S
    jitter: float = limits.BACKOFF_JITTER

    def delay_s(self, failures: int, chance: float) -> float:
        """Seconds before the next try after `failures` in a row, at least 1; `chance` in [0, 1) selects the jitter."""
        plain = min(self.cap_s, self.base_s * 2 ** min(failures - 1, DOUBLINGS_COUNTED))
        return float(plain * (1 + self.jitter * (2 * chance - 1)))


@frozen
class QueueCounts:
    """The number of addresses in each set."""

    ready: int
    processing: int
    delayed: int

    @property
    def is_empty(self) -> bool:
        return not (self.ready or self.processing or self.delayed)


class AddressQueue:
    """The queue of one engine, for one event loop.

    `now` is the loop's monotonic clock in seconds, `chance` returns values in [0, 1). `keep_time` must run: without it,
    no delayed address wakes a worker that waits in `take`.
    """

    def __init__(
        self,
        now: Callable[[], float] = anyio.current_time,
        chance: Callable[[], float] = lambda: 0.5,
        backoff: Backoff = Backoff(),
    ) -> None:
        self.now = now
        self._chance = chance
        self._backoff = backoff
        self._arrivals = 0
        # The dictionaries are the truth; the heaps may have stale entries beside them, which are skipped.
        self._ready: dict[str, int] = {}  # address → priority
        self._ready_heap: list[tuple[int, int, str]] = []  # (-priority, arrival, address)
        self._delayed: dict[str, tuple[float, int]] = {}  # address → (due time, priority)
        self._due_heap: list[tuple[float, int, str]] = []  # (due time, arrival, address)
        self._processing: dict[str, int | None] = {}  # address → priority if it was added meanwhile, None if not
        self._failures: dict[str, int] = {}
        self._waiting: list[anyio.Event] = []
        self._timer_moved = anyio.Event()

    def add(self, address: str, *, after_s: float = 0.0, priority: int = 0) -> None:
        """Queue `address`, not before `after_s` seconds from now unless another call asks for an earlier time."""
        if after_s > 0:
            self._add_delayed(address, self.now() + after_s, priority)
        elif address in self._processing:
            previous = self._processing[address]
            self._processing[address] = priority if previous is None else max(previous, priority)
        else:
            self._make_ready(address, priority)

    def pop(self) -> str | None:
        """Take the next address and mark it as processing; None if none is ready. Call `done` for each."""
        if self._delayed:
            self._promote_due()
        while self._ready_heap:
            rank, _, address = heapq.heappop(self._ready_heap)
            if self._ready.get(address) == -rank:
                del self._ready[address]
                self._processing[address] = None
                return address
        return None

    async def take(self) -> str:
        """As `pop`, but wait for an address."""
        while (address := self.pop()) is None:
            event = anyio.Event()
            self._waiting.append(event)
            try:
                await event.wait()
            except BaseException:
                self._pass_on_wake(event)
                raise
        return address

    def done(self, address: str) -> None:
        """End the processing of `address`, which is ready again if it was added meanwhile."""
        priority = self._processing.pop(address)
        if priority is not None:
            self._make_ready(address, priority)

    def retry(self, address: str, *, key: str | None = None, base_s: float | None = None) -> float:
        """Count a failure and queue `address` after the back-off, which is returned in seconds.

        Failures are counted by `key` (None: the address), so that those of a job are not those of its owner. `base_s`
        replaces the base of the back-off.
        """
        key = key or address
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        backoff = self._backoff if base_s is None else Backoff(base_s, self._backoff.cap_s, self._backoff.jitter)
        delay_s = backoff.delay_s(failures, self._chance())
        self.add(address, after_s=delay_s)
        return delay_s

    def forget(self, key: str) -> None:
        """Reset the count of failures of an address or key: it succeeded, or a retry cannot help."""
        self._failures.pop(key, None)

    def next_due(self) -> float | None:
        """When the earliest delayed address is due, in seconds of `now`; None if none is delayed."""
        while self._due_heap:
            due, _, address = self._due_heap[0]
            if self._delayed.get(address, (None, 0))[0] == due:
                return due
            heapq.heappop(self._due_heap)
        return None

    def counts(self) -> QueueCounts:
        return QueueCounts(len(self._ready), len(self._processing), len(self._delayed))

    async def keep_time(self) -> None:
        """Make delayed addresses ready when they are due, until cancelled. Sleeps until the next due time."""
        while True:
            self._timer_moved = anyio.Event()
            due = self.next_due()
            wait_s = float("inf") if due is None else due - self.now()
            if wait_s > 0:
                with anyio.move_on_after(wait_s):
                    await self._timer_moved.wait()
            self._promote_due()

    def _pass_on_wake(self, event: anyio.Event) -> None:
        # A `take` that is cancelled after it was woken must wake another one instead.
        if event in self._waiting:
            self._waiting.remove(event)
        elif self._waiting:
            self._waiting.pop().set()

    def _make_ready(self, address: str, priority: int) -> None:
        delayed = self._delayed.pop(address, None)
        if delayed is not None:
            priority = max(priority, delayed[1])
        previous = self._ready.get(address)
        if previous is not None and previous >= priority:
            return
        assert len(self._ready) < limits.QUEUE_LENGTH_MAX, "more addresses than objects may exist"
        self._arrivals += 1
        self._ready[address] = priority
        heapq.heappush(self._ready_heap, (-priority, self._arrivals, address))
        if self._waiting:
            self._waiting.pop().set()

    def _add_delayed(self, address: str, due: float, priority: int) -> None:
        if address in self._ready:
            self._make_ready(address, priority)  # Ready is sooner than any delay; only the priority may rise.
            return
        delayed = self._delayed.get(address)
        if delayed is not None:
            due, priority = min(due, delayed[0]), max(priority, delayed[1])
        self._delayed[address] = (due, priority)
        if delayed is None or due < delayed[0]:
            self._arrivals += 1
            heapq.heappush(self._due_heap, (due, self._arrivals, address))
            if self._due_heap[0][2] == address:
                self._timer_moved.set()

    def _promote_due(self) -> None:
        now = self.now()
        while (due := self.next_due()) is not None and due <= now:
            _, _, address = heapq.heappop(self._due_heap)
            _, priority = self._delayed.pop(address)
            self.add(address, priority=priority)
