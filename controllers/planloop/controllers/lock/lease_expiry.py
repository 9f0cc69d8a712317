"""Expire leases: a holder loses its lock if it is gone, or made no progress for `LOCK_TTL_S` while others waited. Pure.

A lease is checked only when there is a waiter, and renewed if its owner made progress since. So no holder loses an
uncontested lock, and holders cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planloop.controllers.lock.wait_graph import ActiveGrants, QueuedRequest
from planloop.controllers.shared.leases.grants import LockRows, family_path, why_grant_ended
from planloop.controllers.shared.leases.lock_paths import paths_overlap
from planloop.reconciler.engine.work_pools import WorkPlane
from planloop.reconciler.store.store import View
from planloop.schemas import limits
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.log.record import SubRecord
from planloop.schemas.objects.lock import LockMode, LostGrant
from planloop.schemas.resource import Resource

BY = "controller:lock"


def release_ended_grants(view: View, lock: Resource, rows: LockRows) -> Iterator[SubRecord]:
    """Release in `rows` the grants of `lock` whose owner is gone, has ended or was restarted; yield their records.

    All locks of such an owner are released together, so that a waiter for several of them is served in one step.
    """
    path = lock.spec["path"]
    for owner, raw in lock.status.get("holders", {}).items():
        if why := why_grant_ended(view, owner, raw, path):
            paths: list[Json] = [*_ended_grants_of(view, owner)]
            for each in paths:
                rows.release(str(each), owner)
            yield SubRecord("lock.released", lock.address, {"owner": owner, "paths": paths, "why": why})
    for owner, raw in lock.status.get("lost", {}).items():
        if why_grant_ended(view, owner, {**raw, "kept": "turn"}):
            rows.told(path, owner)


def _ended_grants_of(view: View, owner: str) -> Iterator[str]:
    for address in sorted(view.referrers(owner)):
        lock = view.get(address) if address.startswith("lock/") else None
        raw = None if lock is None else lock.status.get("holders", {}).get(owner)
        if lock is not None and raw is not None and why_grant_ended(view, owner, raw, lock.spec["path"]):
            yield lock.spec["path"]


@frozen
class ContestedLease:
    """A grant with waiters; it expires at `due_at` if its owner makes no progress by then."""

    lock: Resource
    owner: str
    raw: JsonObject

    @property
    def begun_at(self) -> float:
        """When it was granted or renewed, in seconds since 1970."""
        return float(max(self.raw["since"], self.raw["renewed_at"]))

    @property
    def due_at(self) -> float:
        """When it expires, in seconds since 1970."""
        return self.begun_at + limits.LOCK_TTL_S


def contested_leases(
    view: View, held: ActiveGrants, requests: Sequence[QueuedRequest], place: str
) -> list[ContestedLease]:
    """Return the grants that block a request near `place`."""
    asked: dict[tuple[str, LockMode], list[str]] = {}
    for request in requests:
        for name, mode in request.wants.items():
            if paths_overlap(request.places[name], place):
                asked.setdefault((request.places[name], mode), []).append(request.path)
    found: dict[tuple[str, str], ContestedLease] = {}
    for (wanted, mode), paths in asked.items():
        for grant in held.against(wanted, mode):
            lock = view.get(f"lock/{grant.lock}")
            if lock is not None and any(not path.startswith(grant.path) for path in paths):
                found[grant.lock, grant.owner] = ContestedLease(lock, grant.owner, lock.status["holders"][grant.owner])
    return list(found.values())


def expire_lease(view: View, work: WorkPlane | None, lease: ContestedLease, now: float, rows: LockRows) -> SubRecord:
    """Renew a lease that is due if its owner made progress, else expire it in `rows`; return the record."""
    path, raw = lease.lock.spec["path"], lease.raw
    progress = last_progress_rev(view, work, lease)
    if progress is not None:
        rows.renew(path, lease.owner, now, progress)
        return SubRecord("lock.renewed", lease.lock.address, {"owner": lease.owner, "progress": progress})
    minutes = limits.LOCK_TTL_S / 60
    why = f"no progress for {minutes:g} minutes while others waited"
    rows.lose(
        path, lease.owner, LostGrant(raw["uid"], raw["incarnation"], raw["fence"], "lapsed", now, BY, why, raw["kept"])
    )
    return SubRecord("lock.fenced", lease.lock.address, {"owner": lease.owner, "fence": raw["fence"], "why": why})


def last_progress_rev(view: View, work: WorkPlane | None, lease: ContestedLease) -> int | None:
    """Return the last revision in which a task or call of the owner or its descendants changed; None: no progress.

    A running job of one of them (a request, a command) is progress whatever the log says, and so is a turn that began
    or ended. A message to it is not: a waiter could keep the lease alive by asking for the lock.
    """
    path, since = family_path(lease.owner), max(lease.raw["progress"], lease.raw["fence"])
    below = [one for kind in ("task", "agent") for one in view.list(kind) if family_path(one.address).startswith(path)]
    moved = [one for one in below if one.kind == "task"]
    moved += [each for one in below for each in view.owned_by(one.address) if each.kind == "call"]
    newest = max((one.rev for one in moved), default=0)
    is_at_work = work is not None and any(work.live_for(one.address) for one in below)
    is_on = is_at_work or newest > since or any(last_turn_at(one) > lease.begun_at for one in below)
    return max(newest, since) if is_on else None


def last_turn_at(one: Resource) -> float:
    """Return when the last turn of an agent began or ended, in seconds since 1970; 0 if it had none."""
    opened = one.status.get("open") or {}
    return float(max(opened.get("started_at", 0.0), one.status.get("ended_at") or 0.0))
