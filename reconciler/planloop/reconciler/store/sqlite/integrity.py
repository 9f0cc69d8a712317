"""Verify a log: its checksum chain, its columns, its mirror, and that folding it again gives the same objects."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path

import msgspec

from planloop.reconciler.errors import StoreCorrupt
from planloop.reconciler.store import state_files
from planloop.reconciler.store.memory_view import MemoryView
from planloop.reconciler.store.sqlite import database
from planloop.reconciler.store.sqlite import mirror as sqlite_mirror
from planloop.reconciler.store.sqlite.database import GENESIS, next_checksum, read_transaction, store_errors
from planloop.schemas import canonical_json
from planloop.schemas.frozen import frozen
from planloop.schemas.resource import Resource

# Verify a log: its checksums form a chain, its columns match its records, and its last record is present.
#
# `check` runs whenever a log is opened, by an owner or by a reader. It takes 3 to 5 µs for each record
# (`planloop.benchmarks.speed.log_open`), and parses of each record only what is in a column.


class _Columns(msgspec.Struct):
    """The members of a record that are columns as well."""

    rev: int
    at: float
    epoch: int
    type: str
    subject: str


def verify_log(connection: sqlite3.Connection, folder: Path) -> int:
    """Verifies the log in `folder` from the first record to the last; returns the last revision.

    Raises: StoreCorrupt for the first record that does not verify, when `events.jsonl` has records after the last, and
        when it is a copy of another log.
    """
    mirror = state_files.mirror_file(folder)
    ahead = sqlite_mirror.last_mirrored_rev(mirror)  # Read first: an owner may be writing, and the mirror never leads.
    copied = sqlite_mirror.first_and_last_lines(mirror)
    with store_errors(state_files.log_file(folder)), read_transaction(connection):
        rev = _chain(connection)
        if copied and not any(_has(connection, *line) for line in copied):
            # A damaged mirror differs in one place; it is written again. Here neither end is of this log.
            raise sqlite_mirror.foreign_log_error(mirror)
    if ahead > rev and sqlite_mirror.has_line_of(mirror, rev + 1):
        raise sqlite_mirror.truncated_log_error(mirror, rev + 1)
    return rev


def _has(connection: sqlite3.Connection, rev: int, line: bytes) -> bool:
    found = connection.execute("SELECT CAST(body AS BLOB) FROM log WHERE rev = ?", (rev,)).fetchone()
    return found is None or found[0] == line


def _chain(connection: sqlite3.Connection) -> int:
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


# The log, folded again: is what we hold what the log says?
#
# No clock, no network, no process: a fold of what is stored (law 1), which trusts nothing that can be rebuilt. What the
# plan looked like at an earlier revision is `history.py`.


@frozen
class ReplayResult:
    """What a replay found. `different` are addresses at which the log's fold and what was compared disagree.

    `mirror_rev` is the last revision that `events.jsonl` repeats byte for byte from the start.
    """

    rev: int
    object_count: int
    different: tuple[str, ...]
    mirror_rev: int


def replay_log(folder: Path, live: Iterable[Resource] | None = None) -> ReplayResult:
    """Folds the whole log in `folder`, verifying each checksum, and compares it byte for byte.

    It is compared with `live` if given, else with what opening the store would give (snapshot and tail).
    Raises StoreCorrupt naming the first revision that does not verify; StoreFailed when there is no log.
    """
    with database.open_read_transaction(folder) as connection:
        verify_log(connection, folder)
        opened = database.load_log(connection).view.everything() if live is None else live
        view = MemoryView()
        with sqlite_mirror.MirrorComparison(state_files.mirror_file(folder)) as mirror:
            for record, row in database.verified_rows(connection):
                view.fold(record)
                mirror.take(row[0], row[5])
    folded = view.everything()
    return ReplayResult(view.rev, len(folded), different_addresses(folded, opened), mirror.rev)


def different_addresses(left: Iterable[Resource], right: Iterable[Resource]) -> tuple[str, ...]:
    """The addresses whose objects are not the same bytes on both sides, sorted."""
    ours, theirs = _printed(left), _printed(right)
    return tuple(sorted(at for at in ours.keys() | theirs.keys() if ours.get(at) != theirs.get(at)))


def _printed(resources: Iterable[Resource]) -> dict[str, bytes]:
    return {resource.address: canonical_json.canonical_bytes(resource.to_json()) for resource in resources}
