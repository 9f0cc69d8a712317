"""Whatever a simulation went through, its log decides the same again: the law that makes a log a proof."""

from __future__ import annotations

import pytest

from planloop.client.plan_paths import PlanPaths
from planloop.owner import build
from planloop.owner.replay import play as replay_play
from planloop.owner.replay.play import ReplayOutcome
from tests.simulation.harness import NAME, Crash, Point, simulate_in, workspace
from tests.simulation.plans import PLAYS, Play

PARTS = 4
plays = pytest.mark.parametrize("play", PLAYS.values(), ids=PLAYS)


def _replayed(play: Play, *crashes: Crash, seed: int = 0) -> ReplayOutcome:
    with workspace() as folder:
        simulate_in(folder, play.text, seed=seed, crashes=crashes, edits=play.edits)
        place = PlanPaths(NAME, folder / ".plan" / NAME)
        return replay_play.replay_plan(build.replay_setup(place))


@plays
@pytest.mark.sweep(keep=5)
@pytest.mark.parametrize("seed", range(5))
def test_every_order_of_events_is_the_same_again(play: Play, seed: int) -> None:
    found = _replayed(play, seed=seed)

    assert (found.verdict, found.notes, found.rev) == ("same", (), found.records), found


@plays
@pytest.mark.sweep(keep=5)
@pytest.mark.parametrize("point", ["before-commit", "after-commit"])
@pytest.mark.parametrize("part", range(PARTS))
def test_a_run_that_crashed_anywhere_is_the_same_again(play: Play, point: Point, part: int) -> None:
    commits = 40
    for commit in range(1 + part, commits, PARTS):
        found = _replayed(play, Crash(commit, point))

        assert found.verdict == "same", (commit, found)
