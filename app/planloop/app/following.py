"""A plan's objects kept up to date from the owner's stream: what `-w`, `wait` and a joined `apply` look at.

The stream carries whole records, so following is the same fold as the store's and sees every revision once, in order.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

from planloop.app.access import Access
from planloop.reconciler.storing.view import MemoryView
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.record import Record, record_from_json


def all_records(access: Access, after: int = 0) -> Iterator[Record]:
    """Every record after a revision, read page by page."""
    while True:
        page = access.get("log", after=after)
        yield from map(record_from_json, page["records"])
        if page["next"] is None:
            return
        after = page["next"]


@frozen
class Step:
    """One revision, and the addresses it changed."""

    record: Record
    changed: tuple[str, ...]


@frozen
class Heard:
    """A stretch of text that an agent's model has just written; the record comes when the reply is whole."""

    agent: str
    turn: int
    reply: str
    text: str


class Following:
    """The view of the plan behind `access`, and the steps that move it on."""

    def __init__(self, access: Access) -> None:
        rev, objects = access.snapshot()
        self._access = access
        self.view = MemoryView(objects, rev)

    def steps(self, *, until: float | None = None) -> Generator[Step]:
        """Each further revision after it was folded; ends when the owner does.

        Raises OwnerGone when there is none, TimeoutError at the monotonic time `until`.
        """
        for raw in self._access.stream("watch", until=until, after=self.view.rev):
            yield self._step(raw)

    def steps_and_words(self, *, until: float | None = None) -> Iterator[Step | Heard]:
        """`steps`, and between them what models write."""
        for raw in self._access.stream("watch", until=until, after=self.view.rev, words=1):
            said = raw.get("said")
            yield self._step(raw) if said is None else Heard(**said)

    def _step(self, raw: JsonObject) -> Step:
        record = record_from_json(raw)
        return Step(record, self.view.fold(record))
