"""From not begun to begun: what must hold before a task may start, in the order in which it is told.

A parent that has started, needs, budget, the pause before a retry, what is left of an earlier incarnation, a slot
where the plan bounds how many tasks are at work, its fork, which is made of what its needs have left, its containers,
which may mount the fork, its sandbox, which may be in one of them, and locks last: a task asks for them when nothing
else is in its way, so that none is held by a task that waits.
"""

from __future__ import annotations

from planloop.controllers.leases import AWAITING
from planloop.controllers.sandboxes import Astray
from planloop.controllers.task import (
    budgets,
    containing,
    finishing,
    flight,
    forking,
    jobs,
    keys,
    reopening,
    verifying,
    working,
)
from planloop.controllers.task.observing import Observed
from planloop.controllers.task.slots import AWAITING_SLOT
from planloop.controllers.task.status import Stage, Standing, progress_of, standing
from planloop.controllers.task.step import Says, Step, TryJob, after
from planloop.schemas import limits
from planloop.schemas.encoding import JsonObject
from planloop.schemas.fork import AWAITING_FORK, FORK_FAILED
from planloop.schemas.lock import ring_words
from planloop.schemas.resource import Resource
from planloop.schemas.sandbox import NO_SANDBOX, TRYING_SANDBOX, enforced_merge, wish_of
from planloop.schemas.task import ByAgent, Group, Run, TaskState

AGAIN = f"it is tried again within {limits.SANDBOX_RETRY_CAP_S:g} s, and the task goes on when that helped"
_OPEN_PARENT = (Stage.WORK, Stage.VERIFY, Stage.DONE)


def start(observed: Observed) -> Step:
    """Begins the task, or says what it waits for."""
    says = obstacle(observed)
    if says is not None:
        return _waiting(observed, says)
    if (astray := _astray(observed)) is not None:
        return _led_out(observed, astray)
    if observed.spec.when == "before" and observed.spec.acceptance:
        merge: JsonObject = {"stage": "before", "basis": observed.basis, "checks": dict.fromkeys(_old_checks(observed))}
        return verifying.begin_round(after(observed, merge), "before").on_top_of(merge)
    return begin_work(observed)


def _waiting(observed: Observed, says: Says) -> Step:
    wait_s = observed.progress.not_before - observed.now
    again_s = wait_s if wait_s > 0 else None
    if says.reason in (TRYING_SANDBOX, NO_SANDBOX) and observed.encloser is not None:
        return _trying(observed, says, observed.encloser)
    if says.reason in (AWAITING_FORK, FORK_FAILED):
        return Step(says, forking.MADE, again_s=again_s)
    if says.reason == AWAITING and observed.lock is not None:
        return Step(says, changes=observed.lock.wish, type="lock.requested" if observed.lock.wish else "task.changed")
    if says.reason not in (budgets.NO_BUDGET_LEFT, "BudgetSpent"):
        return Step(says, again_s=again_s)
    notes = budgets.wanted(observed)
    return Step(says, notes.merge, notes.changes, again_s=again_s)


def _trying(observed: Observed, says: Says, encloser: Resource) -> Step:
    """Its sandbox is tried, or will be: a person may put there what is missing while the plan runs."""
    answer = observed.sandbox
    if answer is not None and not answer.is_due(observed.now):
        return Step(says, again_s=None if answer.again_at is None else answer.again_at - observed.now)
    job = TryJob(keys.trying(observed.me.uid), wish_of(encloser.spec.get("sandbox")))
    return Step(says, start=() if job.key in observed.jobs else (job,))


def obstacle(observed: Observed) -> Says | None:
    """The first thing in the way, None when the task may start."""
    before = (_parent, _needs, _budget, _retry, _leftover, _slot, forking.obstacle, _no_sandbox)
    for look in (*before, containing.obstacle, _untried_sandbox, _locks):
        says = look(observed)
        if says is not None:
            return says
    return None


def begin_work(observed: Observed) -> Step:
    """Opens a group, lets the agent go, or queues the command; a queued command has not begun."""
    spec, incarnation = observed.spec, observed.progress.incarnation + 1
    says = budgets.lacking(observed)
    if says is not None:
        return _waiting(observed, says)
    if (astray := _astray(observed)) is not None:
        return _led_out(observed, astray)
    if isinstance(spec.work, Run):
        return jobs.start_run(observed, Step(queued(observed)), incarnation)
    merge = begun(observed, incarnation)
    if isinstance(spec.work, ByAgent):
        merge |= {"go": incarnation, "verdict": None}
    grants = budgets.granted(observed)
    merge |= grants.merge
    return working.advance(after(grants.then, merge)).on_top_of(merge).first(grants.changes)


def _astray(observed: Observed) -> Astray | None:
    """What keeps a task that does something itself from its folder: looked at last, for its needs may have made it."""
    if isinstance(observed.spec.work, Group):
        return None
    ground = observed.ground
    return ground if isinstance(ground, Astray) else None


def _led_out(observed: Observed, astray: Astray) -> Step:
    """The task ends before anything of it begins, as an incarnation of its own."""
    merge = begun(observed, observed.progress.incarnation + 1)
    return finishing.led_out(after(observed, merge), astray).on_top_of(merge)


