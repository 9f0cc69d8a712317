"""What the engine has of this plan is looked at once and then listened to; what is nobody's is removed.

The engine is the truth: whatever is stopped, removed or changed from outside stands in the status soon, and the
controller compares it with what is wanted.
"""

from __future__ import annotations

from typing import Final

from containers.engine import LISTENING, EngineFailed, Found
from containers.naming import tag_of
from controllers.container import writing
from controllers.container.deciding import backoff_s
from controllers.container.status import seen_of
from controllers.container.yard import Yard
from schemas.encoding import JsonObject
from schemas.frozen import frozen

_QUIET: Final = frozenset(("exec_create", "exec_start", "exec_die", "attach", "top", "resize"))


@frozen
class Watching:
    """Watches all containers of the plan."""

    yard: Yard

    async def __call__(self) -> None:
        """Until it is cancelled."""
        failures = 0
        while True:
            try:
                async for event in self.yard.engine.events(self.yard.names.ours):
                    failures = 0
                    if event == LISTENING:
                        await self._look()
                    elif event.action.partition(":")[0] not in _QUIET:
                        await self._look_at(event.id, event.labels.get("planloop.address", ""))
            except EngineFailed as fault:
                failures += 1
                await self._lost(fault)
            await self.yard.clock.sleep(backoff_s(max(1, failures)))

    async def _look(self) -> None:
        """All of it: also what an earlier owner has left."""
        yard = self.yard
        there = {one.id: one for one in await yard.engine.containers(yard.names.ours)}
        known: dict[str, Found] = {}
        for one in there.values():
            tag = tag_of(one.labels)
            resource = None if tag is None else yard.store.view.get(tag.address)
            if tag is None or resource is None or resource.uid != tag.uid or tag.address in known:
                await yard.engine.remove(one.id)
            else:
                known[tag.address] = one
        for resource in yard.store.view.list("container"):
            await self._note(resource.address, known.get(resource.address))
        used = yard.store.view.list("container")
        if not known and not any(yard.work.live_for(one.address) for one in used):
            for network in await yard.engine.networks(yard.names.ours):
                await yard.engine.remove_network(network)

    async def _look_at(self, ref: str, address: str) -> None:
        found = await self.yard.engine.container(ref)
        resource = self.yard.store.view.get(address)
        if resource is None:
            return
        last = resource.status.get("seen") or {}
        if found is not None or last.get("id") == ref:
            await self._note(address, found)

    async def _note(self, address: str, found: Found | None) -> None:
        resource = self.yard.store.view.get(address)
        if resource is None:
            return
        seen = None if found is None else seen_of(found)
        if seen is not None and seen.uid != resource.uid:
            return
        merge = writing.seen_merge(seen) | {"epoch": self.yard.epoch}
        await writing.write(self.yard.store, address, resource.uid, lambda _: merge)

    async def _lost(self, fault: EngineFailed) -> None:
        """Nobody knows what there is: it is looked at again before anything is done."""
        merge: JsonObject = {"epoch": 0, "reason": str(fault.reason), "why": str(fault), "hint": fault.hint or None}
        for resource in self.yard.store.view.list("container"):
            await writing.write(self.yard.store, resource.address, resource.uid, lambda _: merge)
