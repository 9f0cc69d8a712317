"""Verify a log: its checksums form a chain, its columns match its records, and its last record is present.

`check` runs whenever a log is opened, by an owner or by a reader. It takes 3 to 5 µs for each record
(`planloop.benchmarks.speed.opening`), and parses of each record only what is in a column.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

import msgspec

from planloop.reconciler.errors import StoreCorrupt
from planloop.reconciler.storing import layout, mirroring
from planloop.reconciler.storing.sqlite_log import GENESIS, chained, failures_named, one_moment


class _Columns(msgspec.Struct):
    """The members of a record that are columns as well."""

    rev: int
    at: float
    epoch: int
    type: str
    subject: str


def check(connection: sqlite3.Connection, folder: Path) -> int:
    """Verifies the log in `folder` from the first record to the last; returns the last revision.

    Raises: StoreCorrupt for the first record that does not verify, when `events.jsonl` has records after the last, and
        when it is a copy of another log.
    """
    mirror = layout.mirror_file(folder)
    ahead = mirroring.last_rev(mirror)  # Read first: an owner may be writing, and the mirror never leads.
    copied = mirroring.ends(mirror)
    with failures_named(layout.log_file(folder)), one_moment(connection):
        rev = _chain(connection)
        if copied and not any(_has(connection, *line) for line in copied):
            # A damaged mirror differs in one place; it is written again. Here neither end is of this log.
            raise mirroring.of_another(mirror)
    if ahead > rev and mirroring.has_line(mirror, rev + 1):
        raise mirroring.lost_end(mirror, rev + 1)
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
        if body is None or chained(checksum, body) != stored:
            raise StoreCorrupt(rev, "its checksum does not match: the row, or one before it, was changed or damaged")
        try:
            said = decode(body)
        except msgspec.MsgspecError as error:
            raise StoreCorrupt(rev, f"cannot be read as a record: {error}") from error
        if (said.rev, said.at, said.epoch, said.type, said.subject) != (rev, at, epoch, type_, subject):
            raise StoreCorrupt(rev, "its columns and its body disagree")
        last, checksum = rev, stored
    return last
