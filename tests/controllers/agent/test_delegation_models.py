"""Delegation by models: their prompts, which never depend on ids, times or revisions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.controllers.agent.arena import Arena, arena
from tests.fakes.scripted_models import ScriptedModels
from tests.golden_text import said_in

pytestmark = pytest.mark.anyio

PLAN = """
goal: settle it
agents: {critic: {model: test/critic, tools: [read]}}
agent: {model: test/top, tools: [lib:work, "agent:critic"]}
"""


def step(model: str, *calls: dict[str, Any], text: str = "") -> dict[str, Any]:
    return {"model": f"*{model}", "reply": {"text": text, "calls": list(calls)}}


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"name": tool, "arguments": arguments}


STEPS = [
    step("top", call("task", id="ann", prompt="What is 2 and 2?", agent={"model": "test/ann"})),
    step("ann", text="It is four."),
    step("top", call("discuss", prompt="Are you sure?")),
    step("ann", text="I am sure."),
    step("top", call("task", **{"id": "twin", "from": "ann", "prompt": "And 3 and 3?", "model": "test/twin"})),
    step("twin", text="It is six."),
    step("top", call("agent__critic", prompt="Is that so?")),
    step("critic", text="It is so."),
    step("top", call("discuss", prompt="Last words?", speakers=["ann", "critic"])),
    step("ann", text="Four it is."),
    step("critic", text="I heard ann."),
    step("top", text="settled"),
]


async def run(here: Arena) -> None:
    await here.apply(PLAN)
    await here.until_state("task/.", "done", "failed")
    await here.settled()
    assert here.state("task/.") == "done", here.get("task/.").status


def asked(models: ScriptedModels, model: str) -> list[list[dict[str, Any]]]:
    """The messages of the requests to a model, in order."""
    return [[json.loads(each) for each in one.messages] for one in models.asked if one.model.endswith(model)]


async def test_models_delegate_ask_again_copy_and_discuss(tmp_path: Path) -> None:
    models = ScriptedModels(STEPS)
    async with arena(tmp_path, models=models) as here:
        await run(here)
        results = [each["text"] for each in await here.results() if each["text"] != "finished; the checks decide"]
    assert models.left == []
    assert results == [
        "It is four.",
        "[ann] I am sure.",
        "It is six.",
        "It is so.",
        "[ann] Four it is.\n\n[critic] I heard ann.",
    ]
    # An agent that is asked again remembers what it said, and hears who asks.
    again = asked(models, "ann")[1]
    assert [each["content"] for each in again if each["role"] == "assistant"] == ["It is four."]
    assert "Are you sure?" in again[-1]["content"]
    said_in(again[-1]["content"])
    # A copy has lived through what the copied one had.
    copied = asked(models, "twin")[0]
    assert [each["content"] for each in copied if each["role"] == "assistant"] == ["It is four.", "I am sure."]
    assert "as a copy of agent/ann" in copied[-1]["content"] or any("copy of" in str(each) for each in copied)
    # The second speaker has heard the first.
    assert "[ann] Four it is." in str(asked(models, "critic")[1])


async def test_two_runs_ask_the_same_to_the_last_byte(tmp_path: Path) -> None:
    seen: list[list[tuple[str, tuple[bytes, ...]]]] = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        models = ScriptedModels(STEPS)
        async with arena(tmp_path / name, models=models) as here:
            await run(here)
        seen.append([(each.model, tuple(each.messages)) for each in models.asked])
    folders = [str(tmp_path / name).encode() for name in ("one", "two")]
    plain = [
        [(model, tuple(line.replace(folder, b"") for line in lines)) for model, lines in each]
        for each, folder in zip(seen, folders, strict=True)
    ]
    assert plain[0] == plain[1]


async def test_a_dump_has_the_transcript_and_the_restored_child_remembers_it(tmp_path: Path) -> None:
    models = ScriptedModels(
        [
            step("top", call("task", id="ann", prompt="What is 2 and 2?", agent={"model": "test/ann"})),
            step("ann", text="It is four."),
            step("top", call("dump", path="ann.jsonl", name="ann")),
            step("top", call("terminate", name="ann")),
            step("top", call("restore", path="ann.jsonl", id="eve", prompt="What did you say?")),
            step("ann", text="Four."),
            step("top", text="settled"),
        ]
    )
    async with arena(tmp_path, models=models) as here:
        await run(here)
    assert models.left == []
    told = asked(models, "ann")[1]
    assert [each["content"] for each in told if each["role"] == "assistant"] == ["It is four."]


async def test_queued_message_waits_until_the_current_work_is_done(tmp_path: Path) -> None:
    plan = "goal: work\nagent: {model: test/top, tools: [shell]}\n"
    models = ScriptedModels(
        [
            step("top", call("shell", command="while test ! -f go; do sleep 0.02; done")),
            step("top", call("shell", command="echo two")),
            step("top", text="done, I think"),
            step("top", text="heard you"),
        ]
    )
    async with arena(tmp_path, models=models) as here:
        await here.apply(plan)
        await here.until(lambda: len(here.store.view.list("call")) == 1)
        await here.tell("agent/.", "by the way", "queued", "queue")
        await here.tell("agent/.", "at once", "steering", "steer")
        (tmp_path / "go").touch()
        await here.until_state("task/.", "done", "failed")
        assert here.get("task/.").status["result"]["text"] == "heard you"
    texts = [json.dumps(messages) for messages in asked(models, "top")]
    assert ["by the way" in text for text in texts] == [False, False, False, True]
    assert ["at once" in text for text in texts] == [False, True, True, True]
