"""`events.jsonl`: the log as text, one record a line, for any program to tail or parse.

A projection. The writer streams to it after each commit, so it may lag behind the log and never leads. On opening, its
last line is compared with the log, byte for byte: what is missing is appended, a torn end is cut, and a mirror that
says anything else is written anew. A fault in it never stops the plan: it is left alone until the next opening.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import BinaryIO, Final, Self

from reconciler.errors import StoreCorrupt
from schemas import encoding

_TAIL_BYTES: Final = 64 << 10  # Read from the end, doubled until it holds a whole line.
_CHUNK_LINES: Final = 1_000  # Of a rebuild: bounds what is in memory.


class Mirror:
    """Appends lines to the file at `path`. Opened by `catch_up`; until then, and after a fault, it does nothing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle: int | None = None

    def append(self, lines: list[bytes]) -> None:
        """Adds `lines` in one write."""
        if self._handle is None or not lines:
            return
        try:
            _write(self._handle, lines)
        except OSError:
            # Disk full or quota. A torn line may stand at the end; the next opening cuts it.
            self.close()

    def catch_up(self, connection: sqlite3.Connection) -> None:
        """Makes the file say what the log says. Raises StoreCorrupt when it holds more than the log."""
        try:
            self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            rev = self._verified_rev(connection)
            if rev == 0:
                os.ftruncate(self._handle, 0)
            self._append_after(connection, rev)
        except OSError:
            self.close()

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _verified_rev(self, connection: sqlite3.Connection) -> int:
        """The revision of the last whole line if it is what the log has there; 0 asks for a rebuild."""
        assert self._handle is not None
        line, end = last_line(self._handle)
        if line is None:
            return 0
        if end != os.fstat(self._handle).st_size:
            os.ftruncate(self._handle, end)
        try:
            rev = int(encoding.decode(line)["rev"])
        except (ValueError, KeyError, TypeError):
            return 0
        found = connection.execute("SELECT body FROM log WHERE rev = ?", (rev,)).fetchone()
        if found is None:
            raise StoreCorrupt(rev, _ahead(self._path))
        return rev if found[0].encode() == line else 0

    def _append_after(self, connection: sqlite3.Connection, rev: int) -> None:
        assert self._handle is not None
        cursor = connection.execute("SELECT body FROM log WHERE rev > ? ORDER BY rev", (rev,))
        while found := cursor.fetchmany(_CHUNK_LINES):
            _write(self._handle, [body.encode() for (body,) in found])


class Comparison:
    """Reads a mirror beside its log. `rev` is the last revision up to which the two say the same bytes."""

    def __init__(self, path: Path) -> None:
        self.rev = 0
        self._path = path
        self._file: BinaryIO | None = None

    def __enter__(self) -> Self:
        try:
            self._file = self._path.open("rb")
        except OSError:
            self._file = None  # No mirror: nothing agrees, and nothing is lost.
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def take(self, rev: int, body: str) -> None:
        """Compares the record at `rev`, each in turn from 1, with the next line."""
        if self._file is not None and self.rev == rev - 1 and self._file.readline() == body.encode() + b"\n":
            self.rev = rev


def last_line(handle: int) -> tuple[bytes | None, int]:
    """The last line that ends in a newline, without it, and where it ends; None and 0 when there is none."""
    size = os.fstat(handle).st_size
    take = _TAIL_BYTES
    while True:
        start = max(0, size - take)
        text = os.pread(handle, size - start, start)
        end = text.rfind(b"\n")
        before = text.rfind(b"\n", 0, max(end, 0))
        if end >= 0 and (before >= 0 or start == 0):
            return text[before + 1 : end], start + end + 1
        if start == 0:
            return None, 0
        take *= 2


def _write(handle: int, lines: list[bytes]) -> None:
    content = b"\n".join(lines) + b"\n"
    while content:
        content = content[os.write(handle, content) :]


def _ahead(path: Path) -> str:
    return (
        f"{path} holds this revision and the log does not: the log lost its end (was `log.db-wal` deleted?). "
        f"Restore the folder from a copy, or delete {path} to go on from what is left"
    )
