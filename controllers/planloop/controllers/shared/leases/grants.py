"""Grants of locks, their owners, the queues of waiters, and the changes of records that write them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from shlex import quote
from typing import Final, Literal, TypeAlias

from planloop.controllers.shared.leases.lock_paths import PathIndex, path_covers, paths_overlap
from planloop.reconciler.store.store import View
from planloop.schemas import json_patch, limits
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.log.record import Change, Drop, Put, SetStatus
from planloop.schemas.objects.agent import AgentState
from planloop.schemas.objects.call import CallState
from planloop.schemas.objects.fork import lock_prefix
from planloop.schemas.objects.lock import LASTING, LockGrant, LockKept, LockMode, LockRequest, LostGrant, declared_locks
from planloop.schemas.objects.task import ENDED
from planloop.schemas.resource import Resource, Uid

# One change per lock, however much happens to it in one record.
#
# A lock that the plan does not declare exists while it has a holder, a waiter, or a former holder that does not know
# yet that it lost the lock. Its `refs` are its holders, whose end wakes it; waiters find the answer in their own
# objects.

_KEPT: Final = ("holders", "waiters", "lost")


class LockRows:
    """The locks of a view with the changes that one record makes to them."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._merges: dict[str, JsonObject] = {}

    def grant(
        self, path: str, owner: LockOwner, mode: LockMode, kept: LockKept, told: tuple[float, str], progress: int = 0
    ) -> LockGrant:
        """Make `owner` a holder of `lock/<path>`. `told` is the time and the reason. Only extends an existing grant."""
        now, reason = told
        old = self._status(path).get("holders", {}).get(owner.address)
        if old is not None and old["uid"] == owner.uid and old["incarnation"] == owner.incarnation:
            mode = "write" if "write" in (mode, old["mode"]) else "read"
            kept = max(kept, old["kept"], key=LASTING.index)
        fence = (
            self._view.rev + 1
        )  # At most the revision of the record that grants it, so later grants have higher ones.
        holder = LockGrant(owner.address, owner.uid, owner.incarnation, mode, now, fence, kept, reason, now, progress)
        self._merge(path, "holders", owner.address, holder.to_json())
        return holder

    def renew(self, path: str, owner: str, now: float, progress: int) -> None:
        """Renew the lease of `owner`, which has made progress."""
        self._merge(path, "holders", owner, {"renewed_at": now, "progress": progress})

    def release(self, path: str, owner: str) -> None:
        """Remove the grant of `owner`."""
        self._merge(path, "holders", owner, None)

    def shorten(self, path: str, owner: str) -> None:
        """Let the grant of `owner` end with its open turn."""
        self._merge(path, "holders", owner, {"kept": "turn"})

    def lose(self, path: str, owner: str, loss: LostGrant) -> None:
        """Remove the grant of `owner`, and note `loss` for its next use of the lock."""
        self._merge(path, "holders", owner, None)
        self._merge(path, "lost", owner, loss.to_json())

    def told(self, path: str, owner: str) -> None:
        """Remove the note that `owner` lost the lock: it knows now."""
        self._merge(path, "lost", owner, None)

    def wait(self, path: str, waiting: str, waiter: LockRequest) -> None:
        """Enter the request of `waiting` into the queue; a request that is in it keeps its place."""
        if waiting not in self._status(path).get("waiters", {}):
            self._merge(path, "waiters", waiting, waiter.to_json())

    def leave(self, path: str, waiting: str) -> None:
        """Remove the request of `waiting` from the queue."""
        if waiting in self._status(path).get("waiters", {}):
            self._merge(path, "waiters", waiting, None)

    def settle(self, path: str, place: str) -> None:
        """Set the canonical path of the lock, which differs from its name."""
        self._merges.setdefault(path, {})["place"] = place

    def tidy(self, path: str) -> None:
        """Drop the lock if it has no holder, waiter or loss."""
        self._merges.setdefault(path, {})

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of the locks that are written."""
        return tuple(self._merges)

    def changes(self) -> tuple[Change, ...]:
        """Return the changes, by path."""
        made = (self._change(path, merge) for path, merge in sorted(self._merges.items()))
        return tuple(change for change in made if change is not None)

    def _merge(self, path: str, part: str, key: str, value: JsonObject | None) -> None:
        self._merges.setdefault(path, {}).setdefault(part, {})[key] = value

    def _lock(self, path: str) -> Resource | None:
        """Return the lock; None if it is being removed, since a new holder creates another."""
        lock = self._view.get(f"lock/{path}")
        return None if lock is None or lock.deleting else lock

    def _status(self, path: str) -> JsonObject:
        lock = self._lock(path)
        return {} if lock is None else lock.status

    def _change(self, path: str, merge: JsonObject) -> Change | None:
        address = f"lock/{path}"
        lock = self._lock(path)
        after = json_patch.merge_values({} if lock is None else lock.status, merge)
        is_kept = any(after.get(part) for part in _KEPT)
        if lock is None:
            if not is_kept:
                return None
            uid = Uid(f"lock@{self._view.rev + 1}:{path}")  # No other lock was ever made at that revision and path.
            status = {"state": _state(after), **{part: after[part] for part in after}}
            return Put(address, uid, {"path": path}, _refs(None, after), status=status)
        if lock.owner is None and not is_kept:
            return Drop(address, lock.uid)
        if lock.state != _state(after):
            merge = {**merge, "state": _state(after)}
        if not merge:
            return None
        if set(after.get("holders", ())) <= set(lock.refs):
            return SetStatus(address, lock.uid, merge)
        return Put(address, lock.uid, lock.spec, _refs(lock, after), lock.owner, lock.finalizers, merge)


def _state(status: JsonObject) -> str:
    return "held" if status.get("holders") else "free"


def _refs(lock: Resource | None, status: JsonObject) -> tuple[str, ...]:
    """Return the addresses that wake the lock: its holders, former holders, and the tasks that declare it."""
    declared = () if lock is None or lock.owner is None else (one for one in lock.refs if one.startswith("task/"))
    owners = (*status.get("holders", ()), *status.get("lost", ()))
    # The restart of an agent is seen in its task: the state of the agent may be the same before and after.
    tasks = (f"task/{owner.partition('/')[2]}" for owner in owners)
    return tuple(dict.fromkeys((*declared, *owners, *tasks)))


# Breaking a lock for a person. The next write of the holder under the lock is refused, with the reason.


@frozen
class BrokenLock:
    """`changes` take the lock from all of `owners`; waiters are served when they are written."""

    changes: tuple[Change, ...]
    owners: tuple[str, ...]


def break_lock(view: View, path: str, by: str, reason: str, now: float) -> BrokenLock:
    """Return the changes that break every active grant of `lock/<path>` on behalf of `by` (such as `human:cli`)."""
    rows, owners = LockRows(view), []
    lock = view.get(f"lock/{path}")
    for owner, grant in ({} if lock is None else lock.status.get("holders", {})).items():
        if not why_grant_ended(view, owner, grant, path):
            loss = LostGrant(
                grant["uid"], grant["incarnation"], grant["fence"], "broken", now, by, reason, grant["kept"]
            )
            rows.lose(path, owner, loss)
            owners.append(owner)
    return BrokenLock(rows.changes(), tuple(owners))


# Owners of grants. A task and its own agent share a path and are one family. A lock of an ancestor never blocks its
# descendants: it is delegated to them, and they exclude each other.


@frozen
class LockOwner:
    """Holder or waiter of a lock: the address of a task or agent, with its uid and current incarnation."""

    address: str
    uid: str
    incarnation: int


def lock_owner(owner: Resource) -> LockOwner:
    """Return a task or an agent as lock owner. A task that has not begun counts as its next incarnation."""
    incarnation = int(owner.status.get("incarnation") or 0)
    if owner.kind == "task" and owner.status.get("stage") in (None, "", "before"):
        incarnation += 1
    return LockOwner(owner.address, owner.uid, incarnation)


def family_path(address: str) -> str:
    """Return the path that a task and its agent share: `a/b/` for `task/a/b`, empty for the root."""
    path = address.partition("/")[2]
    return "" if path == "." else f"{path}/"


def is_above(one: str, other: str) -> bool:
    """Whether the owner `one` is in the family of `other`, or an ancestor of it."""
    return family_path(other).startswith(family_path(one))


def is_family(one: str, other: str) -> bool:
    """Whether both are the same, or a task and its own agent."""
    return family_path(one) == family_path(other)


def why_grant_ended(view: View, owner: str, grant: JsonObject, declared: str = "") -> str:
    """Return why a grant (the JSON of a `LockGrant`) has ended: `gone`, `ended` or `restarted`; empty if it is active.

    `declared` is the name of the lock. A declared grant lasts as long as its task names the lock. If the task was given
    a fork meanwhile, it lasts to the end of the running command, which still works outside the fork.
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
    """Whether the task's command still runs outside the fork in which the task names this lock now."""
    fork = str(task.spec.get("fork") or "")
    return bool(fork and task.status.get("call")) and f"{lock_prefix(fork)}/{name}" in declared_locks(task.spec)


