"""Active time and retries against every budget on the way to the root.

What a task and everything below it has spent is kept in its status under `spent`, only where a budget bounds it; agents
count their turns and calls there too. Waiting does not count: only a command that runs spends time here.
"""

from __future__ import annotations

from collections.abc import Sequence

from controllers.task.observing import Observed
from schemas.encoding import JsonObject
from schemas.record import Change, SetStatus
from schemas.resource import Resource
from schemas.task import Run

TIMEOUT_MIN_S = 0.1  # What is left of a budget may be next to nothing, and zero would mean no limit to some.


def timeout_s(observed: Observed) -> float | None:
    """Seconds until the command is stopped: its own limit under what the budgets leave it; None means no limit."""
    work = observed.spec.work
    bounds = [work.timeout_s if isinstance(work, Run) else None, time_left_s(observed)]
    stated = [bound for bound in bounds if bound is not None]
    return max(TIMEOUT_MIN_S, min(stated)) if stated else None


def time_left_s(observed: Observed) -> float | None:
    """The least active time that any budget leaves the task; None means that none bounds it."""
    return _left(observed.budgeted, "time_s")


def retries_left(observed: Observed) -> float | None:
    """The least number of retries that any budget leaves the task; None means that none bounds it."""
    return _left(observed.budgeted, "retries")


def spending(observed: Observed, *, time_s: float = 0.0, retries: int = 0) -> tuple[Change, ...]:
    """The writes that add to what the budgeted tasks from this one upward have spent."""
    used = {"time_s": time_s, "retries": retries}
    changes: list[Change] = []
    for task in observed.budgeted:
        spent = task.status.get("spent") or {}
        added: JsonObject = {
            unit: round(spent.get(unit, 0) + amount, 6)
            for unit, amount in used.items()
            if amount and task.spec["budget"].get(unit) is not None
        }
        if added:
            changes.append(SetStatus(task.address, task.uid, {"spent": added}))
    return tuple(changes)


def _left(tasks: Sequence[Resource], unit: str) -> float | None:
    bounded = [task for task in tasks if task.spec["budget"].get(unit) is not None]
    left = [task.spec["budget"][unit] - (task.status.get("spent") or {}).get(unit, 0) for task in bounded]
    return max(0, min(left)) if left else None
