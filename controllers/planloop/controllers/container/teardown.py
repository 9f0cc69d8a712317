"""Remove a plan's containers when its owner ends, on `plan down`, and on `plan delete` of a kept container."""

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
"""Number of failed tries to remove a container after which the owner of an ended plan stops waiting."""


@frozen
class TeardownResult:
    """What became of the containers of a plan. `faults` are error messages, each with a hint if there is one.

    `volumes` still exist, `volumes_removed` were removed.
    """

    removed: int = 0
    kept: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()
    volumes_removed: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()


def containers_to_remove(context: ContainerContext) -> tuple[str, ...]:
    """Return the containers that must be removed before the owner of an ended plan exits."""
    return tuple(one.address for one in context.store.view.list("container") if _must_be_removed(one, context))


def _must_be_removed(one: Resource, context: ContainerContext) -> bool:
    seen = observe_container(one, context.store.view, context.work, context.look_token, context.clock.now())
    if seen.is_wanted:
        return False
    if not seen.is_looked:
        return seen.status.engine is None
    has_given_up = seen.status.stuck is not None and seen.status.stuck.failures >= GIVEN_UP
    found = seen.status.seen
    is_at_rest = found is None or (is_kept_for_inspection(seen) and not found.is_up)
    # A container whose need failed gets its final status a moment later.
    is_written = records.readiness_draft(seen, container_readiness(seen)) is None
    return not ((is_at_rest and is_written) or has_given_up)


async def tear_down(context: ContainerContext, *, with_volumes: bool = False) -> TeardownResult:
    """Stop and remove everything with the plan's label, dependents first. Kept containers are only stopped.

    Call it when no controller is running. It ends within `limits.CONTAINERS_DOWN_S` and does not raise errors of the
    engine: they are in the result, and in the status of the containers that are left.
    """
    teardown = _Teardown(context)
    await teardown.within_time(lambda: teardown.everything(with_volumes=with_volumes))
    return teardown.result


async def remove_leftovers(context: ContainerContext) -> TeardownResult:
    """Remove what the controllers of an ended plan may have left. Errors are in the result, as for `tear_down`."""
    teardown = _Teardown(context)
    await teardown.within_time(teardown.leftovers)
    return teardown.result


async def discard_kept(context: ContainerContext, address: str) -> TeardownResult:
    """Remove the kept container at `address`, and the networks with the last container. Errors are in the result."""
    teardown = _Teardown(context)
    await teardown.within_time(lambda: teardown.kept_one(address))
    return teardown.result


