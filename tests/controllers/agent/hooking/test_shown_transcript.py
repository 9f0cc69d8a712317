"""Hooks see the part of the transcript that the plan allows, and search more with a tool; both are limited."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planloop.controllers.agent.hooks import agent_hooks
from planloop.controllers.agent.hooks.agent_hooks import TranscriptExcerpt
from planloop.controllers.agent.status import AgentMemory, AgentStatus, TranscriptChunk
from planloop.schemas import limits
from tests.controllers.agent.arena import arena
from tests.controllers.agent.hooking.test_smart import ended, guard, plan, worker
from tests.controllers.agent.hooking.test_verdicts import hooks, run
from tests.controllers.agent.test_models import call, calls, says
from tests.fakes.scripted_models import ScriptedModels
from tests.product import JsonObject, encode

pytestmark = pytest.mark.anyio

KEEPING = """
with open("shown", "a") as file:
    file.write(json.dumps(q.get("transcript")) + "\\n")
"""
LISTS = [calls(call("list", path=f"./{name}")) for name in ("one", "two", "three")]


def shown(folder: Path) -> list[list[JsonObject]]:
    return [json.loads(line) for line in (folder / "shown").read_text().splitlines()]


@pytest.mark.parametrize(
    ("written", "turns"), [("2", {3, 4}), ("{turns: 100, match: 'l*TWO'}", {2}), ("{turns: 1, chars: 5}", {4})]
)
async def test_a_function_is_shown_the_newest_turns_or_what_has_a_text_in_it(
    tmp_path: Path, written: str, turns: set[int]
) -> None:
    hooks(tmp_path, KEEPING)
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()
    models = ScriptedModels([*LISTS, says("all of them listed")])
    text = f'goal: g\nhooks: {{h: {{on: before-reply, python: "hooks.py:say", transcript: {written}}}}}\n'
    async with arena(tmp_path, models=models) as here:
        assert await run(here, text + "agent: {model: test/m, tools: [list]}\n") == "done"
    (found,) = shown(tmp_path)
    assert {one["turn"] for one in found} == turns
    if "match" in written:
        assert all("two" in str(one) for one in found)
    if "chars" in written:
        assert max(len(one["text"]) for one in found) < 80, "a truncated text is marked"


async def test_a_hook_that_asks_for_no_transcript_is_shown_none(tmp_path: Path) -> None:
    hooks(tmp_path, KEEPING)
    text = 'goal: g\nhooks: {h: {on: before-reply, python: "hooks.py:say"}}\n'
    async with arena(tmp_path, models=ScriptedModels([says("done")])) as here:
        assert await run(here, text + "agent: {model: test/m, tools: [list]}\n") == "done"
    assert (tmp_path / "shown").read_text() == "null\n"


async def test_a_script_is_shown_by_what_its_last_turns_called(tmp_path: Path) -> None:
    hooks(tmp_path, KEEPING)
    steps = "[{call: {write: {path: a, content: b}}}, {done: written}]"
    text = 'goal: g\nhooks: {h: {on: before-reply, python: "hooks.py:say", transcript: 5}}\n'
    async with arena(tmp_path) as here:
        assert await run(here, text + f"agent: {{tools: [write], script: {steps}}}\n") == "done"
    (found,) = shown(tmp_path)
    assert [call["tool"] for one in found for call in one.get("calls", ())][:1] == ["write"]


async def test_agent_of_a_hook_gets_the_transcript_with_the_question_and_can_search_it(tmp_path: Path) -> None:
    steps = [
        *worker(calls(call("list", path=".")), calls(call("write", path="a.txt", content="hello"))),
        *guard(
            calls(call("transcript", text="l*st")),
            calls(call("transcript", turn=1)),
            calls(call("transcript", text="nowhere to be found")),
            says("ALLOW"),
        ),
        *worker(says("done")),
    ]
    models = ScriptedModels(steps)
    hook = "on: [before-call], match: 'write(*)', transcript: {turns: 2}"
    async with arena(tmp_path, models=models) as here:
        assert await ended(here, plan(hook, ", tools: [transcript]")) == "done"
        found = [each["text"] for each in await here.results("transcript")]
    first = next(each for each in models.asked if each.model.endswith("guard"))
    assert b"lived through" in b"".join(first.messages) and b"turn 1 assistant" in b"".join(first.messages)
    assert "turn 1 assistant" in found[0] and "list" in found[0]
    assert "turn 1 tool" in found[1] and "turn 2" not in found[1]
    assert found[2] == "no matching messages"


async def test_agent_that_is_not_a_hook_has_no_transcript_to_read(tmp_path: Path) -> None:
    steps = "[{call: {transcript: {}}}, {expect: {error: NoHook}}, {done: ok}]"
    async with arena(tmp_path) as here:
        assert await run(here, f"goal: g\nagent: {{tools: [transcript], script: {steps}}}\n") == "done"


def long_life(turns: int, chars: int) -> tuple[AgentStatus, dict[str, bytes]]:
    blobs = {f"{turn}": encode({"role": "user", "content": f"{turn} " + "x" * chars}) for turn in range(1, turns + 1)}
    chunks = {f"{turn:06d}": TranscriptChunk(f"{turn}", 1) for turn in range(1, turns + 1)}
    return AgentStatus(turn=turns, memory=AgentMemory(transcript=chunks)), blobs


def test_shown_transcript_is_bounded_to_its_newest_end() -> None:
    status, blobs = long_life(turns=500, chars=20_000)
    found = agent_hooks.excerpt_messages(
        status, TranscriptExcerpt(turns=500, chars=limits.HOOK_TRANSCRIPT_CHARS_MAX), blobs.get
    )
    assert sum(len(encode(one)) for one in found) <= limits.HOOK_TRANSCRIPT_SHOWN_BYTES
    assert found[-1]["turn"] == 500 and [one["turn"] for one in found] == sorted(one["turn"] for one in found)
    assert agent_hooks.parse_excerpt({"turns": 10**9, "chars": 10**9}).turns == limits.HOOK_TRANSCRIPT_TURNS_MAX


def test_a_search_finds_what_is_cut_from_the_text_that_is_shown() -> None:
    status, blobs = long_life(turns=20, chars=10)
    blobs["7"] = encode({"role": "user", "content": "y" * 5_000 + " the NEEDLE"})
    (found,) = agent_hooks.excerpt_messages(status, TranscriptExcerpt(turns=100, match="needle", chars=50), blobs.get)
    assert found["turn"] == 7 and len(found["text"]) < 200
