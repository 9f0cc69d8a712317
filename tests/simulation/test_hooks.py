"""Agents with hooks through crashes at every write: each verdict counts once, what hooks remember is never raced."""

from __future__ import annotations

import random  # noqa: TID251 - seeded
from collections import Counter
from functools import partial

import pytest

from tests.fakes.pure_models import Answer, PureModels
from tests.simulation.harness import Crash, Edit, Point, Story, drawn, simulate
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
    build = partial(product, models=PureModels(ANSWERS))
    return simulate(TEXT, seed=seed, crashes=crashes, build=build)


def check(story: Story, why: str) -> None:
    """It ends as it should, each question has one verdict that counted, and every call was counted once."""
    assert story.states("task") == {"task/.": "done", "task/left": "done"}, why
    assert story.lines("effects") == ["left", "top"], why
    said = [one for record in story.log for one in record.draft.entries]
    fired = [one for one in said if one.type == "hook.fired" and not one.data.get("late")]
    keys = Counter((one.subject, one.data["turn"], each["key"]) for one in fired for each in one.data["fired"])
    assert set(keys.values()) == {1}, (why, keys)
    assert {each["verdict"].get("fault") for one in fired for each in one.data["fired"]} == {None}, why
    # Asked again after a rewrite, it counts the call again: in the order of the calls, never two at a time.
    assert story.objects["hook/counting"].status["memory"][0]["counts"] == {"shells": 3}, why
    assert story.objects["hook/left/counting"].status["memory"][0]["counts"] == {"shells": 1}, why


def test_an_undisturbed_plan_with_hooks_ends_as_it_should() -> None:
    check(played(), "clean")


@pytest.mark.sweep
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
    crashes = drawn(chance, 6, 39)

    check(played(*crashes, seed=seed), f"{crashes}")


SLOW = {
    "slow": "{on: [before-call, after-call], match: shell, run: [sleep, '1']}",
    "speaking": '{on: [on-input, after-call], run: [echo, \'{"comment": "seen"}\']}',
    "broken": '{on: [after-call, on-wake], run: ["false"], on-fault: note}',
    "late": "{on: [before-call, before-reply], run: [sleep, '9'], timeout: 2, on-fault: note}",
    "asleep": "{on: [on-sleep, on-end, on-child], rule: [{comment: 'is that all?'}]}",
    "back": "{on: [before-reply], rule: [{deny: 'look again'}]}",
    "once": "{on: [before-call], match: shell, rule: [{quit: true, defer: 'first this'}]}",
    "other": "{on: [before-call], rule: [{when: {call: 'shell(sleep*)'}, rewrite: {command: 'echo x >> effects'}}]}",
}
BARE = TEXT.partition("hooks:")[0]


def with_hooks(names: list[str], goal: str) -> str:
    lines = "".join(f"  {name}: {SLOW[name]}\n" for name in names)
    return BARE.replace("split it", goal) + (f"hooks:\n{lines}" if names else "")


def looking(count: int) -> list[Answer]:
    looks: list[Answer] = [[("shell", {"command": f"echo {at} >> effects"})] for at in range(count)]
    return [*looks, [("shell", {"command": "sleep 1; echo last >> effects"})], *["all is done"] * 40]


@pytest.mark.sweep(keep=3)
@pytest.mark.parametrize("seed", range(24))
def test_hooks_that_start_and_end_at_any_moment_leave_each_call_its_one_result(seed: int) -> None:
    chance = random.Random(seed)
    names = sorted(SLOW)
    texts = [with_hooks(chance.sample(names, chance.randint(0, 5)), chance.choice(("it", "that"))) for _ in range(6)]
    edits = tuple(Edit(round(chance.uniform(0.1, 12.0), 2), text) for text in texts[1:])
    crashes = [Crash(commit, "before-commit") for commit in sorted(chance.sample(range(3, 60), 2))]
    models = PureModels({"agent/.": looking(4)})
    build = partial(product, models=models)
    story = simulate(texts[0], seed=seed, crashes=crashes, edits=sorted(edits, key=at), build=build)

    assert story.states("task") == {"task/.": "done"}, texts
    assert story.bugs == []
    said = [one for record in story.log for one in record.draft.entries]
    settled = Counter(one.subject for one in said if one.type == "call.settled" and "late" not in one.data)
    ruled = Counter(
        call for one in said if one.type == "call.authorized" for call, word in one.data.items() if word != "allowed"
    )
    proposed = [call["call"] for one in said if one.type == "model.replied" for call in one.data.get("calls", ())]
    assert all(settled[call] + ruled[call] == 1 for call in proposed), texts
    run, keys = 0, Counter[tuple[int, int, str, str]]()
    for one in said:
        run = one.data["incarnation"] if one.type == "agent.woken" else run
        if one.type == "hook.fired" and not one.data.get("late"):
            keys.update((run, one.data["turn"], each["hook"], each["key"]) for each in one.data["fired"])
    assert set(keys.values()) <= {1}, (keys, texts)


def at(edit: Edit) -> float:
    return edit.at_s