def waiting_owner(view: View, waiting: str) -> LockOwner | None:
    """Return the owner for which the call, task or fork at `waiting` waits for locks; None if it no longer waits."""
    found = view.get(waiting)
    return None if found is None else waiting_owner_of(view, found)


def waiting_owner_of(view: View, found: Resource) -> LockOwner | None:
    """Return the owner for which `found`, a call, task or fork, waits for locks; None if it does not wait."""
    if found.deleting:
        return None
    if found.kind == "task":
        ready = found.status.get("conditions", {}).get("Ready") or {}
        return lock_owner(found) if ready.get("reason") == AWAITING else None
    if found.kind == "fork":  # It writes the changes of its task into a folder where others work.
        task = view.get(str(found.spec["task"]))
        return lock_owner(task) if task is not None and found.status.get("wants") else None
    is_open = found.state == CallState.AWAITING_LOCK and not {"granted", "refused"} & found.status.keys()
    spec = found.spec
    return LockOwner(spec["owner"], spec["owner_uid"], spec["incarnation"]) if is_open else None


AWAITING = "AwaitingLocks"
"""Reason of a task that waits only for the locks that it names."""


def lock_priority(view: View, owner: str) -> int:
    """Return the priority of the owner's task, within the limits for locks."""
    found = view.get(owner)
    task = found if found is None or found.kind == "task" else view.get(str(found.spec["task"]))
    priority = 0 if task is None else int(task.spec["priority"])
    return max(-limits.LOCK_PRIORITY_MAX, min(limits.LOCK_PRIORITY_MAX, priority))


