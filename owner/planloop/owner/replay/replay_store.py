"""The store of a replay: an in-memory view that accepts only what the scheduler lets through.

It implements `planloop.reconciler.store.store.Store`. Accepted records count as durable: a flush returns immediately.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence

import anyio
import anyio.lowlevel

from planloop.owner.replay.scheduler import ReplayScheduler
from planloop.reconciler.engine.engine import ACTOR as ENGINE
from planloop.reconciler.errors import StoreFailed, WriteConflict
from planloop.reconciler.store.memory_view import MemoryView
from planloop.reconciler.store.store import View
from planloop.schemas.canonical_json import sha256_hex
from planloop.schemas.log.record import Record, RecordDraft

ChangeListener = Callable[[Record, Sequence[str]], None]


class ReplayStore:
    """The state of a replay. `life` is the number of the current owner; writes of earlier owners are refused."""

    def __init__(self, director: ReplayScheduler) -> None:
        self._director = director
        self._view = MemoryView()
        self._log: list[Record] = []
        self._listeners: list[ChangeListener] = []
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
        """Start another owner, and drop the listeners of the previous one."""
        self.life += 1
        self._listeners.clear()

    def propose(self, draft: RecordDraft, expect: Mapping[str, int | None] | None = None) -> int:
        """See `Store.propose`. Raises WriteConflict for a write that is too early, as if it had lost a race."""
        if draft.actor == ENGINE and draft.type != "object.deleted":
            return self._view.rev  # The engine's records about retries belong to this run, not to the plan.
        if not self._director.admits(draft):
            raise WriteConflict(draft.subject, None, None)
        for address, expected in (expect or {}).items():
            resource = self._view.get(address)
            actual = None if resource is None else resource.rev
            if actual != expected:
                raise WriteConflict(address, expected, actual)
        self._fold(self._director.compared(draft))
        self._director.taken(draft)
        return self._view.rev

    def play(self, draft: RecordDraft) -> None:
        """Fold an external input of the log, with the ids of the replay."""
        self._fold(draft)
        self._director.advance()

    async def flush(self, rev: int) -> None:
        del rev
        await anyio.lowlevel.checkpoint()

    async def append(self, draft: RecordDraft, expect: Mapping[str, int | None] | None = None) -> int:
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

    def on_change(self, listener: ChangeListener) -> None:
        self._listeners.append(listener)

    def put_blob(self, content: bytes) -> str:
        name = sha256_hex(content)
        self._director.made[name] = content
        return name

    def get_blob(self, digest: str) -> bytes | None:
        return self._director.blob(digest)

    def _fold(self, draft: RecordDraft) -> None:
        wanted = self._director.expected
        assert wanted is not None, "something comes next"
        record = Record(self._view.rev + 1, wanted.at, self.life, draft)
        changed = self._view.fold(record)
        self._log.append(record)
        for listener in list(self._listeners):
            listener(record, changed)


class OwnerStoreView:
    """The store for one owner. After the owner has ended, its writes are refused, like those of a crashed process."""

    def __init__(self, stage: ReplayStore) -> None:
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

    def propose(self, draft: RecordDraft, expect: Mapping[str, int | None] | None = None) -> int:
        if not self.is_alive():
            raise StoreFailed("this owner has ended", "")
        return self._stage.propose(draft, expect)

    async def flush(self, rev: int) -> None:
        await self._stage.flush(rev)

    async def append(self, draft: RecordDraft, expect: Mapping[str, int | None] | None = None) -> int:
        rev = self.propose(draft, expect)
        await self.flush(rev)
        return rev

    async def log(self, after: int, limit: int) -> list[Record]:
        return await self._stage.log(after, limit)

    def watch(self, after: int) -> AsyncIterator[Record]:
        return self._stage.watch(after)

    def on_change(self, listener: ChangeListener) -> None:
        self._stage.on_change(listener)

    def put_blob(self, content: bytes) -> str:
        return self._stage.put_blob(content)

    def get_blob(self, digest: str) -> bytes | None:
        return self._stage.get_blob(digest)
