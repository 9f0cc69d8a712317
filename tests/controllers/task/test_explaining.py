"""Why a task is as it is: told from a view alone, for tasks that wrote nothing yet as well."""

from __future__ import annotations

import pytest

from planloop.controllers.task.decide import explain_task
from planloop.controllers.task.step import TaskExplanation
from tests.controllers.task.harness import sh, spec
from tests.controllers.task.world import World
from tests.golden_text import said
from tests.product import ExitCause, TaskState


def told(world: World, name: str) -> TaskExplanation:
    return explain_task(world[f"task/{name}"], world.view, world.now, world.ground)


def test_a_task_that_waits_names_what_it_needs() -> None:
    world = World(root=spec(), a=spec("true"), b=spec("true", needs=("task/a",)))
    world.settle()

    assert told(world, "b") == TaskExplanation(TaskState.WAITING, "NeedsNotDone", "needs task/a", ("task/a is done",))


def test_a_command_that_may_start_waits_for_a_slot() -> None:
    world = World(root=spec(), a=spec("true"))
    world.settle()

    assert told(world, "a").reason == "Queued"


def test_running_command_is_running_though_its_job_is_not_seen_here() -> None:
    world = World(root=spec(), a=spec("true"))
    world.settle()
    world.begin("a")

    assert told(world, "a").state is TaskState.RUNNING


def test_task_below_a_paused_one_names_the_command_that_resumes_it() -> None:
    world = World(root=spec(), a=spec(pause=True), a_b=spec("true", pause=True))
    world.settle()

    assert told(world, "a/b").unblocks == ("plan resume task/a",)


def test_retry_names_the_failure_until_it_starts() -> None:
    world = World(root=spec(), a=spec("flaky", retries=1))
    world.settle()
    world.run("a", code=1)
    world.settle()

    said(told(world, "a").message, "flaky")


def test_failed_task_gives_the_reason_and_how_to_continue() -> None:
    world = World(root=spec(), a=spec("flaky"))
    world.settle()
    world.run("a", code=1)

    said(told(world, "a").message, "flaky")
    assert told(world, "a").unblocks == ("plan resume task/a", "edit the task")
    assert told(world, ".").message == "task/a failed"


def test_a_failed_parent_names_one_child_and_counts_the_others() -> None:
    world = World(root=spec(), a=spec("x"), b=spec("x"), c=spec("x"))
    world.settle()
    for name in "abc":
        world.run(name, code=1)

    said(told(world, ".").message, "task/a")


def test_a_parent_names_a_child_for_what_became_of_it() -> None:
    world = World(root=spec(), a=spec("x", cancel=True), b=spec("x", needs=("task/a",)))
    world.settle()
    said(told(world, ".").message, "task/b")

    world = World(root=spec(), a=spec("x", cancel=True), b=spec("x"))
    world.settle()
    world.run("b", code=1)
    assert told(world, ".").message == "task/b failed"


@pytest.mark.parametrize("name", ["a", "b", "c", "d", "."])
def test_explanation_equals_what_the_controller_would_write(name: str) -> None:
    world = World(
        root=spec(),
        a=spec("push"),
        b=spec("x", needs=("task/d",)),
        c=spec("y", acceptance=(sh("z"),)),
        d=spec("w"),
    )
    world.settle()
    world.begin("a")
    world.end("a", ending=ExitCause.LOST)
    world.run("c")
    world.run("d", code=1)
    says = told(world, name)

    assert str(says.state) == world.state(name)
    assert says.message == (world[f"task/{name}"].status.get("why") or "")
