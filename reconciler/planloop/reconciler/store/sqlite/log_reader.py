"""Read and verify a log in SQLite: `planloop.reconciler.store.log_reader.LogReader` over the file of a state folder.

Opening a log verifies that its checksums form a chain, that its columns match its records, and that its last record is
present. That takes 3 to 5 µs per record (`planloop.benchmarks.speed.log_open`), because it parses of each record only
what is also in a column.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeAlias

import msgspec

from planloop.reconciler.errors import StoreCorrupt, StoreFailed
from planloop.reconciler.store import state_files
from planloop.reconciler.store.log_reader import (
    GENESIS,
    FoldedLog,
    LogEntry,
    LogPosition,
    RecordQuery,
    ReplayResult,
    log_id,
    next_checksum,
    parse_record,
)
from planloop.reconciler.store.memory_view import MemoryView
from planloop.reconciler.store.sqlite import database, mirror
from planloop.schemas import canonical_json, limits
from planloop.schemas.frozen import frozen
from planloop.schemas.log.record import Record
from planloop.schemas.resource import Resource

LogRow: TypeAlias = tuple[int, float, int, str, str, str, bytes]
"""`rev, at, epoch, type, subject, body, checksum`; `body` is the record's JSON line."""


@frozen
class LoadedLog:
    """A log as it was opened: its fold, the checksum of its last row, and the revision that the fold started from."""

    view: MemoryView
    checksum: bytes
    start_rev: int


