"""The log of a plan as a file that others write: opened when first read, and anew when its name stands for another.

Blocking, and safe for threads: one asks at a time. What is read is verified, so that a log that was replaced, cut or
damaged under its reader is told from one that grew.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from planloop.reconciler.errors import StoreCorrupt
from planloop.reconciler.storing import blobs, integrity, layout, metadata, sqlite_log
from planloop.reconciler.storing.sqlite_log import GENESIS, Row
from planloop.reconciler.storing.view import MemoryView
from planloop.schemas.frozen import frozen
from planloop.schemas.record import Record

NAME_CHARS: Final = 16  # Of the first record's checksum: enough to tell logs apart.


@frozen
class Start:
    """A log as it was opened: its fold, the checksum of its last record, its epoch and its name."""

    view: MemoryView
    checksum: bytes
    epoch: int
    name: str


def name_of(checksum: bytes) -> str:
    """What a log is called by the checksum of its first record, which no other log has."""
    return checksum.hex()[:NAME_CHARS]


class LogFile:
    """The log in the state folder `folder`. Everything raises StoreFailed, StoreCorrupt."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = layout.log_file(folder)
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None

    def load(self) -> Start:
        """All of it, folded."""
        with self._opened() as connection:
            integrity.check(connection, self._folder)
        with self._opened() as connection, sqlite_log.one_moment(connection):
            loaded = sqlite_log.load(connection)
            name = name_of(sqlite_log.checksum_at(connection, 1)) if loaded.view.rev else ""
            return Start(loaded.view, loaded.checksum, metadata.meta(connection, "epoch", 0), name)

    def following(self, rev: int, checksum: bytes, limit: int) -> list[tuple[Record, Row]]:
        """At most `limit` records over `rev`, whose checksum is `checksum`. StoreCorrupt: they do not follow it."""
        with self._opened() as connection:
            rows = list(sqlite_log.rows(connection, max(0, rev - 1), limit + 1 if rev else limit))
        if rev:
            if not rows or rows[0][0] != rev or rows[0][6] != checksum:
                raise StoreCorrupt(rev, "is no longer in the log as it was read")
            del rows[0]
        found = []
        for row in rows:
            found.append((sqlite_log.verified(row, rev, checksum), row))
            rev, checksum = row[0], row[6]
        return found

    def rows(self, after: int, limit: int) -> list[Row]:
        """At most `limit` rows over `after`."""
        with self._opened() as connection:
            return list(sqlite_log.rows(connection, after, limit))

    def blob(self, digest: str) -> bytes | None:
        """The blob of that name, None when there is none."""
        with self._opened() as connection:
            found = blobs.get_row(connection, digest)
        return blobs.get_file(layout.blobs_folder(self._folder), digest) if found is None else found

    def close(self) -> None:
        """Lets go of the file, until it is asked for again."""
        with self._lock:
            self._close()

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        with self._lock, sqlite_log.failures_named(self._path):
            now = self._identity()
            if self._connection is None or now != self._file:
                self._close()
                self._connection = sqlite_log.open_for_reading(self._folder)
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


def nothing() -> Start:
    """Where a plan without a log stands."""
    return Start(MemoryView(), GENESIS, 0, "")
