"""The jobs that stop, remove and update a container."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

from planloop.containers.engine.engine import HEALS, ContainerLimits, EngineFailed
from planloop.containers.engine.names import container_networks
from planloop.controllers.container import records
from planloop.controllers.container.context import ContainerContext
from planloop.controllers.container.decide import START
from planloop.controllers.container.observe import limits_digest, live_jobs
from planloop.controllers.container.records import ContainerStatusWriter
from planloop.controllers.container.status import SeenContainer, read_container_status
from planloop.schemas import limits
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.container import container_from_json, running_digest

_NOT_HELD = "the engine does not hold all of its limits"


@frozen
class StopJobs:
    """One act on what there is of the container at `address`."""

    yard: ContainerContext
    address: str
    uid: str
    act: Callable[[ContainerStatusWriter, SeenContainer], Awaitable[None]]

    async def __call__(self) -> None:
        """Returns when it is done, or when the status says why it is not."""
        page = ContainerStatusWriter(self.yard, self.address, self.uid)
        found = None if page.resource is None else read_container_status(page.resource.status).seen
        if found is None:
            return
        try:
            await self.act(page, found)
        except EngineFailed as fault:
            await page.write(records.stuck_merge(fault, self.yard.clock.now()))


async def stop_container(page: ContainerStatusWriter, found: SeenContainer) -> None:
    """It has ended, and that we ended it was written first."""
    await page.write(lambda _: {"stopping": found.started_at})
    await page.yard.engine.stop(found.id, limits.CONTAINER_STOP_S)
    await page.look(found.id, {"stuck": None})


async def remove_container(page: ContainerStatusWriter, found: SeenContainer) -> None:
    """It is gone, and so are the networks that were left to it."""
    resource = page.resource
    is_other = resource is not None and found.tag.digest != running_digest(container_from_json(resource.spec))
    counts = ("failures", "tries", "losses") if is_other else ()
    gone: JsonObject = dict.fromkeys(("stuck", *counts))
    await page.yard.engine.remove(found.id)
    await page.look(found.id, gone)  # How often an earlier wish failed says nothing of what is wanted now.
    if left := {page.yard.names.network(network) for network in _left(page)}:
        with suppress(EngineFailed):  # Others may have joined it; who takes down the plan says so.
            for network in left.intersection(await page.yard.networks()):
                await page.yard.engine.remove_network(network)


def _left(page: ContainerStatusWriter) -> set[str]:
    """The networks of this container that no other is on, or about to be."""
    mine: set[str] = set()
    others: set[str] = set()
    for one in page.yard.store.view.list("container"):
        networks = container_networks(container_from_json(one.spec))
        if one.address == page.address:
            mine |= set(networks)
        elif read_container_status(one.status).seen is not None or START in live_jobs(page.yard.work, one.address):
            others |= set(networks)
    return mine - others


async def update_limits(page: ContainerStatusWriter, found: SeenContainer) -> None:
    """Its limits are those of the plan, or the status says that it cannot have them."""
    resource = page.resource
    if resource is None:
        return
    spec = container_from_json(resource.spec)
    wanted, refused = ContainerLimits(spec.cpu, spec.memory_bytes, spec.pids), ""
    try:
        await page.yard.engine.update(found.id, wanted)
    except EngineFailed as fault:
        if fault.reason in HEALS:
            raise
        refused = f"its limits were not changed: {fault}"
    made = await page.look(found.id, {"stuck": None})
    if not refused and made is not None and made.bound != wanted:
        refused = _NOT_HELD
    is_refused: JsonObject = {"bound_of": limits_digest(spec), "bound_why": refused}
    await page.write(lambda _: is_refused if refused else {"bound_of": None, "bound_why": None})