def begun(observed: Observed, incarnation: int) -> JsonObject:
    """What is written when incarnation `incarnation` begins."""
    encloser = observed.encloser
    return {
        "stage": "work",
        "incarnation": incarnation,
        "attempt": observed.progress.attempt,
        "basis": observed.basis,
        "started_at": observed.now,
        "ended_at": None,
        "not_before": None,
        "result": None,
        "skipped": None,
        "round_for": None,
        "fork": None,
        **enforced_merge(None if encloser is None else encloser.spec.get("sandbox"), observed.me.status),
    }


def queued(observed: Observed) -> Says:
    """A command that may start and has no slot yet."""
    del observed
    return Says(TaskState.WAITING, "Queued", "waits for a free slot", ("a running command or check ends",))


def _old_checks(observed: Observed) -> list[str]:
    return list(observed.progress.checks or ())


def _parent(observed: Observed) -> Says | None:
    parent = observed.parent
    if observed.spec.parent is None:
        return None
    if parent is None:
        return Says(TaskState.WAITING, "ParentWaiting", f"{observed.spec.parent} is not there yet")
    progress = progress_of(parent.status)
    if progress.is_skipped:
        says = f"{parent.address} was skipped: its checks held before any work"
        return Says(TaskState.WAITING, "ParentSkipped", says, (f"the checks of {parent.address} fail",))
    if progress.stage is Stage.FAILED and parent.spec["work"]["kind"] != "group":
        says = f"{parent.address} failed before this task began"
        return Says(TaskState.BLOCKED, "ParentFailed", says, (f"{parent.address} is tried again",), is_stuck=True)
    if progress.stage in (*_OPEN_PARENT, Stage.FAILED):
        return None
    return Says(TaskState.WAITING, "ParentWaiting", f"{parent.address} has not started", (f"{parent.address} starts",))


def _needs(observed: Observed) -> Says | None:
    bad = observed.bad_need
    if bad is not None:
        how = _HOW[standing(bad)]
        cure = (f"{bad.address} becomes done: edit it, or raise its retries", f"the need on {bad.address} is removed")
        reason = "NeedsCancelled" if how == "cancelled" else "NeedsFailed"
        return Says(TaskState.BLOCKED, reason, f"needs {bad.address}, which is {how}", cure, is_stuck=True)
    if observed.needs.open:
        open_need = observed.open_need
        return Says(TaskState.WAITING, "NeedsNotDone", f"needs {open_need}", (f"{open_need} is done",))
    return None


_HOW = {Standing.FAILED: "failed", Standing.CANCELLED: "cancelled", Standing.STUCK: "blocked by a failure itself"}


def _slot(observed: Observed) -> Says | None:
    slot = observed.slot
    if slot is None or slot.is_mine:
        return None
    ways = ("a task at work ends", f"plan patch . limits.tasks={slot.bound + 1}")
    return Says(TaskState.WAITING, AWAITING_SLOT, slot.words, ways)


def _untried_sandbox(observed: Observed) -> Says | None:
    if observed.sandbox is not None:
        return None
    return Says(TaskState.WAITING, TRYING_SANDBOX, "finds out whether its sandbox is to be had", ("it was tried",))


def _no_sandbox(observed: Observed) -> Says | None:
    """Nothing that a task does may run in less than its plan asks for, so that it does not begin.

    This comes before its containers: one that the sandbox is in goes when the plan is over because of this, and a task
    that then waited for it would take heart, and the plan with it, without end.
    """
    answer = observed.sandbox
    if answer is None or answer.is_had:
        return None
    cures = (answer.cure,) if answer.again_at is None else (answer.cure, AGAIN)
    # Once is not enough: a container may have been on its way out, or the machine too busy.
    return Says(TaskState.BLOCKED, NO_SANDBOX, answer.why, cures, is_stuck=answer.tries != 1)


def _locks(observed: Observed) -> Says | None:
    lock = observed.lock
    if lock is None:
        return None
    words = lock.words
    if lock.ring:
        ring = f"a deadlock: {ring_words(lock.ring)}; {words.message}"
        return Says(TaskState.BLOCKED, AWAITING, ring, words.unblocks, is_stuck=True)
    return Says(TaskState.BLOCKED, AWAITING, words.message, words.unblocks)


def _budget(observed: Observed) -> Says | None:
    lacking = budgets.lacking(observed)
    if lacking is not None or budgets.time_left_s(observed) != 0:
        return lacking
    says = "the time that its budget allows is used up"
    return Says(TaskState.BLOCKED, "BudgetSpent", says, (budgets.more_time(observed),), is_stuck=True)


def _retry(observed: Observed) -> Says | None:
    if observed.progress.not_before <= observed.now:
        return None
    return reopening.as_written(observed, TaskState.WAITING)  # What failed was written with the pause.


def _leftover(observed: Observed) -> Says | None:
    if isinstance(observed.spec.work, ByAgent) and observed.agent is None:
        return Says(TaskState.WAITING, "AgentMissing", f"{observed.spec.work.agent} is not there yet")
    if isinstance(observed.spec.work, Group) or not flight.is_agent_busy(observed):
        return None
    return Says(TaskState.STOPPING, "Restarting", "the agent ends its earlier run", ("the agent has stopped",))
