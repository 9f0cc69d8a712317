"""How an agent is told of the containers that it works with: those of its task, and those that its task waits for."""

from __future__ import annotations

from planloop.controllers.inside.standing import standing
from planloop.reconciler.storing.store import View
from planloop.schemas import limits
from planloop.schemas.container import KIND


def told(view: View, task: str, awaited: tuple[str, ...]) -> str:
    """Their states in a line, for the end of a prompt; empty when there are none.

    `task` is the task's address, `awaited` are the addresses of containers.
    """
    path = task.partition("/")[2]
    found = [one for one in view.list(KIND) if one.spec["task"] == path or one.address in awaited]
    said = "; ".join(standing(one).words for one in found[: limits.CONTAINERS_TOLD_MAX])
    rest = f" and {len(found) - limits.CONTAINERS_TOLD_MAX} more" if len(found) > limits.CONTAINERS_TOLD_MAX else ""
    return f"[your containers: {said}{rest}]" if said else ""