def queue_rank(since: float, priority: int) -> float:
    """Return the rank of a request in the queue, the lowest first: its start, shifted by its priority.

    All requests age at the same pace, so the order never changes while they wait.
    """
    return since - priority * limits.LOCK_AGEING_S


# Grants are all or nothing. A request that would overtake a waiter must wait, too, unless that waiter waits for a lock
# that the requester, or an ancestor of it, holds: then it gains nothing from going first.

Wants: TypeAlias = Mapping[str, LockMode]
"""Canonical paths or globs below the plan's folder, each with the requested mode."""


@frozen
class LockBlocker:
    """An owner that blocks a request for `lock/<path>`: it `holds` the lock, or it `waits` for it longer.

    For a waiter, `holder` has fence 0, and `since` and `reason` are those of its request.
    """

    path: str
    holder: LockGrant
    why: Literal["holds", "waits"]


@frozen
class LostLock:
    """A grant of `lock/<path>` that `owner`, a task or its agent, has lost."""

    path: str
    owner: str
    loss: LostGrant


@frozen
class LocksGranted:
    """`changes` write the grants and go into the caller's own append (none if all was held); `fences` are by path."""

    changes: tuple[Change, ...]
    fences: dict[str, int]


@frozen
class LocksBlocked:
    """Nothing was granted; `blockers` says why."""

    blockers: tuple[LockBlocker, ...]


