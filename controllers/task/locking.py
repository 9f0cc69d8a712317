"""Whether the locks that a task asks for are held by it.

The task asks by its status (`wants_locks`), the lock controller grants; neither imports the other.
"""

from __future__ import annotations

from enum import Enum

from reconciler.store import View
from schemas.resource import Resource
from schemas.task import TaskSpec


class LockStanding(Enum):
    """FREE: none asked for, or all held."""

    FREE = "free"
    WAITING = "waiting"


def lock_standing(view: View, me: Resource, spec: TaskSpec) -> LockStanding:
    """How the locks of `me` stand."""
    del view, me
    return LockStanding.WAITING if spec.locks else LockStanding.FREE
