"""The lock controller: any lock that is woken has all of them allotted, in one append."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

from controllers.lock.deciding import allotted
from controllers.lock.observing import Lock, observe
from reconciler.clock import Clock
from reconciler.contract import Done, Outcome
from reconciler.storing.store import Store
from schemas.address import Address
from schemas.encoding import JsonObject
from schemas.record import Change, Draft, SetStatus

ACTOR: Final = "controller:lock"


class LockReconciler:
    """Drives objects of kind `lock`."""

    kind = "lock"

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def reconcile(self, address: Address) -> Outcome:
        """Allots all locks; `address` is only who woke it."""
        seen = observe(self._store.view, self._clock.now())
        wanted = allotted(seen)
        changes: list[Change] = []
        data: JsonObject = {}
        for path, lock in wanted.items():
            merge = _difference(seen.locks[path], lock)
            if merge:
                changes.append(SetStatus(lock.resource.address, lock.resource.uid, merge))
                data[path] = None if lock.holder is None else lock.holder.task
        if changes:
            moved = (seen.locks[path].resource for path in data)
            expect: dict[str, int | None] = {lock.address: lock.rev for lock in moved}
            kind = "lock.granted" if any(data.values()) else "lock.released"
            await self._store.append(Draft(kind, ACTOR, str(address), tuple(changes), {"holders": data}), expect)
        return Done()


def _difference(old: Lock, new: Lock) -> JsonObject:
    """The merge from `old` to `new`; empty when they are the same and the object has a status."""
    if (old.holder, old.waiters) == (new.holder, new.waiters) and old.resource.status:
        return {}
    gone: JsonObject = {address: None for address in old.waiters if address not in new.waiters}
    return {
        "state": "free" if new.holder is None else "held",
        "holder": None if new.holder is None else asdict(new.holder),
        "signal": None if new.holder is None else [new.holder.task, new.holder.fence],
        "waiters": {**gone, **new.waiters},
        "fence": new.fence,
    }
