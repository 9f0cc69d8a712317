"""Ends of a task that say nothing of who did it: the world failed, and the case is an `error`."""

from __future__ import annotations

from typing import Final

from schemas.resource import Resource

OF_THE_WORLD: Final = frozenset(
    {
        "ContainerFailed",
        "ContainersFailed",
        "NeedFailed",
        "ModelFailed",
        "NoSandbox",
    }
)
"""Reasons of a task's `Ready` condition that are nobody's work."""


def infrastructure(task: Resource) -> str:
    """What of the world failed, in a sentence; empty when the task came to an end of its own."""
    ready = (task.status.get("conditions") or {}).get("Ready") or {}
    if task.state == "cancelled":
        return "it was cancelled"
    return f"{ready.get('reason')}: {ready.get('message', '')}" if ready.get("reason") in OF_THE_WORLD else ""
