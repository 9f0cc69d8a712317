"""A message from outside goes once, however often and at whatever moment it is sent again."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from planloop.client.plan_paths import PlanPaths
from planloop.server import operator_requests
from planloop.server.opened_plan import OpenedPlan
from tests.controllers.agent.arena import arena
from tests.product import JsonObject

PLAN = """
goal: x
tasks:
  w: {goal: w, agent: {script: [{sleep: 600s}]}}
"""


@pytest.mark.anyio
async def test_message_resent_before_its_answer_goes_once(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply(PLAN)
        place = PlanPaths("arena", next(tmp_path.rglob("log.db")).parent)
        owner = cast("Any", None)
        core = OpenedPlan(
            place, here.store, here.store.reader, here.gate, here.world.clock, here.world.ids, owner, had_plan=True
        )
        answers: list[JsonObject] = []

        async def send() -> None:
            answers.append(await operator_requests.send_message(core, {"to": "agent/w", "text": "hello", "key": "k"}))

        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(send)

        told = [answer["sent"][0] for answer in answers]
        assert sorted(one["is_new"] for one in told) == [False, False, True]
        assert len({one["id"] for one in told}) == 1
