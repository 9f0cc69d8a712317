"""Counters of every task's children and needs, kept up to date with each change.

A fold of the view kept beside it, because counting 1,000 children at each of their 2,000 changes would be quadratic.
It holds nothing that could not be counted again; a property test compares it with plain counting.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from planloop.controllers.task.status import TaskStanding, task_standing
from planloop.reconciler.store.store import Store, View
from planloop.schemas.frozen import frozen
from planloop.schemas.log.record import Record
from planloop.schemas.resource import Resource


class TaskCounts(NamedTuple):
    """How many tasks stand how. `open` may still run."""

    open: int = 0
    done: int = 0
    failed: int = 0
    cancelled: int = 0
    stuck: int = 0

    @property
    def bad(self) -> int:
        """Those that will not be done unless somebody changes something."""
        return self.failed + self.stuck


_INDEX = {stand: index for index, stand in enumerate(TaskStanding)}
assert [stand.value for stand in _INDEX] == list(TaskCounts._fields)


@frozen
class _Seen:
    standing: TaskStanding
    owner: str | None
    needs: tuple[str, ...]
    spec: object  # The spec's identity: a new one may have other needs.


NONE = TaskCounts()


class TaskCounters:
    """Children by owner and needs by task, for every task of one store."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}
        self._children: dict[str, list[int]] = {}
        self._needs: dict[str, list[int]] = {}
        self._needed_by: dict[str, set[str]] = {}

    def follow(self, store: Store) -> None:
        """Counts what is there now and whatever changes from now on."""
        self.count(store.view)

        def on_change(_: Record, addresses: Sequence[str]) -> None:
            self.update(store.view, addresses)

        store.on_change(on_change)

    def count(self, view: View) -> None:
        """Takes in every task of `view`."""
        self.update(view, [task.address for task in view.list("task")])

    def update(self, view: View, addresses: Iterable[str]) -> None:
        """Takes in the tasks among `addresses`, which may have changed or gone."""
        for address in addresses:
            if address.startswith("task/"):
                self._take(address, view.get(address))

    def children(self, address: str) -> TaskCounts:
        """The tasks that `address` owns, those being removed counted as open."""
        return TaskCounts(*self._children.get(address, ()))

    def needs(self, address: str) -> TaskCounts:
        """The needs of `address`; one that does not exist is open."""
        return TaskCounts(*self._needs.get(address, ()))

    def _take(self, address: str, task: Resource | None) -> None:
        old = self._seen.get(address)
        if task is None:
            if old is not None:
                self._forget(address, old)
            return
        stand = task_standing(task)
        if old is not None and old.spec is task.spec and old.owner == task.owner:
            if stand is not old.standing:
                self._move(address, old.owner, old.standing, stand)
                self._seen[address] = _Seen(stand, old.owner, old.needs, old.spec)
            return
        if old is not None:
            self._forget(address, old)
        self._learn(address, task, stand)

    def _learn(self, address: str, task: Resource, stand: TaskStanding) -> None:
        needs = tuple(task.spec["needs"])
        self._seen[address] = _Seen(stand, task.owner, needs, task.spec)
        if task.owner is not None:
            self._children.setdefault(task.owner, [0] * len(TaskStanding))[_INDEX[stand]] += 1
        # Dependents counted this one as open while it was absent.
        self._shift_dependents(address, TaskStanding.OPEN, stand)
        if needs:
            counts = self._needs[address] = [0] * len(TaskStanding)
            for need in needs:
                self._needed_by.setdefault(need, set()).add(address)
                counts[_INDEX[self._standing_of(need)]] += 1

    def _forget(self, address: str, old: _Seen) -> None:
        del self._seen[address]
        if old.owner is not None:
            counts = self._children[old.owner]
            counts[_INDEX[old.standing]] -= 1
            if not any(counts):
                del self._children[old.owner]
        self._shift_dependents(address, old.standing, TaskStanding.OPEN)
        for need in old.needs:
            self._needed_by[need].discard(address)
            if not self._needed_by[need]:
                del self._needed_by[need]
        self._needs.pop(address, None)

    def _move(self, address: str, owner: str | None, before: TaskStanding, after: TaskStanding) -> None:
        if owner is not None:
            counts = self._children[owner]
            counts[_INDEX[before]] -= 1
            counts[_INDEX[after]] += 1
        self._shift_dependents(address, before, after)

    def _shift_dependents(self, address: str, before: TaskStanding, after: TaskStanding) -> None:
        if before is after:
            return
        for dependent in self._needed_by.get(address, ()):
            counts = self._needs[dependent]
            counts[_INDEX[before]] -= 1
            counts[_INDEX[after]] += 1

    def _standing_of(self, address: str) -> TaskStanding:
        seen = self._seen.get(address)
        return TaskStanding.OPEN if seen is None else seen.standing
