"""Replay a log from its first record to its last, and report divergence."""

from __future__ import annotations

import asyncio
import math
import selectors
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, Final, Literal, TypeAlias

import anyio

from planloop.owner.replay import assembly, external_inputs, history
from planloop.owner.replay.assembly import ReplaySetup
from planloop.owner.replay.equivalence import Equivalence, ValueDifference
from planloop.owner.replay.history import ReplayHistory
from planloop.owner.replay.replay_store import OwnerStoreView, ReplayStore
from planloop.owner.replay.scheduler import TELLING_TYPES, ReplayDiverged, ReplayNote, ReplayScheduler, Unplayable
from planloop.reconciler.errors import EngineError
from planloop.schemas import quantities
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.log.record import Record

# An event loop with virtual time: if no task can run, the clock jumps to the next timer. A replay waits for nothing
# external, so this never skips an event.

IDLE_SELECT_S: Final = 0.05  # Real seconds to wait for a thread or a signal if there is no timer.


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose `time()` starts at 0 and jumps from timer to timer."""

    def __init__(self) -> None:
        self._leaping = _LeapingSelector()
        super().__init__(self._leaping)

    def time(self) -> float:
        """Return the virtual seconds since the loop was created."""
        return self._leaping.now


class _LeapingSelector(selectors.BaseSelector):
    """Polls for events and, instead of waiting, advances the clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self._real = selectors.DefaultSelector()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = self._real.select(IDLE_SELECT_S if timeout is None else 0)
        if not found and timeout is not None:
            # Advance by at least one float step, even for a timeout of 0: far from 0, the loop's tolerance is lost to
            # rounding, and a timer that is due exactly now would never fire.
            self.now = max(self.now + timeout, math.nextafter(self.now, math.inf))
        return found

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.modify(fileobj, events, data)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()

    def close(self) -> None:
        self._real.close()


# Replay a log from its first record to its last, with the same sequence of owners, and report the outcome.

ReplayVerdict: TypeAlias = Literal["same", "diverged", "inconclusive"]

STALL_S: Final = (0.01, 0.1, 1.0, 10.0, 60.0)
"""Virtual seconds after which all objects are reconciled again. After the last, the record is considered missing.

Few, because the time of the log does not advance meanwhile.
"""

DIFFERENCES_MAX: Final = 20  # Of the final state, shown.
WORDING: Final = frozenset({"message", "text", "unblocks", "why"})
"""Members of a status or result that explain it to a reader. A new version of planloop may word them otherwise."""


@frozen
class ReplayOutcome:
    """The outcome of a replay. `rev` is the last replayed revision; `why`, `at` and `details` describe a divergence.

    `notes` are records that were written with other content; `end` are differences of the final state, except those in
    the text of explanations, which `reworded` counts; `taken_over` are revisions of records without influence on
    decisions that were not written again, and were copied from the log.
    """

    verdict: ReplayVerdict
    rev: int
    records: int
    prompts: int
    why: str = ""
    at: Record | None = None
    details: tuple[str, ...] = ()
    notes: tuple[ReplayNote, ...] = ()
    end: tuple[ValueDifference, ...] = field(default_factory=tuple)
    taken_over: tuple[int, ...] = ()
    reworded: int = 0


def replay_plan(stand: ReplaySetup) -> ReplayOutcome:
    """Replay the whole plan from its log. Raises StoreCorrupt, StoreFailed."""
    story = history.read_history(stand.place)
    lost = history.missing_blobs(story)
    if lost:
        return ReplayOutcome("inconclusive", 0, len(story.records), 0, "recordings are missing", None, tuple(lost))
    return anyio.run(_play, story, stand, backend_options={"loop_factory": VirtualLoop})


async def _play(story: ReplayHistory, stand: ReplaySetup) -> ReplayOutcome:
    director = ReplayScheduler(story, Equivalence())
    performance = _Performance(director, stand)
    try:
        await performance.run()
    except ReplayDiverged as error:
        director.fault = director.fault or error
    except Unplayable as error:
        director.fault = director.fault or error
    return _outcome(director, performance.stage)


def _outcome(director: ReplayScheduler, stage: ReplayStore) -> ReplayOutcome:
    story, fault = director.story, director.fault
    rev, count = director.cursor, len(story.records)
    notes = tuple(director.notes)
    match fault:
        case Unplayable():
            return ReplayOutcome("inconclusive", rev, count, director.prompts, str(fault), director.expected, (), notes)
        case ReplayDiverged():
            return ReplayOutcome(
                "diverged", rev, count, director.prompts, str(fault), fault.record, fault.details, notes
            )
        case None:
            found = _end_differences(director, stage)
            end = tuple(one for one in found if not is_wording(one))
            why = "the final state differs" if end else ""
            verdict: ReplayVerdict = "diverged" if end else "same"
            taken_over, reworded = tuple(director.taken_over), len(found) - len(end)
            shown = end[:DIFFERENCES_MAX]
            return ReplayOutcome(
                verdict, rev, count, director.prompts, why, None, (), notes, shown, taken_over, reworded
            )


def _end_differences(director: ReplayScheduler, stage: ReplayStore) -> list[ValueDifference]:
    before = {one.address: one.to_json() for one in director.story.objects}
    after = {one.address: one.to_json() for one in stage.everything.everything()}
    return director.likeness.compared(before, after)


def is_wording(difference: ValueDifference) -> bool:
    """Return whether only the text of an explanation differs: `…/why`, or an item of `…/unblocks`.

    The `signal` of an agent or a fork is a list that repeats such texts.
    """
    name, last = ["", *difference.path.split("/")][-2:]
    return name in WORDING or last in WORDING or (name == "signal" and last.isdigit())


