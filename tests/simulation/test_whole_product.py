"""The whole product from one seed: crash at every write, and it ends as if nothing had happened."""

from __future__ import annotations

import random  # noqa: TID251 - seeded

import pytest

from tests.simulation.harness import Crash, Point, Story, drawn, simulate
from tests.simulation.plans import PLAYS, Play

PARTS = 4  # Every write, in tests that a busy machine ends in time.
plays = pytest.mark.parametrize("play", PLAYS.values(), ids=PLAYS)


def played(play: Play, *crashes: Crash, seed: int = 0) -> Story:
    """The story of `play` in a folder of its own, in memory where there is one: disks are for the store's own tests."""
    return simulate(play.text, seed=seed, crashes=crashes, edits=play.edits)


def assert_ended_as(clean: Story, story: Story, why: str) -> None:
    assert story.states("task", "agent") == clean.states("task", "agent"), why
    assert story.lines("effects") == clean.lines("effects"), why
    assert set(story.files) == set(clean.files), why


@plays
def test_an_undisturbed_plan_ends_as_it_should(play: Play) -> None:
    story = played(play)

    assert tuple(story.lines("effects")) == play.effects
    assert play.states.items() <= story.states("task", "agent").items()


@plays
def test_one_seed_gives_one_story(play: Play) -> None:
    first, second = played(play, seed=7), played(play, seed=7)

    assert [(record.at, record.draft) for record in first.log] == [(record.at, record.draft) for record in second.log]


@plays
def test_law_3_any_order_of_events_ends_in_one_state(play: Play) -> None:
    clean = played(play)

    for seed in range(1, 6):
        assert_ended_as(clean, played(play, seed=seed), f"seed {seed}")


@plays
@pytest.mark.sweep(keep=10)
@pytest.mark.parametrize("point", ["before-commit", "after-commit"])
@pytest.mark.parametrize("how", ["killed", "power cut"])
@pytest.mark.parametrize("part", range(PARTS))
def test_law_5_a_crash_at_any_write_changes_nothing_of_the_end(play: Play, point: Point, how: str, part: int) -> None:
    clean = played(play)

    for commit in range(1 + part, clean.commits + 1, PARTS):
        crash = Crash(commit, point, loses_processes=how == "power cut")
        story = played(play, crash)
        assert_ended_as(clean, story, f"{crash}")
        # Processes outlive a killed owner, so it is known what became of each; only a power cut leaves a doubt.
        assert story.doubts == 0 or crash.loses_processes, f"{crash}"


@plays
@pytest.mark.parametrize("seed", range(4))
def test_law_5_many_crashes_in_one_life_change_nothing_of_the_end(play: Play, seed: int) -> None:
    chance = random.Random(seed)
    crashes = drawn(chance, 6, 39)

    story = played(play, *crashes, seed=seed)

    assert story.owners > 1
    assert_ended_as(played(play, seed=seed), story, f"{crashes}")
