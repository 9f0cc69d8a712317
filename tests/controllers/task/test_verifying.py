"""Acceptance checks: when they run, what is fresh, and what follows from their results."""

from __future__ import annotations

from tests.controllers.task.harness import sh, spec
from tests.controllers.task.world import World
from tests.golden_text import said
from tests.product import RunWork


def test_checks_run_after_the_work_and_all_must_hold() -> None:
    world = World(root=spec(), a=spec("make", acceptance=(sh("x"), sh("y", "1"))))
    world.settle()
    world.run("a")
    assert world.says("a") == "checking Checking"
    assert world.checking("a") == ["0", "1"]
    world.finds("a", "pass", "0")
    assert world.state("a") == "checking"
    world.finds("a", "pass", "1")
    assert world.state("a") == "done"
    assert world["task/a"].status["conditions"]["Accepted"]["reason"] == "ChecksHold"


def test_failed_check_fails_the_task_and_the_condition_gives_the_reason() -> None:
    world = World(root=spec(), a=spec("make", acceptance=(sh("x"),)))
    world.settle()
    world.run("a")
    world.finds("a", "fail")
    assert world.says("a") == "failed ChecksFailing"
    accepted = world["task/a"].status["conditions"]["Accepted"]
    assert accepted["status"] == "False"
    said(accepted["message"])


def test_a_check_that_could_not_run_does_not_count_as_holding() -> None:
    world = World(root=spec(), a=spec("make", acceptance=(sh("x"),)))
    world.settle()
    world.run("a")
    world.finds("a", "error")
    assert world.state("a") == "failed"


def test_no_check_runs_after_a_failed_command() -> None:
    world = World(root=spec(), a=spec("make", acceptance=(sh("x"),)))
    world.settle()
    world.run("a", code=2)
    assert world.state("a") == "failed"
    assert world.checking("a") == []


def test_a_retry_after_a_failing_check_runs_the_command_and_the_check_afresh() -> None:
    world = World(root=spec(), a=spec("make", acceptance=(sh("x"),), retries=1))
    world.settle()
    world.run("a")
    world.finds("a", "fail")
    world.now += 60
    world.settle()
    assert world.queued() == ["a"]
    world.run("a")
    assert world.checking("a") == ["0"]
    world.finds("a", "pass")
    assert world.state("a") == "done"


def test_checks_that_pass_before_the_work_skip_it() -> None:
    world = World(root=spec(), a=spec("make", when="before", acceptance=(sh("x"),)))
    world.settle()
    assert world.checking("a") == ["0"]
    world.finds("a", "pass")
    assert world.says("a") == "done AlreadyHolds"
    assert world.state(".") == "done"


def test_checks_that_fail_before_the_work_are_followed_by_it_and_run_again() -> None:
    world = World(root=spec(), a=spec("make", when="before", acceptance=(sh("x"),)))
    world.settle()
    world.finds("a", "fail")
    assert world.queued() == ["a"]
    world.run("a")
    assert world.checking("a") == ["0"]
    world.finds("a", "pass")
    assert world.says("a") == "done Done"


def test_children_of_a_skipped_task_do_not_start() -> None:
    world = World(root=spec(), a=spec(when="before", acceptance=(sh("x"),)), a_b=spec("true"))
    world.settle()
    world.finds("a", "pass")
    assert world.says("a/b") == "waiting ParentSkipped"
    assert world.state(".") == "done"


def test_a_group_is_checked_after_its_children() -> None:
    world = World(root=spec(acceptance=(sh("x"),)), a=spec("true"))
    world.settle()
    assert world.checking(".") == []
    world.run("a")
    assert world.checking(".") == ["0"]
    world.finds(".", "fail")
    assert world.says(".") == "failed ChecksFailing"


def test_group_that_gets_a_child_during_its_checks_waits_and_is_checked_again() -> None:
    world = World(root=spec(acceptance=(sh("x"),)), a=spec("true"))
    world.settle()
    world.run("a")
    world.edit({"b": spec("true")})
    world.settle()
    assert world.state(".") == "running"
    world.run("b")
    assert world["task/."].status["round"] == 2


