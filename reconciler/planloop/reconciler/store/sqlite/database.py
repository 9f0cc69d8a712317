"""The SQLite file of a log: its schema, how it is opened, and how its rows are read and verified.

`log` is the truth: one row a revision, its checksum chained to the one before. `objects` is a snapshot of the fold as
of the revision in `meta`, so that opening folds a bounded tail; it can be thrown away. Writing is
`planloop.reconciler.store.sqlite.log_writer`.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Final, TypeAlias

from planloop.reconciler.errors import AGAIN, StoreCorrupt, StoreFailed
from planloop.reconciler.store import state_files
from planloop.reconciler.store.memory_view import MemoryView
from planloop.reconciler.store.sqlite import blobs, snapshot
from planloop.schemas import canonical_json
from planloop.schemas.frozen import frozen
from planloop.schemas.log import record as records
from planloop.schemas.log.record import Record

SCHEMA_VERSION: Final = 1
GENESIS: Final = b"\0" * 32  # What the first record is chained to.
LOCK_WAIT_S: Final = 5.0  # A reader holds no lock for long; a second writer is a fault that fencing names.
WAL_PAGES: Final = 250  # Between checkpoints, 1 MB: a log file that is written over flushes faster than one that grows.
WAL_KEPT_BYTES: Final = 8 << 20  # The write-ahead log is cut back to this after a burst.

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS log (
  rev INTEGER PRIMARY KEY, at REAL NOT NULL, epoch INTEGER NOT NULL, type TEXT NOT NULL, subject TEXT NOT NULL,
  body TEXT NOT NULL, checksum BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS objects (address TEXT PRIMARY KEY, body TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS blobs (digest TEXT PRIMARY KEY, content BLOB NOT NULL);
"""

LogRow: TypeAlias = tuple[int, float, int, str, str, str, bytes]
"""`rev, at, epoch, type, subject, body, checksum`; `body` is the record's JSON line."""


@frozen
class LoadedLog:
    """A log as it was opened. `checksum` is that of the last row, `snapshot_rev` the revision of the snapshot."""

    view: MemoryView
    checksum: bytes
    snapshot_rev: int


def next_checksum(previous: bytes, line: bytes) -> bytes:
    """The checksum of a row: SHA-256 over the checksum before it and the record's line."""
    return hashlib.sha256(previous + line).digest()


def open_for_writing(folder: Path, epoch: int) -> sqlite3.Connection:
    """The database, made if missing, with `epoch` in it, which fences every older writer.

    Raises StoreFailed when the folder cannot be written, when the file is of a newer version, or when a later epoch
    has been there; StoreCorrupt when it is no database.
    """
    path = state_files.log_file(folder)
    with store_errors(path):
        state_files.make_folder(folder)
        if not path.exists():
            _create(path)
        for name in (path.name, path.name + "-wal", path.name + "-shm"):
            state_files.close_to_others(path.with_name(name))
        connection = sqlite3.connect(path, timeout=LOCK_WAIT_S, isolation_level=None, check_same_thread=False)
        with ExitStack() as unless_done:
            unless_done.callback(connection.close)
            _sound_text(connection)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(f"PRAGMA wal_autocheckpoint = {WAL_PAGES}")
            connection.execute(f"PRAGMA journal_size_limit = {WAL_KEPT_BYTES}")
            _take_epoch(connection, epoch)
            state_files.sync_folder(folder)
            unless_done.pop_all()
    return connection


