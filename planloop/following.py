"""A plan's objects kept up to date from the owner's stream: what `-w`, `wait` and a joined `apply` look at.

The stream carries whole records, so following is the same fold as the store's and sees every revision once, in order.
"""

from __future__ import annotations

from collections.abc import Iterator

from planloop.access import Access
from reconciler.storing.view import MemoryView
from schemas.frozen import frozen
from schemas.record import Record, record_from_json
from schemas.resource import resource_from_json


@frozen
class Step:
    """One revision, and the addresses it changed."""

    record: Record
    changed: tuple[str, ...]


class Following:
    """The view of the plan behind `access`, and the steps that move it on."""

    def __init__(self, access: Access) -> None:
        answer = access.get("objects")
        self._access = access
        self.view = MemoryView((resource_from_json(raw) for raw in answer["objects"]), answer["rev"])

    def steps(self, *, until: float | None = None) -> Iterator[Step]:
        """Each further revision after it was folded; ends when the owner does.

        Raises OwnerGone when there is none, TimeoutError at the monotonic time `until`.
        """
        for raw in self._access.stream("watch", until=until, after=self.view.rev):
            record = record_from_json(raw)
            yield Step(record, self.view.fold(record))
