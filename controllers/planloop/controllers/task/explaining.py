"""Why a task is as it is, and what would change that: the controller's own rules, on a view and nothing else."""

from __future__ import annotations

from planloop.controllers.task.deciding import step_for
from planloop.controllers.task.observing import Ground, Observer
from planloop.controllers.task.slots import Slots
from planloop.controllers.task.step import Says
from planloop.controllers.task.tallying import Tallies
from planloop.reconciler.storing.store import View
from planloop.schemas.resource import Resource


def why(task: Resource, view: View, now: float, ground: Ground) -> Says:
    """State, reason, message and `unblocks` of `task` as the view has it at `now`; for `plan describe`.

    `ground` says where a task works, which no view tells. A command that may start and has not is Queued: who waits for
    a slot is known to the owner's work plane only.
    """
    tallies = Tallies()
    near = [task.address, *task.spec["needs"], *(owned.address for owned in view.owned_by(task.address))]
    tallies.update(view, near)
    slots = Slots()
    slots.count(view)
    return step_for(Observer(view, tallies, None, slots=slots, ground=ground).observe_as(task, now)).says
