"""Starts the job that grades a case, and writes what it found. Grading may be done again: only its end is an append."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeAlias

from benchmarks.controller.deciding import decide
from benchmarks.controller.observing import Observed, job_key, observe
from reconciler.contract import Done, Outcome
from reconciler.driving.working import WorkPlane
from reconciler.storing.store import Store
from schemas.address import Address
from schemas.case import KIND, CaseSpec, CaseState, Verdict
from schemas.encoding import JsonObject
from schemas.frozen import frozen
from schemas.record import Draft, SetStatus
from schemas.resource import Resource

ACTOR: Final = "controller:case"
POOL: Final = "tools"


@frozen
class Graded:
    """The end of a case: its verdict, why in a sentence, each check's result (`check/result` data), soft figures."""

    verdict: Verdict
    why: str
    results: tuple[JsonObject, ...] = ()
    soft: JsonObject | None = None


Grade: TypeAlias = Callable[[CaseSpec, Resource], Awaitable[Graded]]
"""Grades what the task made. Never raises but for cancellation: what could not be done is a verdict of `error`."""


class CaseReconciler:
    """Drives objects of kind `case`."""

    kind = KIND

    def __init__(self, store: Store, work: WorkPlane, grade: Grade) -> None:
        self._store = store
        self._work = work
        self._grade = grade

    async def reconcile(self, address: Address) -> Outcome:
        """One step for the case at `address`."""
        seen = observe(self._store.view, self._work, str(address))
        if seen is not None:
            match decide(seen):
                case "grade":
                    job = partial(self._run, seen)
                    self._work.start(job_key(seen.case), seen.case.address, job, pool=POOL)
                case "stop":
                    self._work.cancel(job_key(seen.case))
                case "rest":
                    pass
        return Done()

    async def _run(self, seen: Observed) -> None:
        assert seen.task is not None, "what is graded has a task"
        graded = await self._grade(seen.spec, seen.task)
        ended: JsonObject = {"state": CaseState.ENDED, "verdict": graded.verdict, "why": graded.why}
        data = ended | {"results": list(graded.results), "soft": graded.soft or {}}
        case = seen.case
        await self._store.append(
            Draft("case.ended", ACTOR, case.address, (SetStatus(case.address, case.uid, ended),), data)
        )
