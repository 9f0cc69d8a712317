"""The log, folded again: is what we hold what the log says, and what did an object look like at an earlier revision?

No clock, no network, no process: a fold of what is stored (law 1). `replay` reads the files and trusts nothing that can
be rebuilt; the others ask any store.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reconciler import layout, mirroring, sqlite_log
from reconciler.store import Store, View
from reconciler.view import MemoryView
from schemas import encoding
from schemas.record import Record
from schemas.resource import Resource

_PAGE: Final = 1_000  # Records in memory at once.


@dataclass(frozen=True, slots=True)
class Replay:
    """What a replay found. `different` are addresses at which the log's fold and what was compared disagree.

    `mirror_rev` is the last revision that `events.jsonl` repeats byte for byte from the start.
    """

    rev: int
    object_count: int
    different: tuple[str, ...]
    mirror_rev: int


def replay(folder: Path, live: Iterable[Resource] | None = None) -> Replay:
    """Folds the whole log in `folder`, verifying each checksum, and compares it byte for byte.

    It is compared with `live` if given, else with what opening the store would give (snapshot and tail).
    Raises StoreCorrupt naming the first revision that does not verify; StoreFailed when there is no log.
    """
    connection = sqlite_log.open_for_reading(folder)
    try:
        with sqlite_log.failures_named(layout.log_file(folder)), sqlite_log.one_moment(connection):
            opened = sqlite_log.load(connection).view.everything() if live is None else live
            view, checksum = MemoryView(), sqlite_log.GENESIS
            with mirroring.Comparison(layout.mirror_file(folder)) as mirror:
                for row in sqlite_log.rows(connection, 0):
                    view.fold(sqlite_log.verified(row, view.rev, checksum))
                    checksum = row[6]
                    mirror.take(row[0], row[5])
    finally:
        connection.close()
    folded = view.everything()
    return Replay(view.rev, len(folded), different(folded, opened), mirror.rev)


def different(left: Iterable[Resource], right: Iterable[Resource]) -> tuple[str, ...]:
    """The addresses whose objects are not the same bytes on both sides, sorted."""
    ours, theirs = _printed(left), _printed(right)
    return tuple(sorted(at for at in ours.keys() | theirs.keys() if ours.get(at) != theirs.get(at)))


async def view_at(store: Store, rev: int) -> View:
    """The objects as they were at `rev`, folded from the first record on."""
    view = MemoryView()
    async for record in _records(store, rev):
        view.fold(record)
    return view


async def object_at(store: Store, address: str, rev: int) -> Resource | None:
    """One object as it was at `rev`, None when it was not there: the plan's document for `plan rollback`."""
    return (await view_at(store, rev)).get(address)


async def records_about(store: Store, subject: str, after: int = 0) -> list[Record]:
    """The durable records over `after` whose subject is `subject`, oldest first."""
    found = [record async for record in _records(store, store.durable_rev, after)]
    return [record for record in found if record.draft.subject == subject]


async def _records(store: Store, up_to: int, after: int = 0) -> AsyncIterator[Record]:
    while page := await store.log(after, _PAGE):
        for record in page:
            if record.rev > up_to:
                return
            yield record
        after = page[-1].rev


def _printed(resources: Iterable[Resource]) -> dict[str, bytes]:
    return {resource.address: encoding.canonical(resource.to_json()) for resource in resources}
