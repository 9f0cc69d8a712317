"""A plan's locks with agents that take and let go, in memory: the pure rules and the controller, without an engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations

from planloop.controllers.lock.decide import LockStep, decide_lock
from planloop.controllers.shared.leases import grants, lock_paths
from planloop.controllers.shared.leases.grants import (
    LockOwner,
    LocksBlocked,
    LocksGranted,
    Wants,
    is_above,
    why_grant_ended,
)
from planloop.reconciler.engine.change_tracker import ChangeWatcher
from planloop.schemas.objects.lock import LockGrant, LockKept, lock_status_from_json
from tests.product import Change, Drop, MemoryView, Put, Record, RecordDraft, Resource, SetStatus, Uid


class Table:
    """Locks, tasks with an agent each, and calls that wait. `now` stands until it is moved."""

    def __init__(self, paths: Iterable[str], priorities: Mapping[str, int] | None = None) -> None:
        self.view = MemoryView()
        self.watcher = ChangeWatcher(())
        self.now = 1_000.0
        self.calls = 0
        self.answers: dict[str, tuple[str, str]] = {}
        self.fences: list[tuple[int, str]] = []
        self.said: list[tuple[str, str, str]] = []
        self.dirty: dict[str, None] = {}
        for path in paths:
            self.add(path, (priorities or {}).get(path, 0))

    def add(self, path: str, priority: int = 0, locks: Wants | None = None) -> None:
        task: dict[str, object] = {"priority": priority, "locks": dict(locks or {}), "parent": None, "goal": path}
        alive = {"state": "running", "incarnation": 1}
        work = {**alive, "stage": "work"}
        self.fold(
            Put(f"task/{path}", Uid(f"t-{path}"), task, status=work),
            Put(
                f"agent/{path}",
                Uid(f"a-{path}"),
                {"task": f"task/{path}"},
                status={"state": "running", "incarnation": 1},
            ),
        )

    def get(self, address: str) -> Resource:
        found = self.view.get(address)
        assert found is not None, address
        return found

    def owner(self, path: str) -> LockOwner:
        return grants.lock_owner(self.get(f"agent/{path}"))

    def fold(self, *changes: Change, kind: str = "test") -> None:
        changed = self.view.fold(Record(self.view.rev + 1, self.now, 1, RecordDraft(kind, "test", "test", changes)))
        self.dirty |= dict.fromkeys(self.watcher.concerned(self.view, changed))
        for change in changes:
            if isinstance(change, SetStatus) and change.address.startswith("call/"):
                self._hear(change)

    def want(self, path: str, wants: Wants, kept: LockKept = "turn", reason: str = "because") -> LocksGranted | str:
        """Takes what is wanted, or waits for it in a call whose address is returned."""
        owner = self.owner(path)
        found = grants.grant_locks(self.view, owner, wants, kept, reason, self.now)
        if isinstance(found, LocksGranted):
            self.noted(found)
            self.fold(*found.changes)
            return found
        self.calls += 1
        call = f"call/{self.calls:04}"
        spec = {"owner": owner.address, "owner_uid": owner.uid, "incarnation": owner.incarnation, "tool": "write"}
        status = {"state": "AwaitingLock", **grants.wish_json(wants, reason, kept)}
        queued = grants.queue_changes(self.view, call, owner, wants, reason, self.now)
        self.fold(Put(call, Uid(call), spec, owner=owner.address, status=status), *queued)
        return call

    def noted(self, found: LocksGranted) -> None:
        if found.changes:
            self.fences += [(self.view.rev + 1, path) for path in found.fences]

    def release(self, path: str, kept: tuple[LockKept, ...] | None = None) -> None:
        changes = grants.release_changes(self.view, self.owner(path), kept=kept)
        if changes:
            self.fold(*changes)

    def leave(self, call: str) -> None:
        """The call is given up: its agent takes it out of the queues."""
        found = self.get(call)
        self.fold(*grants.unqueue_changes(self.view, call, found.status["wants"]), Drop(call, found.uid))

    def restart(self, path: str) -> None:
        """A new incarnation: what waited for the old one is gone."""
        agent, task = self.get(f"agent/{path}"), self.get(f"task/{path}")
        number = agent.status["incarnation"] + 1
        for call in self.view.owned_by(agent.address):
            self.leave(call.address)
        self.fold(
            SetStatus(agent.address, agent.uid, {"incarnation": number}),
            SetStatus(task.address, task.uid, {"incarnation": number, "signal": {"go": number}}),
        )

    def step(self, address: str) -> LockStep:
        """One reconcile of the lock at `address`."""
        made = decide_lock(self.view, address, self.now)
        if made.changes:
            self.said += [(one.type, one.subject, str(one.data.get("owner"))) for one in made.says]
            self.fold(*made.changes)
        return made

    def settle(self) -> None:
        """Reconciles what is woken until nothing moves; then everything once more, which must write nothing."""
        while self.dirty:
            woken, self.dirty = list(self.dirty), {}
            for address in woken:
                if address.startswith("lock/"):
                    self.step(address)
        for lock in self.view.list("lock"):
            assert not decide_lock(self.view, lock.address, self.now).changes, f"a second look at {lock.address} writes"

    def holders(self) -> dict[tuple[str, str], LockGrant]:
        """The standing grants by lock and owner."""
        return {
            (lock.spec["path"], owner): holder
            for lock in self.view.list("lock")
            for owner, holder in lock_status_from_json(lock.status).holders.items()
            if not why_grant_ended(self.view, owner, holder.to_json(), lock.spec["path"])
        }

    def waiting(self) -> list[str]:
        return sorted(one.address for one in self.view.list("call") if one.state == "AwaitingLock")

    def check(self) -> None:
        """Exclusive locks are shared only between an ancestor and its descendants."""
        for ((one, mine), a), ((other, theirs), b) in combinations(self.holders().items(), 2):
            if "write" in (a.mode, b.mode) and lock_paths.paths_overlap(one, other):
                assert is_above(mine, theirs) or is_above(theirs, mine), f"{mine} has {one}, {theirs} has {other}"
        revs = [rev for rev, _ in self.fences]
        assert revs == sorted(revs)

    def blockers(self, path: str, wants: Wants) -> list[str]:
        found = grants.grant_locks(self.view, self.owner(path), wants, "turn", "", self.now)
        return (
            [f"{one.why} {one.path} {one.holder.owner}" for one in found.blockers]
            if isinstance(found, LocksBlocked)
            else []
        )

    def _hear(self, change: SetStatus) -> None:
        """A call that is granted or refused goes on: its agent takes it out of its waiting state."""
        if "granted" in change.merge:
            self.answers[change.address] = ("granted", str(sorted(change.merge["granted"])))
            self.fences += [(fence, path) for path, fence in change.merge["granted"].items()]
        elif "refused" in change.merge:
            self.answers[change.address] = ("refused", change.merge["refused"]["reason"])
        else:
            return
        call = self.get(change.address)
        self.fold(Drop(call.address, call.uid))
