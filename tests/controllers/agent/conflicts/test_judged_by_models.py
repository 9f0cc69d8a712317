"""A model that judges a conflict: what it reads, and that it has the tool `resolve` only then."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.controllers.agent.arena import arena
from tests.controllers.agent.conflicts.teams import PATH, holder, over, team
from tests.fakes.scripted_models import ScriptedModels
from tests.golden_text import said

pytestmark = pytest.mark.anyio

RULES = {"conflict": "conflict/1", "how": "release", "for_agent": "back", "plan": "it is one line"}
STEPS = [
    {"model": "*top", "reply": {"text": "They work."}},
    {"model": "*top", "reply": {"calls": [{"name": "resolve", "arguments": RULES}]}},
    {"model": "*top", "reply": {"text": "Ruled."}},
]
FRONT = """
    - when: {message: "let go of"}
      call: {release: {}}
    - expect: ok
    - when: {message: never}
      done: x
"""
BACK = f"""
    - call: {{contest: {{paths: [{PATH}], intent: a new field, proposal: you first}}}}
    - when: {{message: never}}
      done: x
"""


async def test_model_reads_both_sides_and_gets_the_ruling_tool_only_then(tmp_path: Path) -> None:
    text = team("how: release", front=FRONT, back=BACK)
    text = "agent: {model: test/top, tools: [read]}\n" + text[text.index("tasks:") :]
    models = ScriptedModels(STEPS)
    async with arena(tmp_path, models=models) as here:
        await here.apply(text)
        await here.until(lambda: holder(here) == "agent/front")
        await here.until_state("agent/.", "asleep")
        await here.tell("agent/back", "go", "go")
        await over(here)
        await here.until(lambda: models.left == [])
        await here.settled_but_timers()
        results = await here.results("resolve")
    said([each["text"] for each in results])
    before, asked, after = (json.loads(one.tools or b"[]") for one in models.asked)
    named = [{tool["function"]["name"] for tool in tools} for tools in (before, asked, after)]
    assert ["resolve" in names for names in named] == [False, True, False]
    news = json.loads(models.asked[1].messages[-1])["content"]
    rule = "- sequence (for_agent='front'): `front` goes first, and `back` when the task of `front` has ended"
    for words in ("`back` needs `src/api.py`, which `front` holds", "proposes: you first", rule, "resolve("):
        assert words in news
    assert "{" not in news.replace("{...}", ""), "a model gets the message in words"


async def test_model_that_waits_for_a_child_gets_the_conflict_message(tmp_path: Path) -> None:
    text = team("how: release", front=FRONT, back=BACK)
    text = "agent: {model: test/top, tools: [lib:work]}\n" + text[text.index("tasks:") :]
    slow = {"id": "slow", "prompt": "wait", "script": [{"when": {"message": "never"}, "done": "x"}]}
    steps = [{"model": "*top", "reply": {"calls": [{"name": "task", "arguments": slow}]}}, *STEPS[1:]]
    models = ScriptedModels(steps)
    async with arena(tmp_path, models=models) as here:
        await here.apply(text)
        await here.until(lambda: holder(here) == "agent/front")
        await here.until(
            lambda: here.get("agent/.").status.get("why") is not None and here.find("task/slow") is not None
        )
        await here.until_state("agent/.", "asleep")
        await here.tell("agent/back", "go", "go")
        await over(here)
        await here.until(lambda: models.left == [])
        assert [one for one in await here.results() if one.get("error") == "Interrupted"]
        assert here.state("task/slow") == "running", "it was not waited for any more, and goes on"
