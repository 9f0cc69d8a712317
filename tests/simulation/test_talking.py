"""Delegation, discussions, requests and copies through crashes at every write: each answer once, nothing lost."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.product import JsonObject
from tests.simulation.harness import Crash, Point, Story
from tests.simulation.plans import Play
from tests.simulation.test_whole_product import assert_ended_as, played

TALKING = Play(
    """
goal: those who are asked, those who hear, and one that asks back
agent:
  tools: [all]
  script:
    - task: {id: ann, prompt: what is 2 and 2, script: [{done: four}, {when: {message: ready}, done: ann is},
             {when: {message: more}, done: ann has more}]}
    - expect: four
    - task:
        - {id: bob, goal: b, script: [{done: here}, {when: {message: ann is}, done: bob heard ann}]}
        - {id: eve, goal: c, script: [{done: here}, {when: {message: bob heard}, done: eve heard bob}]}
    - when: {children: done}
      call: {discuss: {prompt: are you ready, speakers: [ann, bob], listeners: [eve]}}
    - expect: bob heard ann
    - call: {discuss: {prompt: well, speakers: [eve]}}
    - expect: eve heard bob
    - task: {id: copy, from: ann, goal: as before}
    - call: {discuss: {prompt: more, speakers: [copy, ann]}}
    - expect: ann has more
    - task:
        id: kid
        goal: asks back
        budget: {turns: 9}
        script:
          - call: {request: {kind: budget, what: {turns: 5}, why: long}}
          - {when: {message: approved}, done: thanks}
    - when: {message: long}
      call: {answer: {to: kid.1, answer: "yes"}}
    - when: {child: kid, state: done}
      call: {shell: {command: "echo talked >> effects"}}
    - done: x
""",
    ("talked",),
    {"task/.": "done", "task/kid": "done", "task/copy": "done"},
)


def answers(story: Story) -> list[JsonObject]:
    """What the waiting calls came to, in order."""
    return [
        entry.data["result"]
        for record in story.log
        for entry in [record.draft]
        if entry.type == "call.settled" and entry.data.get("tool") in ("task", "discuss", "answer")
    ]


def check(story: Story) -> None:
    read = Counter(
        message
        for record in story.log
        for change in record.draft.changes
        for message, value in (getattr(change, "merge", None) or {}).get("inbox", {}).items()
        if value is None
    )
    assert all(count == 1 for count in read.values()), "a message left an inbox twice"
    leftover = [each for each in story.objects if each.startswith(("thread/", "approval/", "call/"))]
    assert leftover == []


def test_every_agent_is_asked_and_heard() -> None:
    story = played(TALKING)
    assert tuple(story.lines("effects")) == TALKING.effects, story.objects["task/."].status
    assert TALKING.states.items() <= story.states("task", "agent").items()
    check(story)


@pytest.mark.sweep(keep=2)
@pytest.mark.parametrize("point", ["before-commit", "after-commit"])
@pytest.mark.parametrize("part", range(8))
def test_law_5_crash_at_any_write_asks_once_and_loses_no_answer(point: Point, part: int) -> None:
    clean = played(TALKING)
    for commit in range(1 + part, clean.commits + 1, 8):
        story = played(TALKING, Crash(commit, point))
        assert_ended_as(clean, story, f"{point} {commit}")
        check(story)


def test_many_crashes_in_one_life_change_nothing_of_the_answers() -> None:
    clean = played(TALKING)
    for seed in range(3):
        crashes = [Crash(commit, "after-commit") for commit in range(3 + seed, clean.commits, 7)]
        story = played(TALKING, *crashes)
        assert_ended_as(clean, story, f"{crashes}")
        check(story)
