"""The owner dies after each of its own writes, and the next one ends where it would have ended."""

from __future__ import annotations

import pytest

from planloop.controllers.task.counters import TaskCounters
from planloop.controllers.task.step import CheckJob, RunJob
from tests.controllers.task.harness import sh, spec
from tests.controllers.task.world import Crash, World
from tests.product import SetStatus

CODES = {"a": 0, "b": 1, "c/x": 0, "c/y": 0, "d": 0}


def plan() -> World:
    return World(
        root=spec(),
        a=spec("work", acceptance=(sh("one"), sh("two", "1"))),
        b=spec("fails", retries=1),
        c=spec(needs=("task/a",), acceptance=(sh("three"),)),
        c_x=spec("work", when="before", acceptance=(sh("four"),)),
        c_y=spec("work", needs=("task/c/x",)),
        d=spec("never", needs=("task/b",)),
    )


def drive(world: World) -> None:
    """Lets everything happen, in an order that depends only on what there is to do."""
    for _ in range(200):
        world.settle()
        jobs = sorted(world.plane.jobs.items())
        if not jobs:
            if not any(task.status.get("not_before", 0) > world.now for task in world.view.list("task")):
                return
            world.now += 61
            continue
        key, job = jobs[0]
        name = world.plane.owners[key].removeprefix("task/")
        if isinstance(job, CheckJob):
            has_run = world[f"task/{name}"].status.get("incarnation", 0) > 0
            world.finds(name, "pass" if has_run or name == "c" else "fail", job.check.key)
        elif key in world.plane.slots:
            world.end(name, CODES[name])
        else:
            world.begin(name)
    raise AssertionError("it never ends")


def end_state(world: World) -> dict[str, tuple[str, int, object]]:
    return {
        task.address: (task.state, task.status.get("incarnation", 0), task.status.get("stage"))
        for task in world.view.list("task")
    }


def next_owner(world: World, *, had_begun: bool) -> None:
    """Jobs are gone. A command whose start was written runs still, or never began: both are found by its files."""
    world.crash_after = None
    world.plane.jobs.clear()
    world.plane.slots.clear()
    world.tallies = TaskCounters()
    world.tallies.count(world.view)
    if not had_begun:
        for call in list(world.view.list("call")):
            world.fold(SetStatus(call.address, call.uid, {"state": "Authorized"}))
    world.settle()
    for key, job in world.plane.jobs.items():
        observed = world.observe(world.plane.owners[key].removeprefix("task/"))
        if isinstance(job, RunJob) and observed.motion.call is not None and observed.motion.call.state == "Started":
            world.plane.slots.add(key)


CLEAN = plan()
drive(CLEAN)


def test_the_plan_of_these_tests_takes_every_turn() -> None:
    assert {address: state for address, (state, _, _) in end_state(CLEAN).items()} == {
        "task/.": "failed",
        "task/a": "done",
        "task/b": "failed",
        "task/c": "done",
        "task/c/x": "done",
        "task/c/y": "done",
        "task/d": "blocked",
    }
    assert CLEAN["task/b"].status["incarnation"] == 2
    assert CLEAN["task/c/x"].status["incarnation"] == 1


@pytest.mark.parametrize("had_begun", [True, False], ids=["commands run on", "commands never began"])
def test_law_5_crash_after_any_own_write_gives_the_same_state_and_number_of_runs(had_begun: bool) -> None:
    start = plan().folds
    for crash_after in range(start + 1, CLEAN.folds + 1):
        world = plan()
        world.crash_after = crash_after
        with pytest.raises(Crash):
            drive(world)
        next_owner(world, had_begun=had_begun)
        drive(world)
        assert end_state(world) == end_state(CLEAN), f"after write {crash_after}"
