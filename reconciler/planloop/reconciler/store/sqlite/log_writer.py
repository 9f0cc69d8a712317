"""Write proposals to the log: many proposals, one transaction, one flush, on the event loop or in a thread.

`LogWriter` writes a batch. A `WriteScheduler` decides when it does, and where: `AdaptiveWrites`, which the product
uses, on the event loop or in a thread, depending on how fast the disk flushes; `InlineWrites`, for simulations, in
`flush` itself, on asyncio or trio, where an exception of a hook is raised by that `flush`.
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
    """Writes batches to an open log. Only one thread may use it at a time.

    `connection` is open for writing, and `loaded` is what it holds; `close` closes it. A failed commit is final, since
    the content of the disk after a failed fsync is unknown: then only `close(is_sound=False)` may follow.
    """

    def __init__(self, connection: sqlite3.Connection, loaded: LoadedLog, settings: WriterSettings) -> None:
        self._connection = connection
        self._folder = settings.folder
        self._epoch = settings.epoch
        self._hook = settings.hook
        self._snapshot_every = settings.snapshot_every
        self._checksum = loaded.checksum
        self._tail_count = loaded.view.rev - loaded.start_rev
        self._snapshot_at = settings.snapshot_every  # Records after the last snapshot at which the next is due.
        # The objects that the next snapshot writes: all, unless the log was opened exactly at a snapshot with a sum.
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
        """Write `items` in one transaction, durable when this returns, and return the last revision.

        `is_idle` (no more items are queued) allows a snapshot. Raises StoreFailed, also if another epoch owns the log
        or its file was replaced, StoreCorrupt, and any exception of the hook.
        """
        with database.store_errors(state_files.log_file(self._folder)):
            lines = [item for item in items if isinstance(item, RecordLine)]
            last = lines[-1].record.rev if lines else self._rev
            self._call_hook("before-write", last)
            self._transaction(items, lines, last, is_idle=is_idle)
            self._rev = last
        self._call_hook("after-commit", last)
        return last

    def mirror(self, items: Sequence[WriteItem]) -> None:
        """Append committed lines to `events.jsonl`. Call it after the commit: the mirror may lag, never lead."""
        self._mirror.append([item.content for item in items if isinstance(item, RecordLine)])
        self._call_hook("after-mirror", self._rev)

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
        with connection:  # Commits; after an exception, rolls back.
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
            self._call_hook("before-commit", last)
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
            # A due snapshot moves a batch off the event loop, so it is not tried again for each of the next batches.
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

    def _call_hook(self, point: str, rev: int) -> None:
        if self._hook is not None:
            self._hook(point, rev)


def _identity(path: str) -> tuple[int, int] | None:
    """The device and inode of the file at `path`, or None."""
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
LOOP_PAUSE_FLUSHES: Final = 100
QUICK_BYTES: Final = limits.BLOB_ROW_BYTES_MAX  # More takes a while to write, and a blob of more is a file to sync.


class WriteScheduler(Protocol):
    """Queues items and writes them in batches, in the order of `put`.

    After each batch it calls `on_durable` with the last revision; after a failure it calls `on_failed` and writes no
    more. Both calls are on the event loop.
    """

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
    """Writes in `flush`. Proposals that are never flushed are written with the next flush, or on closing."""

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
        # If the caller is cancelled here, its record is still written, as it is with a thread.
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
            self._wake_watchers()

    def _write(self) -> None:
        batch, self._queue = self._queue, []
        with ExitStack() as after:
            after.callback(self._wake_watchers)
            after.push(self._handle_error)
            self._on_durable(self._writer.commit(batch, is_idle=True))
            self._writer.mirror(batch)

    def _handle_error(self, _type: object, error: BaseException | None, _trace: object) -> None:
        # A hook may raise any exception: the store treats it as a crash and writes nothing afterwards.
        if error is not None:
            self._is_sound = False
            self._on_failed(store_failed_from(error))

    def _wake_watchers(self) -> None:
        watchers, self._watchers = self._watchers, []
        for event in watchers:
            event.set()


class AdaptiveWrites:
    """Writes on the event loop while the disk flushes in a fraction of a millisecond, otherwise in a thread.

    Going to a thread and back costs more than such a flush, but a slow disk must not block the loop. All proposals of
    one turn of the loop are one batch. A batch that no caller waits for is written a moment later, usually together
    with the next one. Needs asyncio, whose `call_soon_threadsafe` does not block the thread.
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
        self._scheduled: asyncio.Handle | None = None
        self._is_write_soon = False
        self._is_on_thread = False  # The thread uses the writer.
        self._flush_s: float | None = None
        self._loop_again_at = 0.0  # No write on the loop before this time.
        self._batches: SimpleQueue[list[WriteItem] | None] = SimpleQueue()
        # A daemon: if the interpreter exits without closing the store, nothing that is still queued was acknowledged.
        self._thread = threading.Thread(target=self._run, name="planloop-log", daemon=True)
        self._thread.start()

    def put(self, item: WriteItem) -> None:
        self._pending.append(item)
        if self._scheduled is None and not self._is_on_thread:
            self._scheduled = self._loop.call_later(GATHER_S, self._write)

    async def flush(self, rev: int) -> None:
        if not self._is_write_soon and not self._is_on_thread:
            self._write_soon()
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
            self._batches.put(self._take_batch())
        self._batches.put(None)
        try:
            # Abandoned when the caller's timeout ends: a hanging disk blocks the thread, and the epoch fences it.
            await anyio.to_thread.run_sync(self._thread.join, abandon_on_cancel=True)
        finally:
            self._end(None)

    # Methods that run on the event loop.

    def _write_soon(self) -> None:
        """Write in the next turn of the loop: every proposal of this turn joins the batch."""
        if self._scheduled is not None:
            self._scheduled.cancel()
        self._scheduled = self._loop.call_soon(self._write)
        self._is_write_soon = True

    def _write(self) -> None:
        batch = self._take_batch()
        if not batch or self._is_over:
            return
        if self._is_quick(batch):
            with ExitStack() as after:
                after.push(self._handle_error)
                self._mark_durable(self._commit(batch))
                self._record_flush(self._writer.flush_s)
                self._writer.mirror(batch)
            if self._pending:
                self._write_soon()
        else:
            self._is_on_thread = True
            self._batches.put(batch)

    def _take_batch(self) -> list[WriteItem]:
        """Take the next batch off the queue. No write is scheduled until the next `put`."""
        if self._scheduled is not None:
            self._scheduled.cancel()
        self._scheduled, self._is_write_soon = None, False
        batch = self._pending[: limits.BATCH_RECORDS_MAX]
        del self._pending[: limits.BATCH_RECORDS_MAX]
        return batch

    def _is_quick(self, batch: list[WriteItem]) -> bool:
        if self._writer.is_snapshot_due(len(batch)) or self._loop.time() < self._loop_again_at:
            return False
        return sum(len(item.content) for item in batch) <= QUICK_BYTES

    def _record_flush(self, flush_s: float) -> None:
        """Update the average duration of a flush on the loop, and leave the loop for a while if the disk is slow."""
        counted = min(flush_s, FLUSH_COUNTED_S)
        known = counted if self._flush_s is None else self._flush_s
        self._flush_s = known + (counted - known) / FLUSHES_AVERAGED
        if self._flush_s > FLUSH_QUICK_S or flush_s > FLUSH_STALLED_S:
            self._loop_again_at = self._loop.time() + flush_s * LOOP_PAUSE_FLUSHES

    def _commit(self, batch: list[WriteItem]) -> int:
        return self._writer.commit(batch, is_idle=not self._pending)

    def _mark_durable(self, rev: int) -> None:
        self._durable = rev
        self._on_durable(rev)
        self._waiting = _wake_waiters(self._waiting, rev)

    def _on_thread_written(self, rev: int) -> None:
        """The thread has written a batch. It does not take another before it has mirrored this one."""
        self._is_on_thread = False
        self._mark_durable(rev)
        if self._pending:
            self._write_soon()

    def _end(self, error: StoreFailed | None) -> None:
        self._is_over = True
        if error is not None:
            self._failure = error
            self._on_failed(error)
        self._waiting = _wake_waiters(self._waiting, None)

    # Runs where the write failed: in the thread or on the loop.

    def _handle_error(self, _type: object, error: BaseException | None, _trace: object) -> bool:
        if error is not None:
            # No caller may wait any longer, whatever the error is. The failure is set here, so that a caller that comes
            # before `_end` gets it instead of the error of a closed store.
            self._failure = store_failed_from(error)
            self._is_over = True
            self._loop.call_soon_threadsafe(self._end, self._failure)
            self._writer.close(is_sound=False)
        return True  # `flush` raises it for every caller.

    # Runs in the thread.

    def _run(self) -> None:
        while (batch := self._batches.get()) is not None:
            if self._is_over or not batch:
                continue
            with ExitStack() as after:
                after.push(self._handle_error)
                rev = self._commit(batch)
                self._writer.mirror(batch)
                self._loop.call_soon_threadsafe(self._on_thread_written, rev)
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


def _wake_waiters(
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
