"""Write proposals to the log: many proposals, one transaction, one flush.

Plain and synchronous; who calls it, and on which thread, is `planloop.reconciler.store.sqlite.write_scheduler`. A
failed flush is final: what the disk holds after a failed fsync cannot be known, so nothing more may be written with the
same writer.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from planloop.reconciler.errors import StoreFailed
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

_ROWS_AT_ONCE: Final = 64  # Each statement lets other threads in once; one a row would let them in a row too often.
_INSERT: Final = "INSERT INTO log (rev, at, epoch, type, subject, body, checksum) VALUES "
_INSERT_ONE: Final = _INSERT + "(?, ?, ?, ?, ?, ?, ?)"
_INSERT_MANY: Final = _INSERT + ", ".join(["(?, ?, ?, ?, ?, ?, ?)"] * _ROWS_AT_ONCE)


@frozen
class RecordLine:
    """A record to be written: its JSON line as text and as bytes, and the objects as it left them (None: gone)."""

    record: Record
    body: str
    content: bytes
    touched: Mapping[str, Resource | None]


@frozen
class NewBlob:
    """Content to be kept, written before whatever was proposed after it."""

    digest: str
    content: bytes


WriteItem: TypeAlias = RecordLine | NewBlob


@frozen
class WriterSettings:
    """Where and as whom a LogWriter writes, and after how many records it renews the snapshot when it is idle."""

    folder: Path
    epoch: int
    snapshot_every: int
    hook: WriteHook | None


class LogWriter:
    """Writes batches. Not safe for two threads; raises StoreFailed and must then not be used again."""

    def __init__(self, connection: sqlite3.Connection, loaded: LoadedLog, settings: WriterSettings) -> None:
        self._connection = connection
        self._folder = settings.folder
        self._epoch = settings.epoch
        self._hook = settings.hook
        self._snapshot_every = settings.snapshot_every
        self._checksum = loaded.checksum
        self._tail_count = loaded.view.rev - loaded.start_rev
        self._snapshot_at = settings.snapshot_every  # Records since the last one at which the next is due.
        # What a snapshot has to write. After opening it is unknown what the folded tail changed: then everything.
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
        """How long the last commit waited for the disk."""
        return self._flush_s

    def is_snapshot_due(self, count: int) -> bool:
        """Whether `count` more records make a snapshot due, which takes longer than writing them."""
        return self._tail_count + count >= self._snapshot_at

    def commit(self, items: Sequence[WriteItem], *, is_idle: bool) -> int:
        """Makes `items` durable in one transaction; returns the last revision. `is_idle` allows a snapshot."""
        with database.store_errors(state_files.log_file(self._folder)):
            lines = [item for item in items if isinstance(item, RecordLine)]
            last = lines[-1].record.rev if lines else self._rev
            self._reach("before-write", last)
            self._transaction(items, lines, last, is_idle=is_idle)
            self._rev = last
        self._reach("after-commit", last)
        return last

    def mirror(self, items: Sequence[WriteItem]) -> None:
        """Streams committed lines to `events.jsonl`. Called after the commit: it may lag, never lead."""
        self._mirror.append([item.content for item in items if isinstance(item, RecordLine)])
        self._reach("after-mirror", self._rev)

    def close(self, *, is_sound: bool) -> None:
        """Ends with a snapshot, if the writer is sound, so that the next start folds nothing."""
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
            # More is waiting to be written: asking again with every batch would keep all of them from the loop.
            self._snapshot_at = min(tail_count + max(1, self._snapshot_every // 2), limits.SNAPSHOT_RECORDS_MAX)

    def _check_fence(self) -> None:
        latest = database.read_meta(self._connection, "epoch", 0)
        if latest != self._epoch:
            raise database.fenced_error(self._epoch, latest)
        if _identity(self._path) != self._file:
            # What is written to a file without a name is lost with this process, and another owner may have begun.
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
    """Which file the log's name stands for; None when for none."""
    try:
        about = os.stat(path)  # noqa: PTH116 - asked at every commit
    except OSError:
        return None
    return about.st_dev, about.st_ino
