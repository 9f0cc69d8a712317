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

# One change for each lock, however much happens to it in one record.
#
# A lock that the plan does not declare exists while it has a holder, a waiter, or an owner that must learn that it lost
# it. Its `refs` are its holders, whose end wakes it; waiters find their answer in their own objects.

_KEPT: Final = ("holders", "waiters", "lost")


class LockRows:
    """The locks of a view with what is about to become of them."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._merges: dict[str, JsonObject] = {}

    def grant(
        self, path: str, owner: LockOwner, mode: LockMode, kept: LockKept, told: tuple[float, str], progress: int = 0
    ) -> LockGrant:
        """Makes `owner` a holder of `lock/<path>`; `told` is the moment and the reason. A grant never becomes less."""
        now, reason = told
        old = self._status(path).get("holders", {}).get(owner.address)
        if old is not None and old["uid"] == owner.uid and old["incarnation"] == owner.incarnation:
            mode = "write" if "write" in (mode, old["mode"]) else "read"
            kept = max(kept, old["kept"], key=LASTING.index)
        fence = self._view.rev + 1  # That of the record that makes it true, or less: no later grant has it.
        holder = LockGrant(owner.address, owner.uid, owner.incarnation, mode, now, fence, kept, reason, now, progress)
        self._merge(path, "holders", owner.address, holder.to_json())
        return holder

    def renew(self, path: str, owner: str, now: float, progress: int) -> None:
        """The lease of `owner` begins anew: it has made progress."""
        self._merge(path, "holders", owner, {"renewed_at": now, "progress": progress})

    def release(self, path: str, owner: str) -> None:
        """`owner` holds the lock no more."""
        self._merge(path, "holders", owner, None)

    def shorten(self, path: str, owner: str) -> None:
        """`owner` keeps the lock to the end of its open turn, whatever it took it for."""
        self._merge(path, "holders", owner, {"kept": "turn"})

    def lose(self, path: str, owner: str, loss: LostGrant) -> None:
        """The same, and it is told so when it next comes."""
        self._merge(path, "holders", owner, None)
        self._merge(path, "lost", owner, loss.to_json())

    def told(self, path: str, owner: str) -> None:
        """`owner` knows what it has lost."""
        self._merge(path, "lost", owner, None)

    def wait(self, path: str, waiting: str, waiter: LockRequest) -> None:
        """The wish of `waiting` stands in the queue; where it stands there already it keeps its place."""
        if waiting not in self._status(path).get("waiters", {}):
            self._merge(path, "waiters", waiting, waiter.to_json())

    def leave(self, path: str, waiting: str) -> None:
        """The wish of `waiting` is in the queue no more."""
        if waiting in self._status(path).get("waiters", {}):
            self._merge(path, "waiters", waiting, None)

    def settle(self, path: str, place: str) -> None:
        """The lock is about `place`, which is another path than the one that it is called by."""
        self._merges.setdefault(path, {})["place"] = place

    def tidy(self, path: str) -> None:
        """Has the lock dropped when nothing keeps it."""
        self._merges.setdefault(path, {})

    @property
    def paths(self) -> tuple[str, ...]:
        """The locks that are written."""
        return tuple(self._merges)

    def changes(self) -> tuple[Change, ...]:
        """What makes all this true, by path."""
        made = (self._change(path, merge) for path, merge in sorted(self._merges.items()))
        return tuple(change for change in made if change is not None)

    def _merge(self, path: str, part: str, key: str, value: JsonObject | None) -> None:
        self._merges.setdefault(path, {}).setdefault(part, {})[key] = value

    def _lock(self, path: str) -> Resource | None:
        """The lock as it is; None for one that is on its way out: whoever takes it makes another."""
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
    """Who wakes the lock: who holds or has lost it, and the tasks by which the plan declares it."""
    declared = () if lock is None or lock.owner is None else (one for one in lock.refs if one.startswith("task/"))
    owners = (*status.get("holders", ()), *status.get("lost", ()))
    # An agent that begins anew says so by its task: its own state may be the same word before and after.
    tasks = (f"task/{owner.partition('/')[2]}" for owner in owners)
    return tuple(dict.fromkeys((*declared, *owners, *tasks)))


# Breaking a lock for a person. The holder is told, and its next write under the lock is refused.


@frozen
class BrokenLock:
    """`changes` take the lock from all of `owners`; who waits for it is served when they are made."""

    changes: tuple[Change, ...]
    owners: tuple[str, ...]


def break_lock(view: View, path: str, by: str, reason: str, now: float) -> BrokenLock:
    """Every grant of `lock/<path>` that stands, lost to `by` (`human:cli`). No owners: nobody holds it."""
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


# The table of locks, read from a view, and the changes that a record makes in it.
#
# Grants are all or none. A request that would overtake a waiter has to wait, too, unless that waiter waits for a lock
# that the requester, or an ancestor of it, holds: then nothing would be gained by letting the waiter go first.

Wants: TypeAlias = Mapping[str, LockMode]
"""Canonical paths or globs below the plan's folder, each with the mode that is wanted."""


