"""The table of locks, read from a view, and the changes that a record makes in it. Pure.

Grants are all or none. Whoever would overtake one who waits is told to wait too, unless that one waits for something
that the asker, or an ancestor of it, has: then nothing would be won by letting it go first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Literal, TypeAlias

from planloop.controllers.leases.owners import Owner, fallen, is_above, path_of, priority_of, rank, wishing
from planloop.controllers.leases.places import ByPlace, covers, overlap
from planloop.controllers.leases.writing import Rows
from planloop.reconciler.storing.store import View
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.lock import LASTING, Holder, LockKept, LockMode, Loss, Waiter, locks_of
from planloop.schemas.record import Change
from planloop.schemas.resource import Resource

Wants: TypeAlias = Mapping[str, LockMode]
"""Canonical paths or globs below the plan's folder, each with the mode that is wanted."""


@frozen
class Blocker:
    """Who is in the way at `lock/<path>`: it `holds` it, or it `waits` for it since before.

    The `holder` of one that waits has fence 0: `since` and `reason` are those of its wish.
    """

    path: str
    holder: Holder
    why: Literal["holds", "waits"]


@frozen
class Lost:
    """What `owner`, a task or its agent, held at `lock/<path>` and has lost."""

    path: str
    owner: str
    loss: Loss


@frozen
class Granted:
    """`changes` make the grants and go into the caller's own append; `fences` by path. No changes: all was held."""

    changes: tuple[Change, ...]
    fences: dict[str, int]


@frozen
class Taken:
    """Nothing was granted; `blockers` says why."""

    blockers: tuple[Blocker, ...]


def granted(view: View, owner: Owner, wants: Wants, kept: LockKept, reason: str, now: float) -> Granted | Taken:
    """All of `wants` for `owner`, or none and why. What it or its task holds already is not granted again.

    Read and append with no await between, on one view: a grant is computed from the whole table.
    """
    if others := blockers(view, owner, wants, now):
        return Taken(others)
    rows, fences = Rows(view), {}
    for path in sorted(wants):
        own = own_grant(view, owner, path, wants[path])
        if own is None or LASTING.index(own.kept) < LASTING.index(kept):
            own = rows.grant(path, owner, wants[path], kept, (now, reason))
        fences[path] = own.fence
    for lost in losses(view, owner, wants):
        rows.told(lost.path, lost.owner)
    return Granted(rows.changes(), fences)


def blockers(view: View, owner: Owner, wants: Wants, now: float) -> tuple[Blocker, ...]:
    """Who keeps `owner` from having all of `wants` now: all who hold something of it, else the first who waits before.

    Empty: it may have them.
    """
    return tuple(barring(view, owner.address, wants)) or tuple(_before(view, owner, wants, now))


def queued(view: View, waiting: str, owner: Owner, wants: Wants, reason: str, now: float) -> tuple[Change, ...]:
    """The wish of the object at `waiting`, a call or a task, in the queues of all its locks, which are made if missing.

    A call says in its own status what it waits for (`wish`): the controller grants with that call's `kept`.
    """
    rows = Rows(view)
    for path in sorted(wants):
        rows.wait(path, waiting, Waiter(owner.address, wants[path], now, reason))
    return rows.changes()


def unqueued(view: View, waiting: str, paths: Collection[str]) -> tuple[Change, ...]:
    """Takes the wish of `waiting` out of the queues of `paths`: its call ended otherwise."""
    rows = Rows(view)
    for path in paths:
        rows.leave(path, waiting)
    return rows.changes()


def wish(wants: Wants, reason: str, kept: LockKept = "turn") -> JsonObject:
    """What a call in AwaitingLock says in its status. Answered there by `granted` (fences by path) or `refused`."""
    return {"wants": dict(wants), "reason": reason, "kept": kept}


def released(
    view: View, owner: Owner, *, kept: Collection[LockKept] | None = None, paths: Collection[str] | None = None
) -> tuple[Change, ...]:
    """Lets go what `owner` itself holds: with `kept`, of those sorts only; with `paths`, what lies within them only.

    Empty when it holds none of it, at the cost of a look-up. What it lost is forgotten when it would have let it go.
    """
    rows = Rows(view)
    for lock in _of(view, owner.address):
        path = lock.spec["path"]
        grant = lock.status.get("holders", {}).get(owner.address)
        is_meant = paths is None or any(covers(each, path) for each in paths)
        if grant is not None and is_meant and (kept is None or grant["kept"] in kept):
            rows.release(path, owner.address)
        lost = lock.status.get("lost", {}).get(owner.address)
        if lost is not None and paths is None and (kept is None or lost.get("kept", "turn") in kept):
            rows.told(path, owner.address)
    return rows.changes()


def held(view: View, owner: Owner) -> tuple[tuple[str, Holder], ...]:
    """The paths that `owner` and its family (an agent's task, a task's agent) hold, by path."""
    path = owner.address.partition("/")[2]
    found = {
        lock.spec["path"]: Holder(**lock.status["holders"][address])
        for address in (f"task/{path}", f"agent/{path}")
        for lock in _of(view, address)
        if _stands(view, lock, address)
    }
    return tuple(sorted(found.items()))


def fenced(view: View, owner: Owner, path: str, mode: LockMode = "write") -> str:
    """Empty when a grant that still stands covers `path` in `mode` for `owner`; else why not, and who has it now."""
    own = own_grant(view, owner, path, mode)
    lost = next(losses(view, owner, {path: mode}), None)
    others = tuple(barring(view, owner.address, {path: mode}))
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


