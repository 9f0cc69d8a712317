"""What the plan controller reads: the plan, its root task, what waits for approval, and which objects have to wait."""

from __future__ import annotations

from planloop.reconciler.storing.store import View
from planloop.schemas import address as addresses
from planloop.schemas.approval import WAITING
from planloop.schemas.frozen import frozen
from planloop.schemas.resource import Resource


@frozen
class Observed:
    """`root` is None until the plan's objects exist. `freed` are pending addresses that nothing old is in the way of.

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
        freed=tuple(one for one in plan.status.get("pending") or () if _is_free(view, one)),
        waiting=tuple(one for one in approvals if one.state == WAITING),
        orphans=tuple(one for one in approvals if one.owner is not None and view.get(one.owner) is None),
    )


def _is_free(view: View, text: str) -> bool:
    address = addresses.parse(text)
    above = addresses.task(*address.path) if address.kind == "agent" else address.parent
    return not any(found is not None and found.deleting for found in (view.get(text), view.get(str(above))))
