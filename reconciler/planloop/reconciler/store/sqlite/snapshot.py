"""The `meta` table and the snapshot: the objects at one revision, so that opening folds only later records."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator, Mapping
from typing import Final

from planloop.reconciler.errors import StoreCorrupt
from planloop.reconciler.store.memory_view import MemoryView
from planloop.schemas import canonical_json
from planloop.schemas.resource import Resource, resource_from_json

# The numbers in the table `meta` of a log's database: version, epoch, and what the snapshot is of.


def read_meta(connection: sqlite3.Connection, key: str, default: int) -> int:
    """A number from the `meta` table. Raises StoreCorrupt."""
    found = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    try:
        return default if found is None else int(found[0])
    except (ValueError, TypeError):
        raise StoreCorrupt(0, f"`{key}` in the log's table `meta` is {found[0]!r}, which is not a number") from None


def set_meta(connection: sqlite3.Connection, key: str, value: int | str) -> None:
    """Writes what `meta` reads, in the running transaction."""
    connection.execute("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", (key, value))


# The snapshot in a log's database: the objects as of one revision, so that opening folds only what came after.
#
# It can always be rebuilt from the log, so one that does not verify is ignored. `meta` has its revision, its number of
# rows, and a sum: the rows' digests added up, which changing a few rows updates without reading the others.

REV_KEY: Final = "snapshot_rev"
COUNT_KEY: Final = "snapshot_count"
SUM_KEY: Final = "snapshot_sum"

_OBJECTS_AT_ONCE: Final = 1_000  # While it is read.
_BYTES: Final = 16  # Of each digest: damage is not an adversary.


def snapshot_rev(connection: sqlite3.Connection) -> int:
    """The revision of the snapshot, 0 for none."""
    try:
        return read_meta(connection, REV_KEY, 0)
    except StoreCorrupt:
        return 0


def load_snapshot(connection: sqlite3.Connection) -> tuple[MemoryView, int]:
    """The objects of the snapshot and its revision; an empty view and 0 if there is none or it does not verify."""
    try:
        rev, count = read_meta(connection, REV_KEY, 0), read_meta(connection, COUNT_KEY, 0)
        objects, total = _read(connection)
        is_whole = len(objects) == count and _is_sum(connection, total, rev, count)
    except (ValueError, KeyError, TypeError, StoreCorrupt):
        is_whole = False
    return (MemoryView(objects, rev), rev) if is_whole else (MemoryView(), 0)


def has_checksum(connection: sqlite3.Connection) -> bool:
    """Whether the snapshot has a sum. Snapshots of older versions have none."""
    return connection.execute("SELECT 1 FROM meta WHERE key = ?", (SUM_KEY,)).fetchone() is not None


def write_snapshot(
    connection: sqlite3.Connection, rev: int, dirty: Mapping[str, Resource | None], *, is_whole: bool
) -> None:
    """Brings the snapshot to `rev`, in the running transaction: `dirty` are the objects that changed (None: gone).

    If `is_whole` is false, there is no snapshot to start from, and `dirty` are all objects.
    """
    total = 0
    if is_whole:
        total = read_meta(connection, SUM_KEY, 0) - _of_meta(
            snapshot_rev(connection), read_meta(connection, COUNT_KEY, 0)
        )
        total -= sum(_of_row(address, body) for address in dirty for body in _body(connection, address))
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
    total += sum(_of_row(address, body) for address, body in kept)
    (count,) = connection.execute("SELECT count(*) FROM objects").fetchone()
    set_meta(connection, REV_KEY, rev)
    set_meta(connection, COUNT_KEY, count)
    # As text: SQLite's integers have 64 bits.
    set_meta(connection, SUM_KEY, str(_folded(total + _of_meta(rev, count))))


def _read(connection: sqlite3.Connection) -> tuple[list[Resource], int]:
    objects: list[Resource] = []
    total = 0
    cursor = connection.execute("SELECT address, body FROM objects")
    while found := cursor.fetchmany(_OBJECTS_AT_ONCE):
        total += sum(_of_row(address, body) for address, body in found)
        # One text, because a decoder shares the keys of the maps that it reads together: a third of time and memory.
        objects += map(resource_from_json, canonical_json.decode(f"[{','.join(body for _, body in found)}]"))
    return objects, total


def _is_sum(connection: sqlite3.Connection, total: int, rev: int, count: int) -> bool:
    if not has_checksum(connection):
        return True
    return read_meta(connection, SUM_KEY, 0) == _folded(total + _of_meta(rev, count))


def _body(connection: sqlite3.Connection, address: str) -> Iterator[str]:
    for (body,) in connection.execute("SELECT body FROM objects WHERE address = ?", (address,)):
        yield body


def _of_row(address: str, body: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{address}\0{body}".encode()).digest()[:_BYTES])


def _of_meta(rev: int, count: int) -> int:
    return _of_row(str(rev), str(count))


def _folded(total: int) -> int:
    return total % (1 << 8 * _BYTES)
