"""Agents that all write the same files, in virtual time, killed at every write of the log: no line is ever lost."""

from __future__ import annotations

import random  # noqa: TID251 - seeded
from functools import partial

import pytest

from tests.fakes import crowd
from tests.fakes.crowd import Crowd
from tests.fakes.hands import Hands
from tests.fakes.scripted_models import ScriptedModels
from tests.simulation.harness import Crash, Point, Story, drawn, simulate
from tests.simulation.product import product

FEW = Crowd(scripts=2, script_lines=3, models=3, model_lines=4, files=3)
MANY = Crowd(scripts=5, script_lines=4, models=5, model_lines=8, files=4)
PARTS = 4  # Every write, in tests that a busy machine ends in time.
RING_S_MAX = 1.0
WAIT_S_MAX = 5.0


def played(who: Crowd, *crashes: Crash, seed: int = 0) -> tuple[Story, crowd.Story]:
    """What came of it, and what its log says."""
    models = ScriptedModels(Hands(who.model_lines, who.files, delay_s=0.05))
    build = partial(product, models=models)
    story = simulate(who.plan_text(""), seed=seed, crashes=crashes, files=who.contents(), build=build)
    entries = [(one.at, each.type, each.subject, each.data) for one in story.log for each in one.draft.entries]
    return story, crowd.told_by(entries)


def check(who: Crowd, played: tuple[Story, crowd.Story], why: object) -> None:
    story, told = played
    who.check_no_update_is_lost(told, story.files)
    assert set(story.states("task").values()) == {"done"}, why
    assert story.states("lock", "call", "approval", "thread") == {}, why
    assert max(told.rings_s, default=0.0) <= RING_S_MAX, why
    assert max(told.waits_s, default=0.0) <= WAIT_S_MAX, why


@pytest.mark.parametrize("seed", range(3))
def test_no_line_is_lost_and_deadlocks_are_broken_in_any_order(seed: int) -> None:
    found = played(MANY, seed=seed)

    check(MANY, found, seed)
    assert found[1].waits_s
    assert found[1].rings_s


@pytest.mark.sweep
@pytest.mark.parametrize("point", ["before-commit", "after-commit"])
@pytest.mark.parametrize("part", range(PARTS))
def test_law_7_a_crash_at_any_write_loses_no_line_and_leaves_no_lock(point: Point, part: int) -> None:
    clean, _ = played(FEW)

    for commit in range(1 + part, clean.commits + 1, PARTS):
        crash = Crash(commit, point)
        check(FEW, played(FEW, crash), crash)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(6))
def test_many_crashes_in_one_life_lose_no_line_either(seed: int) -> None:
    crashes = drawn(random.Random(seed), 12, 299)

    story, told = played(MANY, *crashes, seed=seed)

    assert story.owners > len(crashes) // 2
    check(MANY, (story, told), crashes)
