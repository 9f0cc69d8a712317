"""Write proposals to the log: many proposals, one transaction, one flush, on the event loop or in a thread.

`LogWriter` is synchronous. `AdaptiveWrites`, which the product uses, calls it on the event loop or in a thread,
whichever flushes faster. `InlineWrites` has no thread: `flush` writes immediately, under asyncio or trio, and an
exception of a simulation's hook is raised by the `flush` that was to crash.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue
from typing import Final, Protocol, TypeAlias

import anyio
import anyio.lowlevel
import anyio.to_thread

from planloop.reconciler.errors import EngineError, StoreFailed
from planloop.reconciler.store import state_files
from planloop.reconciler.store.log_reader import next_checksum
from planloop.reconciler.store.sqlite import database
from planloop.reconciler.store.sqlite.log_reader import LoadedLog
from planloop.reconciler.store.sqlite.mirror import LogMirror
from planloop.schemas import limits
from planloop.schemas.frozen import frozen
from planloop.schemas.log.record import Record
from planloop.schemas.resource import Resource

WriteHook: TypeAlias = Callable[[str, int], None]
"""Called with `before-write`, `before-commit`, `after-commit` or `after-mirror`, and the last revision of the batch."""

_ROWS_AT_ONCE: Final = 64  # Each statement releases the interpreter once; one per row would do so too often.
_INSERT: Final = "INSERT INTO log (rev, at, epoch, type, subject, body, checksum) VALUES "
_INSERT_ONE: Final = _INSERT + "(?, ?, ?, ?, ?, ?, ?)"
_INSERT_MANY: Final = _INSERT + ", ".join(["(?, ?, ?, ?, ?, ?, ?)"] * _ROWS_AT_ONCE)


@frozen
class RecordLine:
    """A record to write: its JSON line as text and as bytes, and the objects after it (None: gone)."""

    record: Record
    body: str
    content: bytes
    touched: Mapping[str, Resource | None]


@frozen
class NewBlob:
    """A blob to write, before every record that was proposed after it."""

    digest: str
    content: bytes


WriteItem: TypeAlias = RecordLine | NewBlob


@frozen
class WriterSettings:
    """The folder and epoch of a LogWriter, and after how many records it renews the snapshot when it is idle."""

    folder: Path
    epoch: int
    snapshot_every: int
    hook: WriteHook | None


class LogWriter:
    """Writes batches. Not safe for two threads.

    A failed flush is final: what the disk holds after a failed fsync is unknown. After a StoreFailed, do not use the
    writer again.
    """

    def __init__(self, connection: sqlite3.Connection, loaded: LoadedLog, settings: WriterSettings) -> None:
        self._connection = connection
        self._folder = settings.folder
        self._epoch = settings.epoch
        self._hook = settings.hook
        self._snapshot_every = settings.snapshot_every
        self._checksum = loaded.checksum
        self._tail_count = loaded.view.rev - loaded.start_rev
        self._snapshot_at = settings.snapshot_every  # Records since the last one at which the next is due.
        # The objects that the next snapshot writes. What the tail folded on opening changed is unknown: all objects.
        self._dirty: dict[str, Resource | None] = {}
        self._is_snapshot_whole = loaded.start_rev == loaded.view.rev > 0 and database.has_snapshot_sum(connection)
        if not self._is_snapshot_whole:
            self._dirty |= {resource.address: resource for resource in loaded.view.everything()}
        self._rev = loaded.view.rev
        self._path = str(state_files.log_file(self._folder))
        self._file = _identity(self._path)
        self._flush_s = 0.0
        self._mirror = LogMirror(state_files.mirror_file(self._folder))
        self._mirror.catch_up(connection)

    @property
    def rev(self) -> int:
        """The last durable revision."""
        return self._rev

    @property
    def flush_s(self) -> float:
        """How long the last commit waited for the disk, in seconds."""
        return self._flush_s

    def is_snapshot_due(self, count: int) -> bool:
        """Whether `count` more records make a snapshot due, which takes longer than writing them."""
        return self._tail_count + count >= self._snapshot_at

    def commit(self, items: Sequence[WriteItem], *, is_idle: bool) -> int:
        """Write `items` durably in one transaction; returns the last revision. `is_idle` allows a snapshot."""
        with database.store_errors(state_files.log_file(self._folder)):
            lines = [item for item in items if isinstance(item, RecordLine)]
            last = lines[-1].record.rev if lines else self._rev
            self._reach("before-write", last)
            self._transaction(items, lines, last, is_idle=is_idle)
            self._rev = last
        self._reach("after-commit", last)
        return last

    def mirror(self, items: Sequence[WriteItem]) -> None:
        """Append committed lines to `events.jsonl`. Call it after the commit: the mirror may lag, never lead."""
        self._mirror.append([item.content for item in items if isinstance(item, RecordLine)])
        self._reach("after-mirror", self._rev)

    def close(self, *, is_sound: bool) -> None:
        """Close the log, after a snapshot if the writer is sound, so that the next start folds nothing."""
        self._mirror.close()
        try:
            if is_sound and self._tail_count:
                self._transaction((), (), self._rev, is_last=True)
        except (sqlite3.Error, StoreFailed):
            pass  # The log is whole; the next start folds a longer tail.
        finally:
            self._connection.close()

    def _transaction(
        self,
        items: Sequence[WriteItem],
        lines: Sequence[RecordLine],
        last: int,
        *,
        is_idle: bool = False,
        is_last: bool = False,
    ) -> None:
        for item in items:
            if isinstance(item, NewBlob) and not database.is_blob_row(item.content):
                database.write_blob_file(self._folder, item.digest, item.content)
        connection = self._connection
        with connection:  # Commits, or rolls back whatever comes out of it.
            connection.execute("BEGIN IMMEDIATE")
            self._check_fence()
            for item in items:
                if isinstance(item, NewBlob) and database.is_blob_row(item.content):
                    database.write_blob_row(connection, item.digest, item.content)
            checksum = self._insert(lines)
            tail_count = self._tail_count + len(lines)
            due = self._snapshot_at if is_idle else limits.SNAPSHOT_RECORDS_MAX
            if is_snapshot := is_last or tail_count >= due:
                self._write_snapshot(last)
            self._reach("before-commit", last)
            begun = time.perf_counter()
        self._flush_s = time.perf_counter() - begun
        self._checksum = checksum
        self._tail_count = tail_count
        if is_snapshot:
            self._dirty.clear()
            self._tail_count = 0
            self._is_snapshot_whole = True
            self._snapshot_at = self._snapshot_every
        elif tail_count >= self._snapshot_at:
            # More records wait. Trying again with every batch would keep each of them from the event loop.
            self._snapshot_at = min(tail_count + max(1, self._snapshot_every // 2), limits.SNAPSHOT_RECORDS_MAX)

    def _check_fence(self) -> None:
        latest = database.read_meta(self._connection, "epoch", 0)
        if latest != self._epoch:
            raise database.fenced_error(self._epoch, latest)
        if _identity(self._path) != self._file:
            # Data in an unlinked file is lost with this process, and another owner may have started.
            raise StoreFailed(
                f"{state_files.log_file(self._folder)} was removed or replaced while this process wrote to it",
                "put the state folder back, or go on from what is there: plan apply",
            )

    def _insert(self, lines: Sequence[RecordLine]) -> bytes:
        checksum = self._checksum
        flat: list[object] = []
        for line in lines:
            record, draft = line.record, line.record.draft
            checksum = next_checksum(checksum, line.content)
            flat += (record.rev, record.at, record.epoch, draft.type, draft.subject, line.body, checksum)
            self._dirty.update(line.touched)
        width = 7
        whole = len(lines) // _ROWS_AT_ONCE * _ROWS_AT_ONCE
        for start in range(0, whole * width, _ROWS_AT_ONCE * width):
            self._connection.execute(_INSERT_MANY, flat[start : start + _ROWS_AT_ONCE * width])
        for start in range(whole * width, len(flat), width):
            self._connection.execute(_INSERT_ONE, flat[start : start + width])
        return checksum

    def _write_snapshot(self, rev: int) -> None:
        database.write_snapshot(self._connection, rev, self._dirty, is_whole=self._is_snapshot_whole)

    def _reach(self, point: str, rev: int) -> None:
        if self._hook is not None:
            self._hook(point, rev)


def _identity(path: str) -> tuple[int, int] | None:
    """The device and inode of the file at `path`, None if there is none."""
    try:
        about = os.stat(path)  # noqa: PTH116 - asked at every commit
    except OSError:
        return None
    return about.st_dev, about.st_ino


GATHER_S: Final = 0.002  # How long a record may stay in memory only, if no caller waits for it.
FLUSH_QUICK_S: Final = 0.001  # The event loop waits for a disk that flushes faster than this.
FLUSHES_AVERAGED: Final = 8  # About this many flushes count, …
FLUSH_COUNTED_S: Final = 0.004  # … each with at most this time: one slow flush does not make a slow disk.
FLUSH_STALLED_S: Final = 0.02  # A flush that takes longer moves writing to the thread immediately.
# A slow or stalled disk is tried on the loop again after this many times the duration of its last flush there, so it
# delays the loop for at most a hundredth of the time. Durations on the thread are not used: most of such a flush is
# waiting for the interpreter.
TRIAL_EVERY_FLUSHES: Final = 100
QUICK_BYTES: Final = limits.BLOB_ROW_BYTES_MAX  # More takes a while to write, and a blob of more is a file to sync.


class WriteScheduler(Protocol):
    """Queues items and writes them in batches."""

    def put(self, item: WriteItem) -> None:
        """Queue `item` for the next transaction."""
        ...

    async def flush(self, rev: int) -> None:
        """Return when `rev` is durable. Raises StoreFailed if it never will be."""
        ...

    async def wait(self, rev: int) -> None:
        """Return when `rev` is durable, or when the writer has ended."""
        ...

    async def close(self) -> None:
        """Write the queue and close the log."""
        ...


class InlineWrites:
    """Writes during `flush`. Proposals that are never flushed are written with the next flush, or on closing."""

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
        # The record of a caller that is cancelled here is written anyway, as it would be with a thread.
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
        # A hook may raise any exception: the store treats it as a crash and writes nothing afterwards.
        if error is not None:
            self._is_sound = False
            self._on_failed(store_failed_from(error))

    def _wake(self) -> None:
        watchers, self._watchers = self._watchers, []
        for event in watchers:
            event.set()


class AdaptiveWrites:
    """Writes on the event loop while the disk flushes in a fraction of a millisecond, else on a thread of its own.

    A hop to a thread and back costs more than such a flush, but a slow disk must not block the loop. The proposals of
    one turn of the loop are one batch. A batch that no caller waits for is written a moment later, usually with the
    next. Needs asyncio, whose call from other threads does not wait.
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
        # A daemon: if the interpreter exits without closing the store, nothing that is still queued was acknowledged.
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
            # Abandoned when the caller's timeout ends: a hanging disk blocks the thread, and the epoch fences it.
            await anyio.to_thread.run_sync(self._thread.join, abandon_on_cancel=True)
        finally:
            self._end(None)

    # On the loop.

    def _hasten(self) -> None:
        """Write in the next turn of the loop: every proposal of this turn joins the batch."""
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
        """Take the next batch off the queue. No write is scheduled until the next `put`."""
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
        """Learn from the duration of a flush on the loop."""
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

    # On either: the thread when it fails, the loop when a write on it fails.

    def _leave(self, _type: object, error: BaseException | None, _trace: object) -> bool:
        if error is not None:
            # Whatever the error, no caller may wait for this writer any longer. The failure is set first, so that a
            # caller between here and `_end` gets it rather than the error of a closed store.
            self._failure = store_failed_from(error)
            self._is_over = True
            self._loop.call_soon_threadsafe(self._end, self._failure)
            self._writer.close(is_sound=False)
        return True  # Every waiter raises it.

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
    """A new StoreFailed with the message of `error`: one object raised in many tasks would share a traceback."""
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
    """Wake the waiters for `rev` or less (None: all); returns the rest."""
    left = []
    for wanted, future in waiting:
        if rev is not None and wanted > rev:
            left.append((wanted, future))
        elif not future.done():
            future.set_result(None)
    return left
