"""How long a command may run: its own time limit under what its budget has left of active time."""

from __future__ import annotations

from controllers.task.observing import Observed
from schemas.task import Run


def timeout_s(observed: Observed) -> float | None:
    """Seconds until the command is stopped; None means no limit. Never below a tenth of a second."""
    work = observed.spec.work
    bounds = [work.timeout_s if isinstance(work, Run) else None, time_left_s(observed)]
    stated = [bound for bound in bounds if bound is not None]
    return max(0.1, min(stated)) if stated else None


def time_left_s(observed: Observed) -> float | None:
    """Active time that the task's own budget leaves it; None means that it has no such budget."""
    bound = observed.spec.budget.time_s
    return None if bound is None else bound - observed.progress.spent_s
