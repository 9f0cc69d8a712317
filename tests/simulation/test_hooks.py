"""Agents with hooks through crashes at every write: each verdict counts once, what hooks remember is never raced."""

from __future__ import annotations

import random  # noqa: TID251 - seeded
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from tests.fakes.pure_models import Answer, PureModels
from tests.simulation.harness import Crash, Point, Story, simulate
from tests.simulation.product import product

TEXT = """
goal: split it, look, and end
budget: {usd: 50, turns: 200}
agent: {model: test/big, tools: [all]}
hooks:
  slow: {on: [before-call, after-call], match: shell, run: [sleep, "1"]}
  speaking: {on: [on-input, after-call], run: [echo, '{"comment": "seen"}']}
  counting:
    on: [before-call]
    rule:
      - {when: {call: shell}, count: shells}
      - {when: {call: "shell(forbidden)"}, deny: "never"}
      - {when: {call: "shell(echo other*)"}, rewrite: {command: "echo top >> effects"}}
  once:
    on: [before-reply]
    rule: [{once: all, deny: "look again"}]
"""
ANSWERS: dict[str, list[Answer]] = {
    "agent/.": [
        [("shell", {"command": "forbidden"}), ("shell", {"command": "echo other"})],
        [("task", {"tasks": [{"id": "left", "goal": "the left half", "model": "test/small", "tools": ["shell"]}]})],
        "I wait for them.",
        "I still wait for them.",
        "all is done",
        "all is done",
        "all is done",
    ],
    "agent/left": [
        [("shell", {"command": "sleep 1; echo left >> effects"})],
        "the left half",
        "really the left half",
    ],
}
PARTS = 4


def played(*crashes: Crash, seed: int = 0) -> Story:
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        build = partial(product, models=PureModels(ANSWERS))
        return simulate(Path(folder), TEXT, seed=seed, crashes=crashes, build=build)


def check(story: Story, why: str) -> None:
    """It ends as it should, each question has one verdict that counted, and every call was counted once."""
    assert story.states("task") == {"task/.": "done", "task/left": "done"}, why
    assert story.lines("effects") == ["left", "top"], why
    said = [one for record in story.log for one in record.draft.entries]
    fired = [one for one in said if one.type == "hook.fired" and not one.data.get("late")]
    keys = Counter((one.subject, one.data["turn"], each["key"]) for one in fired for each in one.data["fired"])
    assert set(keys.values()) == {1}, (why, keys)
    assert {each["verdict"].get("fault") for one in fired for each in one.data["fired"]} == {None}, why
    # Asked anew after a rewriting, it counts the call again: in the order of the calls, never two at a time.
    assert story.objects["hook/counting"].status["memory"][0]["counts"] == {"shells": 3}, why
    assert story.objects["hook/left/counting"].status["memory"][0]["counts"] == {"shells": 1}, why


def test_an_undisturbed_plan_with_hooks_ends_as_it_should() -> None:
    check(played(), "clean")


@pytest.mark.parametrize("point", ["before-commit", "after-commit"])
@pytest.mark.parametrize("part", range(PARTS))
def test_law_5_a_crash_at_any_write_loses_and_doubles_no_verdict(point: Point, part: int) -> None:
    commits = played().commits

    for commit in range(1 + part, commits + 1, PARTS):
        crash = Crash(commit, point)
        check(played(crash), f"{crash}")


@pytest.mark.parametrize("seed", range(4))
def test_law_5_many_crashes_in_one_life_lose_and_double_no_verdict(seed: int) -> None:
    chance = random.Random(seed)
    commits = sorted(chance.sample(range(1, 40), 6))
    crashes = [Crash(commit, chance.choice(("before-commit", "after-commit"))) for commit in commits]

    check(played(*crashes, seed=seed), f"{crashes}")
