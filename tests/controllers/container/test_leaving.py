"""What an owner of a plan that is over still waits for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import anyio
import pytest

from planloop.containers.naming import Names
from planloop.containers.simulated_engine import Daemon, SimulatedEngine
from planloop.controllers.container import Yard, remaining, take_down
from planloop.controllers.container.observing import observe
from planloop.controllers.container.standing import standing
from planloop.controllers.container.writing import standing_draft
from planloop.schemas import limits
from planloop.schemas.container import ContainerSpec
from tests.fakes.virtual_time import VirtualClock
from tests.product import Found
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


class Mute(SimulatedEngine):
    """An engine that never says which containers there are."""

    async def containers(self, labels: Mapping[str, str]) -> tuple[Found, ...]:
        await anyio.sleep_forever()
        return ()


@pytest.mark.parametrize("doing", ["", "start"])
async def test_what_may_still_be_there_is_named_where_anything_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, doing: str
) -> None:
    monkeypatch.setattr(limits, "CONTAINERS_DOWN_S", 0.01)
    async with stage(tmp_path, runs=False) as own:
        clock, names = VirtualClock(), Names("p", "p-0123")
        yard = Yard(own.store, clock, own.work, Mute(Daemon(clock, tmp_path)), names, 1, tmp_path, tmp_path, {})
        own.put("container/app", **ContainerSpec(image="i").to_json())
        own.set("container/app", doing=doing)

        told = (await take_down(yard)).faults

    named = [one for one in told if names.container("app") in one]
    assert len(told) == 1 + len(named) and len(named) == bool(doing)
