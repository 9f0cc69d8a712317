"""The store of a replay: a view in memory that takes only what the director lets through.

A `planloop.reconciler.storing.store.Store`. Durable is what was taken: there is no disk, so a flush returns at once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence

import anyio
import anyio.lowlevel

from planloop.app.replaying.directing import Director
from planloop.reconciler.driving.engine import ACTOR as ENGINE
from planloop.reconciler.errors import Conflict, StoreFailed
from planloop.reconciler.storing.store import View
from planloop.reconciler.storing.view import MemoryView
from planloop.schemas.encoding import digest
from planloop.schemas.record import Draft, Record

Listener = Callable[[Record, Sequence[str]], None]


class Stage:
    """The state of a replay. `life` numbers the owner that writes: an earlier one is dead and writes nothing."""

    def __init__(self, director: Director) -> None:
        self._director = director
        self._view = MemoryView()
        self._log: list[Record] = []
        self._listeners: list[Listener] = []
        self.life = 0

    @property
    def view(self) -> View:
        return self._view

    @property
    def durable_rev(self) -> int:
        return self._view.rev

    @property
    def everything(self) -> MemoryView:
        """The whole view, for the comparison at the end."""
        return self._view

    def begin_life(self) -> None:
        """Another owner takes over: nobody hears of changes who did before."""
        self.life += 1
        self._listeners.clear()

    def propose(self, draft: Draft, expect: Mapping[str, int | None] | None = None) -> int:
        """See `Store.propose`; a write whose time has not come has lost a race."""
        if draft.actor == ENGINE and draft.type != "object.deleted":
            return self._view.rev  # What the engine says of retries is about this run, not about the plan.
        if not self._director.admits(draft):
            raise Conflict(draft.subject, None, None)
        for address, expected in (expect or {}).items():
            resource = self._view.get(address)
            actual = None if resource is None else resource.rev
            if actual != expected:
                raise Conflict(address, expected, actual)
        self._fold(self._director.compared(draft))
        self._director.taken(draft)
        return self._view.rev

    def play(self, draft: Draft) -> None:
        """Takes what comes from outside as it stands in the story, in the replay's ids."""
        self._fold(draft)
        self._director.advance()

    async def flush(self, rev: int) -> None:
        del rev
        await anyio.lowlevel.checkpoint()

    async def append(self, draft: Draft, expect: Mapping[str, int | None] | None = None) -> int:
        rev = self.propose(draft, expect)
        await self.flush(rev)
        return rev

    async def log(self, after: int, limit: int) -> list[Record]:
        await anyio.lowlevel.checkpoint()
        return self._log[after : after + limit] if limit >= 0 else self._log[after:]

    async def watch(self, after: int) -> AsyncIterator[Record]:
        while not self._director.is_over:
            for record in self._log[after:]:
                after = record.rev
                yield record
            await self._director.moved()

    def on_change(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def put_blob(self, content: bytes) -> str:
        name = digest(content)
        self._director.made[name] = content
        return name

    def get_blob(self, digest: str) -> bytes | None:
        return self._director.blob(digest)

    def _fold(self, draft: Draft) -> None:
        wanted = self._director.expected
        assert wanted is not None, "something comes next"
        record = Record(self._view.rev + 1, wanted.at, self.life, draft)
        changed = self._view.fold(record)
        self._log.append(record)
        for listener in list(self._listeners):
            listener(record, changed)


class LifeOf:
    """The stage as one owner sees it: once it is dead, as a crashed process is, nothing that it does counts."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._life = stage.life

    def is_alive(self) -> bool:
        """Whether it still is the owner."""
        return self._life == self._stage.life

    @property
    def view(self) -> View:
        return self._stage.view

    @property
    def durable_rev(self) -> int:
        return self._stage.durable_rev

    def propose(self, draft: Draft, expect: Mapping[str, int | None] | None = None) -> int:
        if not self.is_alive():
            raise StoreFailed("this owner is dead", "")
        return self._stage.propose(draft, expect)

    async def flush(self, rev: int) -> None:
        await self._stage.flush(rev)

    async def append(self, draft: Draft, expect: Mapping[str, int | None] | None = None) -> int:
        rev = self.propose(draft, expect)
        await self.flush(rev)
        return rev

    async def log(self, after: int, limit: int) -> list[Record]:
        return await self._stage.log(after, limit)

    def watch(self, after: int) -> AsyncIterator[Record]:
        return self._stage.watch(after)

    def on_change(self, listener: Listener) -> None:
        self._stage.on_change(listener)

    def put_blob(self, content: bytes) -> str:
        return self._stage.put_blob(content)

    def get_blob(self, digest: str) -> bytes | None:
        return self._stage.get_blob(digest)
