"""The snapshot in a log's database: the objects as of one revision, so that opening folds only what came after.

It can always be rebuilt from the log, so one that does not verify is ignored. `meta` has its revision, its number of
rows, and a sum: the rows' digests added up, which changing a few rows updates without reading the others.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator, Mapping
from typing import Final

from planloop.reconciler.errors import StoreCorrupt
from planloop.reconciler.storing import metadata
from planloop.reconciler.storing.view import MemoryView
from planloop.schemas import encoding
from planloop.schemas.resource import Resource, resource_from_json

REV: Final = "snapshot_rev"
COUNT: Final = "snapshot_count"
SUM: Final = "snapshot_sum"

_OBJECTS_AT_ONCE: Final = 1_000  # While it is read.
_BYTES: Final = 16  # Of each digest: damage is not an adversary.


def rev_of(connection: sqlite3.Connection) -> int:
    """The revision of the snapshot, 0 for none."""
    try:
        return metadata.meta(connection, REV, 0)
    except StoreCorrupt:
        return 0


def load(connection: sqlite3.Connection) -> tuple[MemoryView, int]:
    """The objects of the snapshot and its revision; an empty view and 0 if there is none or it does not verify."""
    try:
        rev, count = metadata.meta(connection, REV, 0), metadata.meta(connection, COUNT, 0)
        objects, total = _read(connection)
        is_whole = len(objects) == count and _is_sum(connection, total, rev, count)
    except (ValueError, KeyError, TypeError, StoreCorrupt):
        is_whole = False
    return (MemoryView(objects, rev), rev) if is_whole else (MemoryView(), 0)


def is_summed(connection: sqlite3.Connection) -> bool:
    """Whether the snapshot has a sum. Snapshots of older versions have none."""
    return connection.execute("SELECT 1 FROM meta WHERE key = ?", (SUM,)).fetchone() is not None


def write(connection: sqlite3.Connection, rev: int, dirty: Mapping[str, Resource | None], *, is_whole: bool) -> None:
    """Brings the snapshot to `rev`, in the running transaction: `dirty` are the objects that changed (None: gone).

    If `is_whole` is false, there is no snapshot to start from, and `dirty` are all objects.
    """
    total = 0
    if is_whole:
        total = metadata.meta(connection, SUM, 0) - _of_meta(rev_of(connection), metadata.meta(connection, COUNT, 0))
        total -= sum(_of_row(address, body) for address in dirty for body in _body(connection, address))
    else:
        connection.execute("DELETE FROM objects")
    kept = [
        (address, encoding.encode(resource.to_json()).decode())
        for address, resource in dirty.items()
        if resource is not None
    ]
    gone = [(address,) for address, resource in dirty.items() if resource is None]
    connection.executemany("DELETE FROM objects WHERE address = ?", gone)
    connection.executemany("INSERT OR REPLACE INTO objects (address, body) VALUES (?, ?)", kept)
    total += sum(_of_row(address, body) for address, body in kept)
    (count,) = connection.execute("SELECT count(*) FROM objects").fetchone()
    metadata.set_meta(connection, REV, rev)
    metadata.set_meta(connection, COUNT, count)
    # As text: SQLite's integers have 64 bits.
    metadata.set_meta(connection, SUM, str(_folded(total + _of_meta(rev, count))))


def _read(connection: sqlite3.Connection) -> tuple[list[Resource], int]:
    objects: list[Resource] = []
    total = 0
    cursor = connection.execute("SELECT address, body FROM objects")
    while found := cursor.fetchmany(_OBJECTS_AT_ONCE):
        total += sum(_of_row(address, body) for address, body in found)
        # One text, because a decoder shares the keys of the maps that it reads together: a third of time and memory.
        objects += map(resource_from_json, encoding.decode(f"[{','.join(body for _, body in found)}]"))
    return objects, total


def _is_sum(connection: sqlite3.Connection, total: int, rev: int, count: int) -> bool:
    if not is_summed(connection):
        return True
    return metadata.meta(connection, SUM, 0) == _folded(total + _of_meta(rev, count))


def _body(connection: sqlite3.Connection, address: str) -> Iterator[str]:
    for (body,) in connection.execute("SELECT body FROM objects WHERE address = ?", (address,)):
        yield body


def _of_row(address: str, body: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{address}\0{body}".encode()).digest()[:_BYTES])


def _of_meta(rev: int, count: int) -> int:
    return _of_row(str(rev), str(count))


def _folded(total: int) -> int:
    return total % (1 << 8 * _BYTES)
