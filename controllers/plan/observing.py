"""What the plan controller reads: the plan, its root task, what waits for approval, and which objects have to wait."""

from __future__ import annotations

from dataclasses import dataclass

from reconciler.store import View
from schemas.approval import WAITING
from schemas.resource import Resource


@dataclass(frozen=True, slots=True)
class Observed:
    """`root` is None until the plan's objects exist. `freed` are pending addresses whose old object is gone.

    `waiting` are approvals that nobody has answered, `orphans` those whose asker is gone.
    """

    plan: Resource
    root: Resource | None
    freed: tuple[str, ...]
    waiting: tuple[Resource, ...]
    orphans: tuple[Resource, ...]


def observe(view: View, address: str) -> Observed | None:
    """The plan at `address` with what bears on it; None when it is gone."""
    plan = view.get(address)
    if plan is None:
        return None
    approvals = view.list("approval")
    return Observed(
        plan=plan,
        root=view.get("task/."),
        freed=tuple(one for one in plan.status.get("pending") or () if _is_free(view.get(one))),
        waiting=tuple(one for one in approvals if one.state == WAITING),
        orphans=tuple(one for one in approvals if one.owner is not None and view.get(one.owner) is None),
    )


def _is_free(found: Resource | None) -> bool:
    return found is None or not found.deleting
