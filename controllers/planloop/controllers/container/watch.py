"""Watch the engine for this plan's containers: list once, then follow events; remove containers without an object.

The engine is the source of truth: the watcher writes each change from outside into the status, and the controller
compares it with the plan. Events may be lost, so the engine is listed again at intervals.
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
_STUCK: Final = "other containers are not affected. If this persists, restart the engine: systemctl restart docker"


@frozen
class ContainerWatch:
    """Watches all containers of the plan."""

    context: ContainerContext

    async def __call__(self) -> None:
        """Watch until cancelled."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._look_again)
            await self._listen(group)

    async def _listen(self, group: TaskGroup) -> None:
        failures = 0
        while True:
            try:
                async with aclosing(self.context.engine.events(self.context.names.ours)) as events:
                    async for event in events:
                        if event == LISTENING:
                            await self._look()
                            failures = 0
                        elif event.action.partition(":")[0] not in _QUIET:
                            group.start_soon(self._look_at, event.id, event.labels.get(ADDRESS, ""))
            except EngineFailed as fault:
                failures += 1
                if failures > 1:  # After a broken connection, reconnect first: nothing has changed.
                    await self._forget_looks(fault)
            await self.context.clock.sleep(container_backoff_s(max(1, failures)))

    async def _look_again(self) -> None:
        """List the engine at intervals, for changes without an event, if the plan has any container."""
        while True:
            await self.context.clock.sleep(limits.CONTAINER_LOOK_S)
            if any(
                one.status.get("seen") or one.status.get("engine") for one in self.context.store.view.list("container")
            ):
                with suppress(EngineFailed):  # `_listen` notices and handles the failure.
                    await self._look()

    async def _look(self) -> None:
        """List the engine and write what it has into each status; remove containers without an object."""
        context = self.context
        there = await context.containers()
        strays = [one for one in there if self.context.object_of(one) is None]
        known = {str(one.labels[ADDRESS]): one for one in sorted(there, key=_age) if one not in strays}
        strays += [one for one in there if one not in strays and known[one.labels[ADDRESS]] != one]
        if not known:  # Before the statuses: a container that reads there that it is gone may end the plan.
            await self._clear(strays)
            strays = []
        elif not context.first_look.is_set():
            await self._remove_all(strays)  # Before networks: a network with a container cannot be removed.
            strays = []
            await self._remove_unused_networks(frozenset(known))
        async with anyio.create_task_group() as group:
            for resource in context.store.view.list("container"):
                group.start_soon(self._note, resource, known.get(resource.address))
            for one in strays:
                group.start_soon(self._remove, one)
        context.first_look.set()
        for resource in context.store.view.list("container"):
            if not resource.status.get("looked"):  # Added during the listing.
                context.work.poke(resource.address)

    async def _clear(self, strays: Sequence[FoundContainer]) -> None:
        """Remove the networks too, because the plan has no container in the engine."""
        context = self.context
        await self._remove_all(strays)
        if not any(context.work.live_for(one.address) for one in context.store.view.list("container")):
            for network in await context.networks():
                with suppress(EngineFailed):
                    await context.engine.remove_network(network)

    async def _remove_unused_networks(self, known: frozenset[str]) -> None:
        """Remove the plan's networks that none of its `known` containers is on.

        An owner that died after it removed a container leaves the container's networks. Only the first look does this:
        later, the owner removes them itself. While a first look takes long, another one may end and let jobs start, so
        the networks of a container that is being created stay, too.
        """
        context = self.context
        for network in await context.networks():
            if network not in self._used_networks(known):
                with suppress(EngineFailed):  # A container that is not the plan's may have joined it.
                    await context.engine.remove_network(network)

    def _used_networks(self, known: frozenset[str]) -> set[str]:
        """The names of the networks that one of the `known` containers is on, or one that is being created."""
        context = self.context
        return {
            context.names.network(name)
            for one in context.store.view.list("container")
            if one.address in known or START in live_jobs(context.work, one.address)
            for name in container_networks(container_from_json(one.spec))
        }

    async def _look_at(self, ref: str, address: str) -> None:
        """Write what the engine has of one container; if that fails, the next listing does."""
        with suppress(EngineFailed):
            found = await self.context.engine.container(ref)
            is_stray = found is not None and self.context.object_of(found) is None
            if found is not None and is_stray:
                await self._remove(found)
            elif (resource := self.context.store.view.get(address)) is not None:
                await ContainerStatusWriter(self.context, address, resource.uid).look(ref)

    async def _remove_all(self, strays: Sequence[FoundContainer]) -> None:
        async with anyio.create_task_group() as group:
            for one in strays:
                group.start_soon(self._remove, one)

    async def _remove(self, stray: FoundContainer) -> None:
        """Remove a container of this plan without an object; if that fails, the next listing tries again."""
        if not self.context.is_ours(stray):
            return
        with suppress(EngineFailed):
            await self.context.engine.remove(stray.id)

    async def _note(self, resource: Resource, found: FoundContainer | None) -> None:
        """Write what the engine has of a container; after this owner's first look, wake it and its dependents."""
        writer = ContainerStatusWriter(self.context, resource.address, resource.uid)
        is_first = read_container_status(resource.status).looked != self.context.look_token
        try:
            await self._see(writer, read_container_status(resource.status), found)
        except EngineFailed as fault:
            trouble = _trouble(fault)
            if is_first:  # Otherwise keep what is known.
                await writer.write(lambda _: {"engine": trouble})
            return
        for address in (resource.address, *self.context.store.view.referrers(resource.address)) if is_first else ():
            self.context.work.poke(address)

    async def _see(self, writer: ContainerStatusWriter, status: ContainerStatus, found: FoundContainer | None) -> None:
        if found is not None and not found.is_whole:
            raise EngineFailed(EngineErrorReason.TIMED_OUT, f"the engine does not answer about {found.name}", _STUCK)
        also: JsonObject = {"looked": self.context.look_token, "engine": None}
        ref = found.id if found is not None else status.seen.id if status.seen is not None else ""
        if ref:
            await writer.look(ref, also)
        else:
            await writer.write(lambda _: also)

    async def _forget_looks(self, fault: EngineFailed) -> None:
        """Mark what the engine has as unknown, so that nothing is done before the next look."""
        merge: JsonObject = {"looked": None, "engine": _trouble(fault)}
        for resource in self.context.store.view.list("container"):
            await ContainerStatusWriter(self.context, resource.address, resource.uid).write(lambda _: merge)


def _trouble(fault: EngineFailed) -> JsonObject:
    return EngineTrouble(0, str(fault.reason), str(fault), fault.hint).to_json()


def _age(found: FoundContainer) -> tuple[int, float]:
    """Sort key: of one object, later containers come later."""
    tag = tag_from_labels(found.labels)
    return (0 if tag is None else tag.incarnation, found.created_at)
