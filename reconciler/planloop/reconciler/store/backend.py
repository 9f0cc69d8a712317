"""Open a plan's log by its state folder, to read it or to own it. The only module that chooses the database.

The database is imported when a log is opened: commands that ask a running owner never load it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

from planloop.reconciler.clock import Clock
from planloop.reconciler.errors import StoreFailed
from planloop.reconciler.store import owner_lock, state_files
from planloop.reconciler.store.log_reader import LogReader, RecordQuery
from planloop.reconciler.store.memory_view import MemoryView
from planloop.reconciler.store.owner_lock import PlanOwner
from planloop.reconciler.store.store import Store
from planloop.schemas.canonical_json import sha256_hex
from planloop.schemas.frozen import frozen
from planloop.schemas.log.record import Record, RecordDraft

SQLITE_OLDEST: Final = (3, 35, 0)
_TAIL: Final = f"{state_files.LOG}-wal"


def log_reader(folder: Path) -> LogReader:
    """A reader of the log in `folder`, to be closed. It opens the log, which need not exist yet, when it is read."""
    from planloop.reconciler.store.sqlite.log_reader import SqliteLogReader

    return SqliteLogReader(folder)


@contextmanager
def open_log(folder: Path) -> Iterator[LogReader]:
    """A reader of the log in `folder` for the duration of the block."""
    log = log_reader(folder)
    try:
        yield log
    finally:
        log.close()


@frozen
class OwnedStore:
    """A plan that this process owns: its store, and a reader of the same log, which sees flushed records only."""

    owner: PlanOwner
    store: Store
    reader: LogReader


@asynccontextmanager
async def own_store(folder: Path, clock: Clock) -> AsyncIterator[OwnedStore]:
    """Own the plan in `folder`, created if missing, and open its store. Raises NotOwner, StoreFailed, StoreCorrupt.

    Append `owner_lock.epoch_draft` next, unless the log is new.
    """
    from planloop.reconciler.store.sqlite.database import stored_epoch
    from planloop.reconciler.store.sqlite.sqlite_store import SqliteStore

    with owner_lock.own_plan(folder, now=clock.now(), stored_epoch=stored_epoch) as owner:
        async with SqliteStore.open(folder, clock=clock, epoch=owner.epoch) as store:
            yield OwnedStore(owner, store, store.reader)


@frozen
class DatabaseVersion:
    """The database that logs are kept in. `fix` is empty if its version is supported."""

    name: str
    version: str
    fix: str


def database_version() -> DatabaseVersion:
    """The version of the installed database."""
    import sqlite3

    is_supported = sqlite3.sqlite_version_info >= SQLITE_OLDEST
    return DatabaseVersion(
        "sqlite", sqlite3.sqlite_version, "" if is_supported else "a newer Python brings a newer SQLite"
    )


def has_log_changed(names: Collection[str]) -> bool:
    """Whether a change of the files `names` of the state folder can mean that the log has new records."""
    return not {state_files.LOG, _TAIL, state_files.MIRROR}.isdisjoint(names)


def is_commit_pending(names: Collection[str]) -> bool:
    """Whether, if `names` changed, a commit may not be readable yet: it is, by the time the mirror changes."""
    return _TAIL in names and state_files.MIRROR not in names


class ReadOnlyStore:
    """A `Store` that only reads: for a preview while no process owns the plan.

    The log is verified and read once. A folder without a log gives the empty store of a plan that was never applied.
    """

    def __init__(self, folder: Path) -> None:
        self._reader = log_reader(folder)
        self._view = MemoryView()
        self._has_log = state_files.has_log(folder)
        if self._has_log:
            self._reader.verify()
            self._view = self._reader.load().view
            self._reader.close()

    @property
    def view(self) -> MemoryView:
        return self._view

    @property
    def durable_rev(self) -> int:
        return self._view.rev

    def propose(self, draft: RecordDraft, expect: Mapping[str, int | None] | None = None) -> int:
        """Raises StoreFailed."""
        raise StoreFailed(f"the plan is open for reading only; `{draft.type}` was not written {expect or ''}", "")

    async def flush(self, rev: int) -> None:
        """Does nothing: every revision is durable."""

    async def append(self, draft: RecordDraft, expect: Mapping[str, int | None] | None = None) -> int:
        """Raises StoreFailed."""
        return self.propose(draft, expect)

    async def log(self, after: int, limit: int) -> list[Record]:
        """As `Store.log`; a `limit` below 0 means all."""
        if not self._has_log:
            return []
        found = self._reader.records(RecordQuery(after, limit=None if limit < 0 else limit))
        return [entry.record for entry in found]

    async def watch(self, after: int) -> AsyncIterator[Record]:
        """The records that exist, then ends."""
        for record in await self.log(after, -1):
            yield record

    def on_change(self, listener: Callable[[Record, Sequence[str]], None]) -> None:
        """Never calls `listener`."""

    def put_blob(self, content: bytes) -> str:
        """Returns the digest and stores nothing."""
        return sha256_hex(content)

    def get_blob(self, digest: str) -> bytes | None:
        return self._reader.get_blob(digest) if self._has_log else None