class SqliteLogReader:
    """A `LogReader` of the log in the state folder `folder`. Opens the file when first used, and again if it is
    replaced.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = state_files.log_file(folder)
        self._lock = threading.Lock()
        self._idle: list[tuple[sqlite3.Connection, tuple[int, int] | None]] = []
        self._views: deque[LoadedLog] = deque(maxlen=limits.PAST_VIEWS_MAX)
        self._is_closed = False
        self._pinned: tuple[int, int] | None = None

    def pin(self) -> None:
        """From now on read only the file that is at the path now, also if it is moved or another one takes its place.

        Raises StoreFailed.
        """
        with database.store_errors(self._path):
            self._pinned = _identity(self._path)
            self._return(database.open_for_reading(self._folder), self._pinned)

    def last_rev(self) -> int:
        with self._connection() as connection:
            return int(connection.execute("SELECT coalesce(max(rev), 0) FROM log").fetchone()[0])

    def records(self, query: RecordQuery) -> Iterator[LogEntry]:
        where, values = ["rev > ?"], list[object]([query.after])
        if query.before is not None:
            where, values = [*where, "rev < ?"], [*values, query.before]
        if query.types:
            where.append(f"type IN ({', '.join('?' for _ in query.types)})")
            values += sorted(query.types)
        where += ["instr(body, ?)" for _ in query.containing]
        values += query.containing
        order = "DESC" if query.newest_first else "ASC"
        limit = -1 if query.limit is None else query.limit
        text = f"SELECT rev, body, checksum FROM log WHERE {' AND '.join(where)} ORDER BY rev {order} LIMIT ?"
        with self._connection() as connection, closing(connection.execute(text, (*values, limit))) as cursor:
            for rev, body, checksum in cursor:
                yield LogEntry(parse_record(body, rev), body, LogPosition(rev, checksum))

    def lines(self, after: int, limit: int) -> list[tuple[int, str]]:
        with self._connection() as connection:
            text = "SELECT rev, body FROM log WHERE rev > ? ORDER BY rev LIMIT ?"
            return connection.execute(text, (after, limit)).fetchall()

    def follow(self, position: LogPosition, limit: int) -> list[LogEntry]:
        rev, checksum = position.rev, position.checksum
        with self._connection() as connection:
            rows = list(read_rows(connection, max(0, rev - 1), limit + 1 if rev else limit))
        if rev:
            if not rows or rows[0][0] != rev or rows[0][6] != checksum:
                raise StoreCorrupt(rev, "has changed in the log since it was read")
            del rows[0]
        found = []
        for row in rows:
            record = verify_row(row, rev, checksum)
            rev, checksum = row[0], row[6]
            found.append(LogEntry(record, row[5], LogPosition(rev, checksum)))
        return found

    def load(self) -> FoldedLog:
        with self._connection() as connection, database.read_transaction(connection):
            loaded = load_log(connection)
            name = log_id(_checksum_at(connection, 1)) if loaded.view.rev else ""
            position = LogPosition(loaded.view.rev, loaded.checksum)
            return FoldedLog(loaded.view, position, database.read_meta(connection, "epoch", 0), name)

    def view_at(self, rev: int) -> MemoryView:
        views = tuple(self._views)
        with self._connection() as connection:
            for known in views:
                if known.view.rev == rev and _is_fold_of(connection, known):
                    return known.view
            found = load_log_at(connection, rev, views)
        self._views.append(found)
        return found.view

    def actors(self, types: frozenset[str]) -> list[str]:
        marks = ", ".join("?" for _ in types)
        text = f"SELECT DISTINCT json_extract(body, '$.actor') FROM log WHERE type IN ({marks})"
        with self._connection() as connection:
            return [str(actor) for (actor,) in connection.execute(text, sorted(types))]

    def get_blob(self, digest: str) -> bytes | None:
        with self._connection() as connection:
            return database.read_blob(connection, self._folder, digest)

    def verify(self) -> int:
        with self._connection() as connection:
            return verify_log(connection, self._folder)

    def replay(self) -> ReplayResult:
        with self._connection() as connection, database.read_transaction(connection):
            verify_log(connection, self._folder)
            opened = load_log(connection).view.everything()
            view = MemoryView()
            with mirror.MirrorComparison(state_files.mirror_file(self._folder)) as comparison:
                for record, row in verified_rows(connection):
                    view.fold(record)
                    comparison.take(row[0], row[5])
        folded = view.everything()
        return ReplayResult(view.rev, len(folded), different_addresses(folded, opened), comparison.rev)

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
            self._is_closed = True
        for connection, _ in idle:
            connection.close()

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """A connection for one read: an idle one of the same file, or a new one."""
        with database.store_errors(self._path):
            file = self._pinned or _identity(self._path)
            connection = self._take_idle(file) or self._open(file)
            try:
                yield connection
            except sqlite3.Error:
                connection.close()  # It may succeed once the file is opened again.
                raise
            except BaseException:
                self._return(connection, file)
                raise
            self._return(connection, file)

    def _open(self, file: tuple[int, int] | None) -> sqlite3.Connection:
        if self._pinned is not None and file != _identity(self._path):
            raise StoreFailed("the log was moved or replaced while its owner runs", "move the folder `.plan` back")
        return database.open_for_reading(self._folder)

    def _take_idle(self, file: tuple[int, int] | None) -> sqlite3.Connection | None:
        with self._lock:
            while self._idle:
                connection, opened = self._idle.pop()
                if opened == file:
                    return connection
                connection.close()
        return None

    def _return(self, connection: sqlite3.Connection, file: tuple[int, int] | None) -> None:
        with self._lock:
            if not self._is_closed and len(self._idle) < limits.LOG_CONNECTIONS_MAX:
                self._idle.append((connection, file))
                return
        connection.close()


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        about = path.stat()
    except OSError:
        return None
    return about.st_dev, about.st_ino


def load_log(connection: sqlite3.Connection) -> LoadedLog:
    """The snapshot with the rest of the log folded over it, as of one moment. Raises StoreCorrupt."""
    with database.read_transaction(connection):
        return _fold_after(connection, *database.load_snapshot(connection))


def load_log_at(connection: sqlite3.Connection, rev: int, known: Iterable[LoadedLog] = ()) -> LoadedLog:
    """The log folded up to `rev`, from the nearest of the snapshot and what is `known`. Raises StoreCorrupt."""
    with database.read_transaction(connection):
        past = [one for one in known if one.view.rev <= rev and _is_fold_of(connection, one)]
        nearest = max(past, key=lambda one: one.view.rev, default=None)
        start = 0 if nearest is None else nearest.view.rev
        if start < database.snapshot_rev(connection) <= rev:
            view, start = database.load_snapshot(connection)
        else:
            view = MemoryView() if nearest is None else MemoryView(nearest.view.everything(), start)
        return _fold_after(connection, view, start, rev - start)


def _fold_after(connection: sqlite3.Connection, view: MemoryView, start: int, limit: int = -1) -> LoadedLog:
    """`view`, which is of the revision `start`, with the next records folded over it."""
    checksum = _checksum_at(connection, start)
    for record, row in verified_rows(connection, start, checksum, limit=limit):
        view.fold(record)
        checksum = row[6]
    return LoadedLog(view, checksum, start)


def _is_fold_of(connection: sqlite3.Connection, known: LoadedLog) -> bool:
    """Whether `known` is a fold of this log: checksums are chained, so the last one identifies all before it."""
    row = connection.execute("SELECT checksum FROM log WHERE rev = ?", (known.view.rev,)).fetchone()
    return row is not None and bytes(row[0]) == known.checksum


def _checksum_at(connection: sqlite3.Connection, rev: int) -> bytes:
    """The checksum of the row at `rev`; GENESIS for 0. Raises StoreCorrupt if that row is missing."""
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


def verify_row(row: LogRow, previous_rev: int, previous_checksum: bytes) -> Record:
    """The record in `row`. Raises StoreCorrupt unless it follows `previous_rev` and its checksum matches."""
    rev, at, epoch, type_, subject, body, checksum = row
    if rev != previous_rev + 1:
        raise StoreCorrupt(previous_rev + 1, f"is missing from the log, which continues at {rev}")
    if next_checksum(previous_checksum, str(body).encode()) != checksum:  # Damage can change the type of a column.
        raise StoreCorrupt(rev, "its checksum does not match: the row, or one before it, was changed or damaged")
    record = parse_record(body, rev)
    draft = record.draft
    if (record.rev, record.at, record.epoch, draft.type, draft.subject) != (rev, at, epoch, type_, subject):
        raise StoreCorrupt(rev, "its columns and its body disagree")
    return record


class _Columns(msgspec.Struct):
    """The members of a record that are columns as well."""

    rev: int
    at: float
    epoch: int
    type: str
    subject: str


def verify_log(connection: sqlite3.Connection, folder: Path) -> int:
    """Verify the log in `folder` from the first record to the last; returns the last revision.

    Raises: StoreCorrupt for the first record that does not verify, when `events.jsonl` has records after the last, and
        when it is a copy of another log.
    """
    path = state_files.mirror_file(folder)
    ahead = mirror.last_mirrored_rev(path)  # Read first: an owner may be writing, and the mirror never leads.
    copied = mirror.first_and_last_lines(path)
    with database.store_errors(state_files.log_file(folder)), database.read_transaction(connection):
        rev = _verify_chain(connection)
        if copied and not any(_has_line(connection, *line) for line in copied):
            # A damaged mirror differs in one place and is written again. Here neither end is of this log.
            raise mirror.foreign_log_error(path)
    if ahead > rev and mirror.has_line_of(path, rev + 1):
        raise mirror.truncated_log_error(path, rev + 1)
    return rev


def _has_line(connection: sqlite3.Connection, rev: int, line: bytes) -> bool:
    found = connection.execute("SELECT CAST(body AS BLOB) FROM log WHERE rev = ?", (rev,)).fetchone()
    return found is None or found[0] == line


def _verify_chain(connection: sqlite3.Connection) -> int:
    decode = msgspec.json.Decoder(_Columns).decode
    last, checksum = 0, GENESIS
    found = connection.execute(
        "SELECT rev, at, epoch, type, subject, CAST(body AS BLOB), checksum FROM log ORDER BY rev"
    )
    for rev, at, epoch, type_, subject, body, stored in found:
        if rev != last + 1:
            raise StoreCorrupt(last + 1, f"is missing from the log, which continues at {rev}")
        if body is None or next_checksum(checksum, body) != stored:
            raise StoreCorrupt(rev, "its checksum does not match: the row, or one before it, was changed or damaged")
        try:
            said = decode(body)
        except msgspec.MsgspecError as error:
            raise StoreCorrupt(rev, f"cannot be read as a record: {error}") from error
        if (said.rev, said.at, said.epoch, said.type, said.subject) != (rev, at, epoch, type_, subject):
            raise StoreCorrupt(rev, "its columns and its body disagree")
        last, checksum = rev, stored
    return last


def different_addresses(left: Iterable[Resource], right: Iterable[Resource]) -> tuple[str, ...]:
    """The addresses whose objects are not the same bytes on both sides, sorted."""
    ours, theirs = _printed(left), _printed(right)
    return tuple(sorted(at for at in ours.keys() | theirs.keys() if ours.get(at) != theirs.get(at)))


def _printed(resources: Iterable[Resource]) -> dict[str, bytes]:
    return {resource.address: canonical_json.canonical_bytes(resource.to_json()) for resource in resources}
