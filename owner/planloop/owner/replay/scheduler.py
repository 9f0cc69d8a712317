"""The replay scheduler: let each step happen only at its place in the log.

Controllers run as ever, over a store that takes only the record that comes next and tells every other writer that it
lost a race, which sends it back to look again. Since the view is then always what it was at that place, whoever wrote
the record in the original writes it again. What does not come about is where the replay diverges.
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
"""Records that decide what agents do: one that does not come about is a divergence, and no matter of wording."""


@frozen
class ReplayNote:
    """The record at revision `rev` came about, but said something else."""

    rev: int
    type: str
    subject: str
    differences: tuple[ValueDifference, ...]


class ReplayDiverged(Exception):
    """The story does not come about again. `rev` is where; `details` are lines for people."""

    def __init__(self, record: Record, why: str, details: tuple[str, ...] = ()) -> None:
        super().__init__(why)
        self.record = record
        self.details = details


class Unplayable(Exception):
    """The log does not hold what would be needed."""


@mutable
class ReplayScheduler:
    """Where the replay is. `refused` are the writes that came too early since the last one that was taken.

    `told` counts the steps of the record that comes next which came about already: steps that were one append then may
    be several now, and the other way round. `prompts` counts those that were compared, `parted_at` is where one was
    another; `made` has the replay's blobs. `taken_over` are records that did not come about and stand as they were.
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
        """The record that comes next; None at the end."""
        records = self.story.records
        return records[self.cursor] if self.cursor < len(records) else None

    def blob(self, name: str) -> bytes | None:
        """A blob of the replay or of the original."""
        found = self.made.get(name)
        return found if found is not None else self.story.blob(name)

    def arrive(self) -> None:
        """Whoever runs here acts at the time of the record that comes next, and so does what they begin."""
        _begun.set(None)
        _acting.set(self.now())

    def begun_at(self, job: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        """`job` as one that begins when whoever begins it acts, and has that time until something comes for it."""
        acting = _acting.get()
        at = self.now() if acting is None else acting

        async def run() -> None:
            _begun.set(at)
            await job()

        return run

    def now(self) -> float:
        """Seconds since 1970: when the next record was written, by whoever read the clock for it.

        A job that has just begun and waits for nothing yet has the time at which it was begun.
        """
        begun = _begun.get()
        if begun is not None:
            return begun
        records = self.story.records
        return records[min(self.cursor, len(records) - 1)].at

    def admits(self, draft: RecordDraft) -> bool:
        """Whether `draft` is what comes next, as far as its head says."""
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
        """`draft` as it is folded: with the times of the original. What else it says otherwise is noted."""
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
        """`draft` was folded: what it tells of is behind."""
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
        """The next record is waited for."""
        self.cursor += 1
        self.told = 0
        self.refused.clear()
        self._move()

    def finish(self) -> None:
        """Nothing more is taken, and nobody waits any longer."""
        self.is_over = True
        self._move()

    def give_up(self, why: str) -> None:
        """The replay cannot go on: what it needs was never recorded."""
        self.fault = self.fault or Unplayable(why)
        self.finish()

    def prompt_differs(self, at: int, details: tuple[str, ...]) -> None:
        """An agent would be told something else than it was: whatever follows proves nothing."""
        self.fault = self.fault or ReplayDiverged(self.story.records[at], "its prompt is another", details)
        self.finish()

    def call_of(self, spec: CallSpec, address: str) -> str:
        """The original's address of a call of this replay: by who made it, in which turn, at which place."""
        made = self.story.calls.get((spec.owner, spec.incarnation, spec.turn), [])
        return made[spec.index] if spec.index < len(made) else self.likeness.theirs(address)

    async def moved(self) -> None:
        """Returns when the replay has gone on."""
        await self._moved.wait()

    def stir(self) -> None:
        """Whoever waits looks again: an owner has died."""
        self._move()

    async def due(self, index: int | None, is_alive: Callable[[], bool] = lambda: True) -> bool:
        """Waits until the record at `index` comes next (None: it never does). False when the replay is over."""
        while not self.is_over and is_alive():
            if index is not None and self.cursor == index:
                self.arrive()
                return True
            await self.moved()
        return False

    async def due_when(self, fits: Callable[[RecordDraft], bool]) -> bool:
        """Waits until a record that `fits` comes next."""
        while not self.is_over:
            wanted = self.expected
            if wanted is not None and fits(wanted.draft):
                self.arrive()
                return True
            await self.moved()
        return False

    def _end_of(self, draft: RecordDraft) -> tuple[int, int] | None:
        """Where the story is after `draft`: at a record, so many steps into it; None when it is not what comes next."""
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
        """Whether somebody would do all that `wanted` tells of and more in one append, where an owner died in between.

        What one append holds depends on who looked when; that the rest was not done is the crash's doing.
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
        """What the steps say, where they were not one append then as they are now; learns the ids in them."""
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
        """Notes that a prompt is another; whoever asks the model with it next tells in what."""
        if then.type == "model.requested" and "prompt" in then.data:
            self.prompts += 1
            if then.data["prompt"] != now.data.get("prompt"):
                self.parted_at = self.cursor

    def _move(self) -> None:
        event, self._moved = self._moved, anyio.Event()
        event.set()

    def _is_same_thing(self, wanted: SubRecord, draft: SubRecord) -> bool:
        """Of two steps with one head, whether they tell of the same operation or check."""
        for key in ("op", "check", "call"):
            mine, other = wanted.data.get(key), draft.data.get(key)
            if isinstance(mine, str) and not self.likeness.may_be_same(mine, str(other)):
                return False
        return True


_begun: Final[ContextVar[float | None]] = ContextVar("begun", default=None)
_acting: Final[ContextVar[float | None]] = ContextVar("acting", default=None)
"""Of the task that runs: when it was begun, while it waits for nothing yet; and when it acts, for what it begins."""


def _said(draft: RecordDraft) -> JsonObject:
    also = [{"subject": one.subject, "data": one.data} for one in draft.also]
    return {"data": draft.data, "also": also, "changes": [change_to_json(change) for change in draft.changes]}
