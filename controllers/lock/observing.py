"""Who waits for locks, read at one moment: who may have one depends on all who wait for something near it."""

from __future__ import annotations

from controllers.leases import Owner
from controllers.leases.granting import place_of
from controllers.leases.owners import path_of, priority_of, rank, wishing
from reconciler.storing.store import View
from schemas.frozen import frozen
from schemas.lock import LockKept, LockMode, locks_of
from schemas.resource import Resource


@frozen
class Wish:
    """What the call or task at `waiting` waits for, since when: `wants` by the names of locks, `places` by the same.

    `rank` is its place in the queue, the least first; `path` that of its owner and all its family.
    """

    waiting: Resource
    owner: Owner
    path: str
    wants: dict[str, LockMode]
    places: dict[str, str]
    since: float
    priority: int
    kept: LockKept
    reason: str

    @property
    def address(self) -> str:
        return self.waiting.address

    @property
    def is_call(self) -> bool:
        return self.waiting.kind == "call"

    @property
    def rank(self) -> tuple[float, str]:
        return rank(self.since, self.priority), self.waiting.address


@frozen
class Queue:
    """The wishes in the order in which they are served, and the entries (lock, waiting) of those that wait no more."""

    wishes: tuple[Wish, ...]
    stale: tuple[tuple[str, str], ...]


def observe(view: View) -> Queue:
    """Everybody who waits."""
    entries: dict[str, dict[str, float]] = {}
    for lock in view.list("lock"):
        for waiting, raw in lock.status.get("waiters", {}).items():
            entries.setdefault(waiting, {})[lock.spec["path"]] = raw["since"]
    wishes: list[Wish] = []
    stale: list[tuple[str, str]] = []
    for waiting, since in entries.items():
        owner = wishing(view, waiting)
        found = view.get(waiting)
        wants = {} if owner is None or found is None else _names(found)
        stale += [(path, waiting) for path in since if path not in wants]
        if owner is not None and found is not None and wants:
            wishes.append(_wish(view, found, owner, wants, min(since.values())))
    return Queue(tuple(sorted(wishes, key=lambda one: one.rank)), tuple(stale))


def _names(waiting: Resource) -> dict[str, LockMode]:
    return locks_of(waiting.spec) if waiting.kind == "task" else dict(waiting.status.get("wants") or {})


def _wish(view: View, waiting: Resource, owner: Owner, wants: dict[str, LockMode], since: float) -> Wish:
    places = {path: path if (lock := view.get(f"lock/{path}")) is None else place_of(lock) for path in wants}
    is_task = waiting.kind == "task"
    return Wish(
        waiting=waiting,
        owner=owner,
        path=path_of(owner.address),
        wants=wants,
        places=places,
        since=since,
        priority=priority_of(view, owner.address),
        kept="declared" if is_task else waiting.status.get("kept", "turn"),
        reason=str(waiting.spec.get("goal", "") if is_task else waiting.status.get("reason", "")),
    )