def grant_locks(
    view: View, owner: LockOwner, wants: Wants, kept: LockKept, reason: str, now: float
) -> LocksGranted | LocksBlocked:
    """Grant all of `wants` to `owner`, or nothing. Locks that it or its task holds are not granted again.

    Append the changes without an await after this call: the grants are computed from all locks of the view.
    """
    if others := find_blockers(view, owner, wants, now):
        return LocksBlocked(others)
    rows, fences = LockRows(view), {}
    for path in sorted(wants):
        own = own_grant(view, owner, path, wants[path])
        if own is None or LASTING.index(own.kept) < LASTING.index(kept):
            own = rows.grant(path, owner, wants[path], kept, (now, reason))
        fences[path] = own.fence
    for lost in lost_locks(view, owner, wants):
        rows.told(lost.path, lost.owner)
    return LocksGranted(rows.changes(), fences)


def find_blockers(view: View, owner: LockOwner, wants: Wants, now: float) -> tuple[LockBlocker, ...]:
    """Return who blocks `owner` from getting all of `wants` now: all holders, else the first waiter ahead of it.

    Empty if it may have them.
    """
    return tuple(blocking_grants(view, owner.address, wants)) or tuple(_before(view, owner, wants, now))


def queue_changes(
    view: View, waiting: str, owner: LockOwner, wants: Wants, reason: str, now: float
) -> tuple[Change, ...]:
    """Return the changes that enter the call or task at `waiting` into the queues of its locks; creates missing locks.

    A call writes its request into its own status (`wish_json`): the controller grants with that call's `kept`.
    """
    rows = LockRows(view)
    for path in sorted(wants):
        rows.wait(path, waiting, LockRequest(owner.address, wants[path], now, reason))
    return rows.changes()


def unqueue_changes(view: View, waiting: str, paths: Collection[str]) -> tuple[Change, ...]:
    """Return the changes that remove `waiting` from the queues of `paths`: its call ended another way."""
    rows = LockRows(view)
    for path in paths:
        rows.leave(path, waiting)
    return rows.changes()


def wish_json(wants: Wants, reason: str, kept: LockKept = "turn") -> JsonObject:
    """Return the request in the status of a call in AwaitingLock. The answer is `granted` (fences by path) or
    `refused` in the same status.
    """
    return {"wants": dict(wants), "reason": reason, "kept": kept}


def release_changes(
    view: View, owner: LockOwner, *, kept: Collection[LockKept] | None = None, paths: Collection[str] | None = None
) -> tuple[Change, ...]:
    """Return the changes that release the grants of `owner`: with `kept`, only those kinds; with `paths`, only locks
    within them.

    Empty, at the cost of a look-up, if it holds none. Notes of lost grants that this would have released are removed.
    """
    rows = LockRows(view)
    for lock in _of(view, owner.address):
        path = lock.spec["path"]
        grant = lock.status.get("holders", {}).get(owner.address)
        is_meant = paths is None or any(path_covers(each, path) for each in paths)
        if grant is not None and is_meant and (kept is None or grant["kept"] in kept):
            rows.release(path, owner.address)
        lost = lock.status.get("lost", {}).get(owner.address)
        if lost is not None and paths is None and (kept is None or lost.get("kept", "turn") in kept):
            rows.told(path, owner.address)
    return rows.changes()


def held_locks(view: View, owner: LockOwner) -> tuple[tuple[str, LockGrant], ...]:
    """Return the grants of `owner` and its family (an agent's task, a task's agent), sorted by path."""
    path = owner.address.partition("/")[2]
    found = {
        lock.spec["path"]: LockGrant(**lock.status["holders"][address])
        for address in (f"task/{path}", f"agent/{path}")
        for lock in _of(view, address)
        if _is_active(view, lock, address)
    }
    return tuple(sorted(found.items()))


