"""The numbers in the table `meta` of a log's database: version, epoch, and what the snapshot is of."""

from __future__ import annotations

import sqlite3

from planloop.reconciler.errors import StoreCorrupt


def meta(connection: sqlite3.Connection, key: str, default: int) -> int:
    """A number from the `meta` table. Raises StoreCorrupt."""
    found = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    try:
        return default if found is None else int(found[0])
    except (ValueError, TypeError):
        raise StoreCorrupt(0, f"`{key}` in the log's table `meta` is {found[0]!r}, which is not a number") from None


def set_meta(connection: sqlite3.Connection, key: str, value: int | str) -> None:
    """Writes what `meta` reads, in the running transaction."""
    connection.execute("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", (key, value))
