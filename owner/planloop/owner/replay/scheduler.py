"""The replay scheduler: let each step happen only at its place in the log.

Controllers run as usual, on a store that accepts only the next record of the log. Every other write fails as if it had
lost a race, so its controller reconciles again. The view is therefore always that of the original at this place, and
the controller that wrote the record writes it again. If no controller writes it, the replay diverges there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import field, replace
from typing import Final

import anyio

from planloop.owner.replay.equivalence import Equivalence, ValueDifference
from planloop.owner.replay.history import ReplayHistory
from planloop.schemas import limits
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen, mutable
from planloop.schemas.log.record import Record, RecordDraft, SubRecord, change_from_json, change_to_json
from planloop.schemas.objects.call import CallSpec

TELLING_TYPES: Final = frozenset(
    {"turn.started", "model.requested", "model.replied", "turn.ended", "call.started", "plan.patched", "plan.refused"}
)
"""Records that decide what agents do. If one of them is not written again, the replay has diverged."""


@frozen
class ReplayNote:
    """The record at revision `rev` was written with other content."""

    rev: int
    type: str
    subject: str
    differences: tuple[ValueDifference, ...]


class ReplayDiverged(Exception):
    """The replay differs from the log. `record` is the place; `details` are lines for display."""

    def __init__(self, record: Record, why: str, details: tuple[str, ...] = ()) -> None:
        super().__init__(why)
        self.record = record
        self.details = details


class Unplayable(Exception):
    """The log does not have what a replay needs."""


@mutable
class ReplayScheduler:
    """The progress of a replay. `refused` are the writes since the last accepted one that were too early.

    `told` counts the steps of the next record that have been written already, because one append of the original may be
    several now, or the reverse. `prompts` counts compared prompts; `parted_at` is the place of the first that differs.
    `made` has the replay's blobs. `taken_over` are records that were copied because they were not written again.
    """

    story: ReplayHistory
    likeness: Equivalence
    cursor: int = 0
    notes: list[ReplayNote] = field(default_factory=list)
    refused: dict[tuple[str, str], RecordDraft] = field(default_factory=dict)
    told: int = 0
    is_over: bool = False
    parted_at: int | None = None
    prompts: int = 0
    fault: ReplayDiverged | Unplayable | None = None
    made: dict[str, bytes] = field(default_factory=dict)
    taken_over: list[int] = field(default_factory=list)
    _moved: anyio.Event = field(default_factory=anyio.Event)

    @property
    def expected(self) -> Record | None:
        """The next record of the log; None at its end."""
        records = self.story.records
        return records[self.cursor] if self.cursor < len(records) else None

    def blob(self, name: str) -> bytes | None:
        """Return a blob of the replay or of the original."""
        found = self.made.get(name)
        return found if found is not None else self.story.blob(name)

    def arrive(self) -> None:
        """Give the current task, and the jobs that it starts, the time of the next record."""
        _begun.set(None)
        _acting.set(self.now())

    def begun_at(self, job: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        """Return `job` with the time of its caller, until it waits for a record of its own."""
        acting = _acting.get()
        at = self.now() if acting is None else acting

        async def run() -> None:
            _begun.set(at)
            await job()

        return run

    def now(self) -> float:
        """Return the time of the next record, in seconds since 1970.

        For a job that has not waited for a record yet, return the time at which it was started.
        """
        begun = _begun.get()
        if begun is not None:
            return begun
        records = self.story.records
        return records[min(self.cursor, len(records) - 1)].at

    def admits(self, draft: RecordDraft) -> bool:
        """Return whether `draft` is the next record, judging by type, actor and subject."""
        wanted = self.expected
        if self.parted_at is not None:
            self.prompt_differs(self.parted_at, ())
        if wanted is None or self.is_over:
            return False
        if self._end_of(draft) is not None:
            return True
        self.refused[(draft.type, draft.subject)] = draft
        return False

    def compared(self, draft: RecordDraft) -> RecordDraft:
        """Return `draft` with the times of the original, for folding. Other differences become notes."""
        wanted = self.expected
        assert wanted is not None, "admitted before"
        if self.told or self._end_of(draft) != (self.cursor + 1, 0):
            self._compare_steps(draft)
            return draft
        found = self.likeness.compared(wanted.draft.subject, draft.subject)
        before, now = _said(wanted.draft), _said(draft)
        found += self.likeness.compared(before, now)
        if found and len(self.notes) < limits.REPLAY_NOTES_MAX:
            self.notes.append(ReplayNote(wanted.rev, wanted.draft.type, wanted.draft.subject, tuple(found)))
        for then, said in zip(wanted.draft.entries, draft.entries, strict=True):
            self._compare_prompt(then, said)
        timed = self.likeness.timed(before, now)
        also = tuple(replace(one, data=said["data"]) for one, said in zip(draft.also, timed["also"], strict=True))
        changes = tuple(change_from_json(one) for one in timed["changes"])
        return replace(draft, changes=changes, data=timed["data"], also=also)

    def taken(self, draft: RecordDraft) -> None:
        """Advance past `draft`, which has been folded."""
        end = self._end_of(draft)
        assert end is not None, "admitted before"
        self.cursor, self.told = end[0] - 1, 0
        if end[1]:
            self.cursor, self.told = end
            self.refused.clear()
            self._move()
        else:
            self.advance()

    def advance(self) -> None:
        """Advance to the next record."""
        self.cursor += 1
        self.told = 0
        self.refused.clear()
        self._move()

    def finish(self) -> None:
        """End the replay: accept no more writes, and release all waiting jobs."""
        self.is_over = True
        self._move()

    def give_up(self, why: str) -> None:
        """End the replay as inconclusive, because it needs something that was not recorded."""
        self.fault = self.fault or Unplayable(why)
        self.finish()

    def prompt_differs(self, at: int, details: tuple[str, ...]) -> None:
        """End the replay as diverged, because an agent's prompt differs; later records would prove nothing."""
        self.fault = self.fault or ReplayDiverged(self.story.records[at], "its prompt differs", details)
        self.finish()

    def call_of(self, spec: CallSpec, address: str) -> str:
        """Return the original's address of a call of this replay, found by agent, turn and index."""
        made = self.story.calls.get((spec.owner, spec.incarnation, spec.turn), [])
        return made[spec.index] if spec.index < len(made) else self.likeness.theirs(address)

    async def moved(self) -> None:
        """Wait until the replay advances."""
        await self._moved.wait()

    def stir(self) -> None:
        """Wake all waiting jobs, because an owner has ended."""
        self._move()

    async def due(self, index: int | None, is_alive: Callable[[], bool] = lambda: True) -> bool:
        """Wait until the record at `index` is next (None: never). Return False if the replay or the owner has ended."""
        while not self.is_over and is_alive():
            if index is not None and self.cursor == index:
                self.arrive()
                return True
            await self.moved()
        return False

    async def due_when(self, fits: Callable[[RecordDraft], bool]) -> bool:
        """Wait until the next record matches `fits`. Return False if the replay has ended."""
        while not self.is_over:
            wanted = self.expected
            if wanted is not None and fits(wanted.draft):
                self.arrive()
                return True
            await self.moved()
        return False

    def _end_of(self, draft: RecordDraft) -> tuple[int, int] | None:
        """Return the place after `draft`: a record and a number of steps in it. None if `draft` is not next."""
        at, told = self.cursor, self.told
        for index, step in enumerate(draft.entries):
            record = self.story.records[at] if at < len(self.story.records) else None
            if record is None or (index == 0 and told == 0 and record.draft.actor != draft.actor):
                return None
            then = record.draft.entries[told]
            if then.type != step.type or not self.likeness.may_be_same(then.subject, step.subject):
                return None
            if index == 0 and not self._is_same_thing(then, step):
                return None
            at, told = (at + 1, 0) if told + 1 == len(record.draft.entries) else (at, told + 1)
        return at, told

    def is_cut_short(self, wanted: RecordDraft) -> bool:
        """Return whether a refused write has all steps of `wanted` and more, and an owner crashed in between.

        How many steps one append has depends on timing; in the original, the crash prevented the other steps.
        """
        rest = wanted.entries[self.told :]
        after = self.story.next(self.cursor + 1, lambda draft: draft.type == "epoch.taken")
        if after is None:
            return False
        for draft in self.refused.values():
            both = zip(rest, draft.entries, strict=False)
            is_longer = len(draft.entries) > len(rest)
            if is_longer and all(a.type == b.type and self.likeness.may_be_same(a.subject, b.subject) for a, b in both):
                return True
        return False

    def _compare_steps(self, draft: RecordDraft) -> None:
        """Compare the steps of `draft` one by one, if the original had them in other appends. Learns their ids."""
        at, told = self.cursor, self.told
        for step in draft.entries:
            record = self.story.records[at]
            then = record.draft.entries[told]
            found = self.likeness.compared([then.subject, then.data], [step.subject, step.data])
            if found and len(self.notes) < limits.REPLAY_NOTES_MAX:
                self.notes.append(ReplayNote(record.rev, then.type, then.subject, tuple(found)))
            self._compare_prompt(then, step)
            at, told = (at + 1, 0) if told + 1 == len(record.draft.entries) else (at, told + 1)

    def _compare_prompt(self, then: SubRecord, now: SubRecord) -> None:
        """Note the place of a prompt that differs. The following request to the model reports the difference."""
        if then.type == "model.requested" and "prompt" in then.data:
            self.prompts += 1
            if then.data["prompt"] != now.data.get("prompt"):
                self.parted_at = self.cursor

    def _move(self) -> None:
        event, self._moved = self._moved, anyio.Event()
        event.set()

    def _is_same_thing(self, wanted: SubRecord, draft: SubRecord) -> bool:
        """Return whether two steps of equal type and subject have the same operation, check or call."""
        for key in ("op", "check", "call"):
            mine, other = wanted.data.get(key), draft.data.get(key)
            if isinstance(mine, str) and not self.likeness.may_be_same(mine, str(other)):
                return False
        return True


_begun: Final[ContextVar[float | None]] = ContextVar("begun", default=None)
_acting: Final[ContextVar[float | None]] = ContextVar("acting", default=None)
"""Of the current task: its start time until it first waits, and its current time for the jobs that it starts."""


def _said(draft: RecordDraft) -> JsonObject:
    also = [{"subject": one.subject, "data": one.data} for one in draft.also]
    return {"data": draft.data, "also": also, "changes": [change_to_json(change) for change in draft.changes]}
