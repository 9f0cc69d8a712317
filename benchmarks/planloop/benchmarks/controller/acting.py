"""Starts the job that grades a case, and writes what it found. Grading may be done again: only its end is an append."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeAlias

from planloop.benchmarks.controller.deciding import Close, GiveUp, Grade, Rest, Stop, decide
from planloop.benchmarks.controller.observing import Observed, job_key, observe
from planloop.reconciler.admitting.gate import Gate
from planloop.reconciler.clock import Clock
from planloop.reconciler.contract import Again, Done, Failed, Outcome, TerminalFailure
from planloop.reconciler.driving.attempting import Bug, Fault, LostRace, attempt
from planloop.reconciler.driving.working import WorkPlane
from planloop.reconciler.storing.store import Store
from planloop.schemas import pointer
from planloop.schemas.address import Address
from planloop.schemas.case import KIND, CaseState, Verdict
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import frozen, mutable
from planloop.schemas.patch import Author, Patch
from planloop.schemas.patching import Op
from planloop.schemas.record import Draft, SetStatus
from planloop.schemas.resource import Resource

AUTHOR: Final = Author("controller", KIND)
ACTOR: Final = str(AUTHOR)
POOL: Final = "tools"


@frozen
class Graded:
    """The end of a case: its verdict, why in a sentence, each check's result (`check/result` data), soft figures."""

    verdict: Verdict
    why: str
    results: tuple[JsonObject, ...] = ()
    soft: JsonObject | None = None


Grading: TypeAlias = Callable[[Resource, Resource], Awaitable[Graded]]
"""Grades what the task, the second, of a case made. What it raises makes the case an error."""


class CaseReconciler:
    """Drives objects of kind `case`."""

    kind = KIND

    def __init__(self, store: Store, work: WorkPlane, clock: Clock, gate: Gate, grade: Grading) -> None:
        self._store = store
        self._work = work
        self._clock = clock
        self._gate = gate
        self._grade = grade

    async def reconcile(self, address: Address) -> Outcome:
        """One step for the case at `address`."""
        seen = observe(self._store.view, self._work, str(address), self._clock.now())
        if seen is None:
            return Done()
        match decide(seen):
            case Grade():
                self._work.start(job_key(seen.case), seen.case.address, _Run(partial(self._run, seen)), pool=POOL)
            case Stop():
                self._work.cancel(job_key(seen.case))
            case Close() as step:
                await self._close(seen, step)
            case GiveUp(why=why):
                await self._end(seen.case, Graded(Verdict.ERROR, why))
            case Rest(after_s=after_s):
                return Done() if after_s is None else Again(after_s)
        return Done()

    async def _close(self, seen: Observed, step: Close) -> None:
        """Has the task cancelled by a patch like anybody's; why is written with it."""
        case, path = seen.case, seen.spec.task.partition("/")[2]
        merge: JsonObject = {"state": CaseState.CLOSING, "cut": step.cut, "why": step.why}
        ops = (Op("add", (*pointer.of_task(tuple(path.split("/"))), "cancel"), True),)
        patch = Patch(AUTHOR, ops, self._store.view.rev, f"{case.address}: {step.why}", is_approved=True)
        await self._gate.rule(patch, (SetStatus(case.address, case.uid, merge),), ())

    async def _run(self, seen: Observed) -> None:
        assert seen.task is not None, "what is graded has a task"
        found = await attempt(partial(self._grade, seen.case, seen.task))
        # What breaks while it judges says nothing of who is judged, and must not keep the run from its end.
        await self._end(seen.case, found if isinstance(found, Graded) else Graded(Verdict.ERROR, _broken(found)))

    async def _end(self, case: Resource, graded: Graded) -> None:
        ended: JsonObject = {"state": CaseState.ENDED, "verdict": graded.verdict, "why": graded.why}
        data = ended | {"results": list(graded.results), "soft": graded.soft or {}}
        draft = Draft("case.ended", ACTOR, case.address, (SetStatus(case.address, case.uid, ended),), data)
        with self._work.driving(case.address):  # An ended case has nothing to learn from its own end.
            rev = self._store.propose(draft)
        await self._store.flush(rev)


@mutable
class _Run:
    """The job that grades a case: once the end is written, nothing is left that the case would have to look at."""

    work: Callable[[], Awaitable[None]]
    went_on: bool = False

    async def __call__(self) -> None:
        await self.work()
        self.went_on = True


def _broken(fault: Fault) -> str:
    """Why an attempt could not be graded."""
    match fault:
        case Failed() | TerminalFailure():
            return f"grading failed: {fault.message}"
        case LostRace():
            return f"grading failed: {fault.conflict}"
        case Bug():
            return f"grading failed by a bug of planloop: {fault.error!r}"