def _create(path: Path) -> None:
    """An empty log at `path`, there all at once: a reader beside us finds none, or one with its tables.

    The caller holds the owner's lock, so what a killed one left half made beside it is nobody's.
    """
    beside = path.with_name(path.name + ".made")
    for left in (beside, *(beside.with_name(beside.name + end) for end in ("-wal", "-shm", "-journal"))):
        left.unlink(missing_ok=True)
    # SQLite gives the files beside it the mode that it has.
    os.close(os.open(beside, os.O_WRONLY | os.O_CREAT, state_files.FILE_MODE))
    with closing(sqlite3.connect(beside, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = FULL")
        connection.executescript(_SCHEMA)
    beside.rename(path)


def open_for_reading(folder: Path) -> sqlite3.Connection:
    """The database as another process may be writing it. Raises StoreFailed, StoreCorrupt.

    Such a connection never writes, and so never takes part in a checkpoint beside the owner's.
    """
    path = state_files.log_file(folder)
    if not path.exists():
        raise StoreFailed(f"there is no log at {path}", "the plan has not been applied yet: run `plan apply`")
    with store_errors(path):
        try:
            return _connected(path, "mode=ro")
        except sqlite3.OperationalError as error:
            if not error.sqlite_errorname.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY")) or _has_tail(path):
                raise
        # In a folder that cannot be written there is no place for the index of the write-ahead log. None is needed
        # when that log is empty, and no writer can be there.
        return _connected(path, "immutable=1")


def _connected(path: Path, mode: str) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?{mode}"
    connection = sqlite3.connect(uri, uri=True, timeout=LOCK_WAIT_S, isolation_level=None, check_same_thread=False)
    with ExitStack() as unless_done:
        unless_done.callback(connection.close)
        _sound_text(connection)
        _check_version(connection)
        unless_done.pop_all()
    return connection


def _has_tail(path: Path) -> bool:
    tail = path.with_name(path.name + "-wal")
    return tail.exists() and tail.stat().st_size > 0


def stored_epoch(folder: Path) -> int:
    """The highest epoch that ever wrote here, 0 for none. Raises StoreFailed, StoreCorrupt."""
    if not state_files.log_file(folder).exists():
        return 0
    connection = open_for_reading(folder)
    try:
        with store_errors(state_files.log_file(folder)):
            return _latest_epoch(connection)
    finally:
        connection.close()


def _sound_text(connection: sqlite3.Connection) -> None:
    """Read damaged text, too: its checksum reports the damage, while SQLite's default is to raise."""
    connection.text_factory = lambda raw: raw.decode(errors="replace")


def load_log(connection: sqlite3.Connection) -> LoadedLog:
    """The snapshot with the rest of the log folded over it, as of one moment. Raises StoreCorrupt."""
    with read_transaction(connection):
        return _folded_on(connection, *snapshot.load_snapshot(connection))


def load_log_at(connection: sqlite3.Connection, rev: int, known: Iterable[LoadedLog] = ()) -> LoadedLog:
    """The log folded up to `rev`, from the nearest there is: the snapshot or what is `known`. Raises StoreCorrupt."""
    with read_transaction(connection):
        past = [one for one in known if one.view.rev <= rev and _is_of(connection, one)]
        nearest = max(past, key=lambda one: one.view.rev, default=None)
        start = 0 if nearest is None else nearest.view.rev
        if start < snapshot.snapshot_rev(connection) <= rev:
            view, start = snapshot.load_snapshot(connection)
        else:
            view = MemoryView() if nearest is None else MemoryView(nearest.view.everything(), start)
        return _folded_on(connection, view, start, rev - start)


def _folded_on(connection: sqlite3.Connection, view: MemoryView, start: int, limit: int = -1) -> LoadedLog:
    """`view`, which is of `start`, with the next records folded over it."""
    checksum = checksum_at(connection, start)
    for record, row in verified_rows(connection, start, checksum, limit=limit):
        view.fold(record)
        checksum = row[6]
    return LoadedLog(view, checksum, start)


def _is_of(connection: sqlite3.Connection, known: LoadedLog) -> bool:
    """Whether that is a fold of this very log: its checksums are a chain."""
    row = connection.execute("SELECT checksum FROM log WHERE rev = ?", (known.view.rev,)).fetchone()
    return row is not None and bytes(row[0]) == known.checksum


@contextmanager
def read_transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Reads within see one state of the database, whatever a writer does meanwhile. Nests."""
    if connection.in_transaction:
        yield
        return
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("COMMIT")


@contextmanager
def open_read_transaction(folder: Path) -> Iterator[sqlite3.Connection]:
    """The log as of one moment, open for reading. Raises StoreFailed, StoreCorrupt."""
    path = state_files.log_file(folder)
    with closing(open_for_reading(folder)) as connection, store_errors(path), read_transaction(connection):
        yield connection


def checksum_at(connection: sqlite3.Connection, rev: int) -> bytes:
    """The checksum of the row at `rev`; GENESIS for 0. Raises StoreCorrupt when there is no such row."""
    if rev == 0:
        return GENESIS
    found = connection.execute("SELECT checksum FROM log WHERE rev = ?", (rev,)).fetchone()
    if found is None:
        raise StoreCorrupt(rev, "the snapshot is of this revision, but the log does not have it")
    return bytes(found[0])


def read_rows(connection: sqlite3.Connection, after: int, limit: int = -1) -> Iterator[LogRow]:
    """Rows over `after` in order; a `limit` below 0 means all."""
    yield from connection.execute(
        "SELECT rev, at, epoch, type, subject, body, checksum FROM log WHERE rev > ? ORDER BY rev LIMIT ?",
        (after, limit),
    )


def rows_containing(connection: sqlite3.Connection, words: str) -> Iterator[LogRow]:
    """Rows whose record has `words` in it, as an address, in order: few of many are read as records."""
    yield from connection.execute(
        "SELECT rev, at, epoch, type, subject, body, checksum FROM log WHERE instr(body, ?) ORDER BY rev", (words,)
    )


def verified_rows(
    connection: sqlite3.Connection, after: int = 0, checksum: bytes = GENESIS, *, limit: int = -1
) -> Iterator[tuple[Record, LogRow]]:
    """The records over `after` in order, each with its row; `checksum` is that of the row at `after`.

    Raises StoreCorrupt at the first that does not follow the one before it.
    """
    for row in read_rows(connection, after, limit):
        record = verify_row(row, after, checksum)
        after, checksum = row[0], row[6]
        yield record, row


def read_log_blob(folder: Path, digest: str) -> bytes | None:
    """The blob of that name in the log of `folder`, which another process may be writing; None when there is none."""
    with closing(open_for_reading(folder)) as connection, store_errors(state_files.log_file(folder)):
        return blobs.read_blob(connection, state_files.blobs_folder(folder), digest)


def verify_row(row: LogRow, previous_rev: int, previous_checksum: bytes) -> Record:
    """The record in `row`. Raises StoreCorrupt unless it follows `previous_rev` and its checksum holds."""
    rev, at, epoch, type_, subject, body, checksum = row
    if rev != previous_rev + 1:
        raise StoreCorrupt(previous_rev + 1, f"is missing from the log, which goes on at {rev}")
    if next_checksum(previous_checksum, str(body).encode()) != checksum:  # Damage may make another type of the text.
        raise StoreCorrupt(rev, "its checksum does not match: the row, or one before it, was changed or damaged")
    record = parse_record(body, rev)
    if (record.rev, record.at, record.epoch, record.draft.type, record.draft.subject) != (
        rev,
        at,
        epoch,
        type_,
        subject,
    ):
        raise StoreCorrupt(rev, "its columns and its body disagree")
    return record


def parse_record(body: str, rev: int) -> Record:
    """The record that `body` states. Raises StoreCorrupt."""
    try:
        return records.record_from_json(canonical_json.decode(body))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreCorrupt(rev, f"cannot be read as a record: {error!r}") from error


def _take_epoch(connection: sqlite3.Connection, epoch: int) -> None:
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        _check_version(connection)
        latest = _latest_epoch(connection)
        if latest > epoch:
            raise fenced_error(epoch, latest)
        snapshot.set_meta(connection, "version", SCHEMA_VERSION)
        snapshot.set_meta(connection, "epoch", epoch)


def _latest_epoch(connection: sqlite3.Connection) -> int:
    found = connection.execute("SELECT epoch FROM log ORDER BY rev DESC LIMIT 1").fetchone()
    return max(snapshot.read_meta(connection, "epoch", 0), found[0] if found and isinstance(found[0], int) else 0)


def fenced_error(epoch: int, latest: int) -> StoreFailed:
    """What a writer of an old epoch gets."""
    return StoreFailed(
        f"epoch {latest} owns this plan; this process wrote as epoch {epoch}",
        "another process took the plan over: this one stops, and `plan get` shows who owns it",
    )


def _check_version(connection: sqlite3.Connection) -> None:
    version = snapshot.read_meta(connection, "version", SCHEMA_VERSION)
    if version > SCHEMA_VERSION:
        raise StoreFailed(
            f"the log was written by a newer version (schema {version}, this one reads up to {SCHEMA_VERSION})",
            "install the newer planloop that wrote it",
        )


_DAMAGE: Final = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_TOOBIG)
"""Primary result codes. The statements are valid, so the first means a damaged table."""


@contextmanager
def store_errors(path: Path) -> Iterator[None]:
    """Turns what SQLite and the system raise into StoreFailed with a cure, or StoreCorrupt."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise store_error(error, path) from error


def store_error(error: Exception, path: Path) -> StoreFailed | StoreCorrupt:
    """The engine's word for `error`."""
    text = str(error).lower()
    if isinstance(error, sqlite3.Error) and (getattr(error, "sqlite_errorcode", 0) & 0xFF) in _DAMAGE:
        return StoreCorrupt(0, f"{path} is not a sound SQLite file ({error})")
    return StoreFailed(f"the log {path} failed: {error}", _cure(error, text, path))


def _cure(error: Exception, text: str, path: Path) -> str:
    if "full" in text or "no space" in text or "quota" in text or "too large" in text:
        return f"free some disk space, then {AGAIN}: it goes on where the log ends"
    if path.is_dir():
        return f"a folder is in the place of the log: move {path} away, put the log back, then {AGAIN}"
    if isinstance(error, PermissionError) or "readonly" in text or "read-only" in text or "unable to open" in text:
        return f"make {path.parent} writable for this user, then {AGAIN}"
    if "locked" in text:
        return f"another program holds the log locked: close it, then {AGAIN}"
    return f"check the disk, then {AGAIN}: it goes on where the log ends"
