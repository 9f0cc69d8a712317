"""A `LogReader` over records in memory: the contract's second implementation, which shares no query with SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from planloop.reconciler.errors import StoreCorrupt, StoreFailed
from planloop.reconciler.store.log_reader import (
    FoldedLog,
    LogEntry,
    LogPosition,
    RecordQuery,
    ReplayResult,
    log_id,
    next_checksum,
)
from planloop.reconciler.store.memory_view import MemoryView
from tests.product import Record, RecordDraft, encode_text, record_to_json, sha256_hex


@dataclass
class MemoryLog:
    """A log of one epoch. `entries` is None until the first record is written."""

    entries: list[LogEntry] | None = None
    blobs: dict[str, bytes] = field(default_factory=dict)

    def append(self, draft: RecordDraft) -> None:
        self.entries = self.entries or []
        previous = self.entries[-1].position if self.entries else LogPosition()
        record = Record(previous.rev + 1, 1_000.0 + previous.rev, 1, draft)
        line = encode_text(record_to_json(record))
        position = LogPosition(record.rev, next_checksum(previous.checksum, line.encode()))
        self.entries.append(LogEntry(record, line, position))

    def put_blob(self, content: bytes) -> None:
        self.blobs[sha256_hex(content)] = content


class MemoryLogReader:
    """Reads a `MemoryLog`."""

    def __init__(self, log: MemoryLog) -> None:
        self._log = log

    def _entries(self) -> list[LogEntry]:
        if self._log.entries is None:
            raise StoreFailed("there is no log", "run `plan apply`")
        return self._log.entries

    def last_rev(self) -> int:
        return len(self._entries())

    def records(self, query: RecordQuery) -> Iterator[LogEntry]:
        entries = self._entries()
        found = (
            entry
            for entry in (reversed(entries) if query.newest_first else entries)
            if query.after < entry.record.rev < (len(entries) + 1 if query.before is None else query.before)
            and (not query.types or entry.record.draft.type in query.types)
            and all(text in entry.line for text in query.containing)
        )
        yield from islice(found, query.limit)

    def lines(self, after: int, limit: int) -> list[tuple[int, str]]:
        return [(entry.record.rev, entry.line) for entry in self._entries()[after : after + limit]]

    def follow(self, position: LogPosition, limit: int) -> list[LogEntry]:
        entries = self._entries()
        if position.rev and (position.rev > len(entries) or entries[position.rev - 1].position != position):
            raise StoreCorrupt(position.rev, "is no longer in the log as it was read")
        return entries[position.rev : position.rev + limit]

    def load(self) -> FoldedLog:
        entries = self._entries()
        return FoldedLog(self.view_at(len(entries)), entries[-1].position, 1, log_id(entries[0].position.checksum))

    def view_at(self, rev: int) -> MemoryView:
        view = MemoryView()
        for entry in self._entries()[:rev]:
            view.fold(entry.record)
        return view

    def actors(self, types: frozenset[str]) -> list[str]:
        return list(dict.fromkeys(one.record.draft.actor for one in self._entries() if one.record.draft.type in types))

    def get_blob(self, digest: str) -> bytes | None:
        self._entries()
        return self._log.blobs.get(digest)

    def verify(self) -> int:
        return self.last_rev()

    def replay(self) -> ReplayResult:
        view = self.load().view
        return ReplayResult(view.rev, len(view.everything()), (), 0)

    def close(self) -> None:
        """Nothing to release."""
