"""Reads of a plan that nobody runs, straight from its log and without an event loop.

The log is opened read-only, so that this is safe beside an owner that starts meanwhile and in a folder that cannot be
written. Changes with no owner go through `wiring.py`, which takes the owner's lock.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import BinaryIO, Final

from planloop.app import outputs
from planloop.app.exits import Exit, Halt
from planloop.app.places import Place
from planloop.reconciler.errors import StoreFailed
from planloop.reconciler.storing import blobs, integrity, layout, metadata, sqlite_log
from planloop.reconciler.storing.view import MemoryView
from planloop.schemas.encoding import Json, digest
from planloop.schemas.record import Draft, Record
from planloop.schemas.resource import Resource
from planloop.server.answering import Host, is_of_log
from planloop.server.answering import answer as answer_from

_PAGE: Final = 1000


class ColdArchive:
    """The log of one plan as of when it was opened: an `answering.Archive`."""

    def __init__(self, place: Place, connection: sqlite3.Connection) -> None:
        self._place = place
        self._connection = connection
        self._view = sqlite_log.load(connection).view

    @property
    def rev(self) -> int:
        return self._view.rev

    @property
    def epoch(self) -> int:
        return metadata.meta(self._connection, "epoch", 0)

    def get(self, address: str) -> Resource | None:
        return self._view.get(address)

    def list(self, kind: str) -> Sequence[Resource]:
        return self._view.list(kind)

    def get_blob(self, digest: str) -> bytes | None:
        return blobs.read(self._connection, layout.blobs_folder(self._place.folder), digest)

    def open_output(self, op: str) -> BinaryIO | None:
        return outputs.opened(self._place.folder, op)


class ColdStore:
    """A `planloop.reconciler.storing.store.Store` that is only read: what the gate previews against when nobody runs
    the plan.

    `place` without a log gives the empty store of a plan that was never applied.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self._view = MemoryView()
        if layout.log_file(place.folder).exists():
            with opened(place) as connection:
                self._view = sqlite_log.load(connection).view

    @property
    def view(self) -> MemoryView:
        return self._view

    @property
    def durable_rev(self) -> int:
        return self._view.rev

    def propose(self, draft: Draft, expect: Mapping[str, int | None] | None = None) -> int:
        """Refused: a preview writes nothing."""
        raise StoreFailed(f"the plan is open for reading only; `{draft.type}` was not written {expect or ''}", "")

    async def flush(self, rev: int) -> None:
        """Everything that is here is durable."""

    async def append(self, draft: Draft, expect: Mapping[str, int | None] | None = None) -> int:
        """Refused, as `propose`."""
        return self.propose(draft, expect)

    async def log(self, after: int, limit: int) -> list[Record]:
        """The records of the log."""
        with opened(self._place) as connection:
            return [sqlite_log.to_record(row[5], row[0]) for row in sqlite_log.rows(connection, after, limit)]

    async def watch(self, after: int) -> AsyncIterator[Record]:
        """What there is; nothing will be added."""
        for record in await self.log(after, -1):
            yield record

    def on_change(self, listener: Callable[[Record, Sequence[str]], None]) -> None:
        """Nothing changes, so nobody is called."""

    def put_blob(self, content: bytes) -> str:
        """Only names it."""
        return digest(content)

    def get_blob(self, digest: str) -> bytes | None:
        """The content from the log's database or its folder of blobs."""
        if not layout.log_file(self._place.folder).exists():
            return None
        return sqlite_log.blob(self._place.folder, digest)


@contextmanager
def opened(place: Place) -> Iterator[sqlite3.Connection]:
    """The log of `place`, verified, for reading. Raises StoreFailed, StoreCorrupt."""
    with (
        closing(sqlite_log.open_for_reading(place.folder)) as connection,
        sqlite_log.failures_named(layout.log_file(place.folder)),
    ):
        integrity.check(connection, place.folder)
        yield connection


def records(place: Place) -> Iterator[Record]:
    """All records of the log, each held to the one before, in pages: a long log is never in memory as a whole.

    Raises StoreFailed, StoreCorrupt.
    """
    rev, checksum = 0, sqlite_log.GENESIS
    with opened(place) as connection:
        while page := list(sqlite_log.verified_rows(connection, rev, checksum, limit=_PAGE)):
            yield from (record for record, _ in page)
            _, row = page[-1]
            rev, checksum = row[0], row[6]


def answer(place: Place, path: str, query: Mapping[str, str]) -> Json:
    """What an owner of the plan would answer to GET `path`. Raises Halt."""
    if not layout.log_file(place.folder).exists():
        raise Halt(Exit.NOT_FOUND, f"no plan `{place.name}` has state in {place.folder.parent}", "plan apply FILE")
    if path == "why":
        from planloop.app import wiring  # The gate and an event loop, for a question that few ask without an owner.

        return wiring.why_without_owner(place, query.get("at", ""))
    with opened(place) as connection:
        if is_of_log(path, query):
            from planloop.server import past

            return past.answer(place.folder, place.name, path, query)
        return answer_from(ColdArchive(place, connection), Host(place.name), path, query)
