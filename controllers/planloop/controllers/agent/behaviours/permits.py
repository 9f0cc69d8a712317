"""Permits: how many calls or turns may run at once, by agent or by a name that agents share.

Whoever gets no permit is not started at all and holds nothing; it is looked at again when one may be free. Permits are
as old as the owner's jobs: a holder that is no live job of the work plane has given its permit back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from planloop.controllers.agent.behaviours.steps import Step
from planloop.reconciler.driving.working import WorkPlane
from planloop.schemas.frozen import frozen, mutable


@frozen
class Bound:
    """So many at once under this key."""

    key: str
    permits: int


def bounds_of(steps: Sequence[Step], uid: str) -> tuple[Bound, ...]:
    """The bounds in `steps`; one without a name is the agent's own."""
    found = [step for step in steps if step.verb == "concurrency-limit"]
    return tuple(
        Bound(f"name:{step.table['name']}" if step.table.get("name") else f"{uid}:{step.mixin}:{step.on}:{index}", each)
        for index, step in enumerate(found)
        for each in [int(step.table.get("permits", 1))]
    )


@mutable
class _Counted:
    permits: int
    holders: dict[str, None] = field(default_factory=dict)
    waiting: dict[str, None] = field(default_factory=dict)


@mutable
class Permits:
    """The permits of one owner. `job` is a key of the work plane, `owner` the address that it belongs to.

    Between `take` and the start of its job nothing may be awaited: only `sweep` looks for holders that are no jobs.
    """

    work: WorkPlane
    _counted: dict[str, _Counted] = field(default_factory=dict)

    def take(self, bounds: Sequence[Bound], job: str, owner: str) -> Bound | None:
        """Takes all the permits that `job` needs, or none: then the bound that is reached. `owner` is poked later."""
        for bound in bounds:
            counted = self._of(bound)
            if job not in counted.holders and len(counted.holders) >= bound.permits:
                counted.waiting[owner] = None
                return bound
        for bound in bounds:
            self._counted[bound.key].holders[job] = None
        return None

    def adopt(self, bounds: Sequence[Bound], job: str) -> None:
        """Counts a job that runs whether there is room or not: an earlier owner started it."""
        for bound in bounds:
            self._of(bound).holders[job] = None

    @property
    def are_out(self) -> bool:
        """Whether anybody holds a permit or waits for one."""
        return bool(self._counted)

    def sweep(self) -> None:
        """Pokes whoever waits where there is room again, in the order in which they came."""
        for key, counted in list(self._counted.items()):
            self._drop_dead(counted)
            if counted.waiting and len(counted.holders) < counted.permits:
                for owner in counted.waiting:
                    self.work.poke(owner)
                counted.waiting = {}
            if not counted.holders and not counted.waiting:
                del self._counted[key]

    def _of(self, bound: Bound) -> _Counted:
        counted = self._counted.setdefault(bound.key, _Counted(bound.permits))
        counted.permits = bound.permits
        return counted

    def _drop_dead(self, counted: _Counted) -> None:
        for job in [job for job in counted.holders if not self.work.is_live(job)]:
            del counted.holders[job]
