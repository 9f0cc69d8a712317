"""Compaction shortens whole turns. Originals are kept, and what comes from the plan is never shortened."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from planloop.controllers.agent.turn import transcript
from tests import golden_text
from tests.controllers.agent.arena import Arena, arena
from tests.controllers.agent.mortal import lived, to_the_end
from tests.fakes.pure_models import PureModels
from tests.product import JsonObject, ModelFailed, ModelReply, ModelRequest, OnDelta, TokenUsage

pytestmark = pytest.mark.anyio

PLAN = """
goal: keep the GOAL in mind
notes: and the NOTES
agent:
  model: test/m
  tools: [read, write, shell]
  prompt: never forget the PROMPT
  COMPACT
"""
SUMMARY = "Facts\n- the code word is swordfish\nDecisions\nFiles\n- big.txt\nOpen items"


@dataclass
class SmallModels(PureModels):
    """Models with a window of `size` tokens that report `stated`.

    Longer prompts are refused, as by a vendor. Summaries are always the same.
    """

    size: int = 4_000
    stated: int = 0
    summaries: int = 0
    summary: str = SUMMARY

    def window(self, model: str) -> int:
        del model
        return self.stated or self.size

    def output_max(self, model: str) -> int:
        del model
        return 200

    async def complete(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        tokens = sum(map(len, request.messages)) // 4
        if tokens > self.size:
            self.asked.append(request)
            raise ModelFailed("ContextTooLong", f"{tokens} tokens are too many")
        if request.key.purpose == "summary":
            self.asked.append(request)
            self.summaries += 1
            await anyio.sleep(self.takes_s)
            return ModelReply(self.summary, usage=TokenUsage(tokens, 20))
        return await super().complete(request, on_delta)

    def _reply(self, request: ModelRequest, messages: list[dict[str, Any]]) -> ModelReply:
        # The next step follows from the turn number: a shortened prompt no longer holds all messages.
        said = [{"role": "assistant"}] * (request.key.turn - 1)
        return super()._reply(request, said)


def shell(command: str) -> list[tuple[str, JsonObject]]:
    return [("shell", {"command": command})]


def noisy(count: int, chars: int = 2_000) -> list[Any]:
    return [*(shell(f"echo n{n}; head -c {chars} /dev/zero | tr '\\0' {n % 10}") for n in range(count)), "over"]


def wordy(count: int) -> list[Any]:
    """Calls with long arguments, so that clearing results does not help."""
    return [*(shell(f"echo n{n} # {chr(97 + n % 26) * 900}") for n in range(count)), "over"]


def plan(compact: str = "") -> str:
    return PLAN.replace("COMPACT", compact)


def texts(request: ModelRequest) -> str:
    return b"\n".join(request.messages).decode()


async def run(here: Arena, text: str) -> list[JsonObject]:
    """Run the plan to its end. Returns the data of each compaction."""
    await here.apply(text)
    await here.until_state("task/.", "done", "failed")
    await here.settled()
    assert here.state("task/.") == "done", here.get("agent/.").status
    return [draft.data for draft in await here.log() if draft.type == "context.compacted"]


async def test_long_old_outputs_are_clamped_before_the_window_is_full(tmp_path: Path) -> None:
    models = SmallModels({"agent/.": noisy(8, 6_000)}, takes_s=0, size=12_000)
    async with arena(tmp_path, models=models) as here:
        made = await run(here, plan("compact: {at: 0.6}"))
    assert made and set(made[0]["tiers"]) == {"clamped"}
    assert all(len(texts(request)) // 4 <= 0.6 * 12_000 + 10 for request in models.asked[:-1])
    last = models.asked[-1]
    assert "left out" in texts(last) and "n0" in texts(last)
    for request in models.asked:
        system = json.loads(request.messages[0])["content"]
        assert all(word in system for word in ("GOAL", "NOTES", "PROMPT"))


async def test_a_file_that_was_read_again_is_shown_once(tmp_path: Path) -> None:
    (tmp_path / "big.txt").write_text("line of the file\n" * 300)
    steps: list[Any] = [
        [("read", {"path": "big.txt"})],
        shell("true"),
        [("read", {"path": "big.txt"})],
        shell("echo x"),
        "over",
    ]
    models = SmallModels({"agent/.": steps}, takes_s=0, size=7_000)
    async with arena(tmp_path, models=models) as here:
        made = await run(here, plan("compact: {at: 0.5, keep: 10}"))
    assert made[0]["tiers"]["superseded"] == 1
    assert texts(models.asked[-1]).count("line of the file") <= 301


async def test_one_summary_replaces_the_old_turns_when_nothing_else_helps(tmp_path: Path) -> None:
    models = SmallModels({"agent/.": noisy(40, 900)}, takes_s=0, size=5_000)
    async with arena(tmp_path, models=models) as here:
        made = await run(here, plan())
        agent = here.get("agent/.").status
        assert transcript.SUMMARY_KEY in agent["transcript"]
        assert len(agent["transcript"]) < 30
        billed = [draft.data["usage"] for draft in await here.log() if draft.type == "model.replied"]
        assert agent["used"]["tokens"] > sum(each["in"] + each["out"] for each in billed)
    assert models.summaries >= 1 and any("summarised" in each["tiers"] for each in made)
    assert "swordfish" in texts(models.asked[-1])
    assert all(len(texts(request)) // 4 <= models.size for request in models.asked)


async def test_recall_reads_back_what_the_prompt_no_longer_has(tmp_path: Path) -> None:
    steps = noisy(40, 900)[:-1]
    steps += [[("recall", {"turn": 3})], [("recall", {"text": "echo n5"})], [("recall", {})], "over"]
    models = SmallModels({"agent/.": steps}, takes_s=0, size=6_000)
    async with arena(tmp_path, models=models) as here:
        await run(here, plan())
        third, found, listed = [each["text"] for each in await here.results("recall")]
    assert "2" * 900 in third and "echo n2" in third
    assert found.startswith("turn 6: ")
    golden_text.said(listed)


async def test_a_summary_larger_than_what_it_replaces_is_cut(tmp_path: Path) -> None:
    models = SmallModels({"agent/.": wordy(30)}, takes_s=0, size=6_000, summary="blah " * 8_000)
    async with arena(tmp_path, models=models) as here:
        made = await run(here, plan())
    summed = [each for each in made if "summarised" in each["tiers"]]
    assert summed and all(each["after"] < 0.75 * each["before"] for each in summed)


async def test_the_model_of_the_plan_writes_the_summary(tmp_path: Path) -> None:
    models = SmallModels({"agent/.": wordy(30)}, takes_s=0, size=6_000)
    async with arena(tmp_path, models=models) as here:
        await run(here, plan("compact: {model: test/cheap}"))
    assert {request.model for request in models.asked if request.key.purpose == "summary"} == {"test/cheap"}


async def test_a_model_that_refuses_a_prompt_for_its_length_gets_a_shorter_one(tmp_path: Path) -> None:
    models = SmallModels({"agent/.": noisy(12, 3_000)}, takes_s=0, size=6_000, stated=100_000)
    async with arena(tmp_path, models=models) as here:
        made = await run(here, plan())
        failed = [draft.data["reason"] for draft in await here.log() if draft.type == "model.failed"]
    assert made and set(failed) == {"ContextTooLong"}


async def test_prompt_that_cannot_be_shorter_blocks_with_a_fix(tmp_path: Path) -> None:
    models = SmallModels({"agent/.": noisy(1)}, takes_s=0, size=10)
    async with arena(tmp_path, models=models) as here:
        await here.apply(plan())
        await here.until(lambda: here.state("agent/.") == "blocked")
        await here.settled()
        condition = here.get("agent/.").status["conditions"]["NoModel"]
    assert "ContextTooLong" in condition["message"]
    assert any("window" in way for way in condition["unblocks"])


async def test_cancelled_compaction_leaves_the_transcript_unchanged_and_restarts(tmp_path: Path) -> None:
    models = SmallModels({"agent/.": wordy(30)}, takes_s=0.005, size=6_000)
    async with arena(tmp_path, models=models) as here:
        await here.apply(plan())
        await here.until(lambda: models.summaries == 1)
        await here.patch({"op": "add", "path": "/goal", "value": "another GOAL"})
        await here.until_state("task/.", "done", "failed")
        await here.settled()
        assert here.state("task/.") == "done"
        texts_ = [draft.type for draft in await here.log()]
    assert "context.compacted" in texts_
    assert "another GOAL" in texts(models.asked[-1])


async def play(here: Arena) -> None:
    await to_the_end(here, plan())
    log = await here.log()
    assert here.state("task/.") == "done"
    assert [draft.data["turn"] for draft in log if draft.type == "model.replied"] == list(range(1, 16))
    assert any(draft.type == "context.compacted" for draft in log)


@pytest.mark.sweep(keep=3)
@pytest.mark.parametrize("after", range(20, 60, 2))
async def test_law_5_a_crash_during_compaction_changes_nothing_of_the_end(tmp_path: Path, after: int) -> None:
    def models() -> SmallModels:
        return SmallModels({"agent/.": wordy(14)}, takes_s=0, size=3_600)

    with anyio.fail_after(45):
        is_over = await lived(play, tmp_path, 1, after, models=models())
        assert is_over or await lived(play, tmp_path, 2, models=models())
