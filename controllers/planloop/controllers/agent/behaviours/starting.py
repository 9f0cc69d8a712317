"""Which calls may start now under the permits of their agents' mixins, and which run in place."""

from __future__ import annotations

from collections.abc import Sequence

from planloop.controllers.agent.behaviours.calling import traced
from planloop.controllers.agent.behaviours.permits import Bound, Permits, bounds_of
from planloop.controllers.agent.behaviours.steps import Step, for_call, for_turn
from planloop.controllers.agent.calling.calls import Tools
from planloop.controllers.agent.calling.waiting import SINCE
from planloop.controllers.agent.observing import Observed
from planloop.controllers.agent.tools.tool import Ending, Tool
from planloop.schemas.call import CallState
from planloop.schemas.resource import Resource
from planloop.schemas.sandbox import CONTAINER, wish_of
from planloop.schemas.tools import PATH_TOOLS


def steps_of(seen: Observed, call: Resource, tool: Tool) -> tuple[Step, ...]:
    """The steps that a call object of the agent goes through."""
    return for_call(seen.spec, tool.name, tool.subjects(call.spec["arguments"]), is_free=tool.is_free)


def is_in_place(seen: Observed, call: Resource, tool: Tool) -> bool:
    """Whether the call needs no job: its whole effect is in its record, and no program has a say in it.

    What is in a container is not read from one moment to the next.
    """
    if tool.name in PATH_TOOLS and wish_of(seen.spec.sandbox).tier >= CONTAINER:
        return False
    return tool.is_instant and not any(step.is_program for step in steps_of(seen, call, tool))


def marked(seen: Observed, call: Resource, tool: Tool, ending: Ending) -> Ending:
    """The ending of a call that ran in place, with what `trace` writes down of it."""
    is_traced = any(step.verb == "trace" for step in steps_of(seen, call, tool))
    return traced(ending, 0.0, 1) if is_traced else ending


def waited_out(seen: Observed, call: Resource, tool: Tool | None, ending: Ending) -> Ending:
    """The same for a call that waited, from when it began to."""
    is_traced = tool is not None and any(step.verb == "trace" for step in steps_of(seen, call, tool))
    return traced(ending, seen.now - float(call.status.get(SINCE, seen.now)), 1) if is_traced else ending


def permitted(
    permits: Permits, seen: Observed, tools: Tools, calls: Sequence[Resource]
) -> tuple[tuple[Resource, ...], Bound | None]:
    """The calls that have their permits, and the bound that the first of the others waits for."""
    if not seen.spec.mixins:
        return tuple(calls), None
    owner, full = seen.resource.address, None
    found: list[Resource] = []
    for call in calls:
        bounds = bounds_of(steps_of(seen, call, tools[str(call.spec["tool"])]), seen.resource.uid)
        if call.state == CallState.STARTED:
            permits.adopt(bounds, call.address)
        elif (reached := permits.take(bounds, call.address, owner)) is not None:
            full = full or reached
            continue
        found.append(call)
    return tuple(found), full


def asking_waits_for(permits: Permits, seen: Observed, job: str) -> Bound | None:
    """The bound that the asking of the mind waits for; None: it has its permits."""
    if not seen.spec.mixins:
        return None
    return permits.take(bounds_of(for_turn(seen.spec), seen.resource.uid), job, seen.resource.address)


def needs_job(seen: Observed) -> bool:
    """Whether the mind is asked in a job though it could answer in place: a program has a say in it."""
    return any(step.is_program for step in for_turn(seen.spec))


def words_of(bound: Bound) -> str:
    """Why somebody waits for `bound`, for people."""
    name = bound.key.removeprefix("name:") if bound.key.startswith("name:") else ""
    return f"waits for one of {bound.permits} permits" + (f" of `{name}`" if name else "")
