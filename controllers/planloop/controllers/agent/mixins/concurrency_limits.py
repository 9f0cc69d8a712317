"""How many calls or turns may run at once, and which calls may start now.

Permits count per agent, or per name that agents share. A call without a permit does not start and holds nothing; it is
checked again when a permit may be free. A permit belongs to a live job of the owner and is free when the job is gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from planloop.controllers.agent.mixins.middleware import add_trace
from planloop.controllers.agent.mixins.steps import MixinStep, steps_for_call, steps_for_turn
from planloop.controllers.agent.observe import ObservedAgent
from planloop.controllers.agent.tools.tool import CallEnding, Tool
from planloop.controllers.agent.turn.permissions import ToolMap
from planloop.controllers.agent.turn.records import WAITS_SINCE
from planloop.reconciler.engine.work_pools import WorkPlane
from planloop.schemas.frozen import frozen, mutable
from planloop.schemas.objects.call import CallState
from planloop.schemas.objects.sandbox import CONTAINER, sandbox_request
from planloop.schemas.resource import Resource
from planloop.schemas.tools import PATH_TOOLS


@frozen
class PermitLimit:
    """The number of jobs that may run at the same time under this key."""

    key: str
    permits: int


def permit_limits(steps: Sequence[MixinStep], uid: str) -> tuple[PermitLimit, ...]:
    """Return the limits in `steps`. A limit without a name applies to this agent alone."""
    found = [step for step in steps if step.verb == "concurrency-limit"]
    return tuple(
        PermitLimit(
            f"name:{step.table['name']}" if step.table.get("name") else f"{uid}:{step.mixin}:{step.on}:{index}", each
        )
        for index, step in enumerate(found)
        for each in [int(step.table.get("permits", 1))]
    )


@mutable
class _Counted:
    permits: int
    holders: dict[str, None] = field(default_factory=dict)
    waiting: dict[str, None] = field(default_factory=dict)


@mutable
class PermitPool:
    """The permits of one owner. `job` is a key of the work plane, `owner` the address that it belongs to.

    Do not await between `take` and the start of its job: `sweep` frees the permits of holders that are not live jobs.
    """

    work: WorkPlane
    _counted: dict[str, _Counted] = field(default_factory=dict)

    def take(self, bounds: Sequence[PermitLimit], job: str, owner: str) -> PermitLimit | None:
        """Take all permits that `job` needs. Or take none and return the exhausted limit: `owner` is woken later."""
        for bound in bounds:
            counted = self._of(bound)
            if job not in counted.holders and len(counted.holders) >= bound.permits:
                counted.waiting[owner] = None
                return bound
        for bound in bounds:
            self._counted[bound.key].holders[job] = None
        return None

    def adopt(self, bounds: Sequence[PermitLimit], job: str) -> None:
        """Count a running job even over the limit: an earlier owner started it."""
        for bound in bounds:
            self._of(bound).holders[job] = None

    @property
    def are_out(self) -> bool:
        """Whether a permit is held or awaited."""
        return bool(self._counted)

    def sweep(self) -> None:
        """Wake the waiting owners of free permits, in the order of arrival."""
        for key, counted in list(self._counted.items()):
            self._drop_dead(counted)
            if counted.waiting and len(counted.holders) < counted.permits:
                for owner in counted.waiting:
                    self.work.poke(owner)
                counted.waiting = {}
            if not counted.holders and not counted.waiting:
                del self._counted[key]

    def _of(self, bound: PermitLimit) -> _Counted:
        counted = self._counted.setdefault(bound.key, _Counted(bound.permits))
        counted.permits = bound.permits
        return counted

    def _drop_dead(self, counted: _Counted) -> None:
        for job in [job for job in counted.holders if not self.work.is_live(job)]:
            del counted.holders[job]


def steps_of_call(agent: ObservedAgent, call: Resource, tool: Tool) -> tuple[MixinStep, ...]:
    """Return the steps that apply to a call object of the agent."""
    return steps_for_call(agent.spec, tool.name, tool.subjects(call.spec["arguments"]), is_free=tool.is_free)


def runs_in_place(agent: ObservedAgent, call: Resource, tool: Tool) -> bool:
    """Whether the call needs no job: its whole effect is in its record, and no program runs.

    A read from a container needs a job.
    """
    if tool.name in PATH_TOOLS and sandbox_request(agent.spec.sandbox).tier >= CONTAINER:
        return False
    return tool.is_instant and not any(step.is_program for step in steps_of_call(agent, call, tool))


def trace_in_place(agent: ObservedAgent, call: Resource, tool: Tool, ending: CallEnding) -> CallEnding:
    """Return the settlement of a call that ran in place, with the data of `trace`."""
    is_traced = any(step.verb == "trace" for step in steps_of_call(agent, call, tool))
    return add_trace(ending, 0.0, 1) if is_traced else ending


def trace_wait(agent: ObservedAgent, call: Resource, tool: Tool | None, ending: CallEnding) -> CallEnding:
    """The same for a call that waited, with its waiting time."""
    is_traced = tool is not None and any(step.verb == "trace" for step in steps_of_call(agent, call, tool))
    return add_trace(ending, agent.now - float(call.status.get(WAITS_SINCE, agent.now)), 1) if is_traced else ending


def take_call_permits(
    permits: PermitPool, agent: ObservedAgent, tools: ToolMap, calls: Sequence[Resource]
) -> tuple[tuple[Resource, ...], PermitLimit | None]:
    """Return the calls that got their permits, and the limit that the first of the others waits for."""
    if not agent.spec.mixins:
        return tuple(calls), None
    owner, full = agent.resource.address, None
    found: list[Resource] = []
    for call in calls:
        bounds = permit_limits(steps_of_call(agent, call, tools[str(call.spec["tool"])]), agent.resource.uid)
        if call.state == CallState.STARTED:
            permits.adopt(bounds, call.address)
        elif (reached := permits.take(bounds, call.address, owner)) is not None:
            full = full or reached
            continue
        found.append(call)
    return tuple(found), full


def take_turn_permit(permits: PermitPool, agent: ObservedAgent, job: str) -> PermitLimit | None:
    """Return the limit that a request to the decider waits for; None if it got its permits."""
    if not agent.spec.mixins:
        return None
    return permits.take(permit_limits(steps_for_turn(agent.spec), agent.resource.uid), job, agent.resource.address)


def asking_needs_job(agent: ObservedAgent) -> bool:
    """Whether a decider that answers in place needs a job, because a step runs a program."""
    return any(step.is_program for step in steps_for_turn(agent.spec))


def describe_permit_limit(bound: PermitLimit) -> str:
    """Return why a call waits for `bound`, as text."""
    name = bound.key.removeprefix("name:") if bound.key.startswith("name:") else ""
    return f"waits for one of {bound.permits} permits" + (f" of `{name}`" if name else "")
