"""The log, folded again: is what we hold what the log says?

No clock, no network, no process: a fold of what is stored (law 1), which trusts nothing that can be rebuilt. What the
plan looked like at an earlier revision is `history.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from planloop.reconciler.storing import integrity, layout, mirroring, sqlite_log
from planloop.reconciler.storing.view import MemoryView
from planloop.schemas import encoding
from planloop.schemas.frozen import frozen
from planloop.schemas.resource import Resource


@frozen
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
    with sqlite_log.reading(folder) as connection:
        integrity.check(connection, folder)
        opened = sqlite_log.load(connection).view.everything() if live is None else live
        view = MemoryView()
        with mirroring.Comparison(layout.mirror_file(folder)) as mirror:
            for record, row in sqlite_log.verified_rows(connection):
                view.fold(record)
                mirror.take(row[0], row[5])
    folded = view.everything()
    return Replay(view.rev, len(folded), different(folded, opened), mirror.rev)


def different(left: Iterable[Resource], right: Iterable[Resource]) -> tuple[str, ...]:
    """The addresses whose objects are not the same bytes on both sides, sorted."""
    ours, theirs = _printed(left), _printed(right)
    return tuple(sorted(at for at in ours.keys() | theirs.keys() if ours.get(at) != theirs.get(at)))


def _printed(resources: Iterable[Resource]) -> dict[str, bytes]:
    return {resource.address: encoding.canonical(resource.to_json()) for resource in resources}