def fence_failure(view: View, owner: LockOwner, path: str, mode: LockMode = "write") -> str:
    """Return why `owner` has no active grant that covers `path` in `mode`, and who has it now; empty if it has one."""
    own = own_grant(view, owner, path, mode)
    lost = next(lost_locks(view, owner, {path: mode}), None)
    others = tuple(blocking_grants(view, owner.address, {path: mode}))
    if own is not None and not others:
        return ""
    holds = "it is free now"
    if others:
        holds = f"{others[0].holder.owner} holds {others[0].path} ({others[0].holder.mode})"
    if lost is None:
        return f"you have no {mode} lock on {path}; {holds}"
    loss = lost.loss
    how = f"was broken by {loss.by}" if loss.how == "broken" else "expired"
    return f"your lock on {lost.path} {how}{f': {loss.reason}' if loss.reason else ''}; {holds}"


def own_grant(view: View, owner: LockOwner, path: str, mode: LockMode) -> LockGrant | None:
    """Return the active grant of `owner` or its family that covers `path` in `mode` and is kept longest."""
    name = owner.address.partition("/")[2]
    found: list[LockGrant] = []
    for address in (f"task/{name}", f"agent/{name}"):
        for lock in _of(view, address):
            if not path_covers(lock_path(lock), path) or not _is_active(view, lock, address):
                continue
            grant = LockGrant(**lock.status["holders"][address])
            if mode in (grant.mode, "read") and (address != owner.address or _is_of(owner, grant)):
                found.append(grant)
    return max(found, key=lambda one: LASTING.index(one.kept), default=None)


def lock_path(lock: Resource) -> str:
    """Return the canonical path or glob that a lock covers."""
    return str(lock.status.get("place") or lock.spec["path"])


def modes_conflict(one: LockMode, other: LockMode) -> bool:
    """Whether two modes exclude each other."""
    return "write" in (one, other)


def _is_of(owner: LockOwner, grant: LockGrant) -> bool:
    return grant.uid == owner.uid and (grant.kept == "declared" or grant.incarnation == owner.incarnation)


def _of(view: View, owner: str) -> list[Resource]:
    """Return the locks that name `owner`."""
    found = (view.get(address) for address in view.referrers(owner) if address.startswith("lock/"))
    return [each for each in found if each is not None]


def _is_active(view: View, lock: Resource, owner: str) -> bool:
    grant = lock.status.get("holders", {}).get(owner)
    return grant is not None and not why_grant_ended(view, owner, grant, lock.spec["path"])


def _near(view: View, wants: Wants) -> Iterator[tuple[Resource, LockMode]]:
    """Yield the locks that overlap with `wants`, each with the strictest requested mode."""
    is_one = len(wants) == 1
    wanted: PathIndex[LockMode] = PathIndex()
    for path, mode in wants.items():
        wanted.add(path, mode)
    for lock in view.list("lock"):
        place = lock_path(lock)
        # Most requests are for one path, for which the index costs more than it saves.
        found = (each for each in wants.items() if paths_overlap(place, each[0])) if is_one else wanted.near(place)
        modes = [mode for _, mode in found]
        if modes:
            yield lock, "write" if "write" in modes else "read"


def blocking_grants(view: View, asker: str, wants: Wants) -> Iterator[LockBlocker]:
    """Yield the active grants that block `asker`, the address of a task or agent."""
    for lock, mode in _near(view, wants):
        for owner, grant in lock.status.get("holders", {}).items():
            if not modes_conflict(mode, grant["mode"]) or is_above(owner, asker):
                continue
            if not why_grant_ended(view, owner, grant, lock.spec["path"]):
                yield LockBlocker(lock.spec["path"], LockGrant(**grant), "holds")


def _before(view: View, owner: LockOwner, wants: Wants, now: float) -> Iterator[LockBlocker]:
    """Yield the first waiter for something in `wants` that is ahead of `owner`."""
    near = tuple(_near(view, wants))
    own = (one for lock, _ in near for one in lock.status.get("waiters", {}).values())
    since = min((one["since"] for one in own if family_path(one["owner"]) == family_path(owner.address)), default=now)
    mine = queue_rank(since, lock_priority(view, owner.address))
    for_family: set[str] = set()  # Waiters that wait for the asker: looked up once, however many paths they wait for.
    for lock, mode in near:
        for waiting, raw in lock.status.get("waiters", {}).items():
            other = raw["owner"]
            # A grant to the asker does not block its descendants.
            if not modes_conflict(mode, raw["mode"]) or is_above(owner.address, other):
                continue
            if queue_rank(raw["since"], lock_priority(view, other)) > mine:
                continue
            found = None if waiting in for_family else waiting_owner(view, waiting)
            if found is not None and _waits_for_family(view, owner.address, waiting, raw):
                for_family.add(waiting)
            elif found is not None:
                run = (other, found.uid, found.incarnation, raw["mode"], raw["since"])
                yield LockBlocker(lock.spec["path"], LockGrant(*run, fence=0, reason=raw["reason"]), "waits")
                return


