"""What to do about one task: a pure function from what was observed to one step.

The order is the order of authority: removal, then cancel, then a newer wish, then pause, then how far the work is. Each
rule is next door, in the file of its concept.
"""

from __future__ import annotations

from typing import assert_never

from planloop.controllers.task import budgets, conditions, forking, halting, reopening, starting, verifying, working
from planloop.controllers.task.family import not_done
from planloop.controllers.task.observing import Observed
from planloop.controllers.task.status import Stage
from planloop.controllers.task.step import Step
from planloop.schemas.frozen import remade
from planloop.schemas.task import Group


def decide(observed: Observed) -> Step:
    """The next step, its status complete with state and conditions and cut down to what is new.

    Deciding again on the state that the step leads to gives a step that writes nothing.
    """
    entry = budgets.kept(observed)
    step = step_for(entry.then)
    if entry.merge or entry.changes:
        step = step.on_top_of(entry.merge).first(entry.changes)
    step = conditions.complete(observed, step)
    if observed.over and (refunds := budgets.refunded(entry.then)):
        return remade(step, changes=(*step.changes, *refunds), type="budget.refunded")
    return step


def step_for(observed: Observed) -> Step:
    """The step before it is compared with what is already written."""
    if observed.me.deleting:
        return halting.remove(observed)
    if observed.halt is not None and observed.halt.how == "cancel":
        return halting.keep(observed) if halting.is_ended(observed) else halting.cancel(observed)
    edited = halting.superseded(observed)
    if observed.halt is not None:
        if halting.is_ended(observed):
            return halting.keep(observed)
        return halting.restart(observed, edited) if edited and observed.jobs else halting.pause(observed)
    if edited:
        return halting.restart(observed, edited)
    return _by_stage(observed)


def _by_stage(observed: Observed) -> Step:
    stage = observed.progress.stage
    match stage:
        case Stage.NOT_BEGUN:
            return starting.start(observed)
        case Stage.BEFORE:
            return verifying.advance(observed)
        case Stage.WORK:
            return forking.hold(observed) or forking.go_on(observed, working.advance(observed))
        case Stage.VERIFY:
            if isinstance(observed.spec.work, Group) and not_done(observed) is not None:
                return working.over(observed)
            return verifying.advance(observed)
        case Stage.DONE:
            return reopening.keep_done(observed)
        case Stage.FAILED:
            return reopening.keep_failed(observed)
        case _:
            assert_never(stage)
