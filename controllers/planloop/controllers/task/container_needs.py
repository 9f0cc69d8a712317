"""Decide when the containers of a task are ready, for tasks that use containers and tasks that only run them. Pure.

The state of a container is read from its status in the store.
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
"""Reasons of a task that has not begun but is about to: its containers are started."""

_HAS_ENDED = (ContainerState.COMPLETED, ContainerState.FAILED)


def container_obstacle(observed: ObservedTask) -> TaskExplanation | None:
    """Return the first container that the task must wait for; None if all are up."""
    if is_container_run(observed):
        return None
    for name in observed.spec.containers:
        found = observed.start.containers.get(name)
        if found is not None and _is_up(found):
            continue
        wanted = "healthy" if found is None or has_health(found.spec) else "running"
        if found is not None and found.state == ContainerState.FAILED:
            says = f"{name} is not {wanted}: {_why(found)}"
            return TaskExplanation(TaskState.BLOCKED, "ContainerFailed", says, _fixes(name, found), is_stuck=True)
        state = found.state if found is not None and found.state else "new"
        words = f"{name} is {wanted} (now {state})"
        return TaskExplanation(
            TaskState.WAITING, AWAITING_CONTAINERS, f"waits until {words}", (words, f"plan describe {name}")
        )
    return None


def is_container_run(observed: ObservedTask) -> bool:
    """Whether the task only runs its containers: it has no command, agent or child tasks."""
    return isinstance(observed.spec.work, GroupWork) and not observed.spec.children and bool(observed.spec.containers)


def container_run_step(observed: ObservedTask) -> TaskStep | None:
    """Return the step of a task that only runs containers; None for other tasks, and when all containers ended."""
    if not is_container_run(observed):
        return None
    found = [observed.start.containers.get(name) for name in observed.spec.containers]
    failed = next((one for one in found if one is not None and one.state == ContainerState.FAILED), None)
    if failed is not None:
        return finish.failed_step(observed, "ContainerFailed", f"{failed.address} failed: {_why(failed)}")
    if all(one is not None and one.state in _HAS_ENDED for one in found):
        return None
    says = TaskExplanation(
        TaskState.RUNNING, "ContainersRunning", "its containers are running", ("its containers end", "plan down")
    )
    return TaskStep(says, merge={"stage": "work", "round_for": None})


def has_recovered(observed: ObservedTask) -> bool:
    """Whether a task that failed because of its containers can start again.

    No container is failed any more, and an edited container is waiting to be started.
    """
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


def _fixes(name: str, container: Resource) -> tuple[str, ...]:
    ready = container.status.get("conditions", {}).get("Ready", {})
    return (f"plan describe {name}", *ready.get("unblocks", ()))
