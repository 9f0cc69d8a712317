"""Reconcile locks: serve the waiters near a lock in one append; also the canonical path of a declared lock."""

from __future__ import annotations

import os
from itertools import takewhile
from pathlib import Path

from planloop.controllers.lock.decide import decide_lock
from planloop.controllers.lock.lease_expiry import BY
from planloop.reconciler.clock import Clock
from planloop.reconciler.engine.reconcile import Again, Done, Outcome
from planloop.reconciler.engine.work_pools import WorkPlane
from planloop.reconciler.store.store import Store
from planloop.schemas.address import Address
from planloop.schemas.log.record import RecordDraft, SubRecord


def canonical_lock_path(root: Path, glob: str) -> str:
    """Return the canonical path of a declared lock: `glob` with the links of its fixed beginning followed.

    If that leads out of `root`, return `glob` as written.
    """
    names = glob.split("/")
    fixed = list(takewhile(lambda name: not set(name) & {"*", "?"}, names))
    base = Path(os.path.realpath(root))
    real = Path(os.path.realpath(base.joinpath(*fixed)))
    if not real.is_relative_to(base):
        return glob
    return "/".join((*real.relative_to(base).parts, *names[len(fixed) :])) or "**"


# An uncontested lock needs no controller: grants and releases are part of the holder's own records. This controller
# serves the queue, removes grants whose holder is gone, and finds deadlocks.


class LockReconciler:
    """The `Reconciler` of locks. `root` is the plan's folder, where symbolic links are followed; None: do not."""

    kind = "lock"

    def __init__(self, store: Store, clock: Clock, work: WorkPlane | None = None, root: Path | None = None) -> None:
        self._store = store
        self._clock = clock
        self._work = work
        self._root = root

    async def reconcile(self, address: Address) -> Outcome:
        """Serve the waiters near the lock at `address`, which may be gone by now."""
        view = self._store.view
        step = decide_lock(view, str(address), self._clock.now(), self._work, self._about(str(address)))
        if step.changes:
            first, *also = step.says or (SubRecord("object.updated", str(address), {}),)
            draft = RecordDraft(first.type, BY, first.subject, step.changes, first.data, also=tuple(also))
            found = ((each.address, view.get(each.address)) for each in step.changes)
            # Not flushed: no effect follows, and the new holder flushes before it acts.
            self._store.propose(draft, {name: None if one is None else one.rev for name, one in found})
        return Done() if step.again_s is None else Again(step.again_s)

    def _about(self, address: str) -> str:
        """Return the canonical path of a declared lock, by the links of this moment; agents name canonical paths."""
        lock = self._store.view.get(address)
        is_declared = lock is not None and lock.owner is not None
        return (
            canonical_lock_path(self._root, address.partition("/")[2]) if self._root is not None and is_declared else ""
        )
