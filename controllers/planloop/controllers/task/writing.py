"""A step as one append: the status, what else it changes, and what readers of the log are told."""

from __future__ import annotations

from planloop.controllers.task.observing import Observed
from planloop.controllers.task.step import Step
from planloop.reconciler.storing.store import Store
from planloop.schemas.encoding import JsonObject
from planloop.schemas.record import Change, Draft, SetStatus

ACTOR = "controller:task"


def write(store: Store, observed: Observed, step: Step) -> int | None:
    """Proposes what `step` writes, computed from `observed`; None when it writes nothing.

    Not flushed: no effect follows a status, and whatever effect comes later flushes what came before it. Raises
    Conflict when the task has moved since it was observed.
    """
    changes = changes_of(observed, step)
    if not changes:
        return None
    draft = Draft(step.type, ACTOR, observed.address, changes, told(step))
    return store.propose(draft, {observed.address: observed.me.rev})


def changes_of(observed: Observed, step: Step) -> tuple[Change, ...]:
    """The object writes of a step."""
    if not step.merge:
        return step.changes
    return (SetStatus(observed.address, observed.me.uid, step.merge), *step.changes)


def told(step: Step) -> JsonObject:
    """What readers of the log see without looking into statuses."""
    return {"state": str(step.says.state), "reason": step.says.reason, "message": step.says.message}