@frozen
class LockBlocker:
    """Who is in the way at `lock/<path>`: it `holds` it, or it `waits` for it since before.

    The `holder` of one that waits has fence 0: `since` and `reason` are those of its wish.
    """

    path: str
    holder: LockGrant
    why: Literal["holds", "waits"]


@frozen
class LostLock:
    """What `owner`, a task or its agent, held at `lock/<path>` and has lost."""

    path: str
    owner: str
    loss: LostGrant


@frozen
class LocksGranted:
    """`changes` make the grants and go into the caller's own append; `fences` by path. No changes: all was held."""

    changes: tuple[Change, ...]
    fences: dict[str, int]


@frozen
class LocksBlocked:
    """Nothing was granted; `blockers` says why."""

    blockers: tuple[LockBlocker, ...]


def grant_locks(
    view: View, owner: LockOwner, wants: Wants, kept: LockKept, reason: str, now: float
) -> LocksGranted | LocksBlocked:
    """All of `wants` for `owner`, or none and why. What it or its task holds already is not granted again.

    Read and append with no await between, on one view: a grant is computed from the whole table.
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
    """Who keeps `owner` from having all of `wants` now: all who hold something of it, else the first who waits before.

    Empty: it may have them.
    """
    return tuple(blocking_grants(view, owner.address, wants)) or tuple(_before(view, owner, wants, now))


def queue_changes(
    view: View, waiting: str, owner: LockOwner, wants: Wants, reason: str, now: float
) -> tuple[Change, ...]:
    """The wish of the object at `waiting`, a call or a task, in the queues of all its locks, which are made if missing.

    A call says in its own status what it waits for (`wish`): the controller grants with that call's `kept`.
    """
    rows = LockRows(view)
    for path in sorted(wants):
        rows.wait(path, waiting, LockRequest(owner.address, wants[path], now, reason))
    return rows.changes()


def unqueue_changes(view: View, waiting: str, paths: Collection[str]) -> tuple[Change, ...]:
    """Takes the wish of `waiting` out of the queues of `paths`: its call ended otherwise."""
    rows = LockRows(view)
    for path in paths:
        rows.leave(path, waiting)
    return rows.changes()


def wish_json(wants: Wants, reason: str, kept: LockKept = "turn") -> JsonObject:
    """What a call in AwaitingLock says in its status. Answered there by `granted` (fences by path) or `refused`."""
    return {"wants": dict(wants), "reason": reason, "kept": kept}


def release_changes(
    view: View, owner: LockOwner, *, kept: Collection[LockKept] | None = None, paths: Collection[str] | None = None
) -> tuple[Change, ...]:
    """Lets go what `owner` itself holds: with `kept`, of those sorts only; with `paths`, what lies within them only.

    Empty when it holds none of it, at the cost of a look-up. What it lost is forgotten when it would have let it go.
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
    """The paths that `owner` and its family (an agent's task, a task's agent) hold, by path."""
    path = owner.address.partition("/")[2]
    found = {
        lock.spec["path"]: LockGrant(**lock.status["holders"][address])
        for address in (f"task/{path}", f"agent/{path}")
        for lock in _of(view, address)
        if _stands(view, lock, address)
    }
    return tuple(sorted(found.items()))


