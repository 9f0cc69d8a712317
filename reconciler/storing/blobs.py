"""Blobs: bytes named by their digest, kept once. Small ones are rows of the log's database, large ones files.

A row rides in the transaction of the record that names it and costs no flush of its own; past
`limits.BLOB_ROW_BYTES_MAX` going through the write-ahead log and the database costs more than a file
(`benchmarks/speed/appends.py` measures both). A file is whole under its name or not there: written beside, flushed,
renamed, and the folder flushed. Both are durable before the record that names them.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from reconciler.storing import folders
from schemas import encoding, limits


def is_row(content: bytes) -> bool:
    """Whether `content` is kept in the database."""
    return len(content) <= limits.BLOB_ROW_BYTES_MAX


def put_row(connection: sqlite3.Connection, digest: str, content: bytes) -> None:
    """Keeps `content` in the running transaction."""
    connection.execute("INSERT OR IGNORE INTO blobs (digest, content) VALUES (?, ?)", (digest, content))


def get_row(connection: sqlite3.Connection, digest: str) -> bytes | None:
    """The content, None when there is no such row."""
    found = connection.execute("SELECT content FROM blobs WHERE digest = ?", (digest,)).fetchone()
    return None if found is None else bytes(found[0])


def read(connection: sqlite3.Connection, folder: Path, digest: str) -> bytes | None:
    """The content from the database, or else from the files in `folder`; None when it is in neither."""
    row = get_row(connection, digest)
    return row if row is not None else get_file(folder, digest)


def put_file(folder: Path, digest: str, content: bytes) -> None:
    """Keeps `content` as a file; durable when this returns. Raises OSError."""
    if get_file(folder, digest) is not None:
        return
    path = file_of(folder, digest)
    folders.make(path.parent)
    beside = path.with_name(path.name + ".part")
    with beside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    folders.sync(path.parent)


def get_file(folder: Path, digest: str) -> bytes | None:
    """The content, None when it is not there or no longer what its name says."""
    try:
        content = file_of(folder, digest).read_bytes()
    except OSError:
        return None
    return content if encoding.digest(content) == digest else None


def file_of(folder: Path, digest: str) -> Path:
    """`ab/abcdef…`: 256 folders keep each of them short."""
    return folder / digest[:2] / digest
