"""The case controller: grade a case when its task ends, and write the verdict. `decide` is pure."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeAlias

from planloop.reconciler.admission.gate import PlanGate
from planloop.reconciler.clock import Clock
from planloop.reconciler.engine.reconcile import (
    Again,
    AttemptFailure,
    Bug,
    Done,
    Failed,
    LostRace,
    Outcome,
    TerminalFailure,
    attempt,
)
from planloop.reconciler.engine.work_pools import WorkPlane
from planloop.reconciler.store.store import Store, View
from planloop.schemas import json_pointer
from planloop.schemas.address import Address
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen, mutable
from planloop.schemas.json_patch import PatchOp
from planloop.schemas.log.patch import Author, Patch
from planloop.schemas.log.record import RecordDraft, SetStatus
from planloop.schemas.objects.agent import NO_MODEL, UNPRICED, AgentState
from planloop.schemas.objects.case import CASE_KIND, CaseSpec, CaseState, CaseStopReason, CaseVerdict, case_from_json
from planloop.schemas.objects.container import AWAITING_CONTAINERS, OVER, ContainerState
from planloop.schemas.objects.task import ENDED
from planloop.schemas.resource import INTERNAL_ERROR, STALLED, Condition, Resource, condition_from_json

READY: Final = "Ready"


@frozen
class ObservedCase:
    """A case, its task, and the state of the task's agents and containers.

    `task` is None once it is removed. `is_closed`: no agent works on it any more. `ready` is the task's `Ready`
    condition, whose reason says what the task waits for. `now` is in seconds since 1970. `trouble` is the problem of a
    container of the case, or empty. `failures` are the reasons why the models of its agents do not reply.
    `bug` is an internal error of planloop at one of its agents, or empty.
    """

    case: Resource
    spec: CaseSpec
    task: Resource | None
    ready: Condition | None
    is_closed: bool
    is_graded_now: bool
    now: float
    trouble: str = ""
    failures: frozenset[str] = frozenset()
    bug: str = ""

    @property
    def has_ended(self) -> bool:
        return self.case.state == CaseState.ENDED


def observe_case(view: View, work: WorkPlane, address: str, now: float) -> ObservedCase | None:
    """Return the case at `address`; None if it no longer exists."""
    case = view.get(address)
    if case is None:
        return None
    spec = case_from_json(case.spec)
    task = view.get(spec.task)
    said = task.status.get("conditions", {}).get(READY) if task is not None else None
    ready = condition_from_json(READY, said) if said is not None else None
    near = [one for one in map(view.get, case.refs) if one is not None]
    agents = [one for one in near if one.address.startswith("agent/")]
    containers = [one for one in near if one.address.startswith("container/")]
    is_over = task is not None and task.state in ENDED
    is_closed = is_over and all(map(_has_left, agents)) and all(map(_is_down, containers))
    trouble = next(filter(None, map(container_problem, containers)), "")
    failures = frozenset(filter(None, map(_failure_of, agents)))
    bug = next(filter(None, map(internal_error_of, agents)), "")
    return ObservedCase(
        case, spec, task, ready, is_closed, work.is_live(grading_job_key(case)), now, trouble, failures, bug
    )


def _has_left(agent: Resource) -> bool:
    """Whether the agent no longer writes to the workspace."""
    return agent.state == AgentState.ENDED


def _is_down(container: Resource) -> bool:
    """Whether no process of the container writes to the workspace any more."""
    return container.state in OVER or container.state == ContainerState.WAITING


def _failure_of(agent: Resource) -> str:
    """Why the model of a blocked agent does not reply; empty for other agents."""
    if agent.state != AgentState.BLOCKED:
        return ""
    kept = (agent.status.get("open") or {}).get("failure")
    return str(kept[0]["reason"]) if kept else ""


def internal_error_of(agent: Resource) -> str:
    """The internal error that stopped the agent and is not retried, or empty."""
    said = agent.status.get("conditions", {}).get(STALLED)
    return f"{agent.address}: {said['message']}" if said is not None and said["reason"] == INTERNAL_ERROR else ""


def container_problem(container: Resource) -> str:
    """What the engine fails to do for the container, or why it does not respond; empty without a problem."""
    trouble = container.status.get("engine") or (container.status if container.status.get("tries") else {})
    return f"{container.address}: {trouble['why']}" if trouble.get("why") else ""


def grading_job_key(case: Resource) -> str:
    """The key of the job that grades a case."""
    return f"{case.address}@{case.uid}"


SPENT: Final = frozenset({"BudgetSpent"})
"""Reasons of a task that has used up its budget."""
ALONE: Final = frozenset({"AwaitingApproval", "AwaitingInput"})
"""Reasons of a task that waits for a person. A benchmark has no person who could answer."""
ITS_OWN: Final = frozenset({"AwaitingLock", "AwaitingChild", "ChildrenRunning", "MergeConflict", "Paused"})
"""Reasons of a task that waits for other agents or people. Such a wait can end at any time."""
REFUSED: Final = frozenset({NO_MODEL, UNPRICED, "NoSandbox"})
"""Reasons of a task whose request failed after every retry: waiting longer does not help."""
OF_THE_MODEL: Final = frozenset({"Empty", "ContextTooLong"})
"""Missing replies that are the model's own failure: an empty answer, or a context that is too long."""
PATIENCE_S: Final = 20.0
"""How long a task may wait for infrastructure before the case ends as an error."""
LEAVING_S: Final = 120.0
"""How much longer an agent and its container may take to stop after the task ended, while the engine responds."""