def fence_failure(view: View, owner: LockOwner, path: str, mode: LockMode = "write") -> str:
    """Empty when a grant that still stands covers `path` in `mode` for `owner`; else why not, and who has it now."""
    own = own_grant(view, owner, path, mode)
    lost = next(lost_locks(view, owner, {path: mode}), None)
    others = tuple(blocking_grants(view, owner.address, {path: mode}))
    if own is not None and not others:
        return ""
    has = "nobody has it now"
    if others:
        has = f"{others[0].holder.owner} has {others[0].path} ({others[0].holder.mode})"
    if lost is None:
        return f"you do not hold {path} for {mode}; {has}"
    loss = lost.loss
    how = f"was broken by {loss.by}" if loss.how == "broken" else "lapsed"
    return f"your lock on {lost.path} {how}{f': {loss.reason}' if loss.reason else ''}; {has}"


def own_grant(view: View, owner: LockOwner, path: str, mode: LockMode) -> LockGrant | None:
    """The standing grant of `owner` or its family that covers `path` in `mode`, the longest kept first."""
    name = owner.address.partition("/")[2]
    found: list[LockGrant] = []
    for address in (f"task/{name}", f"agent/{name}"):
        for lock in _of(view, address):
            if not path_covers(lock_path(lock), path) or not _stands(view, lock, address):
                continue
            grant = LockGrant(**lock.status["holders"][address])
            if mode in (grant.mode, "read") and (address != owner.address or _is_of(owner, grant)):
                found.append(grant)
    return max(found, key=lambda one: LASTING.index(one.kept), default=None)


def lock_path(lock: Resource) -> str:
    """The path that a lock is about."""
    return str(lock.status.get("place") or lock.spec["path"])


def modes_conflict(one: LockMode, other: LockMode) -> bool:
    """Whether two modes exclude each other."""
    return "write" in (one, other)


def _is_of(owner: LockOwner, grant: LockGrant) -> bool:
    return grant.uid == owner.uid and (grant.kept == "declared" or grant.incarnation == owner.incarnation)


def _of(view: View, owner: str) -> list[Resource]:
    """The locks that name `owner`."""
    found = (view.get(address) for address in view.referrers(owner) if address.startswith("lock/"))
    return [each for each in found if each is not None]


def _stands(view: View, lock: Resource, owner: str) -> bool:
    grant = lock.status.get("holders", {}).get(owner)
    return grant is not None and not why_grant_ended(view, owner, grant, lock.spec["path"])


def _near(view: View, wants: Wants) -> Iterator[tuple[Resource, LockMode]]:
    """The locks that overlap with what is wanted, each with the strictest mode that it is wanted in."""
    is_one = len(wants) == 1
    wanted: PathIndex[LockMode] = PathIndex()
    for path, mode in wants.items():
        wanted.add(path, mode)
    for lock in view.list("lock"):
        place = lock_path(lock)
        # Most want one path, for which the index costs more than it finds.
        found = (each for each in wants.items() if paths_overlap(place, each[0])) if is_one else wanted.near(place)
        modes = [mode for _, mode in found]
        if modes:
            yield lock, "write" if "write" in modes else "read"


def blocking_grants(view: View, asker: str, wants: Wants) -> Iterator[LockBlocker]:
    """The grants that stand in the way of `asker`, a task's or an agent's address."""
    for lock, mode in _near(view, wants):
        for owner, grant in lock.status.get("holders", {}).items():
            if not modes_conflict(mode, grant["mode"]) or is_above(owner, asker):
                continue
            if not why_grant_ended(view, owner, grant, lock.spec["path"]):
                yield LockBlocker(lock.spec["path"], LockGrant(**grant), "holds")


