"""Choose where the log's writer runs: on the event loop or in a thread, whichever flushes faster.

`AdaptiveWrites` is the product: many proposals are one batch, one flush and one round of waking. `InlineWrites` has no
thread and no task: `flush` writes on the spot, under asyncio or trio, and an exception of a simulation's hook comes out
of the very `flush` that was to crash.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from queue import SimpleQueue
from typing import Final, Protocol

import anyio
import anyio.lowlevel
import anyio.to_thread

from planloop.reconciler.errors import EngineError, StoreFailed
from planloop.reconciler.store.sqlite.log_writer import LogWriter, WriteItem
from planloop.schemas import limits

GATHER_S: Final = 0.002  # How long a record that nobody waits for may stay in memory only.
FLUSH_QUICK_S: Final = 0.001  # A disk that flushes faster than this is waited for on the loop.
FLUSHES_AVERAGED: Final = 8  # About so many count, …
FLUSH_COUNTED_S: Final = 0.004  # … each for this at most: one that is a little slow makes no slow disk.
FLUSH_STALLED_S: Final = 0.02  # One that takes longer is held against the disk at once.
# A disk that is slow or stalled is tried on the loop again after so many times as long as its last flush there took, so
# it holds up the loop for a hundredth of the time at most. What a flush takes on the thread says nothing: most of it is
# waiting for the interpreter.
TRIAL_EVERY_FLUSHES: Final = 100
QUICK_BYTES: Final = limits.BLOB_ROW_BYTES_MAX  # More takes a while to write, and a blob of more is a file to sync.


class WriteScheduler(Protocol):
    """What a store needs of its writer."""

    def put(self, item: WriteItem) -> None:
        """Queues `item` for the next transaction."""
        ...

    async def flush(self, rev: int) -> None:
        """Returns when `rev` is durable. Raises StoreFailed when it will never be."""
        ...

    async def wait(self, rev: int) -> None:
        """Returns when `rev` is durable, or when nothing more will be."""
        ...

    async def close(self) -> None:
        """Writes what is queued and closes the log."""
        ...


class InlineWrites:
    """Writes when asked to flush. What was proposed and never flushed is written with the next flush, or at the end."""

    def __init__(
        self, writer: LogWriter, on_durable: Callable[[int], None], on_failed: Callable[[StoreFailed], None]
    ) -> None:
        self._writer = writer
        self._on_durable = on_durable
        self._on_failed = on_failed
        self._queue: list[WriteItem] = []
        self._watchers: list[anyio.Event] = []
        self._is_sound = True

    def put(self, item: WriteItem) -> None:
        self._queue.append(item)

    async def flush(self, rev: int) -> None:
        if rev > self._writer.rev:
            self._write()
        # A cancelled writer's record stands all the same, as it would with a thread.
        await anyio.lowlevel.checkpoint()

    async def wait(self, rev: int) -> None:
        if rev > self._writer.rev:
            event = anyio.Event()
            self._watchers.append(event)
            await event.wait()

    async def close(self) -> None:
        try:
            if self._queue and self._is_sound:
                self._write()
        finally:
            self._writer.close(is_sound=self._is_sound)
            self._wake()

    def _write(self) -> None:
        batch, self._queue = self._queue, []
        with ExitStack() as after:
            after.callback(self._wake)
            after.push(self._leave)
            self._on_durable(self._writer.commit(batch, is_idle=True))
            self._writer.mirror(batch)

    def _leave(self, _type: object, error: BaseException | None, _trace: object) -> None:
        # A hook may raise anything: to this store it is a crash, and nothing is written after a crash.
        if error is not None:
            self._is_sound = False
            self._on_failed(store_failed_from(error))

    def _wake(self) -> None:
        watchers, self._watchers = self._watchers, []
        for event in watchers:
            event.set()


class AdaptiveWrites:
    """Writes on the event loop while the disk flushes in a fraction of a millisecond, else on a thread of its own.

    A hop to a thread and back costs more than such a flush; a slow disk must not hold up the loop. What is proposed in
    one turn of the loop is one batch; one that nobody waits for is written a moment later, mostly with the next.
    Needs asyncio, whose call from other threads does not wait.
    """

    def __init__(
        self, writer: LogWriter, on_durable: Callable[[int], None], on_failed: Callable[[StoreFailed], None]
    ) -> None:
        self._writer = writer
        self._on_durable = on_durable
        self._on_failed = on_failed
        self._loop = asyncio.get_running_loop()
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._durable = writer.rev
        self._failure: StoreFailed | None = None
        self._is_over = False
        self._pending: list[WriteItem] = []
        self._due: asyncio.Handle | None = None
        self._is_hastened = False
        self._is_away = False  # The thread has the writer.
        self._flush_s: float | None = None
        self._trial_at = 0.0  # Until then the loop leaves the disk alone.
        self._batches: SimpleQueue[list[WriteItem] | None] = SimpleQueue()
        # A daemon: an interpreter that ends without closing the store has acknowledged nothing that is still queued.
        self._thread = threading.Thread(target=self._run, name="planloop-log", daemon=True)
        self._thread.start()

    def put(self, item: WriteItem) -> None:
        self._pending.append(item)
        if self._due is None and not self._is_away:
            self._due = self._loop.call_later(GATHER_S, self._write)

    async def flush(self, rev: int) -> None:
        if not self._is_hastened and not self._is_away:
            self._hasten()
        await self.wait(rev)
        if self._durable < rev:
            raise (
                store_failed_from(self._failure)
                if self._failure
                else StoreFailed("the store is closed", "open it again")
            )

    async def wait(self, rev: int) -> None:
        if self._is_over or self._durable >= rev:
            return
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append((rev, future))
        await future

    async def close(self) -> None:
        while self._pending:
            self._batches.put(self._taken())
        self._batches.put(None)
        try:
            # Abandoned when the caller's patience ends: a disk that hangs holds the thread, and the epoch fences it.
            await anyio.to_thread.run_sync(self._thread.join, abandon_on_cancel=True)
        finally:
            self._end(None)

    # On the loop.

    def _hasten(self) -> None:
        """Writes in the next turn of the loop: whoever runs in this one gets into the same batch."""
        if self._due is not None:
            self._due.cancel()
        self._due = self._loop.call_soon(self._write)
        self._is_hastened = True

    def _write(self) -> None:
        batch = self._taken()
        if not batch or self._is_over:
            return
        if self._is_quick(batch):
            with ExitStack() as after:
                after.push(self._leave)
                self._settle(self._commit(batch))
                self._learn(self._writer.flush_s)
                self._writer.mirror(batch)
            if self._pending:
                self._hasten()
        else:
            self._is_away = True
            self._batches.put(batch)

    def _taken(self) -> list[WriteItem]:
        """What is to be written next. Nothing more is due until the next `put`."""
        if self._due is not None:
            self._due.cancel()
        self._due, self._is_hastened = None, False
        batch = self._pending[: limits.BATCH_RECORDS_MAX]
        del self._pending[: limits.BATCH_RECORDS_MAX]
        return batch

    def _is_quick(self, batch: list[WriteItem]) -> bool:
        if self._writer.is_snapshot_due(len(batch)) or self._loop.time() < self._trial_at:
            return False
        return sum(len(item.content) for item in batch) <= QUICK_BYTES

    def _learn(self, flush_s: float) -> None:
        """Takes in what a flush on the loop took."""
        counted = min(flush_s, FLUSH_COUNTED_S)
        known = counted if self._flush_s is None else self._flush_s
        self._flush_s = known + (counted - known) / FLUSHES_AVERAGED
        if self._flush_s > FLUSH_QUICK_S or flush_s > FLUSH_STALLED_S:
            self._trial_at = self._loop.time() + flush_s * TRIAL_EVERY_FLUSHES

    def _commit(self, batch: list[WriteItem]) -> int:
        return self._writer.commit(batch, is_idle=not self._pending)

    def _settle(self, rev: int) -> None:
        self._durable = rev
        self._on_durable(rev)
        self._waiting = _woken(self._waiting, rev)

    def _returned(self, rev: int) -> None:
        """The thread has written its batch, and mirrors it before it takes another."""
        self._is_away = False
        self._settle(rev)
        if self._pending:
            self._hasten()

    def _end(self, error: StoreFailed | None) -> None:
        self._is_over = True
        if error is not None:
            self._failure = error
            self._on_failed(error)
        self._waiting = _woken(self._waiting, None)

    # On either: the thread ends by itself, the loop when a write on it failed.

    def _leave(self, _type: object, error: BaseException | None, _trace: object) -> bool:
        if error is not None:
            # Whatever it was, nobody may go on waiting for this writer. The failure is known before it is over: whoever
            # looks between here and `_end` is told of it, and not of a store that was merely closed.
            self._failure = store_failed_from(error)
            self._is_over = True
            self._loop.call_soon_threadsafe(self._end, self._failure)
            self._writer.close(is_sound=False)
        return True  # It is told to every waiter.

    # On the thread.

    def _run(self) -> None:
        while (batch := self._batches.get()) is not None:
            if self._is_over or not batch:
                continue
            with ExitStack() as after:
                after.push(self._leave)
                rev = self._commit(batch)
                self._writer.mirror(batch)
                self._loop.call_soon_threadsafe(self._returned, rev)
        if not self._is_over:
            self._writer.close(is_sound=True)


def store_failed_from(error: BaseException) -> StoreFailed:
    """A fresh StoreFailed that says what `error` says: one object raised in many tasks would share a traceback."""
    match error:
        case StoreFailed():
            return StoreFailed(str(error), error.hint)
        case EngineError():
            return StoreFailed(str(error), "run `plan replay` to see what of the log is sound")
        case _:
            return StoreFailed(
                f"the log's writer stopped: {error!r}", "run `plan apply` again: it goes on from the log"
            )


def _woken(
    waiting: Iterable[tuple[int, asyncio.Future[None]]], rev: int | None
) -> list[tuple[int, asyncio.Future[None]]]:
    """Wakes those who wait for `rev` or less (None: all); returns the rest."""
    left = []
    for wanted, future in waiting:
        if rev is not None and wanted > rev:
            left.append((wanted, future))
        elif not future.done():
            future.set_result(None)
    return left
