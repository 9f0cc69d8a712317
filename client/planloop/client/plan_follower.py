"""Keep a plan's objects up to date from the owner's stream of records.

The stream carries whole records, so following is the same fold as the store's and sees every revision once, in order.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

from planloop.client.plan_client import PlanClient
from planloop.reconciler.store.memory_view import MemoryView
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.log.record import Record, record_from_json


def read_records(access: PlanClient, after: int = 0) -> Iterator[Record]:
    """Every record after a revision, read page by page."""
    while True:
        page = access.get("log", after=after)
        yield from map(record_from_json, page["records"])
        if page["next"] is None:
            return
        after = page["next"]


@frozen
class FollowedRecord:
    """One revision, and the addresses it changed."""

    record: Record
    changed: tuple[str, ...]


@frozen
class ModelText:
    """A stretch of text that an agent's model has just written; the record comes when the reply is whole."""

    agent: str
    turn: int
    reply: str
    text: str


class PlanFollower:
    """The view of the plan behind `access`, and the steps that move it on."""

    def __init__(self, access: PlanClient) -> None:
        rev, objects = access.snapshot()
        self._access = access
        self.view = MemoryView(objects, rev)

    def steps(self, *, until: float | None = None) -> Generator[FollowedRecord]:
        """Yield each further revision after folding it, until the owner exits.

        Raises OwnerGone if no owner runs, TimeoutError at the monotonic time `until`.
        """
        for raw in self._access.stream("watch", until=until, after=self.view.rev):
            yield self._step(raw)

    def steps_and_words(self, *, until: float | None = None) -> Iterator[FollowedRecord | ModelText]:
        """`steps`, and between them what models write."""
        for raw in self._access.stream("watch", until=until, after=self.view.rev, words=1):
            said = raw.get("said")
            yield self._step(raw) if said is None else ModelText(**said)

    def _step(self, raw: JsonObject) -> FollowedRecord:
        record = record_from_json(raw)
        return FollowedRecord(record, self.view.fold(record))
