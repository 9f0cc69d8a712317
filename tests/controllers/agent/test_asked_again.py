"""An agent whose task is over is asked again: edits of other parts of the plan do not cancel its answer."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.controllers.agent.arena import arena
from tests.fakes.scripted_models import ScriptedModels

pytestmark = pytest.mark.anyio

PLAN = """
goal: settle it
agent:
  script:
    - task: {id: aide, prompt: hello, agent: {model: test/m, tools: [shell, read]}}
    - call: {discuss: {prompt: what is the capital of France}}
    - expect: "[aide] Paris"
    - done: x
"""
CHILD = "/tasks/aide/tasks/new"


def asks_first(command: str) -> list[dict[str, Any]]:
    """The aide is done. Asked again, it calls the shell before it answers."""
    shell = {"name": "shell", "arguments": {"command": command}}
    return [{"reply": {"text": "hello"}}, {"reply": {"text": "", "calls": [shell]}}, {"reply": {"text": "Paris"}}]


@pytest.mark.parametrize("edit", ["added", "removed", "check"])
async def test_answer_is_kept_when_children_come_and_go_and_checks_change(tmp_path: Path, edit: str) -> None:
    for name in ("answer", "child"):
        os.mkfifo(tmp_path / name)
    models = ScriptedModels(asks_first("cat answer"))
    async with arena(tmp_path, models=models) as here:
        await here.apply(PLAN)
        await here.until(lambda: any(one.spec["tool"] == "shell" for one in here.store.view.list("call")))
        assert here.state("task/aide") == "done"
        if edit == "check":
            await here.patch({"op": "add", "path": "/tasks/aide/acceptance", "value": [{"sh": "cat child"}]})
            await here.until_state("task/aide", "checking")
        else:
            child = {"goal": "more", "run": "cat child"}
            await here.patch({"op": "add", "path": CHILD.rpartition("/")[0], "value": {"new": child}})
            await here.until_state("task/aide/new", "running")
            assert here.state("task/aide") == "running"
        if edit == "removed":
            await here.patch({"op": "remove", "path": CHILD})
            await here.until(lambda: here.find("task/aide/new") is None)
        await anyio.Path(tmp_path / "answer").write_text("go")
        await here.until(lambda: any(each.spec["tool"] == "discuss" for each in here.store.view.list("call")))
        await here.until(lambda: models.left == [] and not here.get("agent/aide").status.get("asked"))
        if edit != "removed":
            await anyio.Path(tmp_path / "child").write_text("go")
        await here.until_state("task/.", "done", "failed")
        await here.settled()
        assert here.state("task/.") == "done"
        assert [each["text"] for each in await here.results("discuss")] == ["[aide] Paris"]
        assert "turn.interrupted" not in await here.types("agent/aide")
        assert here.get("task/aide").status["result"]["text"] == "hello"
    assert len(models.asked) == 3
