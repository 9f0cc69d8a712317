"""Containers that a task waits for before it starts, and tasks that only run containers. Pure.

The controllers of both meet in the store: a container's state is read from its status and from nothing else.
"""

from __future__ import annotations

from typing import Final

from planloop.controllers.shared.leases.grants import AWAITING as AWAITING_LOCK
from planloop.controllers.task import finish
from planloop.controllers.task.observe import ObservedTask
from planloop.controllers.task.step import TaskExplanation, TaskStep
from planloop.schemas.objects.container import AWAITING_CONTAINERS, UP, ContainerState, has_health
from planloop.schemas.objects.sandbox import NO_SANDBOX, TRYING_SANDBOX
from planloop.schemas.objects.task import GroupWork, TaskState
from planloop.schemas.resource import Resource

STILL_STARTING: Final = frozenset({AWAITING_CONTAINERS, TRYING_SANDBOX, NO_SANDBOX, AWAITING_LOCK, "Queued"})
"""Reasons of a task that has not begun for which the containers that are for it are up: hardly more is missing."""

_HAS_ENDED = (ContainerState.COMPLETED, ContainerState.FAILED)


def container_obstacle(observed: ObservedTask) -> TaskExplanation | None:
    """The first container that the task waits for before it begins; None when all are up."""
    if is_container_run(observed):
        return None
    for name in observed.spec.containers:
        found = observed.start.containers.get(name)
        if found is not None and _is_up(found):
            continue
        wanted = "healthy" if found is None or has_health(found.spec) else "running"
        if found is not None and found.state == ContainerState.FAILED:
            says = f"{name} is not {wanted}: {_why(found)}"
            return TaskExplanation(TaskState.BLOCKED, "ContainerFailed", says, _cures(name, found), is_stuck=True)
        state = found.state if found is not None and found.state else "new"
        words = f"{name} is {wanted} (now {state})"
        return TaskExplanation(
            TaskState.WAITING, AWAITING_CONTAINERS, f"waits until {words}", (words, f"plan describe {name}")
        )
    return None


def is_container_run(observed: ObservedTask) -> bool:
    """Whether the containers are what the task does: it has nothing else to do."""
    return isinstance(observed.spec.work, GroupWork) and not observed.spec.children and bool(observed.spec.containers)


def container_run_step(observed: ObservedTask) -> TaskStep | None:
    """A task that is the run of its containers, until all of them have ended; None for any other, and at its end."""
    if not is_container_run(observed):
        return None
    found = [observed.start.containers.get(name) for name in observed.spec.containers]
    failed = next((one for one in found if one is not None and one.state == ContainerState.FAILED), None)
    if failed is not None:
        return finish.failed_step(observed, "ContainerFailed", f"{failed.address} failed: {_why(failed)}")
    if all(one is not None and one.state in _HAS_ENDED for one in found):
        return None
    says = TaskExplanation(TaskState.RUNNING, "ContainersRunning", "its containers run", ("they end", "plan down"))
    return TaskStep(says, merge={"stage": "work", "round_for": None})


def has_recovered(observed: ObservedTask) -> bool:
    """Whether a run of containers that failed has none any more that did: who was edited waits for it to begin."""
    states = [one.state for one in observed.start.containers.values()]
    is_over = all(state in (ContainerState.COMPLETED, ContainerState.KEPT, ContainerState.REMOVED) for state in states)
    return is_container_run(observed) and is_over and ContainerState.REMOVED in states


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
