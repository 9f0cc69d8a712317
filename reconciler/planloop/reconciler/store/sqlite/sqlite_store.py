"""The store on SQLite: the view in memory, the log on disk, one writer between them.

A proposal is folded immediately and queued; the writer writes the queue in one transaction, and one call wakes every
waiter of that batch. With `inline=True` there is no thread: `flush` writes immediately, on asyncio or trio, so that a
simulation controls every step.
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
    """Options for tests and simulations. `hook` is called at every step of a write and may raise to crash there.

    `snapshot_every` counts records.
    """

    hook: WriteHook | None = None
    snapshot_every: int = limits.SNAPSHOT_EVERY_RECORDS


class SqliteStore:
    """A `store.Store` in the state folder of a plan. Made by `SqliteStore.open`."""

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
        self._committing: WriteScheduler

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
        """The store in `folder`, created if missing; closing it flushes every proposal.

        With `inline` it uses no thread and runs on asyncio or trio; otherwise it needs asyncio.

        `epoch` is the owner's (`planloop.reconciler.store.owner_lock`); older ones are fenced from here on. Raises
        StoreFailed and StoreCorrupt.
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
        """Reads of what is flushed, for queries and for threads. Closed with the store."""
        return self._reader

    @property
    def epoch(self) -> int:
        """The epoch that this store writes as."""
        return self._epoch

    def propose(self, draft: RecordDraft, expect: Mapping[str, int | None] | None = None) -> int:
        committing = self._require_sound()
        if draft.type not in RECORD_TYPES:
            raise ValueError(
                f"`{draft.type}` is not a record type; the closed list is in schemas/planloop/schemas/log/record.py"
            )
        if expect:
            self._check(expect)
        record, body, content = self._encoded(draft)
        changed = self._view.fold(record)
        self._recent.append(record)
        committing.put(RecordLine(record, body, content, {address: self._view.get(address) for address in changed}))
        for listener in self._listeners:
            listener(record, changed)
        return record.rev

    async def flush(self, rev: int) -> None:
        if rev > self._view.rev:
            raise ValueError(f"revision {rev} was never proposed; the last is {self._view.rev}")
        if rev > self._durable_rev:
            await self._require_sound().flush(rev)

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
        if isinstance(self._committing, AdaptiveWrites):
            return await anyio.to_thread.run_sync(self._read_log, after, limit)
        return self._read_log(after, limit)

    def watch(self, after: int) -> AsyncIterator[Record]:
        return _Watch(self, after)

    def on_change(self, listener: StoreListener) -> None:
        self._listeners.append(listener)

    def put_blob(self, content: bytes) -> str:
        committing = self._require_sound()
        digest = canonical_json.sha256_hex(content)
        if digest not in self._unwritten_blobs:  # A blob that is stored already is found in the write's transaction.
            self._unwritten_blobs[digest] = (self._view.rev + 1, content)
            committing.put(NewBlob(digest, content))
        return digest

    def get_blob(self, digest: str) -> bytes | None:
        waiting = self._unwritten_blobs.get(digest)
        return waiting[1] if waiting else self._reader.get_blob(digest)

    async def _newer(self, after: int) -> Sequence[Record]:
        """Durable records over `after`, waiting for the first; none once the store has ended."""
        while after >= self._durable_rev:
            if self._is_closed or self._failure is not None:
                return ()
            await self._committing.wait(after + 1)
        return await self.log(after, _PAGE)

    def _settled(self, rev: int) -> None:
        """The log is durable up to `rev`."""
        self._durable_rev = rev
        if self._unwritten_blobs:
            self._unwritten_blobs = {
                digest: waiting for digest, waiting in self._unwritten_blobs.items() if waiting[0] > rev
            }

    def _failed(self, error: StoreFailed) -> None:
        """Nothing after `durable_rev` is or will be stored."""
        self._failure = error

    def _open(self, make: type[InlineWrites | AdaptiveWrites], options: StoreOptions) -> None:
        with ExitStack() as unless_done, database.store_errors(state_files.log_file(self._folder)):
            connection = database.open_for_writing(self._folder, self._epoch)
            unless_done.callback(connection.close)
            log_reader.verify_log(connection, self._folder)
            loaded = log_reader.load_log(connection)
            self._view = loaded.view
            self._durable_rev = loaded.view.rev
            settings = WriterSettings(self._folder, self._epoch, options.snapshot_every, options.hook)
            self._committing = make(LogWriter(connection, loaded, settings), self._settled, self._failed)
            unless_done.pop_all()

    def _encoded(self, draft: RecordDraft) -> tuple[Record, str, bytes]:
        record = Record(self._view.rev + 1, self._clock.now(), self._epoch, draft)
        # Raises for values that are not JSON, before anything changes.
        content = canonical_json.encode(records.record_to_json(record))
        return record, content.decode(), content

    def _check(self, expect: Mapping[str, int | None]) -> None:
        for address, expected in expect.items():
            resource = self._view.get(address)
            actual = None if resource is None else resource.rev
            if actual != expected:
                raise WriteConflict(address, expected, actual)

    def _require_sound(self) -> WriteScheduler:
        if self._failure is not None:
            raise store_failed_from(self._failure)
        if self._is_closed:
            raise store_failed_from(_CLOSED)
        return self._committing

    def _read_log(self, after: int, limit: int) -> list[Record]:
        return [entry.record for entry in self._reader.records(RecordQuery(after=after, limit=limit))]

    async def _close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        # First, so that the writer is the last connection: closing that one empties the write-ahead log.
        self._reader.close()
        await self._committing.close()


class _Watch:
    """An iterator rather than an async generator: an abandoned one needs no closing, on any event loop."""

    def __init__(self, store: SqliteStore, after: int) -> None:
        self._store = store
        self._after = after
        self._page: deque[Record] = deque()

    def __aiter__(self) -> AsyncIterator[Record]:
        return self

    async def __anext__(self) -> Record:
        if not self._page:
            self._page.extend(await self._store._newer(self._after))
        if not self._page:
            raise StopAsyncIteration
        record = self._page.popleft()
        self._after = record.rev
        return record
