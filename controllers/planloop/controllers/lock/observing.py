"""Who waits for locks, read at one moment: who may have one depends on all who wait for something near it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from planloop.controllers.leases import Owner
from planloop.controllers.leases.granting import place_of
from planloop.controllers.leases.owners import path_of, priority_of, rank, wishing_of
from planloop.reconciler.storing.store import View
from planloop.schemas.call import CallState
from planloop.schemas.frozen import frozen, remade
from planloop.schemas.lock import LockKept, LockMode, locks_of
from planloop.schemas.resource import Resource


@frozen
class Wish:
    """What the call, task or fork `waiting` waits for, since when: `wants` by the names of locks.

    `places` has what each lock of the plan is about, by name; `path` is that of the owner and all its family.
    """

    waiting: Resource
    owner: Owner
    path: str
    wants: dict[str, LockMode]
    places: dict[str, str]
    since: float
    priority: int = 0

    @property
    def address(self) -> str:
        return self.waiting.address

    @property
    def is_call(self) -> bool:
        return self.waiting.kind == "call"

    @property
    def rank(self) -> tuple[float, str]:
        """Its place in the queue, the least first."""
        return rank(self.since, self.priority), self.waiting.address

    @property
    def kept(self) -> LockKept:
        """Until when it will be kept."""
        kept: LockKept = self.waiting.status.get("kept", "turn")
        return "declared" if self.waiting.kind == "task" else kept

    @property
    def reason(self) -> str:
        """What it is wanted for."""
        is_task = self.waiting.kind == "task"
        return str(self.waiting.spec.get("goal", "") if is_task else self.waiting.status.get("reason", ""))


@frozen
class Queue:
    """All wishes, in no order yet, and the entries (lock, waiting) of those that wait no more."""

    wishes: tuple[Wish, ...]
    stale: tuple[tuple[str, str], ...]


def observe(view: View) -> Queue:
    """Everybody who waits."""
    places: dict[str, str] = {}
    entries: dict[str, dict[str, float]] = {}
    for lock in view.list("lock"):
        path = lock.spec["path"]
        places[path] = place_of(lock)
        for waiting, raw in lock.status.get("waiters", {}).items():
            entries.setdefault(waiting, {})[path] = raw["since"]
    wishes: list[Wish] = []
    stale: list[tuple[str, str]] = []
    for waiting, since in entries.items():
        found = view.get(waiting)
        owner = None if found is None else wishing_of(view, found)
        wants = {} if owner is None or found is None else _wants(found)
        if len(wants) != len(since) or wants.keys() != since.keys():
            stale += [(path, waiting) for path in since if path not in wants]
            places |= {path: path for path in wants if path not in places}
        if owner is not None and found is not None and wants:
            wishes.append(Wish(found, owner, path_of(owner.address), wants, places, min(since.values())))
    return Queue(tuple(wishes), tuple(stale))


def in_order(view: View, wishes: Iterable[Wish]) -> tuple[Wish, ...]:
    """The wishes in the order in which they are served, with their priorities."""
    ranked = (
        remade(one, priority=priority) if (priority := priority_of(view, one.owner.address)) else one for one in wishes
    )
    return tuple(sorted(ranked, key=lambda one: one.rank))


def awaited(view: View, path: str) -> Iterator[str]:
    """The families that the agent of the one at `path` waits for in a call: children, or who goes first by a ruling."""
    agent = f"agent/{path.rstrip('/') or '.'}"
    for call in (one for one in view.owned_by(agent) if one.state == CallState.AWAITING_CHILD):
        thread = view.get(str(call.status.get("thread", "")))
        asked = () if thread is None else thread.spec.get("speakers", ())
        yield from (path_of(str(one)) for one in (*(call.status.get("ends") or ()), *asked))


def _wants(waiting: Resource) -> dict[str, LockMode]:
    found: dict[str, LockMode] = waiting.status.get("wants") or {}
    return locks_of(waiting.spec) if waiting.kind == "task" else found