@frozen
class CaseRest:
    """Nothing to do now. `after_s` is when to look again, None for never."""

    after_s: float | None = None


@frozen
class GradeCase:
    """Grade the task's result."""


@frozen
class StopGrading:
    """Stop a running grading whose result is no longer needed."""


@frozen
class CloseTask:
    """Cancel a task that will not end by itself. `why` is a sentence for people."""

    cut: CaseStopReason
    why: str


@frozen
class GiveUpCase:
    """End the case without grading it. `why` is a sentence for people."""

    why: str


CaseStep: TypeAlias = CaseRest | GradeCase | StopGrading | CloseTask | GiveUpCase


def decide_case(seen: ObservedCase) -> CaseStep:
    """Return the next step of a case. Pure."""
    if seen.case.deleting or seen.task is None or seen.task.deleting:
        return StopGrading() if seen.is_graded_now else CaseRest()
    if seen.has_ended or seen.is_graded_now:
        return CaseRest()
    if seen.task.state in ENDED:
        return GradeCase() if seen.is_closed else _wait_for_writers(seen)
    return CaseRest() if seen.case.status.get("cut") else _unfinished(seen)


def _wait_for_writers(seen: ObservedCase) -> CaseStep:
    """Wait until no agent or container writes to the workspace of the ended task, or give up."""
    assert seen.task is not None, "decide has looked"
    ended_at = seen.task.status.get("ended_at")
    if not isinstance(ended_at, int | float):
        return CaseRest()
    left_s = ended_at + PATIENCE_S - seen.now
    if left_s > 0:
        return CaseRest(left_s)
    if seen.trouble:
        return GiveUpCase(seen.trouble)
    left_s += LEAVING_S
    if left_s > 0:
        return CaseRest(left_s)
    return GiveUpCase("the task has ended, but an agent or container still writes to its workspace")


def _unfinished(seen: ObservedCase) -> CaseStep:
    assert seen.task is not None, "decide has looked"
    ready = seen.ready
    if seen.bug:
        return CloseTask(CaseStopReason.WORLD, f"internal error of planloop: {seen.bug}")
    if seen.task.state == "blocked" and ready is not None and ready.reason not in ITS_OWN:
        # An error is counted in no rate. If these were errors, a model could avoid a failure by not replying.
        is_own = ready.reason == NO_MODEL and bool(seen.failures) and seen.failures <= OF_THE_MODEL
        if is_own or ready.reason in SPENT | ALONE:
            return CloseTask(CaseStopReason.LIMIT, ready.message)
        left_s = 0.0 if ready.reason in REFUSED else ready.since + PATIENCE_S - seen.now
        return CloseTask(CaseStopReason.WORLD, f"{ready.reason}: {ready.message}") if left_s <= 0 else CaseRest(left_s)
    if seen.trouble and ready is not None and ready.reason == AWAITING_CONTAINERS:
        left_s = ready.since + PATIENCE_S - seen.now
        return CloseTask(CaseStopReason.WORLD, seen.trouble) if left_s <= 0 else CaseRest(left_s)
    started_at = seen.task.status.get("started_at")
    if not isinstance(started_at, int | float):
        return CaseRest()
    left_s = started_at + seen.spec.within_s - seen.now
    if (
        left_s < -PATIENCE_S
    ):  # The case is looked at when its time is up. So late means that this process or the machine was suspended.
        return CloseTask(
            CaseStopReason.WORLD,
            f"the machine was suspended: {-left_s:.0f} s passed after the limit of {seen.spec.within_s:g} s",
        )
    return (
        CloseTask(CaseStopReason.LIMIT, f"it did not finish within {seen.spec.within_s:g} s")
        if left_s <= 0
        else CaseRest(left_s)
    )


