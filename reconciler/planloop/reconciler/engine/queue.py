"""The address queue: which address is reconciled next, and not before when.

It has three sets: ready (ordered by priority, then arrival), delayed (until a time) and processing. An address is in
processing at most once, so it is never reconciled twice at once; one that is added while it is processing runs again
afterwards. Duplicates collapse to the highest priority and the earliest time. Time and randomness are arguments.
`planloop.reconciler.engine.change_tracker` decides what to add, and `planloop.reconciler.engine.engine` runs it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Final

import anyio

from planloop.schemas import limits
from planloop.schemas.frozen import frozen

DOUBLINGS_COUNTED: Final = 32  # 2**32 base delays exceed any cap; without it the power grows without bound.


@frozen
class Backoff:
    """Delays of an address that keeps failing: `base_s` doubles up to `cap_s`, spread by `jitter` either way."""

    base_s: float = limits.BACKOFF_BASE_S
    cap_s: float = limits.BACKOFF_CAP_S
    jitter: float = limits.BACKOFF_JITTER

    def delay_s(self, failures: int, chance: float) -> float:
        """Seconds before the next try after `failures` (from 1) in a row; `chance` is in [0, 1)."""
        plain = min(self.cap_s, self.base_s * 2 ** min(failures - 1, DOUBLINGS_COUNTED))
        return float(plain * (1 + self.jitter * (2 * chance - 1)))


@frozen
class QueueCounts:
    """How many addresses are in each set."""

    ready: int
    processing: int
    delayed: int

    @property
    def is_empty(self) -> bool:
        return not (self.ready or self.processing or self.delayed)


class AddressQueue:
    """`now` is the event loop's monotonic clock in seconds; `chance` returns values in [0, 1)."""

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
        self._ready: dict[str, int] = {}  # address → priority; the heap may hold stale entries beside it
        self._ready_heap: list[tuple[int, int, str]] = []
        self._delayed: dict[str, tuple[float, int]] = {}
        self._due_heap: list[tuple[float, int, str]] = []
        self._processing: dict[str, int | None] = {}  # None: not added again since it was taken
        self._failures: dict[str, int] = {}
        self._waiting: list[anyio.Event] = []
        self._timer_moved = anyio.Event()

    def add(self, address: str, *, after_s: float = 0.0, priority: int = 0) -> None:
        """Request a reconcile of `address` in `after_s` seconds, or sooner if another request is sooner."""
        if after_s > 0:
            self._add_delayed(address, self.now() + after_s, priority)
        elif address in self._processing:
            known = self._processing[address]
            self._processing[address] = priority if known is None else max(known, priority)
        else:
            self._make_ready(address, priority)

    def pop(self) -> str | None:
        """The next address, now processing; None if none is ready. Call `done` after each."""
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
        """As `pop`, but waits for one."""
        while (address := self.pop()) is None:
            event = anyio.Event()
            self._waiting.append(event)
            try:
                await event.wait()
            except BaseException:
                self._pass_on(event)
                raise
        return address

    def done(self, address: str) -> None:
        """End the processing of `address`; it is ready again if it was added meanwhile."""
        dirtied = self._processing.pop(address)
        if dirtied is not None:
            self._make_ready(address, dirtied)

    def retry(self, address: str, *, row: str | None = None, base_s: float | None = None) -> float:
        """Count a failure and delay `address` accordingly (an earlier request still wins); returns the delay.

        Failures are counted per `row`, which is the address if None, so that a job's failures are not its owner's.
        """
        row = row or address
        failures = self._failures[row] = self._failures.get(row, 0) + 1
        backoff = self._backoff if base_s is None else Backoff(base_s, self._backoff.cap_s, self._backoff.jitter)
        delay_s = backoff.delay_s(failures, self._chance())
        self.add(address, after_s=delay_s)
        return delay_s

    def forget(self, row: str) -> None:
        """Reset the count of failures, after a success or when a retry does not help."""
        self._failures.pop(row, None)

    def next_due(self) -> float | None:
        """When the earliest delayed address is due, in `now`'s seconds; None if none is delayed."""
        while self._due_heap:
            due, _, address = self._due_heap[0]
            if self._delayed.get(address, (None, 0))[0] == due:
                return due
            heapq.heappop(self._due_heap)
        return None

    def counts(self) -> QueueCounts:
        return QueueCounts(len(self._ready), len(self._processing), len(self._delayed))

    async def keep_time(self) -> None:
        """Wake a taker whenever a delayed address is due; runs until cancelled and sleeps while none is delayed."""
        while True:
            self._timer_moved = anyio.Event()
            due = self.next_due()
            wait_s = float("inf") if due is None else due - self.now()
            if wait_s > 0:
                with anyio.move_on_after(wait_s):
                    await self._timer_moved.wait()
            self._promote_due()

    def _pass_on(self, event: anyio.Event) -> None:
        # A taker cancelled after it was woken must not swallow the wake-up.
        if event in self._waiting:
            self._waiting.remove(event)
        elif self._waiting:
            self._waiting.pop().set()

    def _make_ready(self, address: str, priority: int) -> None:
        held = self._delayed.pop(address, None)
        if held is not None:
            priority = max(priority, held[1])
        known = self._ready.get(address)
        if known is not None and known >= priority:
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
        held = self._delayed.get(address)
        if held is not None:
            due, priority = min(due, held[0]), max(priority, held[1])
        self._delayed[address] = (due, priority)
        if held is None or due < held[0]:
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
