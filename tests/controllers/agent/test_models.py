"""Agents that think with a scripted model: turns, transcripts, and every way in which a reply can be odd."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.controllers.agent.arena import Arena, arena
from tests.fakes.scripted_models import ScriptedModels

pytestmark = pytest.mark.anyio

PLAN = """
goal: write the file
agent: {model: test/m, tools: [read, write, shell, list]}
"""


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def calls(*each: dict[str, Any], text: str = "") -> dict[str, Any]:
    return {"reply": {"text": text, "calls": list(each)}}


def says(text: str) -> dict[str, Any]:
    return {"reply": {"text": text}}


async def run(here: Arena, plan: str = PLAN) -> str:
    """Runs the plan to its end and gives the task's state."""
    await here.apply(plan)
    await here.until_state("task/.", "done", "failed")
    await here.settled()
    return here.state("task/.")


def asked(models: ScriptedModels, index: int = -1) -> list[dict[str, Any]]:
    """The messages of one request."""
    return [json.loads(each) for each in models.asked[index].messages]


async def test_a_model_works_with_tools_until_it_answers(tmp_path: Path) -> None:
    models = ScriptedModels(
        [calls(call("write", path="a.txt", content="hello")), calls(call("read", path="a.txt")), says("it is written")]
    )
    async with arena(tmp_path, models=models) as here:
        assert await run(here) == "done"
        assert here.read("a.txt") == "hello"
        assert here.get("task/.").status["result"]["text"] == "it is written"
    assert models.left == []
    roles = [message["role"] for message in asked(models)]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "tool"]
    assert asked(models)[-1]["content"] == "hello"
