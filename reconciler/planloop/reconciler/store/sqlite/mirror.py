"""`events.jsonl`: the log as text, one record a line, for programs that tail it.

The writer appends to it after each commit, so it may lag behind the log and never leads. Opening the log compares it
byte for byte and rewrites it from the first line that differs. A failure to write it never stops the plan: the file is
left as it is until the log is opened again.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final, Self

from planloop.reconciler.errors import StoreCorrupt
from planloop.schemas import canonical_json

_TAIL_BYTES: Final = 64 << 10  # Read from the end, doubled until it holds a whole line.
_CHUNK_LINES: Final = 1_000  # Of a rebuild: bounds what is in memory.


class LogMirror:
    """Appends lines to the file at `path`. Does nothing before `catch_up` and after an error."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle: int | None = None

    def append(self, lines: list[bytes]) -> None:
        """Append `lines` in one write."""
        if self._handle is None or not lines:
            return
        try:
            _write(self._handle, lines)
        except OSError:
            # Disk full or quota. The file may end in an incomplete line, which the next opening cuts.
            self.close()

    def catch_up(self, connection: sqlite3.Connection) -> None:
        """Rewrite the file where it differs from the log; `log_reader.verify_log` has verified that it is not ahead."""
        try:
            self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            _opened(self._path).close()
            rev, end = self._repeated(connection)
            os.ftruncate(self._handle, end)
            self._append_after(connection, rev)
        except OSError:
            self.close()

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _repeated(self, connection: sqlite3.Connection) -> tuple[int, int]:
        """The last revision up to which the file equals the log byte for byte, and the offset of its end."""
        rev = end = 0
        with self._path.open("rb") as file:
            for (body,) in connection.execute("SELECT CAST(body AS BLOB) FROM log ORDER BY rev"):
                if file.readline() != body + b"\n":
                    break
                rev, end = rev + 1, end + len(body) + 1
        return rev, end

    def _append_after(self, connection: sqlite3.Connection, rev: int) -> None:
        assert self._handle is not None
        cursor = connection.execute("SELECT body FROM log WHERE rev > ? ORDER BY rev", (rev,))
        while found := cursor.fetchmany(_CHUNK_LINES):
            _write(self._handle, [body.encode() for (body,) in found])


class MirrorComparison:
    """Compares a mirror with its log. `rev` is the last revision up to which both have the same bytes."""

    def __init__(self, path: Path) -> None:
        self.rev = 0
        self._path = path
        self._file: BinaryIO | None = None

    def __enter__(self) -> Self:
        try:
            self._file = _opened(self._path)
        except OSError:
            self._file = None  # Without a mirror, `rev` stays 0.
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def take(self, rev: int, body: str) -> None:
        """Compare the record at `rev` with the next line. Call it for each revision from 1 on."""
        if self._file is not None and self.rev == rev - 1 and self._file.readline() == body.encode() + b"\n":
            self.rev = rev


def read_last_line(handle: int) -> tuple[bytes | None, int]:
    """The last line that ends in a newline, without the newline, and its end offset; None and 0 if there is none."""
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


def last_mirrored_rev(path: Path) -> int:
    """The revision in the last whole line of the mirror, 0 if that line is missing."""
    try:
        with _opened(path) as file:
            line, _ = read_last_line(file.fileno())
        return int(canonical_json.decode(line or b"")["rev"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def has_line_of(path: Path, rev: int) -> bool:
    """Whether line number `rev`, counted from 1, holds that revision. Ignores damage elsewhere."""
    try:
        with _opened(path) as file:
            line = next(islice(file, rev - 1, rev), b"")
        return line.endswith(b"\n") and int(canonical_json.decode(line)["rev"]) == rev
    except (OSError, ValueError, KeyError, TypeError):
        return False


def first_and_last_lines(path: Path) -> tuple[tuple[int, bytes], ...]:
    """The first and the last whole line of the mirror with their revisions; empty if one of them is not a record."""
    try:
        with _opened(path) as file:
            first, (last, _) = file.readline().rstrip(b"\n"), read_last_line(file.fileno())
        return tuple((int(canonical_json.decode(line or b"")["rev"]), line or b"") for line in (first, last))
    except (OSError, ValueError, KeyError, TypeError):
        return ()


def _opened(path: Path) -> BinaryIO:
    """Open the file at `path` for reading. Raises OSError, also if it is not a regular file: opening a pipe blocks."""
    if not path.is_file():
        raise FileNotFoundError(errno.ENOENT, "not a regular file", str(path))
    return path.open("rb")


def foreign_log_error(path: Path) -> StoreCorrupt:
    """The error for a log that was replaced: the mirror at `path` is a copy of another log."""
    return StoreCorrupt(
        1,
        f"{path} is a copy of another log: `log.db` was replaced",
        f"restore the folder from a copy, or delete {path} to continue with this log",
    )


def truncated_log_error(path: Path, rev: int) -> StoreCorrupt:
    """The error of a log that ends before `rev`, which the mirror at `path` has."""
    return StoreCorrupt(
        rev,
        f"{path} holds this revision and the log does not: the log lost its end (was `log.db-wal` deleted?)",
        f"restore the folder from a copy, or delete {path} to continue from what is left",
    )