def test_a_done_task_whose_checks_are_edited_is_verified_again_without_work() -> None:
    world = World(root=spec(), a=spec("make", acceptance=(sh("x"),)), b=spec("true", needs=("task/a",)))
    world.settle()
    world.run("a")
    world.finds("a", "pass")
    world.change("a", acceptance=(sh("x"), sh("more", "1")))
    world.settle()
    assert world.says("a") == "checking Checking"
    assert world.queued() == ["b"]
    world.finds("a", "pass", "0")
    world.finds("a", "pass", "1")
    assert (world.state("a"), world["task/a"].status["incarnation"]) == ("done", 1)


def test_a_done_task_whose_new_checks_fail_is_worked_on_again() -> None:
    world = World(root=spec(), a=spec("make", acceptance=(sh("x"),)))
    world.settle()
    world.run("a")
    world.finds("a", "pass")
    world.change("a", acceptance=(sh("stricter"),))
    world.settle()
    world.finds("a", "fail")
    assert world.queued() == ["a"]
    world.begin("a")
    assert world["task/a"].status["incarnation"] == 2


def test_a_failed_task_whose_checks_were_wrong_is_verified_again_without_work() -> None:
    world = World(root=spec(), a=spec("make", acceptance=(sh("typo"),)))
    world.settle()
    world.run("a")
    world.finds("a", "fail")
    world.change("a", acceptance=(sh("right"),))
    world.settle()
    assert world.checking("a") == ["0"]
    world.finds("a", "pass")
    assert (world.state("a"), world["task/a"].status["incarnation"]) == ("done", 1)


def test_a_check_that_is_edited_while_it_runs_is_run_as_it_now_is() -> None:
    world = World(root=spec(), a=spec("make", acceptance=(sh("old"),)))
    world.settle()
    world.run("a")
    (before,) = world.plane.jobs
    world.change("a", acceptance=(sh("new"),))
    world.settle()
    (after,) = world.plane.jobs
    assert after != before
    world.finds("a", "pass")
    assert world.state("a") == "done"


def test_results_of_removed_checks_are_deleted() -> None:
    world = World(root=spec(), a=spec("make", acceptance=(sh("x"), sh("y", "1"))))
    world.settle()
    world.run("a")
    world.finds("a", "pass", "0")
    world.finds("a", "pass", "1")
    world.change("a", acceptance=(sh("z"),))
    world.settle()
    world.finds("a", "pass", "0")
    assert list(world["task/a"].status["checks"]) == ["0"]


def test_after_a_crash_only_the_missing_results_are_run_again() -> None:
    world = World(root=spec(), a=spec("make", acceptance=(sh("x"), sh("y", "1"))))
    world.settle()
    world.run("a")
    world.finds("a", "pass", "0")
    world.plane.jobs.clear()
    world.settle()
    assert world.checking("a") == ["1"]


def test_healing_task_is_checked_at_its_interval_and_stays_done() -> None:
    world = World(root=spec(), a=spec("make", acceptance=(sh("x"),), heal=True, heal_every_s=30))
    world.settle()
    world.run("a")
    world.finds("a", "pass")
    step = world.step("a")
    assert step.again_s == 30
    world.now += 31
    world.settle()
    assert (world.state("a"), world.checking("a")) == ("done", ["0"])
    world.finds("a", "pass")
    assert world.step("a").again_s == 30
    assert world.checking("a") == []


def test_a_healing_task_whose_checks_stop_holding_is_reopened() -> None:
    world = World(root=spec(), a=spec("make", acceptance=(sh("x"),), heal=True, heal_every_s=30))
    world.settle()
    world.run("a")
    world.finds("a", "pass")
    world.now += 31
    world.settle()
    world.finds("a", "fail")
    assert world.queued() == ["a"]
    assert world.state(".") == "running"
    world.run("a")
    world.finds("a", "pass")
    assert world.state(".") == "done"


def test_a_healing_group_that_stopped_holding_is_done_again_once_it_holds() -> None:
    world = World(root=spec(acceptance=(sh("x"),), heal=True, heal_every_s=30), a=spec("true"))
    world.settle()
    world.run("a")
    world.finds(".", "fail")
    assert world.state(".") == "failed"
    world.now += 31
    world.settle()
    world.finds(".", "pass")
    assert world.state(".") == "done"


def test_an_edited_command_of_a_done_task_is_run_and_checked() -> None:
    world = World(root=spec(), a=spec("make", acceptance=(sh("x"),)))
    world.settle()
    world.run("a")
    world.finds("a", "pass")
    world.change("a", work=RunWork(shell="make better"))
    world.settle()
    assert world.queued() == ["a"]
    assert world.says("a") == "waiting Queued"
