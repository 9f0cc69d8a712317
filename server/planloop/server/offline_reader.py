"""Read a plan that no process runs, directly from its log, without an event loop.

The log is opened read-only, so that this is safe beside an owner that starts meanwhile and in a folder that cannot be
written. Changes with no owner go through `planloop.owner.build`, which takes the owner's lock.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, BinaryIO, Final

from planloop.client import tail_file
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.plan_paths import PlanPaths
from planloop.reconciler.errors import StoreFailed
from planloop.reconciler.store import state_files
from planloop.reconciler.store.memory_view import MemoryView
from planloop.reconciler.store.sqlite import blobs, database, integrity, snapshot
from planloop.schemas.canonical_json import Json, sha256_hex
from planloop.schemas.log.record import Record, RecordDraft
from planloop.schemas.resource import Resource
from planloop.server.read_queries import OwnerInfo, is_log_query
from planloop.server.read_queries import read_answer as answer_from

if TYPE_CHECKING:
    from planloop.reconciler.admission.gate import PlanGate
    from planloop.reconciler.diff.file_patch import FileSave
    from planloop.schemas.resource import Resource

_PAGE: Final = 1000


class OfflinePlanReader:
    """The log of one plan as of when it was opened: an `read_queries.PlanReader`."""

    def __init__(self, place: PlanPaths, connection: sqlite3.Connection) -> None:
        self._place = place
        self._connection = connection
        self._view = database.load_log(connection).view

    @property
    def rev(self) -> int:
        return self._view.rev

    @property
    def epoch(self) -> int:
        return snapshot.read_meta(self._connection, "epoch", 0)

    def get(self, address: str) -> Resource | None:
        return self._view.get(address)

    def list(self, kind: str) -> Sequence[Resource]:
        return self._view.list(kind)

    def get_blob(self, digest: str) -> bytes | None:
        return blobs.read_blob(self._connection, state_files.blobs_folder(self._place.folder), digest)

    def open_output(self, op: str) -> BinaryIO | None:
        return tail_file.open_output(self._place.folder, op)


class ReadOnlyStore:
    """A `planloop.reconciler.store.store.Store` that is only read: what the gate previews against when nobody runs
    the plan.

    `place` without a log gives the empty store of a plan that was never applied.
    """

    def __init__(self, place: PlanPaths) -> None:
        self._place = place
        self._view = MemoryView()
        if state_files.log_file(place.folder).exists():
            with open_log(place) as connection:
                self._view = database.load_log(connection).view

    @property
    def view(self) -> MemoryView:
        return self._view

    @property
    def durable_rev(self) -> int:
        return self._view.rev

    def propose(self, draft: RecordDraft, expect: Mapping[str, int | None] | None = None) -> int:
        """Refused: a preview writes nothing."""
        raise StoreFailed(f"the plan is open for reading only; `{draft.type}` was not written {expect or ''}", "")

    async def flush(self, rev: int) -> None:
        """Everything that is here is durable."""

    async def append(self, draft: RecordDraft, expect: Mapping[str, int | None] | None = None) -> int:
        """Refused, as `propose`."""
        return self.propose(draft, expect)

    async def log(self, after: int, limit: int) -> list[Record]:
        """The records of the log."""
        with open_log(self._place) as connection:
            return [database.parse_record(row[5], row[0]) for row in database.read_rows(connection, after, limit)]

    async def watch(self, after: int) -> AsyncIterator[Record]:
        """What there is; nothing will be added."""
        for record in await self.log(after, -1):
            yield record

    def on_change(self, listener: Callable[[Record, Sequence[str]], None]) -> None:
        """Nothing changes, so nobody is called."""

    def put_blob(self, content: bytes) -> str:
        """Only names it."""
        return sha256_hex(content)

    def get_blob(self, digest: str) -> bytes | None:
        """The content from the log's database or its folder of blobs."""
        if not state_files.log_file(self._place.folder).exists():
            return None
        return database.read_log_blob(self._place.folder, digest)


@contextmanager
def open_log(place: PlanPaths) -> Iterator[sqlite3.Connection]:
    """The log of `place`, verified, for reading. Raises StoreFailed, StoreCorrupt."""
    with (
        closing(database.open_for_reading(place.folder)) as connection,
        database.store_errors(state_files.log_file(place.folder)),
    ):
        integrity.verify_log(connection, place.folder)
        yield connection


def verified_records(place: PlanPaths) -> Iterator[Record]:
    """All records of the log, each held to the one before, in pages: a long log is never in memory as a whole.

    Raises StoreFailed, StoreCorrupt.
    """
    rev, checksum = 0, database.GENESIS
    with open_log(place) as connection:
        while page := list(database.verified_rows(connection, rev, checksum, limit=_PAGE)):
            yield from (record for record, _ in page)
            _, row = page[-1]
            rev, checksum = row[0], row[6]


def offline_answer(place: PlanPaths, path: str, query: Mapping[str, str]) -> Json:
    """What an owner of the plan would answer to GET `path`. Raises CommandError."""
    if not state_files.log_file(place.folder).exists():
        raise CommandError(
            ExitCode.NOT_FOUND, f"no plan `{place.name}` has state in {place.folder.parent}", "plan apply FILE"
        )
    if path == "why":
        return why_without_owner(place, query.get("at", ""))
    with open_log(place) as connection:
        if is_log_query(path, query):
            from planloop.server import history

            return history.history_answer(place.folder, place.name, path, query)
        return answer_from(OfflinePlanReader(place, connection), OwnerInfo(place.name), path, query)


def preview_without_owner(place: PlanPaths, save: FileSave) -> Json:
    """What an owner would answer to POST `diff`, writing nothing; `place` may have no state yet."""
    from planloop.schemas.gc_control import gc_paused
    from planloop.server.payloads import file_preview

    with gc_paused():  # The process ends with the answer.
        return file_preview(gate_without_owner(place), save)


def gate_without_owner(place: PlanPaths) -> PlanGate:
    """A gate that can only preview: over the log as it is, or over nothing for a plan that was never applied."""
    from planloop.reconciler.admission.gate import PlanGate
    from planloop.reconciler.clock import RandomIds, SystemClock
    from planloop.server.opened_plan import plan_language

    return PlanGate(
        ReadOnlyStore(place), place.name, ids=RandomIds(), clock=SystemClock(), language=plan_language(place)
    )


def why_without_owner(place: PlanPaths, at: str) -> Json:
    """What an owner would answer to GET `why`: who set the value at the pointer `at`. Raises CommandError."""
    import anyio

    from planloop.server.payloads import why_answer

    present = gate_without_owner(place).present

    async def ask() -> Json:
        return await why_answer(ReadOnlyStore(place), present, at)

    return anyio.run(ask)
