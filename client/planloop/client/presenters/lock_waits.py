"""Locks, their holders and queues, and the graph of waits, as JSON.

The graph is the one that the lock controller searches for deadlocks: each waiter, the holders and earlier waiters that
block it, and what a holder itself waits for before it can release the lock. Pure: a function of a view.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from planloop.client.presenters.approvals import ObjectsView, conflict_json
from planloop.controllers.lock.wait_graph import (
    ActiveGrants,
    QueuedRequest,
    WaitGraph,
    awaited_families,
    lock_queue,
    queue_order,
)
from planloop.controllers.shared.leases.grants import family_path, find_blockers, lock_path, wanted_locks_of
from planloop.reconciler.store.memory_view import MemoryView
from planloop.reconciler.store.store import View
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.objects.conflict import conflict_status_from_json
from planloop.schemas.objects.lock import describe_cycle, lock_status_from_json
from planloop.schemas.resource import Resource

EDGES_MAX: Final = 2_000  # Of the graph: a picture of more says nothing.
SEEN: Final = ("lock", "conflict", "task", "agent", "call", "thread", "fork")  # What a wait may hang on.
UNTIL: Final = {"turn": "until its turn ends", "asked": "until it releases the lock"}


def lock_waits_answer(plan: ObjectsView, now: float) -> JsonObject:
    """Locks, the edges between who waits and who is in the way, rings, and conflict threads that are open."""
    is_waited = any(one.status.get("waiters") for one in plan.list("lock"))
    kinds = SEEN if is_waited else ("lock", "conflict")  # Most of the time no task waits, and there is nothing to draw.
    view = MemoryView((one for kind in kinds for one in plan.list(kind)), plan.rev)
    requests = queue_order(view, lock_queue(view).requests)
    found = list(_edges(view, requests, now))
    rings = _rings(view, requests)
    return {
        "rev": view.rev,
        "locks": [_lock(one) for one in view.list("lock")],
        "waits": found[:EDGES_MAX],
        "waits_left": max(0, len(found) - EDGES_MAX),
        "rings": [{"owners": ring, "words": describe_cycle(ring)} for ring in rings],
        "conflicts": [
            conflict_json(one) for one in view.list("conflict") if conflict_status_from_json(one.status).is_open
        ],
    }


def _lock(item: Resource) -> JsonObject:
    status = lock_status_from_json(item.status)
    holders = sorted(status.holders.values(), key=lambda one: (one.since, one.owner))
    waiters = sorted(status.waiters.items(), key=lambda one: (one[1].since, one[0]))
    return {
        "address": item.address,
        "path": str(item.spec["path"]),
        "place": lock_path(item),
        "holders": [
            {
                "owner": one.owner,
                "mode": one.mode,
                "since": one.since,
                "fence": one.fence,
                "until": UNTIL.get(one.kept, "until its task ends"),
                "reason": one.reason,
            }
            for one in holders
        ],
        "waiters": [
            {"owner": one.owner, "waiting": at, "mode": one.mode, "since": one.since, "reason": one.reason}
            for at, one in waiters
        ],
        "lost": [
            {"owner": owner, "how": one.how, "by": one.by, "at": one.at, "reason": one.reason}
            for owner, one in status.lost.items()
        ],
    }


def _edges(view: View, requests: tuple[QueuedRequest, ...], now: float) -> Iterator[JsonObject]:
    graph = WaitGraph(view, requests, ActiveGrants(view))
    for request in requests:
        who, seen = request.owner.address, set[str]()
        for one in find_blockers(view, request.owner, wanted_locks_of(view, request.address), now):
            if one.holder.owner in seen:
                continue
            seen.add(one.holder.owner)
            yield {
                "from": who,
                "to": one.holder.owner,
                "lock": f"lock/{one.path}",
                "why": one.why,
                "since": request.since,
            }
        for other in graph.after(request):
            for holder in sorted(seen):
                if _is_needed(view, holder, other):
                    yield {
                        "from": holder,
                        "to": other.owner.address,
                        "lock": "",
                        "why": "needs",
                        "since": request.since,
                    }


def _is_needed(view: View, holder: str, other: QueuedRequest) -> bool:
    """Return whether a holder must wait for `other`, of another subtree, before it can release its lock."""
    path = family_path(holder)
    return other.path != path and (other.path.startswith(path) or other.path in awaited_families(view, path))


def _rings(view: View, requests: tuple[QueuedRequest, ...]) -> list[list[str]]:
    """Return all cycles of lock requests, each once: members of a found cycle are left out of the next search."""
    rest, held, rings = requests, ActiveGrants(view), list[list[str]]()
    while ring := WaitGraph(view, rest, held).ring(rest):
        rings.append([one.owner.address for one in ring])
        rest = tuple(one for one in rest if one not in ring)
    return rings
