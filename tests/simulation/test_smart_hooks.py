"""Hooks that are agents, in virtual time: any order, a kill at every write, late ones; each question has one end."""

from __future__ import annotations

import random  # noqa: TID251 - seeded
from collections import Counter
from functools import partial

import pytest

from tests.fakes.pure_models import Answer, PureModels
from tests.simulation.harness import Crash, Point, Story, drawn, simulate
from tests.simulation.plans import Play
from tests.simulation.product import product
from tests.simulation.test_budgets import check as check_ledgers
from tests.simulation.test_whole_product import assert_ended_as, played

# The guard allows, denies and rewrites; the sleeper is late at every point and only noted; the root hands the session
# to its child and is a hook of it, sends one answer back, and takes the session again.
WATCHED = Play(
    """
goal: one who hands over, one who is listened to, and hooks above both
hooks:
  guard:
    on: [before-call]
    match: shell(*)
    copy: same
    agent:
      script:
        - {when: {message: one}, say: ALLOW}
        - {when: {message: two}, say: "DENY: not two"}
        - when: {message: three}
          say: '{"decision": "allow", "updated_input": {"command": "echo third >> effects"}}'
        - {when: {message: third}, call: {quit: {reason: seen enough}}}
  sleeper:
    on: [after-call]
    match: shell(*)
    timeout: 2
    agent: {script: [{sleep: 20s}, {say: "too late"}, {sleep: 20s}]}
agent:
  tools: [task, endo, meta]
  script:
    - task:
        id: child
        goal: to be listened to
        agent:
          tools: [shell]
          script:
            - {when: {message: go}, call: {shell: {command: "sleep 1; echo one >> effects"}}}
            - call: {shell: {command: "echo two >> effects"}}
            - expect: {contains: not two}
            - call: {shell: {command: "echo three >> effects"}}
            - call: {shell: {command: "echo four >> effects"}}
            - say: a weak answer
            - {when: {message: sent back}, say: a better answer}
            - {when: {message: end}, done: over}
    - call: {endo: {subagent: child}}
    - say: {to: child, text: go}
    - {when: {message: a weak answer}, say: "DENY: think again"}
    - {when: {message: a better answer}, call: {meta: {reason: it has found out}}}
    - say: {to: child, text: end}
    - {when: {children: done}, done: all of it}
""",
    ("four", "one", "third"),
    {"task/.": "done", "task/child": "done", "agent/child/~guard": "ended"},
)
PARTS = 4


def check(story: Story, why: str) -> None:
    """No agent waits, and every question has exactly one verdict, whichever owner recorded it."""
    plan = next(one for address, one in story.objects.items() if address.startswith("plan/"))
    assert plan.status["session"]["primary"] == "agent/.", why
    assert not [address for address in story.objects if address.startswith("thread/")], why
    for address, one in story.objects.items():
        if "/~" in address and address.startswith("agent/"):
            assert not one.status.get("asked") and one.status.get("open") is None, (why, address)
    assert story.objects["hook/child/guard"].status["state"] == "over", why
    said = [one for record in story.log for one in record.draft.entries]
    fired = [one for one in said if one.type == "hook.fired" and not one.data.get("late")]
    keys = Counter((one.subject, one.data["turn"], each["key"]) for one in fired for each in one.data["fired"])
    assert set(keys.values()) == {1}, (why, keys)
    faults = [each for one in fired for each in one.data["fired"] if each["verdict"].get("fault")]
    assert {each["hook"].rpartition("/")[2] for each in faults} <= {"sleeper"}, (why, faults)


def test_an_undisturbed_plan_with_agents_as_hooks_ends_as_it_should() -> None:
    story = played(WATCHED)

    assert tuple(sorted(story.lines("effects"))) == WATCHED.effects
    assert WATCHED.states.items() <= story.states("task", "agent").items()
    check(story, "clean")


def test_law_3_any_order_of_events_ends_in_one_state_with_agents_as_hooks() -> None:
    clean = played(WATCHED)
    for seed in range(1, 9):
        story = played(WATCHED, seed=seed)
        assert_ended_as(clean, story, f"seed {seed}")
        check(story, f"seed {seed}")


@pytest.mark.sweep
@pytest.mark.parametrize("point", ["before-commit", "after-commit"])
@pytest.mark.parametrize("part", range(PARTS))
def test_law_5_a_crash_at_any_write_loses_and_doubles_no_question(point: Point, part: int) -> None:
    clean = played(WATCHED)
    for commit in range(1 + part, clean.commits + 1, PARTS):
        crash = Crash(commit, point)
        story = played(WATCHED, crash)
        assert_ended_as(clean, story, f"{crash}")
        check(story, f"{crash}")


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(4))
def test_law_5_many_crashes_change_nothing_of_the_end_with_agents_as_hooks(seed: int) -> None:
    chance = random.Random(seed)
    crashes = drawn(chance, 6, 39)
    story = played(WATCHED, *crashes, seed=seed)
    assert_ended_as(played(WATCHED, seed=seed), story, f"{crashes}")
    check(story, f"{crashes}")


# With models: one guards and is in time, one is always late, so that what its requests had cost by then is billed too.
THINKING = """
goal: write, and be watched
budget: {usd: 50, turns: 200, tokens: 1000000}
agent: {model: test/big, tools: [shell]}
hooks:
  guard: {on: [before-call], match: shell, budget: {turns: 4}, agent: {model: test/small, prompt: watch}}
  late: {on: [after-call], match: shell, timeout: 0.2, agent: {model: test/small, prompt: watch}}
"""
ANSWERS: dict[str, list[Answer]] = {
    "agent/.": [
        [("shell", {"command": "echo one >> effects"}), ("shell", {"command": "echo two >> effects"})],
        [("shell", {"command": "echo three >> effects"})],
        "all is done",
    ],
    "agent/~guard": ["ALLOW", "DENY: not two", [("verdict", {"decision": "allow", "comment": "hm"})]],
    "agent/~late": ["too late"] * 9,
}


def thought(*crashes: Crash, seed: int = 0) -> Story:
    build = partial(product, models=PureModels(ANSWERS))
    return simulate(THINKING, seed=seed, crashes=crashes, build=build)


def check_thought(story: Story, why: str) -> None:
    """It ends as it should, the ledgers balance at every revision, and the task has paid for its hooks."""
    assert story.states("task") == {"task/.": "done"}, why
    assert story.lines("effects") == ["one", "three"], why
    ledgers = check_ledgers(story)
    used = [one.status["used"] for address, one in story.objects.items() if address.startswith("agent/")]
    assert len(used) == 3, why
    spent = ledgers["task/."]
    assert spent["tokens"]["spent"] == sum(one.get("tokens", 0) for one in used), why
    assert not any(account.get("reserved") for account in spent.values()), why
    assert story.objects["agent/~guard"].status["used"]["turns"] == 3, why


@pytest.mark.sweep
@pytest.mark.parametrize("part", range(PARTS))
def test_law_5_a_crash_at_any_write_bills_hooks_that_think_once(part: int) -> None:
    clean = thought()
    check_thought(clean, "clean")
    for commit in range(1 + part, clean.commits + 1, PARTS):
        crash = Crash(commit, "after-commit")
        check_thought(thought(crash), f"{crash}")
