"""Blobs: bytes named by their digest, stored once. Small ones are rows of the log's database, large ones files.

A row rides in the transaction of the record that names it and costs no flush of its own; past
`limits.BLOB_ROW_BYTES_MAX` going through the write-ahead log and the database costs more than a file
(`planloop.benchmarks.speed.appends` measures both). A file is whole under its name or not there: written beside,
flushed, renamed, and the folder flushed. Both are durable before the record that names them.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from planloop.reconciler.errors import StoreCorrupt
from planloop.reconciler.store import state_files
from planloop.schemas import canonical_json, limits


def is_row(content: bytes) -> bool:
    """Whether `content` is kept in the database."""
    return len(content) <= limits.BLOB_ROW_BYTES_MAX


def write_row(connection: sqlite3.Connection, digest: str, content: bytes) -> None:
    """Keeps `content` in the running transaction."""
    connection.execute(
        "INSERT INTO blobs (digest, content) VALUES (?, ?) ON CONFLICT (digest)"
        " DO UPDATE SET content = excluded.content WHERE content <> excluded.content",  # A damaged row is replaced.
        (digest, content),
    )


def read_row(connection: sqlite3.Connection, digest: str) -> bytes | None:
    """The content, or None if there is no such row. Raises StoreCorrupt if it does not match its digest."""
    found = connection.execute("SELECT CAST(content AS BLOB) FROM blobs WHERE digest = ?", (digest,)).fetchone()
    if found is None:
        return None
    return _sound(bytes(found[0] or b""), digest, "a row of `blobs` in the log")


def read_blob(connection: sqlite3.Connection, folder: Path, digest: str) -> bytes | None:
    """The content from the database, or else from the files in `folder`; None when it is in neither."""
    row = read_row(connection, digest)
    return row if row is not None else read_blob_file(folder, digest)


def write_blob_file(folder: Path, digest: str, content: bytes) -> None:
    """Keeps `content` as a file; durable when this returns. Raises OSError."""
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


def read_blob_file(folder: Path, digest: str) -> bytes | None:
    """The content, or None if there is no such file. Raises StoreCorrupt if it does not match its digest."""
    path = blob_file(folder, digest)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    return _sound(content, digest, str(path))


def _sound(content: bytes, digest: str, where: str) -> bytes:
    if canonical_json.sha256_hex(content) == digest:
        return content
    raise StoreCorrupt(0, f"{where} was changed or damaged: its content is not what its name says")


def blob_file(folder: Path, digest: str) -> Path:
    """`ab/abcdef…`: 256 folders keep each of them short."""
    return folder / digest[:2] / digest
