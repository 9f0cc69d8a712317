"""Who may own a grant, whether it is still the one that was granted, and who is whose ancestor.

A task and its own agent share a path and are one family. What an ancestor holds never stands in a descendant's way: it
is delegated down, and those below exclude each other.
"""

from __future__ import annotations

from planloop.reconciler.storing.store import View
from planloop.schemas import limits
from planloop.schemas.agent import AgentState
from planloop.schemas.call import CallState
from planloop.schemas.encoding import JsonObject
from planloop.schemas.fork import lock_place
from planloop.schemas.frozen import frozen
from planloop.schemas.lock import locks_of
from planloop.schemas.resource import Resource
from planloop.schemas.task import ENDED


@frozen
class Owner:
    """Who holds or wants: a task's or an agent's address, with its uid and its incarnation at this moment."""

    address: str
    uid: str
    incarnation: int


def owner_of(owner: Resource) -> Owner:
    """A task or an agent as an owner, as it stands. A task that has not begun is its next incarnation."""
    incarnation = int(owner.status.get("incarnation") or 0)
    if owner.kind == "task" and owner.status.get("stage") in (None, "", "before"):
        incarnation += 1
    return Owner(owner.address, owner.uid, incarnation)


def path_of(address: str) -> str:
    """What tasks and agents of one family have in common: `a/b/` for `task/a/b`, nothing for the root's."""
    path = address.partition("/")[2]
    return "" if path == "." else f"{path}/"


def is_above(one: str, other: str) -> bool:
    """Whether the owner at `one` is of the family of the one at `other`, or an ancestor of it."""
    return path_of(other).startswith(path_of(one))


def is_family(one: str, other: str) -> bool:
    """Whether they are the same, or a task and its own agent."""
    return path_of(one) == path_of(other)


def fallen(view: View, owner: str, grant: JsonObject, declared: str = "") -> str:
    """Why a grant (the JSON of a `Holder`) stands no more: `gone`, `ended` or `restarted`. Empty: it stands.

    `declared` is the name of the lock: a declared grant stands as long as its task names it, and to the end of a
    command that was given a fork meanwhile: that ends where it began.
    """
    found = view.get(owner)
    if found is None or found.uid != grant["uid"]:
        return "gone"
    if found.kind == "task":
        is_named = grant["kept"] != "declared" or declared in locks_of(found.spec)
        return "" if found.state not in ENDED and (is_named or _ends_outside(found, declared)) else "ended"
    if found.state == AgentState.ENDED:
        return "ended"
    return "" if int(found.status.get("incarnation") or 0) == grant["incarnation"] else "restarted"


def _ends_outside(task: Resource, name: str) -> bool:
    """Whether the task's command is under way outside of the fork in which it names this lock by now."""
    fork = str(task.spec.get("fork") or "")
    return bool(fork and task.status.get("call")) and f"{lock_place(fork)}/{name}" in locks_of(task.spec)


def wishing(view: View, waiting: str) -> Owner | None:
    """On whose behalf the object at `waiting`, a call, task or fork, still waits for locks; None: it does no more."""
    found = view.get(waiting)
    return None if found is None else wishing_of(view, found)


def wishing_of(view: View, found: Resource) -> Owner | None:
    """The same of the object itself."""
    if found.deleting:
        return None
    if found.kind == "task":
        ready = found.status.get("conditions", {}).get("Ready") or {}
        return owner_of(found) if ready.get("reason") == AWAITING else None
    if found.kind == "fork":  # What its task did is to be written where others work.
        task = view.get(str(found.spec["task"]))
        return owner_of(task) if task is not None and found.status.get("wants") else None
    is_open = found.state == CallState.AWAITING_LOCK and not {"granted", "refused"} & found.status.keys()
    spec = found.spec
    return Owner(spec["owner"], spec["owner_uid"], spec["incarnation"]) if is_open else None


AWAITING = "AwaitingLocks"
"""The reason of a task that is blocked by nothing but the locks that it names."""


def priority_of(view: View, owner: str) -> int:
    """The priority of the owner's task, within what counts for locks."""
    found = view.get(owner)
    task = found if found is None or found.kind == "task" else view.get(str(found.spec["task"]))
    priority = 0 if task is None else int(task.spec["priority"])
    return max(-limits.LOCK_PRIORITY_MAX, min(limits.LOCK_PRIORITY_MAX, priority))


def rank(since: float, priority: int) -> float:
    """Where a wish stands in the queue, the least first: when it began, moved by its priority.

    Waiting makes everybody's claim grow at one pace, so the order never changes while they wait.
    """
    return since - priority * limits.LOCK_AGEING_S
