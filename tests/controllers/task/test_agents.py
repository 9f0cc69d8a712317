"""Tasks that an agent does: when it may go, how its claims are answered, and what edits do to it."""

from __future__ import annotations

import pytest

from planloop.controllers.shared.workspace import WorkspaceFault
from planloop.controllers.task.decide import decide_task
from planloop.schemas import limits
from tests.controllers.task.harness import sh, spec
from tests.controllers.task.world import World, by_agent
from tests.golden_text import said
from tests.product import JsonObject


def claim(kind: str, seq: int = 1, incarnation: int = 1, result: str = "here it is") -> JsonObject:
    return {"seq": seq, "kind": kind, "result": [result], "incarnation": incarnation}


def working(**fields: object) -> World:
    """A root group with one agent's task, `a`, whose agent works."""
    world = World(root=spec(), a=spec(by_agent("a"), **fields))
    world.agent("a", state="idle")
    world.settle()
    world.agent("a", state="running", incarnation=1)
    world.settle()
    return world


def go(world: World) -> int | None:
    value: int | None = world["task/a"].status.get("go")
    return value


def test_an_agent_may_go_when_its_task_may_start() -> None:
    world = working()
    assert (world.says("a"), go(world)) == ("running Running", 1)


def test_a_task_waits_for_its_agent_to_be_there() -> None:
    world = World(root=spec(), a=spec(by_agent("a")))
    world.settle()
    assert world.says("a") == "waiting AgentMissing"


def test_a_claim_without_checks_is_accepted() -> None:
    world = working()
    world.agent("a", state="claimed", claim=claim("done"))
    world.settle()
    status = world["task/a"].status
    assert (world.state("a"), go(world)) == ("done", None)
    assert status["verdict"] == {"claim": 1, "incarnation": 1, "accepted": True, "message": "accepted", "failing": []}
    assert status["result"]["text"] == "here it is"


def test_claim_is_checked_again_and_a_refusal_names_the_failed_check() -> None:
    world = working(acceptance=(sh("x"), sh("y", "1")))
    world.agent("a", state="claimed", claim=claim("done"))
    world.settle()
    world.finds("a", "pass", "0")
    world.finds("a", "fail", "1")
    verdict = world["task/a"].status["verdict"]
    assert (verdict["accepted"], verdict["failing"]) == (False, ["1"])
    said(verdict["message"])
    assert (world.state("a"), go(world)) == ("running", 1)


def test_a_refused_agent_may_claim_again_and_every_check_runs_again() -> None:
    world = working(acceptance=(sh("x"),))
    world.agent("a", state="claimed", claim=claim("done"))
    world.settle()
    world.finds("a", "fail")
    assert world.checking("a") == []
    world.agent("a", claim=claim("done", seq=2))
    world.settle()
    world.finds("a", "pass")
    assert world.state("a") == "done"
    assert world["task/a"].status["verdict"]["claim"] == 2


def test_task_fails_when_its_agent_has_no_claims_left() -> None:
    world = working(acceptance=(sh("x"),))
    for seq in range(1, limits.CLAIMS_REJECTED_MAX + 1):
        assert world.state("a") == "running"
        world.agent("a", state="claimed", claim=claim("done", seq))
        world.settle()
        world.finds("a", "fail")
    assert world.says("a") == "failed ChecksFailing"


def test_agent_that_gives_up_fails_its_task_with_its_own_words() -> None:
    world = working()
    world.agent("a", state="claimed", claim=claim("fail", result="no compiler here"))
    world.settle()
    assert world.says("a") == "failed AgentFailed"
    assert world["task/a"].status["why"] == "no compiler here"
    assert go(world) is None


def test_an_agent_that_gives_up_is_tried_again_when_it_has_stopped() -> None:
    world = working(retries=1)
    world.agent("a", state="claimed", claim=claim("fail"))
    world.settle()
    world.now += 60
    world.settle()
    assert go(world) is None
    world.agent("a", state="idle")
    world.settle()
    assert go(world) == 2


def test_a_claim_of_an_earlier_incarnation_is_not_seen() -> None:
    world = working(retries=1)
    world.agent("a", state="claimed", claim=claim("fail"))
    world.settle()
    world.now += 60
    world.agent("a", state="idle")
    world.settle()
    world.agent("a", state="running")
    world.settle()
    assert (world.state("a"), go(world)) == ("running", 2)


def test_a_claim_waits_for_the_children_and_is_then_accepted() -> None:
    world = working()
    world.edit({"a/x": spec("true")})
    world.agent("a", state="claimed", claim=claim("done"))
    world.settle()
    assert world.says("a") == "running ChildrenRunning"
    world.run("a/x")
    assert world.state("a") == "done"
    assert world["task/a"].status["verdict"]["accepted"] is True


def test_a_claim_over_a_failed_child_is_refused_and_names_it() -> None:
    world = working()
    world.edit({"a/x": spec("false")})
    world.settle()
    world.run("a/x", code=1)
    world.agent("a", state="claimed", claim=claim("done"))
    world.settle()
    verdict = world["task/a"].status["verdict"]
    assert (verdict["accepted"], verdict["message"]) == (False, "task/a/x failed")
    assert go(world) == 1