AUTHOR: Final = Author("controller", CASE_KIND)
ACTOR: Final = str(AUTHOR)
POOL: Final = "tools"


@frozen
class GradedCase:
    """The result of a case: verdict, reason as a sentence, each check's result (`check/result` data), soft figures."""

    verdict: CaseVerdict
    why: str
    results: tuple[JsonObject, ...] = ()
    soft: JsonObject | None = None


GradeFunction: TypeAlias = Callable[[Resource, Resource], Awaitable[GradedCase]]
"""Grade the result of a task (second argument) for a case (first). If it raises, the verdict is `error`."""


class CaseReconciler:
    """Reconciles objects of kind `case`."""

    kind = CASE_KIND

    def __init__(self, store: Store, work: WorkPlane, clock: Clock, gate: PlanGate, grade: GradeFunction) -> None:
        self._store = store
        self._work = work
        self._clock = clock
        self._gate = gate
        self._grade = grade

    async def reconcile(self, address: Address) -> Outcome:
        """Take one step for the case at `address`."""
        seen = observe_case(self._store.view, self._work, str(address), self._clock.now())
        if seen is None:
            return Done()
        match decide_case(seen):
            case GradeCase():
                self._work.start(
                    grading_job_key(seen.case), seen.case.address, _Run(partial(self._run, seen)), pool=POOL
                )
            case StopGrading():
                self._work.cancel(grading_job_key(seen.case))
            case CloseTask() as step:
                await self._close(seen, step)
            case GiveUpCase(why=why):
                await self._end(seen.case, GradedCase(CaseVerdict.ERROR, why))
            case CaseRest(after_s=after_s):
                return Done() if after_s is None else Again(after_s)
        return Done()

    async def _close(self, seen: ObservedCase, step: CloseTask) -> None:
        """Cancel the task with an ordinary patch, and record the reason."""
        case, path = seen.case, seen.spec.task.partition("/")[2]
        merge: JsonObject = {"state": CaseState.CLOSING, "cut": step.cut, "why": step.why}
        ops = (PatchOp("add", (*json_pointer.task_pointer(tuple(path.split("/"))), "cancel"), True),)
        patch = Patch(AUTHOR, ops, self._store.view.rev, f"{case.address}: {step.why}", is_approved=True)
        await self._gate.rule(patch, (SetStatus(case.address, case.uid, merge),), ())

    async def _run(self, seen: ObservedCase) -> None:
        assert seen.task is not None, "what is graded has a task"
        found = await attempt(partial(self._grade, seen.case, seen.task))
        # A failure of the grader says nothing about the model, and must not stop the run.
        await self._end(
            seen.case, found if isinstance(found, GradedCase) else GradedCase(CaseVerdict.ERROR, _failure_text(found))
        )

    async def _end(self, case: Resource, graded: GradedCase) -> None:
        ended: JsonObject = {"state": CaseState.ENDED, "verdict": graded.verdict, "why": graded.why}
        data = ended | {"results": list(graded.results), "soft": graded.soft or {}}
        draft = RecordDraft("case.ended", ACTOR, case.address, (SetStatus(case.address, case.uid, ended),), data)
        with self._work.without_waking(case.address):  # An ended case does not react to its own end.
            rev = self._store.propose(draft)
        await self._store.flush(rev)


@mutable
class _Run:
    """The job that grades a case. It does not wake the case: once the result is recorded, the case has no next step."""

    work: Callable[[], Awaitable[None]]
    took_next_steps: bool = False

    async def __call__(self) -> None:
        await self.work()
        self.took_next_steps = True


def _failure_text(failure: AttemptFailure) -> str:
    """Why an attempt could not be graded."""
    match failure:
        case Failed() | TerminalFailure():
            return f"grading failed: {failure.message}"
        case LostRace():
            return f"grading failed: {failure.conflict}"
        case Bug():
            return f"grading failed with an internal error: {failure.error!r}"
