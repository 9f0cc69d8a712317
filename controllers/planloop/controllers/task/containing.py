"""Containers and tasks: a task does not begin before those that it names are up; a plan of containers is their run.

The controllers of both meet in the store: a container's state is read from its status and from nothing else.
"""

from __future__ import annotations

from typing import Final

from planloop.controllers.leases import AWAITING as AWAITING_LOCK
from planloop.controllers.task import finishing
from planloop.controllers.task.observing import Observed
from planloop.controllers.task.step import Says, Step
from planloop.schemas.container import AWAITING_CONTAINERS, UP, ContainerState, has_health
from planloop.schemas.resource import Resource
from planloop.schemas.sandbox import NO_SANDBOX, TRYING_SANDBOX
from planloop.schemas.task import Group, TaskState

WANTING: Final = frozenset({AWAITING_CONTAINERS, TRYING_SANDBOX, NO_SANDBOX, AWAITING_LOCK, "Queued"})
"""Reasons of a task that has not begun for which the containers that are for it are up: hardly more is missing."""

_HAS_ENDED = (ContainerState.COMPLETED, ContainerState.FAILED)


def obstacle(observed: Observed) -> Says | None:
    """The first container that the task waits for before it begins; None when all are up."""
    if is_their_run(observed):
        return None
    for name in observed.spec.containers:
        found = observed.containers.get(name)
        if found is not None and _is_up(found):
            continue
        wanted = "healthy" if found is None or has_health(found.spec) else "running"
        if found is not None and found.state == ContainerState.FAILED:
            says = f"{name} is not {wanted}: {_why(found)}"
            return Says(TaskState.BLOCKED, "ContainerFailed", says, _cures(name, found), is_stuck=True)
        state = found.state if found is not None and found.state else "new"
        words = f"{name} is {wanted} (now {state})"
        return Says(TaskState.WAITING, AWAITING_CONTAINERS, f"waits until {words}", (words, f"plan describe {name}"))
    return None


def is_their_run(observed: Observed) -> bool:
    """Whether the containers are what the task does: it has nothing else to do."""
    return isinstance(observed.spec.work, Group) and not observed.spec.children and bool(observed.spec.containers)


def run(observed: Observed) -> Step | None:
    """A task that is the run of its containers, until all of them have ended; None for any other, and at its end."""
    if not is_their_run(observed):
        return None
    found = [observed.containers.get(name) for name in observed.spec.containers]
    failed = next((one for one in found if one is not None and one.state == ContainerState.FAILED), None)
    if failed is not None:
        return finishing.failed(observed, "ContainerFailed", f"{failed.address} failed: {_why(failed)}")
    if all(one is not None and one.state in _HAS_ENDED for one in found):
        return None
    says = Says(TaskState.RUNNING, "ContainersRunning", "its containers run", ("they end", "plan down"))
    return Step(says, merge={"stage": "work", "round_for": None})


def is_mended(observed: Observed) -> bool:
    """Whether a run of containers that failed has none any more that did: who was edited waits for it to begin."""
    states = [one.state for one in observed.containers.values()]
    is_over = all(state in (ContainerState.COMPLETED, ContainerState.KEPT, ContainerState.REMOVED) for state in states)
    return is_their_run(observed) and is_over and ContainerState.REMOVED in states


def _is_up(container: Resource) -> bool:
    if container.state == ContainerState.COMPLETED:
        return True
    return container.state == ContainerState.HEALTHY if has_health(container.spec) else container.state in UP


def _why(container: Resource) -> str:
    ready = container.status.get("conditions", {}).get("Ready", {})
    return str(ready.get("message", ""))


def _cures(name: str, container: Resource) -> tuple[str, ...]:
    ready = container.status.get("conditions", {}).get("Ready", {})
    return (f"plan describe {name}", *ready.get("unblocks", ()))
