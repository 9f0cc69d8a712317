"""Remove a plan's containers when its owner ends, on `plan down`, and when a kept one is discarded."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import anyio

from planloop.containers.engine.engine import EngineFailed, FoundContainer
from planloop.containers.engine.names import ADDRESS
from planloop.controllers.container import records
from planloop.controllers.container.context import ContainerContext
from planloop.controllers.container.decide import is_kept_for_inspection
from planloop.controllers.container.observe import observe_container
from planloop.controllers.container.readiness import ContainerReadiness, container_readiness
from planloop.controllers.container.records import ContainerStatusWriter
from planloop.controllers.container.run_jobs import LogJob
from planloop.controllers.container.status import ContainerStatus, read_container_status, seen_container
from planloop.schemas import limits
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.container import ContainerState, container_from_json
from planloop.schemas.resource import Resource, conditions_of_status

GIVEN_UP: Final = 3
"""So many tries of taking one down that failed are enough for an owner that has nothing else to do."""


@frozen
class TeardownResult:
    """What became of the containers of a plan. `faults` are sentences, each with a cure where there is one.

    `volumes` are those that are still there, `volumes_removed` those that are not.
    """

    removed: int = 0
    kept: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()
    volumes_removed: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()


def containers_to_remove(yard: ContainerContext) -> tuple[str, ...]:
    """The containers that are to go before a plan that is over can be left."""
    return tuple(one.address for one in yard.store.view.list("container") if _is_to_go(one, yard))


def _is_to_go(one: Resource, yard: ContainerContext) -> bool:
    seen = observe_container(one, yard.store.view, yard.work, yard.look_token, yard.clock.now())
    if seen.is_wanted:
        return False
    if not seen.is_looked:
        return seen.status.engine is None
    has_given_up = seen.status.stuck is not None and seen.status.stuck.failures >= GIVEN_UP
    found = seen.status.seen
    is_at_rest = found is None or (is_kept_for_inspection(seen) and not found.is_up)
    is_told = (
        records.readiness_draft(seen, container_readiness(seen)) is None
    )  # Who needs what failed hears of it a moment later.
    return not ((is_at_rest and is_told) or has_given_up)


async def tear_down(yard: ContainerContext, *, with_volumes: bool = False) -> TeardownResult:
    """Ends and removes all that has the plan's label, those that need others first; what is kept is stopped only.

    Call it when no controller is at work any more. It ends within `limits.CONTAINERS_DOWN_S` and never raises for the
    engine: what it could not do is in the answer, and in the status of what is left.
    """
    taking = _Taking(yard)
    await taking.within_time(lambda: taking.all(with_volumes=with_volumes))
    return taking.left


async def remove_leftovers(yard: ContainerContext) -> TeardownResult:
    """Removes what the controllers of a plan that is over may have left, and says what stays; never raises either."""
    taking = _Taking(yard)
    await taking.within_time(taking.rest)
    return taking.left


async def discard_kept(yard: ContainerContext, address: str) -> TeardownResult:
    """Removes what was kept of the container at `address`, and networks with the last one; never raises either."""
    taking = _Taking(yard)
    await taking.within_time(lambda: taking.kept_one(address))
    return taking.left


class _Taking:
    """One taking down, and what came of it so far."""

    def __init__(self, yard: ContainerContext) -> None:
        self._yard = yard
        self.removed = 0
        self.kept: list[str] = []
        self.volumes: tuple[str, ...] = ()
        self.volumes_removed: tuple[str, ...] = ()
        self.faults: list[str] = []
        self.is_for_volumes = False

    @property
    def left(self) -> TeardownResult:
        faults = tuple(dict.fromkeys(self.faults))
        return TeardownResult(self.removed, tuple(sorted(self.kept)), self.volumes, self.volumes_removed, faults)

    async def within_time(self, act: Callable[[], Awaitable[None]]) -> None:
        with anyio.move_on_after(limits.CONTAINERS_DOWN_S) as scope:
            try:
                await act()
            except EngineFailed as fault:
                await self._failed(fault)
        if scope.cancelled_caught:
            self.faults.append(f"containers were not taken down within {limits.CONTAINERS_DOWN_S:.0f} s")
            self._tell_known()

    async def rest(self) -> None:
        """What nobody needs goes, unless it was tried often enough."""
        for one in await self._yard.containers():
            resource = self._yard.whose(one)
            stuck = None if resource is None else read_container_status(resource.status).stuck
            if stuck is None:
                await self._one(one)
            else:
                self.faults.append(f"{one.name} is left: {stuck.why}" + (f"; {stuck.hint}" if stuck.hint else ""))
        await self._networks()
        self.volumes = await self._yard.volumes()

    async def _networks(self) -> None:
        """They go with the last container; who else is in one is told of."""
        if not self.kept and not self.faults:
            await self._each(self._yard.engine.remove_network, await self._yard.networks())

    async def kept_one(self, address: str) -> None:
        engine = self._yard.engine
        await self._each(engine.remove, [one.id for one in await self._yard.containers(address)])
        there = await self._yard.containers()
        if not there:
            await self._each(engine.remove_network, await self._yard.networks())
        resource = self._yard.store.view.get(address)
        if resource is not None and not any(one.labels.get(ADDRESS) == address for one in there):
            stands = self._stands(resource, ContainerState.REMOVED, "plan delete removed what was kept")
            merge = records.seen_merge(None) | stands
            await ContainerStatusWriter(self._yard, address, resource.uid).write(lambda _: merge)

    async def all(self, *, with_volumes: bool) -> None:
        self.is_for_volumes = with_volumes and any(
            mount["volume"] for one in self._yard.store.view.list("container") for mount in one.spec["mounts"]
        )
        waiting = list(await self._yard.containers())
        while waiting:
            now = _first(waiting, self._yard)
            async with anyio.create_task_group() as group:
                for one in now:
                    group.start_soon(self._one, one)
            waiting = [one for one in waiting if one not in now]
        await self._networks()
        self.volumes = await self._yard.volumes()
        if with_volumes:
            had = self.volumes
            await self._each(self._yard.engine.remove_volume, had)
            self.volumes = await self._yard.volumes()
            self.volumes_removed = tuple(name for name in had if name not in self.volumes)
        await self._note_gone()

    async def _one(self, found: FoundContainer) -> None:
        resource = self._yard.whose(found)
        engine, is_kept_now = self._yard.engine, resource is not None and _stays(resource, found)
        try:
            if found.state in ("running", "paused"):
                if resource is not None:  # Or the next owner takes the end of it for its own.
                    await ContainerStatusWriter(self._yard, resource.address, resource.uid).write(
                        lambda status: {"stopping": _began(status, found)}
                    )
                await engine.stop(found.id, limits.CONTAINER_STOP_S)
            if resource is not None:
                await self._keep_output(resource, found)
            if resource is not None and is_kept_now:
                self.kept.append(resource.address)
            else:
                await engine.remove(found.id)
                self.removed += 1
        except EngineFailed as fault:
            self._tell(found.name, fault)
            if resource is not None:
                page = ContainerStatusWriter(self._yard, resource.address, resource.uid)
                await page.write(records.stuck_merge(fault, self._yard.clock.now()))

    async def _keep_output(self, resource: Resource, found: FoundContainer) -> None:
        """Takes what it has written as a follower does that sees the end."""
        page = ContainerStatusWriter(self._yard, resource.address, resource.uid)
        now = await self._yard.engine.container(found.id)
        if (
            now is not None
            and now.last_run.started_at
            and read_container_status(resource.status).ended.logged != now.last_run.started_at
        ):
            await page.write(lambda _: records.seen_merge(seen_container(now)))
            await LogJob(self._yard, resource.address, resource.uid)()

    async def _each(self, remove: Callable[[str], Awaitable[None]], names: Iterable[str]) -> None:
        for name in names:
            try:
                await remove(name)
            except EngineFailed as fault:
                self._tell(name, fault)

    async def _note_gone(self) -> None:
        """Writes what is left: the next owner begins anew."""
        there = {one.labels.get(ADDRESS): one for one in await self._yard.containers()}
        for resource in self._yard.store.view.list("container"):
            found, stuck = there.get(resource.address), read_container_status(resource.status).stuck
            merge: JsonObject = {"is_spent": True}
            if found is None or found.is_whole:
                merge |= records.seen_merge(None if found is None else seen_container(found))
            if found is None and (strange := await self._of_other_folder(resource)):
                away = f"{resource.address} was made while the plan was in another folder, and is left"
                self.faults.append(f"{away}; docker rm -f {strange[:12]} removes it")
                merge |= self._stands(resource, ContainerState.REMOVED, away)
            elif found is None:
                merge |= {"stuck": None, **self._gone(resource)}
            elif stuck is None:
                merge |= self._stands(
                    resource, ContainerState.KEPT, f"plan down left it (keep: {resource.spec['keep']})"
                )
            await ContainerStatusWriter(self._yard, resource.address, resource.uid).write(lambda _: merge)  # noqa: B023 - awaited here

    async def _of_other_folder(self, resource: Resource) -> str:
        """The id of one that by its labels is not ours, as the folder was moved or copied since; empty if none is."""
        status = read_container_status(resource.status)
        if status.seen is None or status.looked.rpartition("@")[0] in ("", self._yard.names.label):
            return ""
        return "" if await self._yard.engine.container(status.seen.id) is None else status.seen.id

    def _gone(self, resource: Resource) -> JsonObject:
        """How it stands when the engine has none of it: how one ended of itself, or why it failed, stays to be read."""
        was = conditions_of_status(resource.status).get("Ready")
        if read_container_status(resource.status).seen is None and resource.state in (
            ContainerState.COMPLETED,
            ContainerState.REMOVED,
        ):
            return {}
        why = "plan down removed it" if read_container_status(resource.status).seen is not None else "the plan is down"
        if resource.state == ContainerState.FAILED and was is not None:
            why = f"{why}; it had failed: {was.message}"
        return self._stands(resource, ContainerState.REMOVED, why)

    def _stands(self, resource: Resource, state: ContainerState, why: str) -> JsonObject:
        return records.readiness_merge(resource, ContainerReadiness(state, state.title(), why), self._yard.clock.now())

    async def _failed(self, fault: EngineFailed) -> None:
        """The engine does not answer: that stands in each status that tells of a container."""
        there = self._known()
        if there or self.is_for_volumes:
            what = "containers and volumes" if self.is_for_volumes else "containers"
            self.faults.append(_sentence(f"{what} were not taken down", fault))
            self._tell_known()
        now = self._yard.clock.now()
        stands = ContainerReadiness(
            ContainerState.STOPPING, str(fault.reason), str(fault), (fault.hint,) if fault.hint else ()
        )
        for one in there:
            merge = {"is_spent": True} | records.readiness_merge(one, stands, now)
            await ContainerStatusWriter(self._yard, one.address, one.uid).write(lambda _: merge)  # noqa: B023 - awaited here

    def _known(self) -> list[Resource]:
        """Those that the engine had when it was asked last, or may have been given in the middle of a crash."""
        stored = [(one, read_container_status(one.status)) for one in self._yard.store.view.list("container")]
        return [one for one, status in stored if status.seen is not None or status.doing == "start"]

    def _tell_known(self) -> None:
        """Names what may still be there, where there is any such."""
        names = ", ".join(self._yard.names.container(one.address.partition("/")[2]) for one in self._known())
        if names:
            again = "plan down again removes what is left, once the engine answers"
            self.faults.append(f"may still be there: {names}; {again}")

    def _tell(self, name: str, fault: EngineFailed) -> None:
        self.faults.append(_sentence(f"{name} is left", fault))


def _sentence(what: str, fault: EngineFailed) -> str:
    return f"{what}: {fault}" + (f"; {fault.hint}" if fault.hint else "")


def _began(status: ContainerStatus, found: FoundContainer) -> float:
    """When its run began, of one that the engine says little about as far as that was seen."""
    return found.last_run.started_at if found.is_whole or status.seen is None else status.seen.started_at


def _stays(resource: Resource, found: FoundContainer) -> bool:
    """Whether it is kept for inspection."""
    spec, status = container_from_json(resource.spec), read_container_status(resource.status)
    has_failed = bool(status.failure.of) and found.state not in ("running", "paused")
    return not resource.deleting and (spec.keep == "always" or (spec.keep == "on-failure" and has_failed))


def _first(waiting: list[FoundContainer], yard: ContainerContext) -> list[FoundContainer]:
    """Those that none of the others needs; all of them should they wait for each other."""
    needed: set[str] = set()
    for one in waiting:
        resource = yard.whose(one)
        needed |= set() if resource is None else set(container_from_json(resource.spec).needs)
    free = [one for one in waiting if one.labels.get(ADDRESS, "").partition("/")[2] not in needed]
    return free or waiting
