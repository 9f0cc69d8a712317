"""The SQLite file of a log: its tables, how it is opened, the snapshot of its objects, and its blobs.

`log` is the source of truth: one row per revision, each with a checksum that is chained to the row before. `objects` is
a snapshot of the fold as of the revision in `meta`, so that opening the log folds only the records after it; it can be
rebuilt. Small blobs are rows; a row costs no flush beyond that of the record that names it. A blob over
`limits.BLOB_ROW_BYTES_MAX` is a file, because a large row costs more (`planloop.benchmarks.speed.appends` measures
both). Both kinds are durable before the record that names them.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Final

from planloop.reconciler.errors import AGAIN, StoreCorrupt, StoreFailed
from planloop.reconciler.store import state_files
from planloop.reconciler.store.memory_view import MemoryView
from planloop.schemas import canonical_json, limits
from planloop.schemas.resource import Resource, resource_from_json

SCHEMA_VERSION: Final = 1
LOCK_WAIT_S: Final = 5.0  # No reader holds a lock for long, and fencing reports a second writer.
WAL_PAGES: Final = 250  # Between checkpoints, 1 MB: overwriting a log file flushes faster than growing it.
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


def open_for_writing(folder: Path, epoch: int) -> sqlite3.Connection:
    """Open the database, created if missing, and store `epoch` in it, which fences every older writer.

    Raises StoreFailed if the folder cannot be written, the file was written by a newer version, or a later epoch has
    written to it; StoreCorrupt if it is not a database.
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
            _accept_damaged_text(connection)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(f"PRAGMA wal_autocheckpoint = {WAL_PAGES}")
            connection.execute(f"PRAGMA journal_size_limit = {WAL_KEPT_BYTES}")
            _take_epoch(connection, epoch)
            state_files.sync_folder(folder)
            unless_done.pop_all()
    return connection


