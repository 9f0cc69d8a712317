"""Lives of hooks with crashes at every write: started, changed, removed, ended and started again, each once."""

from __future__ import annotations

import random  # noqa: TID251 - seeded

import pytest

from tests.simulation.harness import Crash, Edit, Point, Story, drawn, simulate

STEPS = """
      - call: {shell: {command: "sleep 1; echo one >> effects"}}
      - call: {shell: {command: "sleep 1; echo two >> effects"}}
      - call: {shell: {command: "sleep 1; echo three >> effects"}}
      - done: ok
"""
AGENT = f"""
    agent:
      tools: [shell]
      script: {STEPS}
"""
TEXT = f"""
goal: hooks that come and go
hooks:
  brief: {{on: before-call, rule: {{count: calls}}, expires: {{turns: 2}}}}
  timed: {{on: on-wake, rule: {{count: wakes}}, expires: {{time: 2.5}}, copy: read-only}}
  quits: {{on: after-call, rule: [{{when: {{count: {{seen: 1}}}}, quit: true}}, {{count: seen}}]}}
  HOOK
tasks:
  first:
    goal: part one
    hooks: {{mine: {{on: before-call, rule: {{count: calls}}}}}} {AGENT}
  second:
    goal: part two
    needs: [first] {AGENT}
"""
GOING = "going: {on: on-end, agent: {script: [{done: {decision: allow}}]}}"
COMING = "coming: {on: before-call, match: shell, rule: {count: shells}}"
EDITS = (
    Edit(1.5, TEXT.replace("HOOK", COMING)),
    Edit(
        4.5, TEXT.replace("HOOK", COMING).replace("first", "moved").replace("goal:", "moved: {first: moved}\ngoal:", 1)
    ),
)
PARTS = 8


def played(*crashes: Crash, seed: int = 0) -> Story:
    return simulate(TEXT.replace("HOOK", GOING), seed=seed, crashes=crashes, edits=EDITS)


def check(story: Story, why: str) -> None:
    """The work is done, what was taken away is gone with all that was made for it, and each hook ended as it should."""
    assert set(story.states("task").values()) == {"done"}, why
    assert story.lines("effects") == sorted(["one", "two", "three"] * 2), why
    hooks = {address: one for address, one in story.objects.items() if one.kind == "hook"}
    names = {address: address.rpartition("/")[2] for address in hooks}
    assert set(names.values()) == {"brief", "timed", "quits", "coming", "mine"}, why
    assert not [address for address in story.objects if "~" in address or "/first" in address], why
    for address, one in hooks.items():
        is_over = names[address] in ("brief", "timed", "quits")
        assert (one.state == "over") is is_over, (why, address, one.status)
        assert not one.deleting, why
    assert hooks["hook/moved/mine"].status["memory"][0]["counts"] == {"calls": 3}, (
        why,
        hooks["hook/moved/mine"].status,
    )
    changed = [record.draft for record in story.log if record.draft.type == "hook.changed"]
    ended = [draft.subject for draft in changed if draft.data.get("state") == "over"]
    assert len(ended) == len(set(ended)), (why, ended)


def test_undisturbed_hooks_start_and_end_as_the_plan_says() -> None:
    check(played(), "clean")


@pytest.mark.sweep(keep=2)
@pytest.mark.parametrize("point", ["before-commit", "after-commit"])
@pytest.mark.parametrize("part", range(PARTS))
def test_law_5_a_crash_at_any_write_changes_no_hooks_life(point: Point, part: int) -> None:
    commits = played().commits

    for commit in range(1 + part, commits + 1, PARTS):
        crash = Crash(commit, point)
        check(played(crash), f"{crash}")


@pytest.mark.parametrize("seed", range(4))
def test_law_5_many_crashes_in_one_life_change_no_hooks_life(seed: int) -> None:
    chance = random.Random(seed)
    crashes = drawn(chance, 6, 39)

    check(played(*crashes, seed=seed), f"{crashes}")
