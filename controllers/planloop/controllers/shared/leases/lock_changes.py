"""Changes of lock objects, collected into one change per lock and record; also breaking a lock for a person. Pure."""

from __future__ import annotations

from typing import Final

from planloop.controllers.shared.leases.owners import LockOwner, why_grant_ended
from planloop.reconciler.store.store import View
from planloop.schemas import json_patch
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.log.record import Change, Drop, Put, SetStatus
from planloop.schemas.objects.lock import LASTING, LockGrant, LockKept, LockMode, LockRequest, LostGrant
from planloop.schemas.resource import Resource, Uid

# Changes of lock objects, gathered: one change for each lock, however much happens to it in one record.
#
# A lock that the plan does not declare is there while somebody holds it, wants it, or has to be told that it lost it.
# Its `refs` are its holders, whose end wakes it; those who wait find their answer in their own objects.

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


# A person takes a lock from whoever holds it. The holder is told, and what it writes next under it is refused.


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