def _create(path: Path) -> None:
    """Create an empty log at `path` in one step: a concurrent reader finds no log, or one with its tables.

    The caller holds the owner's lock, so an incomplete file next to it was left by a killed process.
    """
    beside = path.with_name(path.name + ".made")
    for left in (beside, *(beside.with_name(beside.name + end) for end in ("-wal", "-shm", "-journal"))):
        left.unlink(missing_ok=True)
    # SQLite creates its other files with the mode of this one.
    os.close(os.open(beside, os.O_WRONLY | os.O_CREAT, state_files.FILE_MODE))
    with closing(sqlite3.connect(beside, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = FULL")
        connection.executescript(_SCHEMA)
    beside.rename(path)


def open_for_reading(folder: Path) -> sqlite3.Connection:
    """Open the database, which another process may be writing. Raises StoreFailed, StoreCorrupt.

    Such a connection never writes, so it takes no part in the owner's checkpoints.
    """
    path = state_files.log_file(folder)
    if not path.exists():
        raise StoreFailed(f"no log at {path}", "the plan has not been applied yet: run `plan apply`")
    with store_errors(path):
        try:
            return _connect_for_reading(path, "mode=ro")
        except sqlite3.OperationalError as error:
            if not error.sqlite_errorname.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY")) or _has_tail(path):
                raise
        # SQLite cannot create the index of the write-ahead log in a read-only folder. It needs none while that log is
        # empty, and no process can write there.
        return _connect_for_reading(path, "immutable=1")


def _connect_for_reading(path: Path, mode: str) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?{mode}"
    connection = sqlite3.connect(uri, uri=True, timeout=LOCK_WAIT_S, isolation_level=None, check_same_thread=False)
    with ExitStack() as unless_done:
        unless_done.callback(connection.close)
        _accept_damaged_text(connection)
        _check_version(connection)
        unless_done.pop_all()
    return connection


def _has_tail(path: Path) -> bool:
    tail = path.with_name(path.name + "-wal")
    return tail.exists() and tail.stat().st_size > 0


def _accept_damaged_text(connection: sqlite3.Connection) -> None:
    """Read damaged text, too: its checksum reports the damage, while SQLite's default is to raise."""
    connection.text_factory = lambda raw: raw.decode(errors="replace")


@contextmanager
def read_transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Reads in the block see one state of the database, even if another process writes. Nests."""
    if connection.in_transaction:
        yield
        return
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("COMMIT")


def stored_epoch(folder: Path) -> int:
    """The highest epoch that ever wrote the log in `folder`, 0 if there is no log. Raises StoreFailed, StoreCorrupt."""
    if not state_files.has_log(folder):
        return 0
    with closing(open_for_reading(folder)) as connection, store_errors(state_files.log_file(folder)):
        return _latest_epoch(connection)


def _take_epoch(connection: sqlite3.Connection, epoch: int) -> None:
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        _check_version(connection)
        latest = _latest_epoch(connection)
        if latest > epoch:
            raise fenced_error(epoch, latest)
        set_meta(connection, "version", SCHEMA_VERSION)
        set_meta(connection, "epoch", epoch)


def _latest_epoch(connection: sqlite3.Connection) -> int:
    found = connection.execute("SELECT epoch FROM log ORDER BY rev DESC LIMIT 1").fetchone()
    return max(read_meta(connection, "epoch", 0), found[0] if found and isinstance(found[0], int) else 0)


def fenced_error(epoch: int, latest: int) -> StoreFailed:
    """The error of a writer with an old epoch."""
    return StoreFailed(
        f"epoch {latest} owns this plan; this process wrote as epoch {epoch}",
        "another process took the plan over: this one stops, and `plan get` shows who owns it",
    )


def _check_version(connection: sqlite3.Connection) -> None:
    version = read_meta(connection, "version", SCHEMA_VERSION)
    if version > SCHEMA_VERSION:
        raise StoreFailed(
            f"the log was written by a newer version (schema {version}, this one reads up to {SCHEMA_VERSION})",
            "install the newer planloop that wrote it",
        )


_DAMAGE: Final = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_TOOBIG)
"""Primary result codes. The statements are valid, so the first means a damaged table."""


@contextmanager
def store_errors(path: Path) -> Iterator[None]:
    """Turn errors of SQLite and of the system into StoreFailed with a hint, or StoreCorrupt."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        if isinstance(error, sqlite3.Error) and (getattr(error, "sqlite_errorcode", 0) & 0xFF) in _DAMAGE:
            raise StoreCorrupt(0, f"{path} is not a valid log ({error})") from error
        raise StoreFailed(f"the log {path} failed: {error}", _hint(error, path)) from error


def _hint(error: Exception, path: Path) -> str:
    text = str(error).lower()
    if "full" in text or "no space" in text or "quota" in text or "too large" in text:
        return f"free some disk space, then {AGAIN}: the plan resumes"
    if path.is_dir():
        return f"a folder is in the place of the log: move {path} away, put the log back, then {AGAIN}"
    if isinstance(error, PermissionError) or "readonly" in text or "read-only" in text or "unable to open" in text:
        return f"make {path.parent} writable for this user, then {AGAIN}"
    if "locked" in text:
        return f"another program holds the log locked: close it, then {AGAIN}"
    return f"check the disk, then {AGAIN}: the plan resumes"


def read_meta(connection: sqlite3.Connection, key: str, default: int) -> int:
    """A number from the `meta` table. Raises StoreCorrupt."""
    found = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    try:
        return default if found is None else int(found[0])
    except (ValueError, TypeError):
        raise StoreCorrupt(0, f"`{key}` in the log's table `meta` is {found[0]!r}, which is not a number") from None


def set_meta(connection: sqlite3.Connection, key: str, value: int | str) -> None:
    """Write a value of the `meta` table, in the running transaction."""
    connection.execute("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", (key, value))


# The snapshot. It can always be rebuilt from the log, so one that does not verify is ignored. `meta` has its revision,
# its number of rows, and a sum: the rows' digests added up, so that changing a few rows needs no read of the others.

REV_KEY: Final = "snapshot_rev"
COUNT_KEY: Final = "snapshot_count"
SUM_KEY: Final = "snapshot_sum"

_OBJECTS_AT_ONCE: Final = 1_000  # Per fetch.
_DIGEST_BYTES: Final = 16  # Of each row: the sum detects damage, not an attack.


def snapshot_rev(connection: sqlite3.Connection) -> int:
    """The revision of the snapshot, or 0."""
    try:
        return read_meta(connection, REV_KEY, 0)
    except StoreCorrupt:
        return 0


def load_snapshot(connection: sqlite3.Connection) -> tuple[MemoryView, int]:
    """The objects of the snapshot and its revision; an empty view and 0 if there is none or it does not verify."""
    try:
        rev, count = read_meta(connection, REV_KEY, 0), read_meta(connection, COUNT_KEY, 0)
        objects, total = _read_objects(connection)
        is_whole = len(objects) == count and _is_sum(connection, total, rev, count)
    except (ValueError, KeyError, TypeError, StoreCorrupt):
        is_whole = False
    return (MemoryView(objects, rev), rev) if is_whole else (MemoryView(), 0)


def has_snapshot_sum(connection: sqlite3.Connection) -> bool:
    """Whether the snapshot has a sum. Snapshots of older versions have none."""
    return connection.execute("SELECT 1 FROM meta WHERE key = ?", (SUM_KEY,)).fetchone() is not None


def write_snapshot(
    connection: sqlite3.Connection, rev: int, dirty: Mapping[str, Resource | None], *, is_whole: bool
) -> None:
    """Bring the snapshot to `rev`, in the running transaction: `dirty` are the objects that changed (None: gone).

    If `is_whole` is false, there is no snapshot to start from, and `dirty` are all objects.
    """
    total = 0
    if is_whole:
        total = read_meta(connection, SUM_KEY, 0) - _meta_digest(
            snapshot_rev(connection), read_meta(connection, COUNT_KEY, 0)
        )
        total -= sum(_row_digest(address, body) for address in dirty for body in _body(connection, address))
    else:
        connection.execute("DELETE FROM objects")
    kept = [
        (address, canonical_json.encode(resource.to_json()).decode())
        for address, resource in dirty.items()
        if resource is not None
    ]
    gone = [(address,) for address, resource in dirty.items() if resource is None]
    connection.executemany("DELETE FROM objects WHERE address = ?", gone)
    connection.executemany("INSERT OR REPLACE INTO objects (address, body) VALUES (?, ?)", kept)
    total += sum(_row_digest(address, body) for address, body in kept)
    (count,) = connection.execute("SELECT count(*) FROM objects").fetchone()
    set_meta(connection, REV_KEY, rev)
    set_meta(connection, COUNT_KEY, count)
    # As text: SQLite's integers have 64 bits.
    set_meta(connection, SUM_KEY, str(_wrapped(total + _meta_digest(rev, count))))


def _read_objects(connection: sqlite3.Connection) -> tuple[list[Resource], int]:
    objects: list[Resource] = []
    total = 0
    cursor = connection.execute("SELECT address, body FROM objects")
    while found := cursor.fetchmany(_OBJECTS_AT_ONCE):
        total += sum(_row_digest(address, body) for address, body in found)
        # One text, because a decoder shares the keys of the maps that it reads together: a third of time and memory.
        objects += map(resource_from_json, canonical_json.decode(f"[{','.join(body for _, body in found)}]"))
    return objects, total


def _is_sum(connection: sqlite3.Connection, total: int, rev: int, count: int) -> bool:
    if not has_snapshot_sum(connection):
        return True
    return read_meta(connection, SUM_KEY, 0) == _wrapped(total + _meta_digest(rev, count))


def _body(connection: sqlite3.Connection, address: str) -> Iterator[str]:
    for (body,) in connection.execute("SELECT body FROM objects WHERE address = ?", (address,)):
        yield body


def _row_digest(address: str, body: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{address}\0{body}".encode()).digest()[:_DIGEST_BYTES])


def _meta_digest(rev: int, count: int) -> int:
    return _row_digest(str(rev), str(count))


def _wrapped(total: int) -> int:
    return total % (1 << 8 * _DIGEST_BYTES)


# Blobs: bytes named by their digest, stored once.


def is_blob_row(content: bytes) -> bool:
    """Whether `content` is a row of the database; otherwise it is a file."""
    return len(content) <= limits.BLOB_ROW_BYTES_MAX


def write_blob_row(connection: sqlite3.Connection, digest: str, content: bytes) -> None:
    """Write `content` in the running transaction."""
    connection.execute(
        "INSERT INTO blobs (digest, content) VALUES (?, ?) ON CONFLICT (digest)"
        " DO UPDATE SET content = excluded.content WHERE content <> excluded.content",  # A damaged row is replaced.
        (digest, content),
    )


def read_blob(connection: sqlite3.Connection, folder: Path, digest: str) -> bytes | None:
    """A blob of the log in the state folder `folder`, or None. Raises StoreCorrupt if it is damaged."""
    found = connection.execute("SELECT CAST(content AS BLOB) FROM blobs WHERE digest = ?", (digest,)).fetchone()
    if found is not None:
        return _verified_blob(bytes(found[0] or b""), digest, "a row of `blobs` in the log")
    path = blob_file(folder, digest)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    return _verified_blob(content, digest, str(path))


def write_blob_file(folder: Path, digest: str, content: bytes) -> None:
    """Write `content` as a file, durable when this returns. Raises OSError.

    The file is written beside its name, flushed and renamed, so that under its name it is whole or missing.
    """
    path = blob_file(folder, digest)
    if path.is_file() and path.read_bytes() == content:
        return
    state_files.make_folder(path.parent)
    beside = path.with_name(path.name + ".part")
    with open(beside, "wb", opener=state_files.private_opener) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    state_files.sync_folder(path.parent)


def _verified_blob(content: bytes, digest: str, where: str) -> bytes:
    if canonical_json.sha256_hex(content) == digest:
        return content
    raise StoreCorrupt(0, f"{where} was changed or damaged: its content is not what its name says")


def blob_file(folder: Path, digest: str) -> Path:
    """`blobs/ab/abcdef…` in the state folder: 256 folders keep each of them short."""
    return folder / state_files.BLOBS / digest[:2] / digest