def _before(view: View, owner: LockOwner, wants: Wants, now: float) -> Iterator[LockBlocker]:
    """The first of those who wait for something of `wants` since before."""
    near = tuple(_near(view, wants))
    own = (one for lock, _ in near for one in lock.status.get("waiters", {}).values())
    since = min((one["since"] for one in own if family_path(one["owner"]) == family_path(owner.address)), default=now)
    mine = queue_rank(since, lock_priority(view, owner.address))
    for_family: set[str] = set()  # Those who wait, for the asker: found once, however many files they wait for.
    for lock, mode in near:
        for waiting, raw in lock.status.get("waiters", {}).items():
            other = raw["owner"]
            # What is granted to the asker is in the way of nobody below it.
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
    """Whether the wish of `waiting` cannot come true before the asker, or an ancestor of it, lets go."""
    wants = wanted_locks_of(view, waiting)
    return any(is_above(one.holder.owner, asker) for one in blocking_grants(view, raw["owner"], wants))


def wanted_locks_of(view: View, waiting: str) -> Wants:
    """What the object at `waiting` waits for, canonical."""
    found = view.get(waiting)
    if found is None:
        return {}
    if found.kind != "task":
        return dict(found.status.get("wants") or {})
    locks = ((view.get(f"lock/{path}"), path, mode) for path, mode in declared_locks(found.spec).items())
    return {path if lock is None else lock_path(lock): mode for lock, path, mode in locks}


def lost_locks(view: View, owner: LockOwner, wants: Wants) -> Iterator[LostLock]:
    """What `owner` and its family held of `wants`, lost, and were not told yet."""
    name = owner.address.partition("/")[2]
    for address in (f"agent/{name}", f"task/{name}"):
        for lock in _of(view, address):
            raw = lock.status.get("lost", {}).get(address)
            if raw is None or not any(paths_overlap(lock_path(lock), path) for path in wants):
                continue
            loss = LostGrant(**raw)
            if address != owner.address or (loss.uid, loss.incarnation) == (owner.uid, owner.incarnation):
                yield LostLock(lock.spec["path"], address, loss)


# Explanations of what blocks a waiter: the lock, its holder, since when, why, and what ends it.


@frozen
class LockMessage:
    """A sentence, and the ways out of it."""

    message: str
    unblocks: tuple[str, ...]


def explain_blockers(blockers: Sequence[LockBlocker]) -> LockMessage:
    """Why a wish has to wait: `lock a.py is held by agent/x (write) since 14:02:51 UTC, "update examples"`."""
    named = blockers[: limits.LOCK_NAMES_SHOWN]
    rest = f" and {len(blockers) - len(named)} more" if len(blockers) > len(named) else ""
    locks = tuple(dict.fromkeys(f"lock/{one.path}" for one in named))
    ways = (f"{locks[0]} is released", *(f"plan unlock {quote(lock)}" for lock in locks))
    return LockMessage("; ".join(_blocked(one) for one in named) + rest, ways)


def explain_free(path: str) -> LockMessage:
    """Nobody is in the way, and the lock is about to be granted."""
    return LockMessage(f"lock {path} is not granted yet", ("it is granted",))


def describe_holder(holder: LockGrant) -> str:
    """Who, how, since when and why."""
    return f"{holder.owner} ({holder.mode}) since {utc_time_of_day(holder.since)}{_why(holder.reason)}"


def utc_time_of_day(at: float) -> str:
    """A time of day in words that mean the same for everybody who reads the log."""
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S UTC")


def _blocked(blocker: LockBlocker) -> str:
    holder = blocker.holder
    if blocker.why == "waits":
        since = utc_time_of_day(holder.since)
        return f"lock {blocker.path} goes to {holder.owner} first ({holder.mode}), which waits since {since}"
    return f"lock {blocker.path} is held by {describe_holder(holder)}"


def _why(reason: str) -> str:
    return f', "{reason}"' if reason else ""
