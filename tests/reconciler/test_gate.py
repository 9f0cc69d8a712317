from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from schemas.patch import Accepted
from tests.reconciler.plans import Plan, agent, op, opened

pytestmark = pytest.mark.anyio

TWO: dict[str, Any] = {
    "plan": "p",
    "goal": "all",
    "tasks": {
        "a": {"goal": "first", "agent": {"script": []}},
        "b": {"goal": "second", "run": "true", "needs": ["a"]},
    },
}


@pytest.fixture
async def plan(tmp_path: Path) -> AsyncIterator[Plan]:
    async with opened(tmp_path) as found:
        yield found


async def test_the_first_save_makes_the_plan_and_all_its_objects_in_one_record(plan: Plan) -> None:
    verdict = await plan.save(TWO)
    assert isinstance(verdict, Accepted)
    assert verdict.rev == 1
    assert plan.document == TWO
    assert [one.address for one in plan.store.view.list("task")] == ["task/.", "task/a", "task/b"]
    assert [one.address for one in plan.store.view.list("agent")] == ["agent/a"]
    assert plan.store.durable_rev == 1


async def test_saving_the_same_file_again_writes_nothing(plan: Plan) -> None:
    first = await plan.save(TWO)
    again = await plan.save(TWO)
    assert again == Accepted(first.rev)
    assert plan.rev == 1


async def test_a_child_that_an_agent_added_survives_a_save_that_does_not_mention_it(plan: Plan) -> None:
    await plan.save(TWO)
    await plan.patch(op("add", "/tasks/a/tasks", {"x": {"goal": "part"}}), by=agent("a"))
    edited = {**TWO, "goal": "all of it"}
    assert isinstance(await plan.save(edited), Accepted)
    assert plan.document["tasks"]["a"]["tasks"] == {"x": {"goal": "part"}}
    assert plan.document["goal"] == "all of it"