class _Performance:
    """One replay: a sequence of owners on one store."""

    def __init__(self, director: ReplayScheduler, stand: ReplaySetup) -> None:
        self.stage = ReplayStore(director)
        self._director = director
        self._stand = stand
        self._ids = assembly.ReplayIds()

    async def run(self) -> None:
        """Replay to the last record. Raises ReplayDiverged, Unplayable."""
        try:
            while self._director.expected is not None and not self._director.is_over:
                await self._live()
        finally:
            self._director.finish()

    async def _live(self) -> None:
        """Run one owner, from its first record until another takes over or the log ends."""
        self.stage.begin_life()
        life = OwnerStoreView(self.stage)
        cast = assembly.build_replay(self._director, life, self._stand, self._ids)
        fault: ReplayDiverged | Unplayable | None = None
        try:
            async with anyio.create_task_group() as group:
                await group.start(cast.engine.run)
                try:
                    await self._direct(cast)
                except (ReplayDiverged, Unplayable) as error:
                    fault = error
                except BaseException:
                    self._director.finish()  # Release all jobs that wait for their place in the log.
                    raise
                finally:
                    self.stage.life += 1  # The owner has ended: later writes of its jobs are refused.
                    self._director.stir()
                if fault is not None or self._director.expected is None:
                    self._director.finish()
                group.cancel_scope.cancel()
        except (BaseExceptionGroup, EngineError) as error:
            if life.is_alive():
                raise Unplayable(f"the engine stopped: {error!r}") from error
        if fault is not None:
            raise fault

    async def _direct(self, cast: assembly.ReplayParts) -> None:
        """Produce record after record. Return when the next record is of a later owner, or the log has ended."""
        director, is_first = self._director, True
        while (wanted := director.expected) is not None and not director.is_over:
            if wanted.draft.type == "epoch.taken" and not is_first:
                return
            is_first = False
            if history.is_outside(wanted.draft):
                await external_inputs.repeat_input(director, self.stage, cast.gate, wanted)
            else:
                await self._wait_for(wanted, cast)

    async def _wait_for(self, wanted: Record, cast: assembly.ReplayParts) -> None:
        """Wait until `wanted` has been written. Records without influence on decisions may be copied instead."""
        director = self._director
        for patience_s in STALL_S:
            with anyio.move_on_after(patience_s):
                while director.expected is wanted and not director.is_over:
                    await director.moved()
            if director.expected is not wanted or director.is_over:
                return
            for resource in self.stage.everything.everything():
                cast.queue.add(resource.address)
        if wanted.draft.type in TELLING_TYPES and not director.is_cut_short(wanted.draft):
            raise ReplayDiverged(wanted, "the replay did not write this record", tuple(_instead(director)))
        director.taken_over.append(wanted.rev)
        external_inputs.take_record(director, self.stage, wanted)


def _instead(director: ReplayScheduler) -> list[str]:
    """Return the records that controllers tried to write instead, as lines."""
    return [f"instead: {type_} {subject}" for type_, subject in list(director.refused)[:5]]


# The outcome of a replay as lines and as JSON.

NOTES_SHOWN = 5


def replay_lines(found: ReplayOutcome, plan: str) -> Iterator[str]:
    """Yield the verdict, then the details."""
    prompts = f", {quantities.pluralize(found.prompts, 'prompt')} the same" if found.prompts else ""
    if found.verdict == "same":
        again = quantities.pluralize(found.records - len(found.taken_over), "record")
        yield f"{plan}: same: {again} came about again{prompts}, and the final state"
        if found.taken_over:
            revs = ", ".join(str(rev) for rev in found.taken_over[:NOTES_SHOWN])
            yield f"    {len(found.taken_over)} that decide nothing did not, and stand as they were: rev {revs}"
    else:
        where = f" at {_where(found.at)}" if found.at is not None else ""
        yield f"{plan}: {found.verdict}{where}: {found.why}"
        yield f"    {found.rev} of {found.records} records came about again{prompts}"
    yield from (f"    {line}" for line in found.details)
    yield from (f"    {one.words()}" for one in found.end)
    if found.reworded:
        yield f"    {quantities.pluralize(found.reworded, 'explanation')} of the final state in other words"
    if found.notes:
        yield f"    {quantities.pluralize(len(found.notes), 'record')} in other words:"
    for note in found.notes[:NOTES_SHOWN]:
        yield f"    rev {note.rev} {note.type} {note.subject} · {note.differences[0].words()}"


def replay_json(found: ReplayOutcome) -> JsonObject:
    """Return the outcome as `plan replay --tree -o json` prints it."""
    out: JsonObject = {"verdict": found.verdict, "rev": found.rev, "records": found.records, "prompts": found.prompts}
    out |= {"why": found.why, "details": list(found.details)}
    if found.at is not None:
        draft = found.at.draft
        out["at"] = {"rev": found.at.rev, "type": draft.type, "subject": draft.subject, "turn": draft.data.get("turn")}
    out["end"] = [one.words() for one in found.end]
    out["taken_over"] = list(found.taken_over)
    out["reworded"] = found.reworded
    return out | {
        "notes": [{"rev": one.rev, "differences": [d.words() for d in one.differences]} for one in found.notes]
    }


def _where(record: Record) -> str:
    turn = record.draft.data.get("turn")
    return f"rev {record.rev}, {record.draft.subject}{f' turn {turn}' if turn else ''} ({record.draft.type})"
