"""The writes around an effect, as pure steps: a command begins, a command ended, a check found something.

Each is decided on what will be true once it is written, so that one append holds the result and what follows from it.
"""

from __future__ import annotations

from planloop.controllers.task import budgets, conditions, keys, starting
from planloop.controllers.task.deciding import step_for
from planloop.controllers.task.observing import Observed
from planloop.controllers.task.outcome import Outcome
from planloop.controllers.task.status import Stage
from planloop.controllers.task.step import CheckJob, Says, Step, after, composed
from planloop.schemas.call import CallState
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import remade
from planloop.schemas.resource import Resource
from planloop.schemas.task import TaskState


def next_incarnation(observed: Observed) -> int:
    """The incarnation that a command started now belongs to: a command that never began is not a new one."""
    return observed.progress.incarnation + (0 if observed.progress.stage is Stage.WORK else 1)


def begins(observed: Observed, call: str) -> Step:
    """The task's command starts as the call at `call`."""
    begun = starting.begun(observed, next_incarnation(observed))
    grants = budgets.granted(observed)
    merge = composed(step_for(observed).merge, {**begun, **grants.merge, "call": call})
    says = Says(TaskState.RUNNING, "Running", "its command runs")
    return conditions.complete(observed, Step(says, merge, grants.changes))


def ended(before: Observed, call: Resource, outcome: Outcome) -> Step:
    """The command of `call` ended so, or was lost, or was stopped by us (then it has not begun)."""
    running_s = max(0.0, before.now - before.progress.started_at)
    used = budgets.billed(before, time_s=running_s)
    merge: JsonObject = {**used.merge, "spent_s": round(before.progress.spent_s + running_s, 6)}
    jobs = frozenset(key for key in before.jobs if not keys.is_run(key) and not keys.is_stop(key))
    if outcome.call.state is CallState.UNKNOWN:
        doubt = remade(call, status={**call.status, "state": str(CallState.UNKNOWN)})
        then = remade(after(used.then, merge), jobs=jobs, call=doubt)
    else:
        merge |= {"call": None, "result": outcome.result}
        if outcome.result is None:
            merge["stage"] = ""
        then = remade(after(used.then, merge), jobs=jobs)
    step = conditions.complete(before, step_for(then).on_top_of(merge))
    return remade(step, changes=(*used.changes, *step.changes))


def found(before: Observed, job: CheckJob, entry: JsonObject) -> Step:
    """The check of `job` found what `entry` says."""
    merge: JsonObject = {"checks": {job.check.key: entry}}
    return conditions.complete(before, step_for(after(before, merge)).on_top_of(merge))
