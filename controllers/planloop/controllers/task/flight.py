"""What of a task is in motion, and how it is brought down: jobs, a command of an earlier owner, its agent."""

from __future__ import annotations

from planloop.controllers.task import jobs, keys
from planloop.controllers.task.observing import Observed
from planloop.controllers.task.step import Job, Says, Step
from planloop.schemas.call import CallState
from planloop.schemas.encoding import JsonObject

_AT_REST = frozenset({"", "idle", "ended"})


def is_agent_busy(observed: Observed) -> bool:
    """Whether the agent has an incarnation that it has not ended."""
    return observed.agent is not None and observed.agent.state not in _AT_REST


def is_call_started(observed: Observed) -> bool:
    """Whether a command was started and its result is not written."""
    return observed.call is not None and observed.call.state == CallState.STARTED


def is_in_motion(observed: Observed) -> bool:
    """Whether anything has to be stopped before the task can be called stopped."""
    return bool(observed.jobs) or is_agent_busy(observed) or is_call_started(observed)


def bring_down(observed: Observed, says: Says, merge: JsonObject | None = None) -> Step:
    """The step that stops all of it. Jobs clean up after themselves; a command without one gets a job that stops it."""
    start: tuple[Job, ...] = ()
    if is_call_started(observed) and not observed.jobs and observed.call is not None:
        start = (jobs.stop_job(observed, observed.call),)
    stopping = tuple(sorted(key for key in observed.jobs if not keys.is_stop(key)))
    return Step(says, merge={"go": None, **(merge or {})}, start=start, cancel=stopping)
