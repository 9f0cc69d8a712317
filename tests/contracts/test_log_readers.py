"""The contract suite for readers of a log: the one of SQLite, and one in memory that shows what the port asks for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from planloop.reconciler.store import backend
from planloop.reconciler.store.log_reader import LogReader
from planloop.reconciler.store.sqlite.sqlite_store import SqliteStore, StoreOptions
from tests.contracts.log_reader_contract import LogReaderContract
from tests.contracts.memory_log_reader import MemoryLog, MemoryLogReader
from tests.product import RecordDraft, SystemClock


class TestSqlite(LogReaderContract):
    async def write(self, folder: Path, drafts: Sequence[RecordDraft], blob: bytes = b"") -> None:
        options = StoreOptions(snapshot_every=3)
        async with SqliteStore.open(folder, clock=SystemClock(), epoch=1, inline=True, options=options) as store:
            if blob:
                store.put_blob(blob)
            for draft in drafts:
                await store.append(draft)

    def reader(self, folder: Path) -> LogReader:
        return backend.log_reader(folder)


class TestMemory(LogReaderContract):
    def setup_method(self) -> None:
        self.logs: dict[Path, MemoryLog] = {}

    async def write(self, folder: Path, drafts: Sequence[RecordDraft], blob: bytes = b"") -> None:
        log = self.logs.setdefault(folder, MemoryLog())
        if blob:
            log.put_blob(blob)
        for draft in drafts:
            log.append(draft)

    def reader(self, folder: Path) -> LogReader:
        return MemoryLogReader(self.logs.setdefault(folder, MemoryLog()))
