"""The store of a plan on SQLite: the view in memory, the log on disk, and one writer between them.

    async with SqliteStore.open(folder, clock=clock, epoch=owner.epoch) as store:
        rev = store.propose(draft, {resource.address: resource.rev})  # The view has it, the disk does not.
        await store.flush(rev)  # It survives a power cut: effects may follow.

`propose` folds a record and queues it. The writer (`log_writer`) writes the queue in one transaction, whose flush ends
the wait of every caller of that batch. `planloop.reconciler.store.store.Store` documents the methods.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from planloop.reconciler.clock import Clock
from planloop.reconciler.errors import StoreFailed, WriteConflict
from planloop.reconciler.store import state_files
from planloop.reconciler.store.log_reader import RecordQuery
from planloop.reconciler.store.memory_view import MemoryView
from planloop.reconciler.store.sqlite import database, log_reader
from planloop.reconciler.store.sqlite.log_reader import SqliteLogReader
from planloop.reconciler.store.sqlite.log_writer import (
    AdaptiveWrites,
    InlineWrites,
    LogWriter,
    NewBlob,
    RecordLine,
    WriteHook,
    WriterSettings,
    WriteScheduler,
    store_failed_from,
)
from planloop.schemas import canonical_json, limits
from planloop.schemas.frozen import frozen
from planloop.schemas.log import record as records
from planloop.schemas.log.record import RECORD_TYPES, Record, RecordDraft

StoreListener = Callable[[Record, Sequence[str]], None]

_PAGE: Final = 500  # Records read at once for a watcher that is behind.
_CLOSED: Final = StoreFailed("the store is closed", "open it again")


@frozen
class StoreOptions:
    """Options for tests and simulations.

    `hook` is called at every step of a write, and an exception that it raises is a crash at that step.
    `snapshot_every` is the number of records after which an idle store renews the snapshot of its objects.
    """

    hook: WriteHook | None = None
    snapshot_every: int = limits.SNAPSHOT_EVERY_RECORDS


class SqliteStore:
    """A `Store` in the state folder of a plan, for one event loop. Create it with `open`.

    After a failed flush it is of no more use: every method that writes raises StoreFailed.
    """

    def __init__(self, folder: Path, clock: Clock, epoch: int) -> None:
        self._folder = folder
        self._clock = clock
        self._epoch = epoch
        self._view = MemoryView()
        self._durable_rev = 0
        self._reader = SqliteLogReader(folder)
        self._recent: deque[Record] = deque(maxlen=limits.RECENT_RECORDS_MAX)
        self._listeners: list[StoreListener] = []
        self._unwritten_blobs: dict[str, tuple[int, bytes]] = {}
        self._failure: StoreFailed | None = None
        self._is_closed = False
        self._writes: WriteScheduler

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        folder: Path,
        *,
        clock: Clock,
        epoch: int,
        inline: bool = False,
        options: StoreOptions = StoreOptions(),
    ) -> AsyncIterator[SqliteStore]:
        """Open the store in `folder`, created if missing, and verify its log. On closing, every proposal is flushed.

        `epoch` is that of the owner (`planloop.reconciler.store.owner_lock`); from now on, a writer with an older epoch
        fails. With `inline` there is no thread, `flush` writes immediately, and asyncio or trio may run it, so that a
        simulation controls every step; otherwise asyncio must. Raises StoreFailed, and StoreCorrupt for a damaged log.
        """
        store = cls(folder, clock, epoch)
        store._open(InlineWrites if inline else AdaptiveWrites, options)
        try:
            yield store
        finally:
            with anyio.move_on_after(limits.STORE_CLOSE_S, shield=True):
                await store._close()

    @property
    def view(self) -> MemoryView:
        return self._view

    @property
    def durable_rev(self) -> int:
        return self._durable_rev

    @property
    def reader(self) -> SqliteLogReader:
        """A reader of the flushed records, for queries and for threads. It is closed with the store."""
        return self._reader

    @property
    def epoch(self) -> int:
        """The epoch that this store writes as."""
        return self._epoch

    def propose(self, draft: RecordDraft, expect: Mapping[str, int | None] | None = None) -> int:
        writes = self._usable_writes()
        if draft.type not in RECORD_TYPES:
            raise ValueError(
                f"`{draft.type}` is not a record type; the closed list is in schemas/planloop/schemas/log/record.py"
            )
        if expect:
            self._check_unchanged(expect)
        record, body, content = self._encode_record(draft)
        changed = self._view.fold(record)
        self._recent.append(record)
        writes.put(RecordLine(record, body, content, {address: self._view.get(address) for address in changed}))
        for listener in self._listeners:
            listener(record, changed)
        return record.rev

    async def flush(self, rev: int) -> None:
        if rev > self._view.rev:
            raise ValueError(f"revision {rev} was never proposed; the last is {self._view.rev}")
        if rev > self._durable_rev:
            await self._usable_writes().flush(rev)

    async def append(self, draft: RecordDraft, expect: Mapping[str, int | None] | None = None) -> int:
        rev = self.propose(draft, expect)
        await self.flush(rev)
        return rev

    async def log(self, after: int, limit: int) -> list[Record]:
        recent = self._recent
        if recent and recent[0].rev <= after + 1:
            start = after + 1 - recent[0].rev
            found = [recent[index] for index in range(start, min(len(recent), start + limit))]
            return [record for record in found if record.rev <= self._durable_rev]
        if isinstance(self._writes, AdaptiveWrites):
            return await anyio.to_thread.run_sync(self._read_log, after, limit)
        return self._read_log(after, limit)

    def watch(self, after: int) -> AsyncIterator[Record]:
        return _Watcher(self, after)

    def on_change(self, listener: StoreListener) -> None:
        self._listeners.append(listener)

    def put_blob(self, content: bytes) -> str:
        writes = self._usable_writes()
        digest = canonical_json.sha256_hex(content)
        if digest not in self._unwritten_blobs:  # The transaction detects a blob that is already stored.
            self._unwritten_blobs[digest] = (self._view.rev + 1, content)
            writes.put(NewBlob(digest, content))
        return digest

    def get_blob(self, digest: str) -> bytes | None:
        waiting = self._unwritten_blobs.get(digest)
        return waiting[1] if waiting else self._reader.get_blob(digest)

    async def _next_page(self, after: int) -> Sequence[Record]:
        """Wait for durable records over `after` and return a page of them; empty if the store has been closed."""
        while after >= self._durable_rev:
            if self._is_closed or self._failure is not None:
                return ()
            await self._writes.wait(after + 1)
        return await self.log(after, _PAGE)

    def _on_durable(self, rev: int) -> None:
        self._durable_rev = rev
        if self._unwritten_blobs:
            self._unwritten_blobs = {
                digest: waiting for digest, waiting in self._unwritten_blobs.items() if waiting[0] > rev
            }

    def _on_failed(self, error: StoreFailed) -> None:
        self._failure = error

    def _open(self, scheduler: type[InlineWrites | AdaptiveWrites], options: StoreOptions) -> None:
        with ExitStack() as on_error, database.store_errors(state_files.log_file(self._folder)):
            connection = database.open_for_writing(self._folder, self._epoch)
            on_error.callback(connection.close)
            log_reader.verify_log(connection, self._folder)
            loaded = log_reader.load_log(connection)
            self._view = loaded.view
            self._durable_rev = loaded.view.rev
            settings = WriterSettings(self._folder, self._epoch, options.snapshot_every, options.hook)
            self._writes = scheduler(LogWriter(connection, loaded, settings), self._on_durable, self._on_failed)
            self._reader.pin()
            on_error.pop_all()

    def _encode_record(self, draft: RecordDraft) -> tuple[Record, str, bytes]:
        record = Record(self._view.rev + 1, self._clock.now(), self._epoch, draft)
        # This raises for a value that is not JSON, so it comes before any change.
        content = canonical_json.encode(records.record_to_json(record))
        return record, content.decode(), content

    def _check_unchanged(self, expect: Mapping[str, int | None]) -> None:
        for address, expected in expect.items():
            resource = self._view.get(address)
            actual = None if resource is None else resource.rev
            if actual != expected:
                raise WriteConflict(address, expected, actual)

    def _usable_writes(self) -> WriteScheduler:
        if self._failure is not None:
            raise store_failed_from(self._failure)
        if self._is_closed:
            raise store_failed_from(_CLOSED)
        return self._writes

    def _read_log(self, after: int, limit: int) -> list[Record]:
        return [entry.record for entry in self._reader.records(RecordQuery(after=after, limit=limit))]

    async def _close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        # The reader first: closing the last connection empties the write-ahead log, and only the writer can do that.
        self._reader.close()
        await self._writes.close()


class _Watcher:
    """An iterator of `watch`. Not an async generator, which must be closed on its event loop if it is abandoned."""

    def __init__(self, store: SqliteStore, after: int) -> None:
        self._store = store
        self._after = after
        self._page: deque[Record] = deque()

    def __aiter__(self) -> AsyncIterator[Record]:
        return self

    async def __anext__(self) -> Record:
        if not self._page:
            self._page.extend(await self._store._next_page(self._after))
        if not self._page:
            raise StopAsyncIteration
        record = self._page.popleft()
        self._after = record.rev
        return record