def _waits_for_family(view: View, asker: str, waiting: str, raw: JsonObject) -> bool:
    """Whether the request of `waiting` is blocked until the asker, or an ancestor of it, releases a lock."""
    wants = wanted_locks_of(view, waiting)
    return any(is_above(one.holder.owner, asker) for one in blocking_grants(view, raw["owner"], wants))


def wanted_locks_of(view: View, waiting: str) -> Wants:
    """Return the canonical paths that the object at `waiting` waits for."""
    found = view.get(waiting)
    if found is None:
        return {}
    if found.kind != "task":
        return dict(found.status.get("wants") or {})
    locks = ((view.get(f"lock/{path}"), path, mode) for path, mode in declared_locks(found.spec).items())
    return {path if lock is None else lock_path(lock): mode for lock, path, mode in locks}


def lost_locks(view: View, owner: LockOwner, wants: Wants) -> Iterator[LostLock]:
    """Yield the grants in `wants` that `owner` and its family lost and do not know of yet."""
    name = owner.address.partition("/")[2]
    for address in (f"agent/{name}", f"task/{name}"):
        for lock in _of(view, address):
            raw = lock.status.get("lost", {}).get(address)
            if raw is None or not any(paths_overlap(lock_path(lock), path) for path in wants):
                continue
            loss = LostGrant(**raw)
            if address != owner.address or (loss.uid, loss.incarnation) == (owner.uid, owner.incarnation):
                yield LostLock(lock.spec["path"], address, loss)


# Messages about what blocks a waiter: the lock, its holder, since when, why, and what ends it. Clients and the page
# find holders in these texts (`client.render.locks`, `web/src/words/objects.ts`).


@frozen
class LockMessage:
    """A message, and what would unblock the waiter."""

    message: str
    unblocks: tuple[str, ...]


def explain_blockers(blockers: Sequence[LockBlocker]) -> LockMessage:
    """Return why a request waits: `lock a.py is held by agent/x (write) since 14:02:51 UTC, "update examples"`."""
    named = blockers[: limits.LOCK_NAMES_SHOWN]
    rest = f" and {len(blockers) - len(named)} more" if len(blockers) > len(named) else ""
    locks = tuple(dict.fromkeys(f"lock/{one.path}" for one in named))
    ways = (f"{locks[0]} is released", *(f"plan unlock {quote(lock)}" for lock in locks))
    return LockMessage("; ".join(_blocked(one) for one in named) + rest, ways)


def explain_free(path: str) -> LockMessage:
    """Return the message of a request that nothing blocks: the lock is about to be granted."""
    return LockMessage(f"lock {path} is not granted yet", ("it is granted",))


def describe_holder(holder: LockGrant) -> str:
    """Return the owner, mode, start and reason of a grant as text."""
    return f"{holder.owner} ({holder.mode}) since {utc_time_of_day(holder.since)}{_why(holder.reason)}"


def utc_time_of_day(at: float) -> str:
    """Return a time of day in UTC, which means the same to all readers of the log."""
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S UTC")


def _blocked(blocker: LockBlocker) -> str:
    holder = blocker.holder
    if blocker.why == "waits":
        since = utc_time_of_day(holder.since)
        return f"lock {blocker.path} goes to {holder.owner} first ({holder.mode}), which waits since {since}"
    return f"lock {blocker.path} is held by {describe_holder(holder)}"


def _why(reason: str) -> str:
    return f', "{reason}"' if reason else ""
