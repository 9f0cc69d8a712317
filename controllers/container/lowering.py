"""The jobs that take a container down, and that change its limits while it runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from containers.engine import Bound, EngineFailed
from containers.naming import DEFAULT_NETWORK
from controllers.container import writing
from controllers.container.status import Seen, read, seen_of
from controllers.container.yard import Yard
from schemas import limits
from schemas.container import container_from_json, what_runs
from schemas.frozen import frozen


@frozen
class Acting:
    """One act on what there is of the container at `address`."""

    yard: Yard
    address: str
    uid: str
    act: Callable[[Acting, Seen], Awaitable[None]]

    async def __call__(self) -> None:
        """Returns when it is done, or when the status says why it is not."""
        resource = self.yard.store.view.get(self.address)
        found = None if resource is None or resource.uid != self.uid else read(resource.status).seen
        if resource is None or found is None:
            return
        of = what_runs(container_from_json(resource.spec))
        try:
            await self.act(self, found)
            made = await self.yard.engine.container(found.id)
        except EngineFailed as fault:
            await self._write(writing.failing(of, fault, self.yard.clock.now()))
            return
        seen = None if made is None else seen_of(made)
        await self._write(lambda _: writing.seen_merge(seen) | {"retry_at": None})

    async def _write(self, merge: writing.Merge) -> None:
        await writing.write(self.yard.store, self.address, self.uid, merge)


async def stop(acting: Acting, found: Seen) -> None:
    """It has ended."""
    await acting.yard.engine.stop(found.id, limits.CONTAINER_STOP_S)


async def remove(acting: Acting, found: Seen) -> None:
    """It is gone, and so are the networks that were left to it."""
    yard = acting.yard
    await yard.engine.remove(found.id)
    for network in _left(acting):
        await yard.engine.remove_network(yard.names.network(network))


def _left(acting: Acting) -> set[str]:
    """The networks of this container that no other is on, or about to be."""
    mine: set[str] = set()
    others: set[str] = set()
    for one in acting.yard.store.view.list("container"):
        networks = container_from_json(one.spec).networks or (DEFAULT_NETWORK,)
        if one.address == acting.address:
            mine |= set(networks)
        elif read(one.status).seen is not None or acting.yard.work.live_for(one.address):
            others |= set(networks)
    return mine - others


async def update(acting: Acting, found: Seen) -> None:
    """Its limits are those of the plan."""
    resource = acting.yard.store.view.get(acting.address)
    if resource is not None:
        spec = container_from_json(resource.spec)
        await acting.yard.engine.update(found.id, Bound(spec.cpu, spec.memory_bytes, spec.pids))
