"""Which tasks an entry in a ledger concerns besides the task itself and its ancestors, read from the view.

Both look-ups cost nothing for a task without a ledger of its own or above.
"""

from __future__ import annotations

from collections.abc import Sequence

from planloop.reconciler.storing.store import View
from planloop.schemas.resource import Resource
from planloop.schemas.task import ENDED


def over(view: View, me: Resource, above: Sequence[Resource]) -> tuple[str, ...]:
    """The uids among `me` and the tasks `above` it that hold a grant and have ended with all that is below them.

    Looked at from below as well, because a task may end long after the one that it was a part of.
    """
    if me.deleting or me.state not in ENDED or not (above or "ledger" in me.status):
        return ()
    found: list[str] = []
    for task in (me, *above):
        if task.state not in ENDED:
            break
        if holds_grant(task) and _has_ended(view, task) and _grantees(task) <= set(found):
            found.append(task.uid)
    return tuple(found)


def kin(view: View, me: Resource, above: Sequence[Resource]) -> tuple[Resource, ...]:
    """The children of a budget that is no longer in the plan, and the givers of one that was moved; else nothing."""
    if "ledger" not in me.status:
        return ()
    ledger = {unit: one for unit, one in me.status["ledger"].items() if not one.get("closed")}
    if not ledger:
        return ()
    known = {task.uid for task in above}
    givers = {one["giver"] for one in ledger.values() if one.get("giver")} - known
    heirs = {uid for unit, one in ledger.items() if unit not in me.spec["budget"] for uid in one.get("granted", ())}
    wanted = givers | heirs
    return tuple(task for task in view.list("task") if task.uid in wanted) if wanted else ()


def holds_grant(task: Resource) -> bool:
    """Whether it has something of another's budget that it has not given back."""
    if "ledger" not in task.status:
        return False
    return any(one.get("giver") and not one.get("closed") for one in task.status["ledger"].values())


def _grantees(task: Resource) -> set[str]:
    """Who holds a grant of the task: they give theirs back first."""
    return {uid for one in task.status.get("ledger", {}).values() for uid in one.get("granted", ())}


def _has_ended(view: View, task: Resource) -> bool:
    if task.deleting or task.state not in ENDED:
        return False
    children = [view.get(address) for address in task.spec["children"]]
    if any(child is None for child in children):
        return False
    return all(_has_ended(view, child) for child in view.owned_by(task.address) if child.kind == "task")
