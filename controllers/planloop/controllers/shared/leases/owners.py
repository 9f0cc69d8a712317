"""Who owns a lock grant, whether the grant still counts, and who is an ancestor of whom. Pure.

A task and its own agent share a path and are one family. What an ancestor holds never stands in a descendant's way: it
is delegated down, and those below exclude each other.
"""

from __future__ import annotations

from planloop.reconciler.store.store import View
from planloop.schemas import limits
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.agent import AgentState
from planloop.schemas.objects.call import CallState
from planloop.schemas.objects.fork import lock_prefix
from planloop.schemas.objects.lock import declared_locks
from planloop.schemas.objects.task import ENDED
from planloop.schemas.resource import Resource


@frozen
class LockOwner:
    """Who holds or wants: a task's or an agent's address, with its uid and its incarnation at this moment."""

    address: str
    uid: str
    incarnation: int


def lock_owner(owner: Resource) -> LockOwner:
    """A task or an agent as an owner, as it stands. A task that has not begun is its next incarnation."""
    incarnation = int(owner.status.get("incarnation") or 0)
    if owner.kind == "task" and owner.status.get("stage") in (None, "", "before"):
        incarnation += 1
    return LockOwner(owner.address, owner.uid, incarnation)


def family_path(address: str) -> str:
    """What tasks and agents of one family have in common: `a/b/` for `task/a/b`, nothing for the root's."""
    path = address.partition("/")[2]
    return "" if path == "." else f"{path}/"


def is_above(one: str, other: str) -> bool:
    """Whether the owner at `one` is of the family of the one at `other`, or an ancestor of it."""
    return family_path(other).startswith(family_path(one))


def is_family(one: str, other: str) -> bool:
    """Whether they are the same, or a task and its own agent."""
    return family_path(one) == family_path(other)


def why_grant_ended(view: View, owner: str, grant: JsonObject, declared: str = "") -> str:
    """Why a grant (the JSON of a `Holder`) stands no more: `gone`, `ended` or `restarted`. Empty: it stands.

    `declared` is the name of the lock: a declared grant stands as long as its task names it, and to the end of a
    command that was given a fork meanwhile: that ends where it began.
    """
    found = view.get(owner)
    if found is None or found.uid != grant["uid"]:
        return "gone"
    if found.kind == "task":
        is_named = grant["kept"] != "declared" or declared in declared_locks(found.spec)
        return "" if found.state not in ENDED and (is_named or _ends_outside(found, declared)) else "ended"
    if found.state == AgentState.ENDED:
        return "ended"
    return "" if int(found.status.get("incarnation") or 0) == grant["incarnation"] else "restarted"


def _ends_outside(task: Resource, name: str) -> bool:
    """Whether the task's command is under way outside of the fork in which it names this lock by now."""
    fork = str(task.spec.get("fork") or "")
    return bool(fork and task.status.get("call")) and f"{lock_prefix(fork)}/{name}" in declared_locks(task.spec)


def waiting_owner(view: View, waiting: str) -> LockOwner | None:
    """On whose behalf the object at `waiting`, a call, task or fork, still waits for locks; None: it does no more."""
    found = view.get(waiting)
    return None if found is None else waiting_owner_of(view, found)


def waiting_owner_of(view: View, found: Resource) -> LockOwner | None:
    """The same of the object itself."""
    if found.deleting:
        return None
    if found.kind == "task":
        ready = found.status.get("conditions", {}).get("Ready") or {}
        return lock_owner(found) if ready.get("reason") == AWAITING else None
    if found.kind == "fork":  # What its task did is to be written where others work.
        task = view.get(str(found.spec["task"]))
        return lock_owner(task) if task is not None and found.status.get("wants") else None
    is_open = found.state == CallState.AWAITING_LOCK and not {"granted", "refused"} & found.status.keys()
    spec = found.spec
    return LockOwner(spec["owner"], spec["owner_uid"], spec["incarnation"]) if is_open else None


AWAITING = "AwaitingLocks"
"""The reason of a task that is blocked by nothing but the locks that it names."""


def lock_priority(view: View, owner: str) -> int:
    """The priority of the owner's task, within what counts for locks."""
    found = view.get(owner)
    task = found if found is None or found.kind == "task" else view.get(str(found.spec["task"]))
    priority = 0 if task is None else int(task.spec["priority"])
    return max(-limits.LOCK_PRIORITY_MAX, min(limits.LOCK_PRIORITY_MAX, priority))


def queue_rank(since: float, priority: int) -> float:
    """Where a wish stands in the queue, the least first: when it began, moved by its priority.

    Waiting makes everybody's claim grow at one pace, so the order never changes while they wait.
    """
    return since - priority * limits.LOCK_AGEING_S
