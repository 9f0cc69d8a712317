"""Plays a story from its first record to its last, one owner after another as then, and says what came of it."""

from __future__ import annotations

from dataclasses import field
from typing import Final, Literal, TypeAlias

import anyio

from planloop.app.replaying import machine, outside
from planloop.app.replaying import story as stories
from planloop.app.replaying.directing import TELLING, Director, Diverged, Note, Unplayable
from planloop.app.replaying.likeness import Difference, Likeness
from planloop.app.replaying.machine import Stand
from planloop.app.replaying.stage import LifeOf, Stage
from planloop.app.replaying.story import Story
from planloop.app.replaying.virtual_loop import VirtualLoop
from planloop.reconciler.errors import EngineError
from planloop.schemas.frozen import frozen
from planloop.schemas.record import Record

Verdict: TypeAlias = Literal["same", "diverged", "inconclusive"]

PATIENCE_S: Final = (0.01, 0.1, 1.0, 10.0, 60.0)
"""Virtual seconds until everybody is asked again whether they have something to write; then it is not coming.

Few, because the story's clock stands meanwhile: whoever wants to look again in a moment does so for all of them.
"""

DIFFERENCES_MAX: Final = 20  # Of the end state, shown.


@frozen
class Outcome:
    """What a replay found. `rev` is how far it came; the rest says where and how it parted from the original.

    `notes` are records that came about with other words; `end` are differences of the state after the last record;
    `taken_over` are revisions of records that decide nothing and did not come about, which stand as they were.
    """

    verdict: Verdict
    rev: int
    records: int
    prompts: int
    why: str = ""
    at: Record | None = None
    details: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()
    end: tuple[Difference, ...] = field(default_factory=tuple)
    taken_over: tuple[int, ...] = ()


def play(stand: Stand) -> Outcome:
    """Runs the whole plan again from its log. Raises StoreCorrupt, StoreFailed."""
    story = stories.read(stand.place)
    lost = stories.missing(story)
    if lost:
        return Outcome("inconclusive", 0, len(story.records), 0, "recordings are missing", None, tuple(lost))
    return anyio.run(_play, story, stand, backend_options={"loop_factory": VirtualLoop})


async def _play(story: Story, stand: Stand) -> Outcome:
    director = Director(story, Likeness())
    performance = _Performance(director, stand)
    try:
        await performance.run()
    except Diverged as fault:
        director.fault = director.fault or fault
    except Unplayable as fault:
        director.fault = director.fault or fault
    return _outcome(director, performance.stage)


def _outcome(director: Director, stage: Stage) -> Outcome:
    story, fault = director.story, director.fault
    rev, count = director.cursor, len(story.records)
    notes = tuple(director.notes)
    match fault:
        case Unplayable():
            return Outcome("inconclusive", rev, count, director.prompts, str(fault), director.expected, (), notes)
        case Diverged():
            return Outcome("diverged", rev, count, director.prompts, str(fault), fault.record, fault.details, notes)
        case None:
            end = tuple(_end_differences(director, stage))
            why = "the end state is another" if end else ""
            verdict: Verdict = "diverged" if end else "same"
            taken_over = tuple(director.taken_over)
            return Outcome(verdict, rev, count, director.prompts, why, None, (), notes, end, taken_over)


def _end_differences(director: Director, stage: Stage) -> list[Difference]:
    before = {one.address: one.to_json() for one in director.story.objects}
    after = {one.address: one.to_json() for one in stage.everything.everything()}
    return director.likeness.compared(before, after)[:DIFFERENCES_MAX]


class _Performance:
    """One replay: owners one after another over one stage."""

    def __init__(self, director: Director, stand: Stand) -> None:
        self.stage = Stage(director)
        self._director = director
        self._stand = stand
        self._ids = machine.CountedIds()

    async def run(self) -> None:
        """Until the last record, or until the story does not come about. Raises Diverged, Unplayable."""
        try:
            while self._director.expected is not None and not self._director.is_over:
                await self._live()
        finally:
            self._director.finish()

    async def _live(self) -> None:
        """One owner: from its first record until another takes over or all is told."""
        self.stage.begin_life()
        life = LifeOf(self.stage)
        cast = machine.cast(self._director, life, self._stand, self._ids)
        fault: Diverged | Unplayable | None = None
        try:
            async with anyio.create_task_group() as group:
                await group.start(cast.engine.run)
                try:
                    await self._direct(cast)
                except (Diverged, Unplayable) as error:
                    fault = error
                except BaseException:
                    self._director.finish()  # Nobody may go on waiting for a place that will not come.
                    raise
                finally:
                    self.stage.life += 1  # Dead: what its jobs still want to write as they go does not count.
                    self._director.stir()
                if fault is not None or self._director.expected is None:
                    self._director.finish()
                group.cancel_scope.cancel()
        except (BaseExceptionGroup, EngineError) as error:
            if life.is_alive():
                raise Unplayable(f"the engine stopped: {error!r}") from error
        if fault is not None:
            raise fault

    async def _direct(self, cast: machine.Cast) -> None:
        """Brings about record after record. Returns when a later owner comes next, or nothing does."""
        director, is_first = self._director, True
        while (wanted := director.expected) is not None and not director.is_over:
            if wanted.draft.type == "epoch.taken" and not is_first:
                return
            is_first = False
            if stories.is_outside(wanted.draft):
                await outside.perform(director, self.stage, cast.gate, wanted)
            else:
                await self._wait_for(wanted, cast)

    async def _wait_for(self, wanted: Record, cast: machine.Cast) -> None:
        """Until `wanted` has come about. What is only wording may be left out or put in to get there."""
        director = self._director
        for patience_s in PATIENCE_S:
            with anyio.move_on_after(patience_s):
                while director.expected is wanted and not director.is_over:
                    await director.moved()
            if director.expected is not wanted or director.is_over:
                return
            for resource in self.stage.everything.everything():
                cast.queue.add(resource.address)
        if wanted.draft.type in TELLING and not director.is_cut_short(wanted.draft):
            raise Diverged(wanted, "it did not come about", tuple(_instead(director)))
        director.taken_over.append(wanted.rev)
        outside.play(director, self.stage, wanted)


def _instead(director: Director) -> list[str]:
    """What others wanted to write in its place."""
    return [f"instead: {type_} {subject}" for type_, subject in list(director.refused)[:5]]
