"""Pausing lets running work finish, and its results are used when the task resumes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controllers.agent.arena import arena
from tests.controllers.agent.test_models import PLAN, says
from tests.fakes.scripted_models import ScriptedModels

pytestmark = pytest.mark.anyio


async def test_reply_during_a_pause_is_used_and_paid_once(tmp_path: Path) -> None:
    models = ScriptedModels([{**says("here it is"), "delay": 0.2}])
    async with arena(tmp_path, models=models) as here:
        await here.apply(PLAN)
        await here.until(lambda: len(models.asked) == 1)
        await here.patch({"op": "add", "path": "/pause", "value": True})
        await here.until_state("agent/.", "blocked")
        await here.settled()
        assert models.endings == ["answered"] and here.state("task/.") == "paused"
        await here.patch({"op": "remove", "path": "/pause"})
        await here.until_state("task/.", "done")
        await here.settled()
        assert here.get("task/.").status["result"]["text"] == "here it is"
        assert (await here.types()).count("model.requested") == 1


async def test_law_5_running_call_of_a_paused_task_is_unknown_after_its_owner_ends(
    tmp_path: Path,
) -> None:
    plan = "agent: {tools: [shell], script: [{call: {shell: {command: touch began; sleep 60}}}]}"
    async with arena(tmp_path) as here:
        await here.apply(plan)
        await here.until((here.folder / "began").exists)
        await here.patch({"op": "add", "path": "/pause", "value": True})
        await here.until_state("task/.", "paused")
    async with arena(tmp_path, epoch=2) as here:
        await here.settled()
        assert [call.state for call in here.store.view.list("call")] == ["Unknown"]
