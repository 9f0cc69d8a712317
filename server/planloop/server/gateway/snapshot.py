"""The log file as another process writes it, and the plan as of one revision of it."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from planloop.client import tail_file
from planloop.reconciler.errors import StoreCorrupt
from planloop.reconciler.store import state_files
from planloop.reconciler.store.memory_view import MemoryView
from planloop.reconciler.store.sqlite import blobs, database, integrity, snapshot
from planloop.reconciler.store.sqlite.database import GENESIS, LogRow
from planloop.schemas.frozen import frozen
from planloop.schemas.log.record import Record
from planloop.schemas.resource import Resource

# The log of a plan as a file that others write: opened when first read, and anew when its name stands for another.
#
# Blocking, and safe for threads: one asks at a time. What is read is verified, so that a log that was replaced, cut or
# damaged under its reader is told from one that grew.

NAME_CHARS: Final = 16  # Of the first record's checksum: enough to tell logs apart.


@frozen
class LogStart:
    """A log as it was opened: its fold, the checksum of its last record, its epoch and its name."""

    view: MemoryView
    checksum: bytes
    epoch: int
    name: str


def log_name(checksum: bytes) -> str:
    """What a log is called by the checksum of its first record, which no other log has."""
    return checksum.hex()[:NAME_CHARS]


class FollowedLog:
    """The log in the state folder `folder`. Everything raises StoreFailed, StoreCorrupt."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = state_files.log_file(folder)
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None

    def load(self) -> LogStart:
        """All of it, folded."""
        with self._opened() as connection:
            integrity.verify_log(connection, self._folder)
        with self._opened() as connection, database.read_transaction(connection):
            loaded = database.load_log(connection)
            name = log_name(database.checksum_at(connection, 1)) if loaded.view.rev else ""
            return LogStart(loaded.view, loaded.checksum, snapshot.read_meta(connection, "epoch", 0), name)

    def following(self, rev: int, checksum: bytes, limit: int) -> list[tuple[Record, LogRow]]:
        """At most `limit` records over `rev`, whose checksum is `checksum`. StoreCorrupt: they do not follow it."""
        with self._opened() as connection:
            rows = list(database.read_rows(connection, max(0, rev - 1), limit + 1 if rev else limit))
        if rev:
            if not rows or rows[0][0] != rev or rows[0][6] != checksum:
                raise StoreCorrupt(rev, "is no longer in the log as it was read")
            del rows[0]
        found = []
        for row in rows:
            found.append((database.verify_row(row, rev, checksum), row))
            rev, checksum = row[0], row[6]
        return found

    def rows(self, after: int, limit: int) -> list[LogRow]:
        """At most `limit` rows over `after`."""
        with self._opened() as connection:
            return list(database.read_rows(connection, after, limit))

    def blob(self, digest: str) -> bytes | None:
        """The blob of that name, None when there is none."""
        with self._opened() as connection:
            found = blobs.read_row(connection, digest)
        return blobs.read_blob_file(state_files.blobs_folder(self._folder), digest) if found is None else found

    def close(self) -> None:
        """Lets go of the file, until it is asked for again."""
        with self._lock:
            self._close()

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        with self._lock, database.store_errors(self._path):
            now = self._identity()
            if self._connection is None or now != self._file:
                self._close()
                self._connection = database.open_for_reading(self._folder)
                self._file = now
            try:
                yield self._connection
            except sqlite3.Error:
                self._close()  # What is broken now may be whole when it is opened anew.
                raise

    def _identity(self) -> tuple[int, int] | None:
        try:
            about = self._path.stat()
        except OSError:
            return None
        return about.st_dev, about.st_ino

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def empty_view() -> LogStart:
    """Where a plan without a log stands."""
    return LogStart(MemoryView(), GENESIS, 0, "")


# The plan at one revision, apart from the fold that goes on: what reads beside the event loop are answered from.


class PlanSnapshot:
    """An `read_queries.PlanReader` whose objects stand still. Safe for threads; `log` tells the log from others."""

    def __init__(
        self, folder: Path, rev: int, epoch: int, log: str, objects: Mapping[str, Resource], file: FollowedLog
    ) -> None:
        self.rev = rev
        self.epoch = epoch
        self.log = log
        self._folder = folder
        self._objects = objects
        self._file = file
        self._making = threading.Lock()
        self._view: MemoryView | None = None

    @property
    def view(self) -> MemoryView:
        """The objects with their indexes, made for the first who needs them."""
        with self._making:
            if self._view is None:
                self._view = MemoryView(self._objects.values(), self.rev)
                # Sorted here, once: afterwards nothing in it changes any more, whoever reads.
                for kind in {one.kind for one in self._objects.values()}:
                    self._view.list(kind)
            return self._view

    def get(self, address: str) -> Resource | None:
        return self._objects.get(address)

    def list(self, kind: str) -> Sequence[Resource]:
        return self.view.list(kind)

    def get_blob(self, digest: str) -> bytes | None:
        return self._file.blob(digest)

    def open_output(self, op: str) -> BinaryIO | None:
        return tail_file.open_output(self._folder, op)
