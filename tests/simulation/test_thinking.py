"""Agents that think with models, through crashes at every record: nothing is lost, doubled or forgotten."""

from __future__ import annotations

import random  # noqa: TID251 - seeded
from collections import Counter
from functools import partial

import pytest

from planloop.schemas.objects.message import message_from_json
from tests.fakes.pure_models import Answer, PureModels, failing
from tests.simulation.harness import Crash, Edit, Point, Story, drawn, simulate
from tests.simulation.product import product

TEXT = """
goal: split it, wait, look, and end
budget: {usd: 50, turns: 200}
agent: {model: test/big, tools: [all]}
acceptance: [{sh: "test -f effects"}]
"""
EDITS = (Edit(2.2, TEXT.replace("and end", "and end well")),)
CHILD = {"model": "test/small", "tools": ["shell"]}
ANSWERS: dict[str, list[Answer]] = {
    "agent/.": [
        [
            ("task", {"tasks": [{"id": "left", "goal": "the left half", **CHILD}]}),
            ("task", {"tasks": [{"id": "right", "goal": "the right half", **CHILD, "needs": ["left"]}]}),
        ],
        "I wait for them.",
        [("shell", {"command": "sleep 1; echo top >> effects"}), ("list", {})],
        "all is done",
        "all is done",
        "all is done",
    ],
    "agent/left": [
        [("shell", {"command": "sleep 1; echo left >> effects"})],
        [("send", {"to": "parent", "text": "left is there"})],
        "the left half",
    ],
    "agent/right": [[("shell", {"command": "sleep 2; echo right >> effects"}), ("nothing", {})], "the right half"],
}
PARTS = 4


def played(*crashes: Crash, seed: int = 0, faults: tuple[int, ...] = (), edits: tuple[Edit, ...] = ()) -> Story:
    models = PureModels(ANSWERS, failing(*faults))
    build = partial(product, models=models)
    return simulate(TEXT, seed=seed, crashes=crashes, edits=edits, build=build)


def check(story: Story, why: str, *, is_sure: bool = True) -> None:
    """The end is as it should be, each call has one result, each message was read once.

    Not `is_sure`: a command may be lost with the machine. Its model gets a message about it, and continues.
    """
    assert story.states("task") == dict.fromkeys(("task/.", "task/left", "task/right"), "done"), why
    done = story.lines("effects")
    assert len(done) == len(set(done)) and set(done) <= {"left", "right", "top"}, why
    assert not is_sure or len(done) == 3, why
    said = [one for record in story.log for one in record.draft.entries]
    settled = Counter(one.subject for one in said if one.type == "call.settled" and "late" not in one.data)
    ruled = {
        call for one in said if one.type == "call.authorized" for call, word in one.data.items() if word != "allowed"
    }
    proposed = [call["call"] for one in said if one.type == "model.replied" for call in one.data.get("calls", ())]
    assert len(proposed) == len(set(proposed)), why
    assert all(settled[call] + (call in ruled) == 1 for call in proposed), why
    read = [message for one in said if one.type in ("turn.started", "message.read") for message in one.data["read"]]
    assert len(read) == len(set(read)), why
    sent = {key for record in story.log for key in delivered(record.draft.changes)}
    assert sent == set(read), why
    replied = Counter((one.subject, one.data["turn"]) for one in said if one.type == "model.replied")
    assert set(replied.values()) == {1}, why


def delivered(changes: tuple[object, ...]) -> list[str]:
    """The ids of the messages that these changes put into an inbox."""
    found = []
    for change in changes:
        merge = getattr(change, "merge", None) or {}
        inbox = merge.get("inbox", {}) if isinstance(merge, dict) else {}
        found += [message_from_json(raw).id for raw in inbox.values() if raw is not None]
    return found


def test_an_undisturbed_tree_ends_as_it_should() -> None:
    story = played()
    check(story, "clean")
    assert story.commits < 60


@pytest.mark.sweep(keep=2)
@pytest.mark.parametrize("point", ["before-commit", "after-commit"])
@pytest.mark.parametrize("how", ["killed", "power cut"])
@pytest.mark.parametrize("part", range(PARTS))
def test_law_5_a_crash_at_any_record_of_a_thinking_tree_changes_nothing_of_the_end(
    point: Point, how: str, part: int
) -> None:
    for commit in range(1 + part, played().commits + 1, PARTS):
        crash = Crash(commit, point, loses_processes=how == "power cut")
        story = played(crash)
        check(story, f"{crash}", is_sure=how == "killed")


@pytest.mark.parametrize("seed", range(4))
def test_many_crashes_and_failing_requests_in_one_life_change_nothing_of_the_end(seed: int) -> None:
    chance = random.Random(seed)
    crashes = drawn(chance, 5, 39)
    faults = tuple(chance.sample(range(1, 12), 4))
    check(played(*crashes, seed=seed, faults=faults), f"{crashes} {faults}")


@pytest.mark.parametrize("seed", range(3))
def test_an_edit_of_the_goal_in_the_middle_reaches_the_agent_once(seed: int) -> None:
    story = played(edits=EDITS, seed=seed)
    check(story, f"seed {seed}")


def test_a_request_that_fails_is_made_again_after_a_pause_and_billed_each_time() -> None:
    clean, story = played(), played(faults=(1, 2, 3))
    check(story, "faults")
    failed = [one.data for record in story.log for one in record.draft.entries if one.type == "model.failed"]
    assert [(each["attempt"], each["wait_s"]) for each in failed] == [(1, 1.0), (2, 2.0), (3, 4.0)]
    assert story.log[-1].at - clean.log[-1].at >= 7.0
    active = [each["active_s"] for each in _ended(story)]
    assert active[0] < 3.0, "the pauses are no active time"


def _ended(story: Story) -> list[dict[str, float]]:
    return [one.data for record in story.log for one in record.draft.entries if one.type == "turn.ended"]