def own_grant(view: View, owner: Owner, path: str, mode: LockMode) -> Holder | None:
    """The standing grant of `owner` or its family that covers `path` in `mode`, the longest kept first."""
    name = owner.address.partition("/")[2]
    found: list[Holder] = []
    for address in (f"task/{name}", f"agent/{name}"):
        for lock in _of(view, address):
            if not covers(place_of(lock), path) or not _stands(view, lock, address):
                continue
            grant = Holder(**lock.status["holders"][address])
            if mode in (grant.mode, "read") and (address != owner.address or _is_of(owner, grant)):
                found.append(grant)
    return max(found, key=lambda one: LASTING.index(one.kept), default=None)


def place_of(lock: Resource) -> str:
    """The path that a lock is about."""
    return str(lock.status.get("place") or lock.spec["path"])


def conflict(one: LockMode, other: LockMode) -> bool:
    """Whether two modes exclude each other."""
    return "write" in (one, other)


def _is_of(owner: Owner, grant: Holder) -> bool:
    return grant.uid == owner.uid and (grant.kept == "declared" or grant.incarnation == owner.incarnation)


def _of(view: View, owner: str) -> list[Resource]:
    """The locks that name `owner`."""
    found = (view.get(address) for address in view.referrers(owner) if address.startswith("lock/"))
    return [each for each in found if each is not None]


def _stands(view: View, lock: Resource, owner: str) -> bool:
    grant = lock.status.get("holders", {}).get(owner)
    return grant is not None and not fallen(view, owner, grant, lock.spec["path"])


def _near(view: View, wants: Wants) -> Iterator[tuple[Resource, LockMode]]:
    """The locks that overlap with what is wanted, each with the strictest mode that it is wanted in."""
    is_one = len(wants) == 1
    wanted: ByPlace[LockMode] = ByPlace()
    for path, mode in wants.items():
        wanted.add(path, mode)
    for lock in view.list("lock"):
        place = place_of(lock)
        # Most want one path, for which the index costs more than it finds.
        found = (each for each in wants.items() if overlap(place, each[0])) if is_one else wanted.near(place)
        modes = [mode for _, mode in found]
        if modes:
            yield lock, "write" if "write" in modes else "read"


def barring(view: View, asker: str, wants: Wants) -> Iterator[Blocker]:
    """The grants that stand in the way of `asker`, a task's or an agent's address."""
    for lock, mode in _near(view, wants):
        for owner, grant in lock.status.get("holders", {}).items():
            if not conflict(mode, grant["mode"]) or is_above(owner, asker):
                continue
            if not fallen(view, owner, grant, lock.spec["path"]):
                yield Blocker(lock.spec["path"], Holder(**grant), "holds")


def _before(view: View, owner: Owner, wants: Wants, now: float) -> Iterator[Blocker]:
    """The first of those who wait for something of `wants` since before."""
    near = tuple(_near(view, wants))
    own = (one for lock, _ in near for one in lock.status.get("waiters", {}).values())
    since = min((one["since"] for one in own if path_of(one["owner"]) == path_of(owner.address)), default=now)
    mine = rank(since, priority_of(view, owner.address))
    for_family: set[str] = set()  # Those who wait, for the asker: found once, however many files they wait for.
    for lock, mode in near:
        for waiting, raw in lock.status.get("waiters", {}).items():
            other = raw["owner"]
            # What is granted to the asker is in the way of nobody below it.
            if not conflict(mode, raw["mode"]) or is_above(owner.address, other):
                continue
            if rank(raw["since"], priority_of(view, other)) > mine:
                continue
            found = None if waiting in for_family else wishing(view, waiting)
            if found is not None and _waits_for_family(view, owner.address, waiting, raw):
                for_family.add(waiting)
            elif found is not None:
                run = (other, found.uid, found.incarnation, raw["mode"], raw["since"])
                yield Blocker(lock.spec["path"], Holder(*run, fence=0, reason=raw["reason"]), "waits")
                return


def _waits_for_family(view: View, asker: str, waiting: str, raw: JsonObject) -> bool:
    """Whether the wish of `waiting` cannot come true before the asker, or an ancestor of it, lets go."""
    wants = wants_of(view, waiting)
    return any(is_above(one.holder.owner, asker) for one in barring(view, raw["owner"], wants))


def wants_of(view: View, waiting: str) -> Wants:
    """What the object at `waiting` waits for, canonical."""
    found = view.get(waiting)
    if found is None:
        return {}
    if found.kind != "task":
        return dict(found.status.get("wants") or {})
    locks = ((view.get(f"lock/{path}"), path, mode) for path, mode in locks_of(found.spec).items())
    return {path if lock is None else place_of(lock): mode for lock, path, mode in locks}


def losses(view: View, owner: Owner, wants: Wants) -> Iterator[Lost]:
    """What `owner` and its family held of `wants`, lost, and were not told yet."""
    name = owner.address.partition("/")[2]
    for address in (f"agent/{name}", f"task/{name}"):
        for lock in _of(view, address):
            raw = lock.status.get("lost", {}).get(address)
            if raw is None or not any(overlap(place_of(lock), path) for path in wants):
                continue
            loss = Loss(**raw)
            if address != owner.address or (loss.uid, loss.incarnation) == (owner.uid, owner.incarnation):
                yield Lost(lock.spec["path"], address, loss)
