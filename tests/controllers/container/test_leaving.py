"""What an owner of a plan that is over still waits for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import anyio
import pytest

from planloop.containers.engine.names import ContainerNames
from planloop.controllers.container.context import ContainerContext
from planloop.controllers.container.observe import observe_container
from planloop.controllers.container.readiness import container_readiness
from planloop.controllers.container.records import readiness_draft
from planloop.controllers.container.teardown import containers_to_remove, tear_down
from planloop.schemas import limits
from planloop.schemas.objects.container import ContainerSpec
from tests.fakes.virtual_time import VirtualClock
from tests.product import FoundContainer
from tests.reconciler.stage import stage
from tests.simulation.simulated_engine import SimulatedDaemon, SimulatedEngine

pytestmark = pytest.mark.anyio


async def test_owner_stays_until_dependents_of_a_failed_container_are_told(tmp_path: Path) -> None:
    async with stage(tmp_path, runs=False) as own:
        clock, names = VirtualClock(), ContainerNames("p", "p-0123")
        engine = SimulatedEngine(SimulatedDaemon(clock, tmp_path))
        context = ContainerContext(own.store, clock, own.work, engine, names, 1, tmp_path, tmp_path, {})
        own.put("task/.")
        own.set("task/.", state="failed")
        own.put("container/app", **ContainerSpec(image="i", needs={"db": "started"}).to_json())
        own.put("container/db", **ContainerSpec(image="i").to_json())
        own.set("container/db", looked=context.look_token, state="failed", last="it burns")
        own.set("container/app", looked=context.look_token, state="removed")
        app = observe_container(own.get("container/app"), own.store.view, own.work, context.look_token, clock.now())

        assert "container/app" in containers_to_remove(context)

        told = readiness_draft(app, container_readiness(app))
        assert told is not None
        own.store.propose(told)
        assert "it burns" in own.get("container/app").status["conditions"]["Ready"]["message"]
        assert "container/app" not in containers_to_remove(context)


class Mute(SimulatedEngine):
    """An engine that never says which containers there are."""

    async def containers(self, labels: Mapping[str, str]) -> tuple[FoundContainer, ...]:
        await anyio.sleep_forever()
        return ()


@pytest.mark.parametrize("doing", ["", "start"])
async def test_possible_leftovers_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, doing: str) -> None:
    monkeypatch.setattr(limits, "CONTAINERS_DOWN_S", 0.01)
    async with stage(tmp_path, runs=False) as own:
        clock, names = VirtualClock(), ContainerNames("p", "p-0123")
        context = ContainerContext(
            own.store, clock, own.work, Mute(SimulatedDaemon(clock, tmp_path)), names, 1, tmp_path, tmp_path, {}
        )
        own.put("container/app", **ContainerSpec(image="i").to_json())
        own.set("container/app", doing=doing)

        told = (await tear_down(context)).faults

    named = [one for one in told if names.container("app") in one]
    assert len(told) == 1 + len(named) and len(named) == bool(doing)
