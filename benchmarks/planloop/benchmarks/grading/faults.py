"""Ends of a task that say nothing of who did it: the world failed, and the case is an `error`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from planloop.schemas.case import Cut
from planloop.schemas.resource import Resource
from planloop.schemas.task import TaskState

OF_THE_WORLD: Final = frozenset({"ContainerFailed", "NoSandbox", "ParentFailed", "NeedsFailed", "NeedsCancelled"})
"""Reasons of a task's `Ready` condition that are nobody's work."""


def infrastructure(case: Resource, task: Resource, containers: Iterable[Resource]) -> str:
    """What of the world failed, in a sentence; empty when the task came to an end that says something.

    `containers` are those that it worked in.
    """
    cut = case.status.get("cut")
    if cut == Cut.WORLD:
        return str(case.status.get("why", ""))
    if task.state == TaskState.CANCELLED and cut is None:
        return "it was cancelled"
    ready = (task.status.get("conditions") or {}).get("Ready") or {}
    lost = next((one.address for one in containers if _is_lost(one)), "")
    if lost:
        return f"{lost} went away while it was worked in"
    return f"{ready['reason']}: {ready.get('message', '')}" if ready.get("reason") in OF_THE_WORLD else ""


def _is_lost(container: Resource) -> bool:
    """Whether it ended, or was started or made again: nothing that is at work in it asks for that."""
    status = container.status
    again = max(int(status.get("starts", 0)), int(status.get("incarnation", 0)))
    return again > 1 or bool(status.get("failures") or status.get("losses"))