def test_an_agent_that_removes_its_failed_child_is_accepted() -> None:
    world = working()
    world.edit({"a/x": spec("false")})
    world.settle()
    world.run("a/x", code=1)
    world.edit({"a/x": None})
    world.agent("a", state="claimed", claim=claim("done"))
    world.settle()
    assert world.state("a") == "done"


def test_new_goal_does_not_restart_a_running_agent_even_once_it_is_met() -> None:
    world = working()
    world.change("a", goal="another", notes="and this")
    world.settle()
    assert (world.state("a"), go(world)) == ("running", 1)
    world.agent("a", state="claimed", claim=claim("done"))
    world.settle()
    world.agent("a", state="ended")
    world.settle()
    assert (world.state("a"), world["task/a"].status["incarnation"]) == ("done", 1)


def test_new_goal_restarts_a_done_task() -> None:
    world = working()
    world.agent("a", state="claimed", claim=claim("done"))
    world.settle()
    world.agent("a", state="ended")
    world.change("a", goal="another")
    world.settle()
    assert (world.state("a"), go(world)) == ("running", 2)


def test_edited_decider_ends_the_old_run_first() -> None:
    world = working()
    world.mind("a", [{"say": "hello"}])
    world.settle()
    assert (world.state("a"), go(world)) == ("stopping", None)
    world.agent("a", state="idle")
    world.settle()
    assert (world.state("a"), go(world)) == ("running", 2)


def test_paused_agent_is_stopped_and_continues_in_the_same_incarnation() -> None:
    world = working(pause=False)
    world.change("a", pause=True)
    world.settle()
    assert (world.state("a"), go(world)) == ("paused", None)
    world.change("a", pause=False)
    world.settle()
    assert (world.state("a"), go(world)) == ("running", 1)


def test_cancelled_agent_is_stopped_and_its_task_is_cancelled_at_its_end() -> None:
    world = working()
    world.change("a", cancel=True)
    world.settle()
    assert (world.state("a"), go(world)) == ("stopping", None)
    world.agent("a", state="idle")
    world.settle()
    assert world.state("a") == "cancelled"


def waiting_for(reason: str) -> JsonObject:
    """The conditions of an agent that waits for another."""
    one: JsonObject = {"status": "True", "reason": reason, "message": "it lacks something", "since": 1.0}
    return {reason: one | {"observed_generation": 1, "unblocks": ["plan resume task/a"]}}


@pytest.mark.parametrize(
    ("state", "reason"),
    [("parked", "BudgetSpent"), ("blocked", "NoModel"), ("blocked", "AwaitingApproval"), ("blocked", "InDoubt")],
)
def test_agent_that_needs_an_operator_blocks_its_task_with_a_reason_and_a_fix(state: str, reason: str) -> None:
    world = working()
    world.agent("a", state=state, conditions=waiting_for(reason))
    world.settle()
    ready = world["task/a"].status["conditions"]["Ready"]
    assert world.says("a") == f"blocked {reason}"
    assert ready["unblocks"] == ["plan resume task/a"]
    said(ready["message"], "agent/a")

    world.agent("a", state="running", conditions={reason: None})
    world.settle()
    assert world.says("a") == "running Running"


def test_agent_that_waits_for_another_agent_keeps_its_task_running_with_a_reason() -> None:
    world = working()
    world.agent("a", state="blocked", conditions=waiting_for("AwaitingLock"))
    world.settle()
    ready = world["task/a"].status["conditions"]["Ready"]
    assert world.says("a") == "running AwaitingLock"
    assert ready["unblocks"] == ["plan resume task/a"]
    said(ready["message"], "agent/a")
    world.agent("a", state="running", conditions={"AwaitingLock": None})
    world.settle()
    assert world.says("a") == "running Running"


def test_task_with_failed_checks_names_what_its_agent_works_on() -> None:
    world = working(acceptance=(sh("x"),))
    world.agent("a", state="claimed", claim=claim("done"))
    world.settle()
    world.finds("a", "fail")
    world.settle()
    assert world.says("a") == "running Running"
    said(str(world["task/a"].status["why"]))


def test_the_verdict_is_part_of_what_wakes_the_agent() -> None:
    world = working(acceptance=(sh("x"),))
    before = world["task/a"].signal
    world.agent("a", state="claimed", claim=claim("done"))
    world.settle()
    world.finds("a", "fail")
    assert world["task/a"].signal != before


def test_running_agent_does_not_restart_when_its_edited_folder_leads_out() -> None:
    world = working()
    world.agent("a", state="idle")
    world.astray = WorkspaceFault("it leads out", "take the link away")

    world.change("a", cwd="out")
    world.settle()

    assert (world.says("a"), go(world)) == ("failed FolderLeadsOut", None)


def test_folder_of_a_running_agent_is_examined_only_when_an_edit_restarts_it() -> None:
    world = working()
    world.looks.clear()

    decide_task(world.observe("a"))
    assert world.looks == []

    world.change("a", cwd="elsewhere")
    world.agent("a", state="idle")
    decide_task(world.observe("a"))
    assert world.looks == ["task/a"]  # Once, whatever asks.
