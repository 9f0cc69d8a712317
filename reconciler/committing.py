"""Who runs the log's writer: a thread of its own beside the event loop, or nobody but the caller.

`Threaded` is the product: the loop queues and goes on, the thread takes whatever is queued as one batch, one call back
to the loop wakes all its waiters. `Inline` has no thread and no task: `flush` writes on the spot, under asyncio or
trio, and an exception of a simulation's hook comes out of the very `flush` that was to crash.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from queue import Empty, SimpleQueue
from typing import Protocol

import anyio
import anyio.lowlevel
import anyio.to_thread

from reconciler.errors import EngineError, StoreFailed
from reconciler.sqlite_writing import Item, LogWriter
from schemas import limits


class Committing(Protocol):
    """What a store needs of its writer."""

    def put(self, item: Item) -> None:
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


class Inline:
    """Writes when asked to flush. What was proposed and never flushed is written with the next flush, or at the end."""

    def __init__(
        self, writer: LogWriter, on_durable: Callable[[int], None], on_failed: Callable[[StoreFailed], None]
    ) -> None:
        self._writer = writer
        self._on_durable = on_durable
        self._on_failed = on_failed
        self._queue: list[Item] = []
        self._watchers: list[anyio.Event] = []
        self._is_sound = True

    def put(self, item: Item) -> None:
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
            self._on_failed(as_failure(error))

    def _wake(self) -> None:
        watchers, self._watchers = self._watchers, []
        for event in watchers:
            event.set()


class Threaded:
    """Writes on a thread of its own. Needs asyncio, whose call from other threads does not wait."""

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
        self._queue: SimpleQueue[Item | None] = SimpleQueue()
        # A daemon: an interpreter that ends without closing the store has acknowledged nothing that is still queued.
        self._thread = threading.Thread(target=self._run, name="planloop-log", daemon=True)
        self._thread.start()

    def put(self, item: Item) -> None:
        self._queue.put(item)

    async def flush(self, rev: int) -> None:
        await self.wait(rev)
        if self._durable < rev:
            raise as_failure(self._failure) if self._failure else StoreFailed("the store is closed", "open it again")

    async def wait(self, rev: int) -> None:
        if self._is_over or self._durable >= rev:
            return
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append((rev, future))
        await future

    async def close(self) -> None:
        self._queue.put(None)
        await anyio.to_thread.run_sync(self._thread.join)
        self._end(None)

    # On the loop.

    def _settle(self, rev: int) -> None:
        self._durable = rev
        self._on_durable(rev)
        self._waiting = _woken(self._waiting, rev)

    def _end(self, error: StoreFailed | None) -> None:
        self._is_over = True
        if error is not None:
            self._failure = error
            self._on_failed(error)
        self._waiting = _woken(self._waiting, None)

    # On the thread.

    def _run(self) -> None:
        with ExitStack() as after:
            after.push(self._leave)
            while (batch := self._next_batch()) is not None:
                rev = self._writer.commit(batch, is_idle=self._queue.empty())
                self._loop.call_soon_threadsafe(self._settle, rev)
                self._writer.mirror(batch)

    def _leave(self, _type: object, error: BaseException | None, _trace: object) -> bool:
        if error is not None:
            # Whatever it was, nobody may go on waiting for this thread.
            self._loop.call_soon_threadsafe(self._end, as_failure(error))
        self._writer.close(is_sound=error is None)
        return True  # It is told to every waiter; a thread has nobody else to tell.

    def _next_batch(self) -> list[Item] | None:
        """Whatever is queued, at least one; None when asked to stop."""
        first = self._queue.get()
        if first is None:
            return None
        batch = [first]
        while len(batch) < limits.BATCH_RECORDS_MAX:
            try:
                item = self._queue.get_nowait()
            except Empty:
                break
            if item is None:
                self._queue.put(None)
                break
            batch.append(item)
        return batch


def as_failure(error: BaseException) -> StoreFailed:
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
