"""Edits of the plan's table of models count immediately, also for blocked agents."""

from __future__ import annotations

from pathlib import Path

import pytest

from planloop.controllers.agent.models.router import ModelRouter, RouteContext
from planloop.schemas.objects.model import ModelTable, model_table, models_digest
from tests.controllers.agent.arena import Arena, arena
from tests.fakes.model_server.running import running
from tests.product import JsonObject

pytestmark = pytest.mark.anyio


async def test_fix_suggested_for_a_model_without_a_key_works(tmp_path: Path) -> None:
    """An agent that is blocked with the hint `state a key` continues when a key is stated, without a resume."""
    found: list[Arena] = []

    def table() -> ModelTable:
        return model_table(found[0].get("plan/arena").spec)

    models = ModelRouter(table, RouteContext({"MY_KEY": "sk-1"}, tmp_path), lambda: 0.0)
    script = [{"reply": {"text": "here I am"}}]
    async with running(script) as server, models.opened(), arena(tmp_path, models=models) as here:
        found.append(here)
        await here.apply("agent: {model: openai/m}")
        await here.until_state("agent/.", "blocked")
        await here.settled()
        assert "NoKey" in here.get("agent/.").status["why"]
        row: JsonObject = {"openai": {"key": "env:MY_KEY", "url": server.url}}
        await here.patch({"op": "add", "path": "/models", "value": row})
        await here.until_state("task/.", "done")
        await here.settled()
        assert here.get("task/.").status["result"]["text"] == "here I am"


def test_new_goal_keeps_the_model_table() -> None:
    plain: JsonObject = {"goal": "a", "models": {"ollama": {"url": "http://x/v1"}}}
    assert models_digest(plain) == models_digest({**plain, "goal": "b", "limits": {"depth": 3}})
    assert models_digest(plain) != models_digest({**plain, "limits": {"unknown-price": "allow"}})
    assert models_digest(plain) != models_digest({**plain, "models": {}})
