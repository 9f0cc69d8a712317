"""The port to read a plan's log while another process may write it, and the values that it returns.

A log only grows and its records never change. Reads that are bounded by one revision therefore agree with each other
without a transaction around them. Each record has a checksum that is chained to the one before, so a reader can tell a
log that grew from one that was replaced, cut or damaged.

An implementation opens its database by the plan's state folder (`planloop.reconciler.store.backend`); nothing in the
port names a file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from planloop.reconciler.errors import StoreCorrupt
from planloop.reconciler.store.memory_view import MemoryView
from planloop.schemas import canonical_json
from planloop.schemas.frozen import frozen
from planloop.schemas.log import record as records
from planloop.schemas.log.record import Record

GENESIS: Final = b"\0" * 32  # The checksum that the first record is chained to.
LOG_ID_CHARS: Final = 16  # Of the first record's checksum: enough to tell logs apart.
PAGE: Final = 1_000  # Records that `verified_entries` reads at a time.


@frozen
class LogPosition:
    """How far a log was read: the last revision and its checksum. The default is the start of any log."""

    rev: int = 0
    checksum: bytes = GENESIS


@frozen
class LogEntry:
    """A record, its JSON line as stored, and the position after it."""

    record: Record
    line: str
    position: LogPosition


@frozen
class FoldedLog:
    """A whole log, folded. `log_id` identifies the log, and is empty while it has no record."""

    view: MemoryView
    position: LogPosition
    epoch: int
    log_id: str


@frozen
class RecordQuery:
    """Selects records over `after` and below `before` (None: to the end), at most `limit` (None: all).

    `types` are types of records, all of them if empty. `containing` are texts that the record's JSON line contains:
    a fast first selection, after which the caller looks at the record itself. Oldest first, or `newest_first`.
    """

    after: int = 0
    before: int | None = None
    types: frozenset[str] = frozenset()
    containing: tuple[str, ...] = ()
    newest_first: bool = False
    limit: int | None = None


@frozen
class ReplayResult:
    """What a replay found. `different` are the addresses whose fold differs from what opening the store gives.

    `mirror_rev` is the last revision that `events.jsonl` repeats byte for byte from the start.
    """

    rev: int
    object_count: int
    different: tuple[str, ...]
    mirror_rev: int


class LogReader(Protocol):
    """Reads one plan's log. Safe for threads; every method blocks, so call it in a thread from an event loop.

    Every method raises `errors.StoreFailed` if there is no log or it cannot be read, and `errors.StoreCorrupt` if it is
    damaged.
    """

    def last_rev(self) -> int:
        """The newest durable revision, or 0."""
        ...

    def records(self, query: RecordQuery) -> Iterator[LogEntry]:
        """The records that `query` selects, read while the caller iterates. Checksums are not verified."""
        ...

    def lines(self, after: int, limit: int) -> Sequence[tuple[int, str]]:
        """Revision and JSON line of at most `limit` records over `after`, oldest first, neither parsed nor verified."""
        ...

    def follow(self, position: LogPosition, limit: int) -> list[LogEntry]:
        """At most `limit` verified records after `position`. StoreCorrupt: the log does not continue from there."""
        ...

    def load(self) -> FoldedLog:
        """The whole log, folded, from its snapshot and the verified records after it."""
        ...

    def view_at(self, rev: int) -> MemoryView:
        """The objects as of `rev`. Keeps a few views, to start from the nearest; do not change what it returns."""
        ...

    def actors(self, types: frozenset[str]) -> Sequence[str]:
        """Every author of a record of one of `types`."""
        ...

    def get_blob(self, digest: str) -> bytes | None:
        """The content of that digest, None if the log does not have it."""
        ...

    def verify(self) -> int:
        """Verify every record of the log; returns the last revision."""
        ...

    def replay(self) -> ReplayResult:
        """Verify the log, fold it from its first record, and compare the result with what opening the store gives."""
        ...

    def close(self) -> None:
        """Close the connections. A later read opens one for itself and closes it."""
        ...


def next_checksum(previous: bytes, line: bytes) -> bytes:
    """The checksum of a record: SHA-256 over the checksum before it and the record's JSON line."""
    return hashlib.sha256(previous + line).digest()


def log_id(first: bytes) -> str:
    """What identifies a log: the start of its first record's checksum, which no other log has."""
    return first.hex()[:LOG_ID_CHARS]


def parse_record(line: str, rev: int) -> Record:
    """The record in a JSON line. Raises StoreCorrupt naming `rev`."""
    try:
        return records.record_from_json(canonical_json.decode(line))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreCorrupt(rev, f"cannot be read as a record: {error!r}") from error


def verified_entries(log: LogReader, up_to: int | None = None) -> Iterator[LogEntry]:
    """All records, or those `up_to` a revision, each verified; read in pages, so a long log is never in memory whole.

    Raises StoreFailed, StoreCorrupt.
    """
    position = LogPosition()
    while page := log.follow(position, PAGE if up_to is None else min(PAGE, up_to - position.rev)):
        yield from page
        position = page[-1].position
