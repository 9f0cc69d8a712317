"""Removes the files of ended commands once their results are durable, many at a time and in nobody's way.

A command's slot is not held for that: results of commands that end close together share one flush.
"""

from __future__ import annotations

from planloop.reconciler.driving.working import WorkPlane
from planloop.reconciler.effects.processes import Processes
from planloop.reconciler.storing.store import Store

KEY = "task:clearing"


class Clearing:
    """What has ended and still has files."""

    def __init__(self, store: Store, processes: Processes, plane: WorkPlane) -> None:
        self._store = store
        self._processes = processes
        self._plane = plane
        self._ended: list[str] = []
        self._rev = 0

    def note(self, op: str, rev: int, owner: str) -> None:
        """The result of `op` is written at `rev`; its files go when that is durable."""
        self._ended.append(op)
        self._rev = rev
        self._plane.start(KEY, owner, self._clear, pool="free")

    async def _clear(self) -> None:
        while self._ended:
            ended, self._ended = self._ended, []
            await self._store.flush(self._rev)
            self._processes.forget(ended)
