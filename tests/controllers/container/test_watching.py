"""The first look of an owner at the engine: it removes networks that a killed owner left."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

import anyio
import pytest

from planloop.containers.engine.engine import ContainerNetwork
from planloop.containers.engine.names import ContainerNames, ContainerTag, container_networks
from planloop.controllers.container.context import ContainerContext
from planloop.controllers.container.controller import POOL
from planloop.controllers.container.decide import START
from planloop.controllers.container.observe import container_job_key
from planloop.controllers.container.watch import ContainerWatch
from planloop.schemas.objects.container import ContainerSpec, container_from_json, running_digest
from tests.fakes.virtual_time import VirtualClock
from tests.product import ContainerCreation, ImageFacts
from tests.reconciler.stage import Stage, stage
from tests.simulation.simulated_engine import SimulatedDaemon, SimulatedEngine

pytestmark = pytest.mark.anyio

IMAGE = "sha256:0123"
NAMES = ContainerNames("p", "p-0123")
Prepare: TypeAlias = Callable[[Stage, SimulatedEngine], Awaitable[None]]


async def left_after_the_first_look(folder: Path, prepare: Prepare) -> set[str]:
    """The networks `inner`, `outer` and `other` that are left after the first look; `container/db` runs on `inner`."""
    async with stage(folder, runs=False) as own:
        clock = VirtualClock()
        daemon = SimulatedDaemon(clock, folder, images={"i": ImageFacts(IMAGE, 1)})
        engine = SimulatedEngine(daemon)
        context = ContainerContext(own.store, clock, own.work, engine, NAMES, 2, folder, folder, {})
        for network in ("inner", "outer", "other"):
            await engine.make_network(NAMES.network(network), NAMES.ours, is_internal=False)
        own.put("container/db", **ContainerSpec(image="i", networks=("inner",)).to_json())
        await run(own, engine, "container/db")
        await prepare(own, engine)

        async with anyio.create_task_group() as group:
            group.start_soon(ContainerWatch(context))
            await context.first_look.wait()
            group.cancel_scope.cancel()
        return {name for name in ("inner", "outer", "other") if NAMES.network(name) in daemon.networks}


async def run(own: Stage, engine: SimulatedEngine, address: str, *, uid: str = "u") -> None:
    """Create and start the container at `address`; with another `uid`, it is of an earlier object there."""
    spec = container_from_json(own.get(address).spec)
    labels = ContainerTag(address, uid, 1, running_digest(spec)).labels(NAMES, 1)
    networks = tuple(NAMES.network(network) for network in container_networks(spec))
    name = NAMES.container(address.partition("/")[2])
    await engine.start(
        await engine.create(
            ContainerCreation(name, IMAGE, labels, cmd=("sleep", "600"), network=ContainerNetwork(networks))
        )
    )


async def test_networks_that_no_container_uses_are_removed(tmp_path: Path) -> None:
    async def prepare(own: Stage, engine: SimulatedEngine) -> None:
        own.put("container/app", **ContainerSpec(image="i", networks=("inner", "outer")).to_json())

    assert await left_after_the_first_look(tmp_path, prepare) == {"inner"}


async def test_the_network_of_a_stray_container_is_removed_with_it(tmp_path: Path) -> None:
    async def prepare(own: Stage, engine: SimulatedEngine) -> None:
        own.put("container/app", **ContainerSpec(image="i", networks=("outer",)).to_json())
        await run(own, engine, "container/app", uid="earlier")

    assert await left_after_the_first_look(tmp_path, prepare) == {"inner"}


async def test_the_network_of_a_container_that_is_being_created_stays(tmp_path: Path) -> None:
    async def prepare(own: Stage, engine: SimulatedEngine) -> None:
        spec = ContainerSpec(image="i", networks=("outer",))
        own.put("container/app", **spec.to_json())
        own.work.start(
            container_job_key("container/app", START, running_digest(spec)),
            "container/app",
            anyio.sleep_forever,
            pool=POOL,
        )

    assert await left_after_the_first_look(tmp_path, prepare) == {"inner", "outer"}
