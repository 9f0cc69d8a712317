"""What is decided about tasks, as sentences. No effect runs here: the world says how they end."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from planloop.controllers.shared.workspace import WorkspaceFault
from planloop.controllers.task.decide import decide_task
from planloop.controllers.task.status import TaskStanding, task_standing
from planloop.schemas import limits
from planloop.schemas.objects.budget import Budget
from planloop.schemas.objects.lock import LockGrant
from planloop.schemas.objects.sandbox import SandboxAvailability, SandboxRequest
from tests.controllers.task.harness import sh, spec
from tests.controllers.task.world import World
from tests.golden_text import said
from tests.product import ExitCause, Put, RunWork, SetStatus, Uid


def test_empty_group_is_done_immediately() -> None:
    world = World(root=spec())
    world.settle()
    assert world.state(".") == "done"


def test_children_wait_until_their_parent_has_started() -> None:
    world = World(root=spec(), a=spec(needs=("task/b",)), a_x=spec("true"), b=spec("true"))
    world.settle()
    assert world.says("a/x") == "waiting ParentWaiting"
    assert world.queued() == ["b"]


def test_a_task_that_only_waits_its_turn_writes_nothing() -> None:
    world = World(root=spec(), a=spec("true"), b=spec("true", needs=("task/a",)))
    world.settle()
    assert world["task/b"].status == {}
    assert world.says("b") == "waiting NeedsNotDone"


def test_a_retry_that_waits_for_a_free_slot_writes_nothing() -> None:
    world = World(root=spec(), a=spec("flaky", retries=1))
    world.settle()
    world.run("a", code=1)
    before = world.writes
    world.now += limits.BACKOFF_CAP_S
    world.settle()
    assert world.queued() == ["a"]
    assert world.writes == before


def test_a_task_starts_when_all_its_needs_are_done() -> None:
    world = World(root=spec(), a=spec("true"), b=spec("true"), c=spec("true", needs=("task/a", "task/b")))
    world.settle()
    world.run("a")
    assert world.queued() == ["b"]
    world.run("b")
    assert world.queued() == ["c"]
    world.run("c")
    assert world.state(".") == "done"


def test_a_failed_branch_does_not_stop_an_independent_one() -> None:
    world = World(root=spec(), a=spec("false"), b=spec("true"), c=spec("true", needs=("task/b",)))
    world.settle()
    world.begin("b")
    world.run("a", code=1)
    assert world.state("a") == "failed"
    assert world.state(".") == "running"
    world.end("b")
    world.run("c")
    assert world.state("c") == "done"
    assert world.says(".") == "failed ChildrenFailed"


def test_task_with_a_failed_need_is_blocked_and_names_what_would_unblock_it() -> None:
    world = World(root=spec(), a=spec("false"), b=spec("true", needs=("task/a",)))
    world.settle()
    world.run("a", code=1)
    assert world.says("b") == "blocked NeedsFailed"
    condition = world["task/b"].status["conditions"]["Ready"]
    said(condition["message"], "task/a")
    said(condition["unblocks"][0], "task/a")
    assert not any(way.startswith("or ") for way in condition["unblocks"])


def test_dependent_of_a_blocked_task_is_blocked_and_the_root_fails_in_the_end() -> None:
    world = World(
        root=spec(),
        a=spec("false"),
        b=spec("true", needs=("task/a",)),
        c=spec("true", needs=("task/b",)),
        d=spec("true"),
    )
    world.settle()
    world.begin("d")
    world.run("a", code=1)
    assert world.says("c") == "blocked NeedsFailed"
    assert world.state(".") == "running"
    world.end("d")
    assert world.says(".") == "failed ChildrenFailed"


def test_failed_need_that_is_repaired_starts_its_dependents() -> None:
    world = World(root=spec(), a=spec("false"), b=spec("true", needs=("task/a",)))
    world.settle()
    world.run("a", code=1)
    world.change("a", work=RunWork(shell="true"))
    world.settle()
    assert world.says(".") == "running ChildrenRunning"
    world.run("a")
    world.run("b")
    assert world.state(".") == "done"


def test_failure_is_retried_with_a_new_incarnation_while_retries_are_left() -> None:
    world = World(root=spec(), a=spec("flaky", retries=2))
    world.settle()
    world.run("a", code=1)
    assert world.says("a") == "waiting Retrying"
    assert world.queued() == []
    world.now += 60
    world.settle()
    world.run("a", code=1)
    world.now += 60
    world.settle()
    world.begin("a")
    status = world["task/a"].status
    assert (status["incarnation"], status["attempt"]) == (3, 3)
    world.end("a", code=1)
    assert world.says("a") == "failed CommandFailed"


def test_pause_before_a_retry_ends_immediately_when_the_task_is_edited() -> None:
    world = World(root=spec(), a=spec("flaky", retries=1))
    world.settle()
    world.run("a", code=1)
    assert world.queued() == []
    world.change("a", work=RunWork(shell="better"))
    world.settle()
    assert world.queued() == ["a"]
    assert world["task/a"].status["attempt"] == 1


def test_raised_retries_reopen_a_failed_task() -> None:
    world = World(root=spec(), a=spec("flaky"))
    world.settle()
    world.run("a", code=1)
    assert world.state("a") == "failed"
    world.change("a", retries=1)
    world.settle()
    world.now += 60
    world.settle()
    assert world.queued() == ["a"]


def test_a_budget_of_retries_above_bounds_all_tasks_below_together() -> None:
    world = World(root=spec(budget=Budget(retries=1)), a=spec("x", retries=5), b=spec("y", retries=5))
    world.settle()
    world.run("a", code=1)
    world.run("b", code=1)
    assert world.queued() == ["a"]
    assert world.says("b") == "failed CommandFailed"


def test_active_time_is_counted_against_every_budget_above_and_waiting_is_not() -> None:
    world = World(root=spec(budget=Budget(time_s=10)), a=spec("x"), b=spec("y", needs=("task/a",)))
    world.settle()
    world.now += 100
    world.begin("a")
    world.end("a", took_s=10)
    assert world["task/."].status["ledger"]["time_s"]["spent"] == 10
    assert world.says("b") == "blocked BudgetSpent"
    world.change(".", budget=Budget(time_s=20))
    world.settle()
    assert world.queued() == ["b"]


def test_edited_running_command_is_stopped_before_its_restart() -> None:
    world = World(root=spec(), a=spec("old"))
    world.settle()
    world.begin("a")
    world.change("a", work=RunWork(shell="new"))
    step = world.step("a")
    assert step.says.reason == "Restarting"
    assert len(step.cancel) == 1
    world.stopped("a")
    assert world.queued() == ["a"]
    world.begin("a")
    assert world["task/a"].status["incarnation"] == 2


def test_hot_edits_of_a_running_command_leave_it_alone() -> None:
    world = World(root=spec(), a=spec("work"))
    world.settle()
    call = world.begin("a")
    world.change("a", budget=Budget(time_s=99), acceptance=(sh("true"),), goal="another", notes="more", priority=0)
    world.settle()
    assert world["task/a"].status["call"] == call
    assert len(world.plane.slots) == 1


def test_new_goal_restarts_a_command_only_when_the_plan_requires_it() -> None:
    world = World(root=spec(), a=spec("work", on_change="restart"))
    world.settle()
    world.begin("a")
    world.change("a", goal="another")
    assert world.step("a").says.reason == "Restarting"


def test_queued_command_that_is_edited_does_not_run_in_its_old_form() -> None:
    world = World(root=spec(), a=spec("old"))
    world.settle()
    world.change("a", work=RunWork(shell="new"))
    world.settle()
    assert world.queued() == ["a"]
    world.begin("a")
    assert world["task/a"].status["incarnation"] == 1


def test_changed_priority_requeues_a_waiting_command() -> None:
    world = World(root=spec(), a=spec("work"))
    world.settle()
    before = set(world.plane.jobs)
    world.change("a", priority=7)
    world.settle()
    (job,) = world.plane.jobs.values()
    assert job.key not in before
    assert world.queued() == ["a"]


def test_a_changed_priority_leaves_a_running_command_alone() -> None:
    world = World(root=spec(), a=spec("work"))
    world.settle()
    world.begin("a")
    before = set(world.plane.jobs)
    world.change("a", priority=7)
    world.settle()
    assert set(world.plane.jobs) == before


def test_a_task_added_to_a_finished_plan_starts_and_the_root_runs_again() -> None:
    world = World(root=spec(), a=spec("true"))
    world.settle()
    world.run("a")
    assert world.state(".") == "done"
    world.edit({"b": spec("true")})
    world.settle()
    assert world.state(".") == "running"
    world.run("b")
    assert world.state(".") == "done"


def test_paused_task_does_not_start_and_continues_when_resumed() -> None:
    world = World(root=spec(), a=spec("true", pause=True))
    world.settle()
    assert world.says("a") == "paused Paused"
    assert world.queued() == []
    world.change("a", pause=False)
    world.settle()
    assert world.queued() == ["a"]


def test_pausing_a_parent_pauses_what_is_below_and_takes_queued_commands_back() -> None:
    world = World(root=spec(), a=spec(), a_x=spec("true"))
    world.settle()
    assert world.queued() == ["a/x"]
    world.change(".", pause=True)
    world.settle()
    assert world.queued() == []
    assert world.says("a/x") == "paused Paused"
    said(world["task/a/x"].status["conditions"]["Ready"]["unblocks"])


def test_a_command_that_runs_when_it_is_paused_ends_first_and_its_result_is_kept() -> None:
    world = World(root=spec(), a=spec("work", acceptance=(sh("true"),)))
    world.settle()
    world.begin("a")
    world.change("a", pause=True)
    world.settle()
    assert world.says("a") == "running Pausing"
    world.end("a")
    assert world.says("a") == "paused Paused"
    assert world.checking("a") == []
    world.change("a", pause=False)
    world.settle()
    assert world.checking("a") == ["0"]
    assert world["task/a"].status["incarnation"] == 1


def test_cancelling_a_running_command_stops_it_and_keeps_the_task() -> None:
    world = World(root=spec(), a=spec("work"))
    world.settle()
    world.begin("a")
    world.change("a", cancel=True)
    assert world.step("a").says.reason == "Cancelling"
    world.stopped("a")
    assert world.says("a") == "cancelled Cancelled"


def test_cancelling_a_parent_stops_its_children_first() -> None:
    world = World(root=spec(), a=spec(), a_x=spec("work"), a_y=spec("work", needs=("task/a/x",)))
    world.settle()
    world.begin("a/x")
    world.change("a", cancel=True)
    world.settle()
    assert world.state("a") == "stopping"
    assert world.state("a/y") == "cancelled"
    world.stopped("a/x")
    assert (world.state("a/x"), world.state("a")) == ("cancelled", "cancelled")


def test_done_task_stays_done_when_it_is_cancelled() -> None:
    world = World(root=spec(), a=spec("true"))
    world.settle()
    world.run("a")
    world.change("a", cancel=True)
    world.settle()
    assert world.state("a") == "done"


def test_pausing_a_plan_that_has_failed_changes_nothing() -> None:
    world = World(root=spec(), a=spec("false"))
    world.settle()
    world.run("a", code=1)
    world.change(".", pause=True)
    world.settle()
    assert world.says(".") == "failed ChildrenFailed"


def test_cancelled_task_that_is_wanted_again_restarts() -> None:
    world = World(root=spec(), a=spec("true", cancel=True))
    world.settle()
    world.change("a", cancel=False)
    world.settle()
    world.run("a")
    assert world.state("a") == "done"


def test_dependent_of_a_cancelled_task_is_blocked_with_the_reason() -> None:
    world = World(root=spec(), a=spec("true", cancel=True), b=spec("true", needs=("task/a",)))
    world.settle()
    assert world.says("b") == "blocked NeedsCancelled"


def test_a_group_of_cancelled_tasks_is_cancelled_and_one_with_some_done_is_done() -> None:
    world = World(root=spec(), a=spec(), a_x=spec("true", cancel=True), b=spec("true"))
    world.settle()
    assert world.says("a") == "cancelled ChildrenCancelled"
    world.run("b")
    assert world.state(".") == "done"


def test_a_removed_task_stops_and_goes_after_its_children() -> None:
    world = World(root=spec(), a=spec(), a_x=spec("work"))
    world.settle()
    world.begin("a/x")
    world.edit({"a": None})
    world.settle()
    assert world.state("a") == "stopping"
    assert world.view.get("task/a/x") is not None
    world.stopped("a/x")
    assert world.view.get("task/a/x") is None
    assert world.view.get("task/a") is None
    assert world.view.list("call") == []
    assert world.state(".") == "done"


def test_removed_task_waits_for_its_agents_removal() -> None:
    world = World(root=spec(), a=spec())
    world.settle()
    world.fold(SetStatus("task/a", world["task/a"].uid, {}))
    world.agent("a", state="ended")
    world.edit({"a": None})
    world.settle()
    assert world.view.get("task/a") is None


def test_command_lost_in_a_crash_is_unknown_and_never_run_twice() -> None:
    world = World(root=spec(), a=spec("push"))
    world.settle()
    call = world.begin("a")
    world.end("a", ending=ExitCause.LOST)
    assert world.says("a") == "blocked InDoubt"
    assert world.queued() == []
    unblocks = world["task/a"].status["conditions"]["InDoubt"]["unblocks"]
    assert unblocks == [f"plan approve {call} --happened", f"plan approve {call} --did-not"]
    assert task_standing(world["task/a"]) is TaskStanding.OPEN


def test_unknown_command_that_happened_counts_as_done() -> None:
    world = World(root=spec(), a=spec("push"))
    world.settle()
    call = world.begin("a")
    world.end("a", ending=ExitCause.LOST)
    world.fold(SetStatus(call, world[call].uid, {"state": "Succeeded"}))
    world.settle()
    assert world.state("a") == "done"
    assert world.view.list("call") == []


def test_unknown_command_that_did_not_happen_restarts_in_the_same_incarnation() -> None:
    world = World(root=spec(), a=spec("push"))
    world.settle()
    call = world.begin("a")
    world.end("a", ending=ExitCause.LOST)
    world.fold(SetStatus(call, world[call].uid, {"state": "Authorized"}))
    world.settle()
    assert world.queued() == ["a"]
    world.run("a")
    assert (world.state("a"), world["task/a"].status["incarnation"]) == ("done", 1)


@pytest.mark.parametrize("effect", ["read", "idempotent"])
def test_a_lost_command_that_may_run_again_does(effect: str) -> None:
    world = World(root=spec(), a=spec(RunWork(shell="fetch", effect=effect)))
    world.settle()
    world.begin("a")
    world.end("a", ending=ExitCause.LOST)
    assert world.queued() == ["a"]


def test_command_of_an_earlier_owner_is_adopted_though_the_task_is_paused() -> None:
    world = World(root=spec(), a=spec("work"))
    world.settle()
    world.begin("a")
    world.plane.jobs.clear()
    world.plane.slots.clear()
    world.change("a", pause=True)
    world.settle()
    assert world.queued() == ["a"]


def test_command_of_an_earlier_owner_is_stopped_when_the_task_is_cancelled() -> None:
    world = World(root=spec(), a=spec("work"))
    world.settle()
    call = world.begin("a")
    world.plane.jobs.clear()
    world.plane.slots.clear()
    world.change("a", cancel=True)
    world.settle()
    assert world.stopping() == [call]
    assert world.state("a") == "stopping"


def stand(world: World, name: str, state: str, *, has_health: bool = False) -> None:
    """What the container controller writes."""
    address = f"container/{name}"
    if world.view.get(address) is None:
        world.fold(Put(address, Uid(name), {"health": {} if has_health else None}))
    ready = {"message": "port 80 is taken", "unblocks": ["free it"]}
    world.fold(SetStatus(address, Uid(name), {"state": state, "conditions": {"Ready": ready}}))
    world.settle()


def test_task_waits_for_its_containers_while_they_can_still_start() -> None:
    world = World(root=spec(), a=spec("true", containers=("container/web", "container/db")))
    world.settle()
    assert world.says("a") == "waiting AwaitingContainers"
    stand(world, "web", "running")
    stand(world, "db", "starting", has_health=True)
    assert world.says("a") == "waiting AwaitingContainers"
    stand(world, "db", "failed")
    assert world.says("a") == "blocked ContainerFailed"
    assert world.says(".") == "failed ChildrenFailed"
    stand(world, "db", "healthy")
    assert world.says("a") == "waiting Queued"


def test_task_that_waits_for_containers_keeps_them_wanted_until_it_starts() -> None:
    world = World(root=spec(), a=spec("true", containers=("container/web",)), b=spec("true", needs=("task/a",)))
    world.settle()
    assert world["task/a"].status["signal"] == {"containers": True}
    stand(world, "web", "running")
    assert world.says("a") == "waiting Queued" and world["task/a"].status["signal"] == {"containers": True}
    world.begin("a")
    assert not world["task/a"].status.get("signal") and world["task/a"].status["stage"]


def test_task_without_its_sandbox_stays_blocked_when_the_container_is_removed() -> None:
    """Else it would take heart with each that goes because the plan is over, and the plan with it, without end."""
    world = World(root=spec(), a=spec("true", containers=("container/box",)))
    world.fold(Put("agent/a", Uid("g"), {"sandbox": {"container": "box"}}))
    world.settle()
    for state in ("running", "stopping", "removed"):
        stand(world, "box", state)
        assert (world.says("a"), world.says(".")) == ("blocked NoSandbox", "failed ChildrenFailed")


@dataclass
class Tried:
    """Sandboxes of which one answer is known."""

    answer: SandboxAvailability

    def known(self, wish: SandboxRequest) -> SandboxAvailability:
        return self.answer

    async def tried(self, wish: SandboxRequest) -> SandboxAvailability:
        return self.answer


def test_a_plan_fails_for_a_missing_sandbox_only_once_it_was_tried_again() -> None:
    world = World(root=spec(), a=spec("true"))
    world.fold(Put("agent/a", Uid("g"), {"sandbox": 2}))
    for tries, expected in ((1, "running ChildrenRunning"), (2, "failed ChildrenFailed")):
        world.sandboxes = Tried(SandboxAvailability(False, "no bwrap", "install it", tries, again_at=world.now + 1))
        world.settle()
        assert (world.says("a"), world.says(".")) == ("blocked NoSandbox", expected)


def test_plan_of_containers_lasts_as_long_as_they_do() -> None:
    world = World(root=spec(containers=("container/web", "container/job")))
    world.settle()
    assert world.says(".") == "running ContainersRunning"
    stand(world, "web", "running")
    stand(world, "job", "completed")
    assert world.says(".") == "running ContainersRunning"
    stand(world, "web", "completed")
    assert world.says(".") == "done Done"
    stand(world, "web", "failed")
    assert world.says(".") == "done Done"


def test_a_plan_of_containers_fails_with_one_of_them() -> None:
    world = World(root=spec(containers=("container/web", "container/job")))
    stand(world, "web", "running")
    stand(world, "job", "failed")
    assert world.says(".") == "failed ContainerFailed"


def hold(world: World, path: str, task: str) -> None:
    """What the lock controller writes when it grants."""
    grant = LockGrant(task, world[task].uid, 1, "write", 0.0, 1, "task", "because")
    world.fold(SetStatus(f"lock/{path}", world[f"lock/{path}"].uid, {"holders": {task: grant.to_json()}}))


def test_a_task_asks_for_its_locks_last_and_starts_when_it_holds_all() -> None:
    world = World(
        root=spec(),
        a=spec("true"),
        c=spec("sleep"),
        b=spec("true", needs=("task/a",), locks={"x/**": "write", "y": "write"}),
    )
    world.settle()
    assert world.says("b") == "waiting NeedsNotDone"
    world.run("a")
    assert world.says("b") == "blocked AwaitingLocks"
    hold(world, "x/**", "task/b")
    hold(world, "y", "task/.")
    said(decide_task(world.observe("b")).says.message)  # An ancestor blocks no descendant.
    hold(world, "y", "task/c")
    says = decide_task(world.observe("b")).says
    said(says.message, "task/c")
    assert says.unblocks == ("lock/y is released", "plan unlock lock/y")
    world.settle()
    assert world.queued() == ["c"]
    hold(world, "y", "task/b")
    world.settle()
    assert world.queued() == ["b", "c"]


@pytest.mark.parametrize("retries", [0, 1])
def test_rerunnable_command_ends_with_a_fix_where_its_folder_leads_out(retries: int) -> None:
    world = World(root=spec(), a=spec("true", cwd="work", retries=retries))
    world.settle()
    call = world.begin("a")
    (key,) = world.plane.slots
    world.plane.end(key)
    world.fold(SetStatus(call, world[call].uid, {"state": "Authorized"}))
    world.astray = WorkspaceFault("it leads out", "take the link away")

    world.step("a")

    status = world["task/a"].status
    assert status["result"] == {"ok": False, "reason": "FolderLeadsOut", "text": "it leads out"}
    assert "call" not in status and world.view.get(call) is None
    ready = status["conditions"]["Ready"]
    if retries:
        assert ready["reason"] == "Retrying"
        said(ready["message"])
    else:
        assert (ready["reason"], ready["unblocks"][0]) == ("FolderLeadsOut", "take the link away")
