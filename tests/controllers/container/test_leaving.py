"""What an owner of a plan that is over still waits for."""

from __future__ import annotations

from pathlib import Path

import pytest

from containers.naming import Names
from containers.simulated_engine import Daemon, SimulatedEngine
from controllers.container import Yard, remaining
from controllers.container.observing import observe
from controllers.container.standing import standing
from controllers.container.writing import standing_draft
from schemas.container import ContainerSpec
from tests.fakes.virtual_time import VirtualClock
from tests.reconciler.stage import stage

pytestmark = pytest.mark.anyio


async def test_an_owner_stays_until_who_needs_what_failed_is_told(tmp_path: Path) -> None:
    async with stage(tmp_path, runs=False) as own:
        clock, names = VirtualClock(), Names("p", "p-0123")
        engine = SimulatedEngine(Daemon(clock, tmp_path))
        yard = Yard(own.store, clock, own.work, engine, names, 1, tmp_path, tmp_path, {})
        own.put("task/.")
        own.set("task/.", state="failed")
        own.put("container/app", **ContainerSpec(image="i", needs={"db": "started"}).to_json())
        own.put("container/db", **ContainerSpec(image="i").to_json())
        own.set("container/db", looked=yard.look_token, state="failed", last="it burns")
        own.set("container/app", looked=yard.look_token, state="removed")
        app = observe(own.get("container/app"), own.store.view, own.work, yard.look_token, clock.now())

        assert "container/app" in remaining(yard)

        told = standing_draft(app, standing(app))
        assert told is not None
        own.store.propose(told)
        assert "it burns" in own.get("container/app").status["conditions"]["Ready"]["message"]
        assert "container/app" not in remaining(yard)
