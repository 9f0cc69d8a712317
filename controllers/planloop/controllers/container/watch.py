"""Watch the engine for this plan's containers: list once, then follow events; remove those that belong to nothing.

The engine is the truth: whatever is stopped, removed or changed from outside stands in the status soon, and the
controller compares it with what is wanted. Events may be lost, so it is looked again now and then.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing, suppress
from typing import Final

import anyio
from anyio.abc import TaskGroup

from planloop.containers.engine.engine import LISTENING, EngineErrorReason, EngineFailed, FoundContainer
from planloop.containers.engine.names import ADDRESS, container_networks, tag_from_labels
from planloop.controllers.container.context import ContainerContext
from planloop.controllers.container.decide import START, container_backoff_s
from planloop.controllers.container.observe import live_jobs
from planloop.controllers.container.records import ContainerStatusWriter
from planloop.controllers.container.status import ContainerStatus, EngineTrouble, read_container_status
from planloop.schemas import limits
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.container import container_from_json
from planloop.schemas.resource import Resource

_QUIET: Final = frozenset(("exec_create", "exec_start", "exec_die", "attach", "top", "resize"))
_STUCK: Final = "the others go on without it; when it stays so, restart the engine: systemctl restart docker"


@frozen
class ContainerWatch:
    """Watches all containers of the plan."""

    yard: ContainerContext

    async def __call__(self) -> None:
        """Until it is cancelled."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._look_again)
            await self._listen(group)

    async def _listen(self, group: TaskGroup) -> None:
        failures = 0
        while True:
            try:
                async with aclosing(self.yard.engine.events(self.yard.names.ours)) as events:
                    async for event in events:
                        if event == LISTENING:
                            await self._look()
                            failures = 0
                        elif event.action.partition(":")[0] not in _QUIET:
                            group.start_soon(self._look_at, event.id, event.labels.get(ADDRESS, ""))
            except EngineFailed as fault:
                failures += 1
                if failures > 1:  # A line that broke off is tried again first: what is true did not change by that.
                    await self._lost(fault)
            await self.yard.clock.sleep(container_backoff_s(max(1, failures)))

    async def _look_again(self) -> None:
        """For what no event told of. A plan that has none of them asks for nothing."""
        while True:
            await self.yard.clock.sleep(limits.CONTAINER_LOOK_S)
            if any(
                one.status.get("seen") or one.status.get("engine") for one in self.yard.store.view.list("container")
            ):
                with suppress(EngineFailed):  # Whoever listens hears of it, too.
                    await self._look()

    async def _look(self) -> None:
        """All of it: also what an earlier owner has left."""
        yard = self.yard
        there = await yard.containers()
        strays = [one for one in there if self.yard.whose(one) is None]
        known = {str(one.labels[ADDRESS]): one for one in sorted(there, key=_age) if one not in strays}
        strays += [one for one in there if one not in strays and known[one.labels[ADDRESS]] != one]
        if not known:  # First: whoever is told that nothing is left of it may have been the last to look.
            await self._clear(strays)
            strays = []
        elif not yard.first_look.is_set():
            await self._remove_all(strays)  # First: a network that a container is on cannot be removed.
            strays = []
            await self._remove_unused_networks(frozenset(known))
        async with anyio.create_task_group() as group:
            for resource in yard.store.view.list("container"):
                group.start_soon(self._note, resource, known.get(resource.address))
            for one in strays:
                group.start_soon(self._remove, one)
        yard.first_look.set()
        for resource in yard.store.view.list("container"):
            if not resource.status.get("looked"):  # It came while we looked.
                yard.work.poke(resource.address)

    async def _clear(self, strays: Sequence[FoundContainer]) -> None:
        """Where there is no container of the plan, nothing else is left of it, either."""
        yard = self.yard
        await self._remove_all(strays)
        if not any(yard.work.live_for(one.address) for one in yard.store.view.list("container")):
            for network in await yard.networks():
                with suppress(EngineFailed):
                    await yard.engine.remove_network(network)

    async def _remove_unused_networks(self, known: frozenset[str]) -> None:
        """Remove the plan's networks that none of its `known` containers is on.

        An owner that died after it removed a container leaves the container's networks. Only the first look does this:
        later, the owner removes them itself. While a first look takes long, another one may end and let jobs start, so
        the networks of a container that is being created stay, too.
        """
        yard = self.yard
        for network in await yard.networks():
            if network not in self._used_networks(known):
                with suppress(EngineFailed):  # A container that is not the plan's may have joined it.
                    await yard.engine.remove_network(network)

    def _used_networks(self, known: frozenset[str]) -> set[str]:
        """The names of the networks that one of the `known` containers is on, or one that is being created."""
        yard = self.yard
        return {
            yard.names.network(name)
            for one in yard.store.view.list("container")
            if one.address in known or START in live_jobs(yard.work, one.address)
            for name in container_networks(container_from_json(one.spec))
        }

    async def _look_at(self, ref: str, address: str) -> None:
        """One that cannot be looked at now is looked at with all of them."""
        with suppress(EngineFailed):
            found = await self.yard.engine.container(ref)
            is_stray = found is not None and self.yard.whose(found) is None
            if found is not None and is_stray:
                await self._remove(found)
            elif (resource := self.yard.store.view.get(address)) is not None:
                await ContainerStatusWriter(self.yard, address, resource.uid).look(ref)

    async def _remove_all(self, strays: Sequence[FoundContainer]) -> None:
        async with anyio.create_task_group() as group:
            for one in strays:
                group.start_soon(self._remove, one)

    async def _remove(self, stray: FoundContainer) -> None:
        """One of nobody goes if it is ours; one that cannot go yet is met again at the next look."""
        if not self.yard.is_ours(stray):
            return
        with suppress(EngineFailed):
            await self.yard.engine.remove(stray.id)

    async def _note(self, resource: Resource, found: FoundContainer | None) -> None:
        """Writes what was seen of it, and wakes it and those that wait for it: they know now what there is."""
        page = ContainerStatusWriter(self.yard, resource.address, resource.uid)
        is_news = read_container_status(resource.status).looked != self.yard.look_token
        try:
            await self._see(page, read_container_status(resource.status), found)
        except EngineFailed as fault:
            trouble = _trouble(fault)
            if is_news:  # Else it stays as it was known.
                await page.write(lambda _: {"engine": trouble})
            return
        for address in (resource.address, *self.yard.store.view.referrers(resource.address)) if is_news else ():
            self.yard.work.poke(address)

    async def _see(self, page: ContainerStatusWriter, status: ContainerStatus, found: FoundContainer | None) -> None:
        if found is not None and not found.is_whole:
            raise EngineFailed(EngineErrorReason.TIMED_OUT, f"the engine does not answer about {found.name}", _STUCK)
        also: JsonObject = {"looked": self.yard.look_token, "engine": None}
        ref = found.id if found is not None else status.seen.id if status.seen is not None else ""
        if ref:
            await page.look(ref, also)
        else:
            await page.write(lambda _: also)

    async def _lost(self, fault: EngineFailed) -> None:
        """Nobody knows what there is: it is looked at again before anything is done."""
        merge: JsonObject = {"looked": None, "engine": _trouble(fault)}
        for resource in self.yard.store.view.list("container"):
            await ContainerStatusWriter(self.yard, resource.address, resource.uid).write(lambda _: merge)


def _trouble(fault: EngineFailed) -> JsonObject:
    return EngineTrouble(0, str(fault.reason), str(fault), fault.hint).to_json()


def _age(found: FoundContainer) -> tuple[int, float]:
    """Later ones of one container come later."""
    tag = tag_from_labels(found.labels)
    return (0 if tag is None else tag.incarnation, found.created_at)