class _Teardown:
    """A teardown in progress, and its results so far."""

    def __init__(self, context: ContainerContext) -> None:
        self._context = context
        self.removed = 0
        self.kept: list[str] = []
        self.volumes: tuple[str, ...] = ()
        self.volumes_removed: tuple[str, ...] = ()
        self.faults: list[str] = []
        self.is_for_volumes = False

    @property
    def result(self) -> TeardownResult:
        faults = tuple(dict.fromkeys(self.faults))
        return TeardownResult(self.removed, tuple(sorted(self.kept)), self.volumes, self.volumes_removed, faults)

    async def within_time(self, act: Callable[[], Awaitable[None]]) -> None:
        with anyio.move_on_after(limits.CONTAINERS_DOWN_S) as scope:
            try:
                await act()
            except EngineFailed as fault:
                await self._failed(fault)
        if scope.cancelled_caught:
            self.faults.append(f"containers were not removed within {limits.CONTAINERS_DOWN_S:.0f} s")
            self._report_known()

    async def leftovers(self) -> None:
        """Remove all containers, except those whose removal has already failed."""
        for one in await self._context.containers():
            resource = self._context.object_of(one)
            stuck = None if resource is None else read_container_status(resource.status).stuck
            if stuck is None:
                await self._one(one)
            else:
                self.faults.append(_sentence(f"{one.name} was not removed", stuck.why, stuck.hint))
        await self._networks()
        self.volumes = await self._context.volumes()

    async def _networks(self) -> None:
        """Remove the networks with the last container. A network that others use is reported as an error."""
        if not self.kept and not self.faults:
            await self._each(self._context.engine.remove_network, await self._context.networks())

    async def kept_one(self, address: str) -> None:
        engine = self._context.engine
        await self._each(engine.remove, [one.id for one in await self._context.containers(address)])
        there = await self._context.containers()
        if not there:
            await self._each(engine.remove_network, await self._context.networks())
        resource = self._context.store.view.get(address)
        if resource is not None and not any(one.labels.get(ADDRESS) == address for one in there):
            final = self._final_state(resource, ContainerState.REMOVED, "plan delete removed it")
            merge = records.seen_merge(None) | final
            await ContainerStatusWriter(self._context, address, resource.uid).write(lambda _: merge)

    async def everything(self, *, with_volumes: bool) -> None:
        self.is_for_volumes = with_volumes and any(
            mount["volume"] for one in self._context.store.view.list("container") for mount in one.spec["mounts"]
        )
        waiting = list(await self._context.containers())
        while waiting:
            now = _removable(waiting, self._context)
            async with anyio.create_task_group() as group:
                for one in now:
                    group.start_soon(self._one, one)
            waiting = [one for one in waiting if one not in now]
        await self._networks()
        self.volumes = await self._context.volumes()
        if with_volumes:
            had = self.volumes
            await self._each(self._context.engine.remove_volume, had)
            self.volumes = await self._context.volumes()
            self.volumes_removed = tuple(name for name in had if name not in self.volumes)
        await self._note_gone()

    async def _one(self, found: FoundContainer) -> None:
        resource = self._context.object_of(found)
        engine, is_kept_now = self._context.engine, resource is not None and _stays(resource, found)
        try:
            if found.state in ("running", "paused"):
                if resource is not None:  # Otherwise the next owner would take this end for a failure.
                    await ContainerStatusWriter(self._context, resource.address, resource.uid).write(
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
            self._report(found.name, fault)
            if resource is not None:
                writer = ContainerStatusWriter(self._context, resource.address, resource.uid)
                await writer.write(records.stuck_merge(fault, self._context.clock.now()))

    async def _keep_output(self, resource: Resource, found: FoundContainer) -> None:
        """Keep the complete output of the container's last run."""
        writer = ContainerStatusWriter(self._context, resource.address, resource.uid)
        now = await self._context.engine.container(found.id)
        if (
            now is not None
            and now.last_run.started_at
            and read_container_status(resource.status).ended.logged != now.last_run.started_at
        ):
            await writer.write(lambda _: records.seen_merge(seen_container(now)))
            await LogJob(self._context, resource.address, resource.uid)()

    async def _each(self, remove: Callable[[str], Awaitable[None]], names: Iterable[str]) -> None:
        for name in names:
            try:
                await remove(name)
            except EngineFailed as fault:
                self._report(name, fault)

    async def _note_gone(self) -> None:
        """Write the final status of each container, from which the next owner starts again."""
        there = {one.labels.get(ADDRESS): one for one in await self._context.containers()}
        for resource in self._context.store.view.list("container"):
            found, stuck = there.get(resource.address), read_container_status(resource.status).stuck
            merge: JsonObject = {"is_spent": True}
            if found is None or found.is_whole:
                merge |= records.seen_merge(None if found is None else seen_container(found))
            if found is None and (strange := await self._of_other_folder(resource)):
                away = f"{resource.address} was not removed: it was created when the plan was in another folder"
                self.faults.append(f"{away}; to remove it, run docker rm -f {strange[:12]}")
                merge |= self._final_state(resource, ContainerState.REMOVED, away)
            elif found is None:
                merge |= {"stuck": None, **self._gone(resource)}
            elif stuck is None:
                kept = f"plan down kept it (keep: {resource.spec['keep']})"
                merge |= self._final_state(resource, ContainerState.KEPT, kept)
            await ContainerStatusWriter(self._context, resource.address, resource.uid).write(lambda _: merge)  # noqa: B023 - awaited here

    async def _of_other_folder(self, resource: Resource) -> str:
        """Return the id of a container that was created when the plan's folder was elsewhere; empty if none was.

        By its labels, it is not a container of this plan.
        """
        status = read_container_status(resource.status)
        if status.seen is None or status.looked.rpartition("@")[0] in ("", self._context.names.label):
            return ""
        return "" if await self._context.engine.container(status.seen.id) is None else status.seen.id

    def _gone(self, resource: Resource) -> JsonObject:
        """Return the final state of a container that is gone; keeps how it ended by itself, or why it failed."""
        was = conditions_of_status(resource.status).get("Ready")
        if read_container_status(resource.status).seen is None and resource.state in (
            ContainerState.COMPLETED,
            ContainerState.REMOVED,
        ):
            return {}
        why = "plan down removed it" if read_container_status(resource.status).seen is not None else "the plan is down"
        if resource.state == ContainerState.FAILED and was is not None:
            why = f"{why}; it had failed: {was.message}"
        return self._final_state(resource, ContainerState.REMOVED, why)

    def _final_state(self, resource: Resource, state: ContainerState, why: str) -> JsonObject:
        return records.readiness_merge(
            resource, ContainerReadiness(state, state.title(), why), self._context.clock.now()
        )

    async def _failed(self, fault: EngineFailed) -> None:
        """The engine does not answer: write that into the status of each container that may still exist."""
        there = self._known()
        if there or self.is_for_volumes:
            what = "containers and volumes" if self.is_for_volumes else "containers"
            self.faults.append(_sentence(f"{what} were not removed", str(fault), fault.hint))
            self._report_known()
        now = self._context.clock.now()
        readiness = ContainerReadiness(
            ContainerState.STOPPING, str(fault.reason), str(fault), (fault.hint,) if fault.hint else ()
        )
        for one in there:
            merge = {"is_spent": True} | records.readiness_merge(one, readiness, now)
            await ContainerStatusWriter(self._context, one.address, one.uid).write(lambda _: merge)  # noqa: B023 - awaited here

    def _known(self) -> list[Resource]:
        """Return the containers that the engine had at the last look, or that may have been created during a crash."""
        stored = [(one, read_container_status(one.status)) for one in self._context.store.view.list("container")]
        return [one for one, status in stored if status.seen is not None or status.doing == "start"]

    def _report_known(self) -> None:
        """Report the containers that may still exist, if any."""
        names = ", ".join(self._context.names.container(one.address.partition("/")[2]) for one in self._known())
        if names:
            again = "plan down again removes them when the engine answers"
            self.faults.append(f"may still exist: {names}; {again}")

    def _report(self, name: str, fault: EngineFailed) -> None:
        self.faults.append(_sentence(f"{name} was not removed", str(fault), fault.hint))


def _sentence(what: str, why: str, hint: str) -> str:
    return f"{what}: {why}" + (f"; {hint}" if hint else "")


def _began(status: ContainerStatus, found: FoundContainer) -> float:
    """Return when its run began; if the engine reports only a part of the container, as last seen."""
    return found.last_run.started_at if found.is_whole or status.seen is None else status.seen.started_at


def _stays(resource: Resource, found: FoundContainer) -> bool:
    """Whether the container is kept for inspection."""
    spec, status = container_from_json(resource.spec), read_container_status(resource.status)
    has_failed = bool(status.failure.of) and found.state not in ("running", "paused")
    return not resource.deleting and (spec.keep == "always" or (spec.keep == "on-failure" and has_failed))


def _removable(waiting: list[FoundContainer], context: ContainerContext) -> list[FoundContainer]:
    """Return the containers that no other one needs; all of them if they need each other."""
    needed: set[str] = set()
    for one in waiting:
        resource = context.object_of(one)
        needed |= set() if resource is None else set(container_from_json(resource.spec).needs)
    free = [one for one in waiting if one.labels.get(ADDRESS, "").partition("/")[2] not in needed]
    return free or waiting
