from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given

from planloop.reconciler.admission import object_changes
from planloop.reconciler.diff import differences as diff_differences
from planloop.reconciler.diff.differences import ObjectDifference
from planloop.schemas import json_patch
from planloop.schemas.spec.tables import change_class
from tests import golden_text
from tests.product import JsonObject, WantedObject
from tests.reconciler import small_language
from tests.reconciler.test_materialising import DOCUMENTS, Live, task


def differences(live: Live, document: JsonObject, moved: dict[str, str] | None = None) -> tuple[ObjectDifference, ...]:
    graph = small_language.check(document).graph
    assert graph is not None
    planned = object_changes.planned_objects(live.view, "plan/p")
    moves = object_changes.effective_moves(moved or {}, planned, graph.objects)
    return diff_differences.diff_objects(planned, graph.objects, moves, small_language.change_class)


def told(live: Live, document: JsonObject, moved: dict[str, str] | None = None) -> list[tuple[str, str, str]]:
    return [(one.action, one.address, one.reason) for one in differences(live, document, moved)]


def running(**fields: Any) -> Live:
    """A plan whose task `a` has begun."""
    live = Live()
    live.apply(plan(**fields))
    live.status("task/a", {"state": "running", "started_at": 5.0, "spent_s": 2.0})
    return live


def plan(**fields: Any) -> JsonObject:
    return task(tasks={"a": {"goal": "g", "agent": {"script": []}, **fields}})


@given(DOCUMENTS)
def test_document_does_not_differ_from_itself(document: JsonObject) -> None:
    live = Live()
    live.apply(document)
    assert differences(live, document) == ()


@given(DOCUMENTS, DOCUMENTS)
def test_there_is_a_difference_exactly_when_there_is_a_change(old: JsonObject, new: JsonObject) -> None:
    live = Live()
    live.apply(old)
    # As a patch makes it: a different order of siblings alone does not change a plan.
    new = json_patch.apply_ops(old, json_patch.diff_values(old, new))
    assert bool(live.made(new).changes) == bool(differences(live, new))


@given(DOCUMENTS, DOCUMENTS)
def test_deletions_come_first(old: JsonObject, new: JsonObject) -> None:
    live = Live()
    live.apply(old)
    actions = [one.action for one in differences(live, new)]
    assert actions == sorted(actions, key=lambda action: action != "cancel")


def test_new_task_starts_and_is_shown_together_with_its_agent() -> None:
    assert told(Live(), plan()) == [("start", "task/.", "Added"), ("start", "task/a", "Added")]


def test_removed_task_is_cancelled_and_its_stake_is_shown() -> None:
    live = running()
    live.status("agent/a", {"used": {"turns": 7, "calls": 0}})
    (one,) = differences(live, task())
    assert (one.action, one.address) == ("cancel", "task/a")
    assert one.stake is not None
    assert one.stake.is_running
    assert one.stake.to_json() == {"state": "running", "started_at": 5.0, "spent": {"time_s": 2.0, "turns": 7}}


def test_a_new_goal_is_a_message_to_running_work() -> None:
    (one,) = differences(running(), plan(goal="h"))
    assert (one.action, one.reason, one.fields) == ("message", "ToldAsMessage", ("goal",))


def test_new_goal_of_a_task_that_has_not_started_is_only_its_goal() -> None:
    live = Live()
    live.apply(plan())
    assert told(live, plan(goal="h")) == [("continue", "task/a", "NotBegun")]


def test_checks_and_budgets_change_without_a_restart() -> None:
    document = plan(acceptance=[{"sh": "make"}], budget={"tokens": 5})
    (one,) = differences(running(), document)
    assert (one.action, one.reason, one.fields) == ("continue", "NextStep", ("acceptance", "budget"))


def test_another_workspace_is_a_restart() -> None:
    assert told(running(), plan(cwd="b")) == [("restart", "task/a", "WorkChanged")]


def test_another_script_is_a_restart_of_the_agent() -> None:
    document = plan(agent={"script": [{"done": "x"}]})
    assert told(running(), document) == [("restart", "agent/a", "WorkChanged")]


def test_pause_and_resume_are_called_so() -> None:
    assert told(running(), plan(pause=True)) == [("pause", "task/a", "PauseAsked")]
    assert told(running(pause=True), plan()) == [("resume", "task/a", "PauseWithdrawn")]


def test_cancelling_is_not_removing() -> None:
    assert told(running(), plan(cancel=True)) == [("cancel", "task/a", "CancelAsked")]
    assert told(running(cancel=True), plan()) == [("start", "task/a", "CancelWithdrawn")]


def test_a_moved_task_moves_and_is_not_restarted() -> None:
    live = running()
    document = task(tasks={"b": plan()["tasks"]["a"]})
    (one,) = differences(live, document, {"task/a": "task/b"})
    assert (one.action, one.address, one.was) == ("move", "task/b", "task/a")


def test_the_same_without_moved_is_an_end_and_a_start() -> None:
    document = task(tasks={"b": plan()["tasks"]["a"]})
    assert told(running(), document) == [("cancel", "task/a", "Removed"), ("start", "task/b", "Added")]


def test_restored_task_whose_old_one_is_being_deleted_starts_later() -> None:
    live = running()
    live.apply(task())
    (one,) = differences(live, plan())
    assert one.action == "start"
    golden_text.said(one.words)


def test_new_task_is_shown_with_its_worker_command_and_needs() -> None:
    tasks: JsonObject = {
        "a": {"goal": "g", "agent": {"script": [{"done": "x"}]}},
        "b": {"goal": "h", "needs": ["a"], "run": "make integration"},
    }
    said = {one.address: one.words for one in differences(Live(), task(tasks=tasks))}
    golden_text.said(said["task/a"])
    golden_text.said(said["task/b"])


def test_changed_command_is_shown_beside_the_old_one() -> None:
    live = Live()
    live.apply(task(tasks={"a": {"goal": "g", "run": "sleep 20"}}))
    live.status("task/a", {"state": "running", "started_at": 5.0})
    (one,) = differences(live, task(tasks={"a": {"goal": "g", "run": "sleep 11"}}))
    assert one.reason == "WorkChanged"
    golden_text.said(one.words)


def test_ended_task_is_neither_stopped_nor_paused() -> None:
    live = running()
    live.status("task/a", {"state": "done"})
    assert told(live, plan(cancel=True)) == [("none", "task/a", "EndedAlready")]
    assert told(live, plan(pause=True)) == [("none", "task/a", "EndedAlready")]


def test_new_prompt_of_an_llm_agent_shows_its_cost() -> None:
    live = running()
    live.status("agent/a", {"transcript": {"0001": {"blob": "b", "tokens": 1200}, "0002": {"blob": "c", "tokens": 34}}})
    found = live.view.get("agent/a")
    assert found is not None
    spec = {**found.spec, "mind": {"kind": "model", "model": "a/b", "stated": "a/b", "options": {}}, "prompt": "slow"}
    want = WantedObject("agent/a", {**spec, "prompt": "fast"}, owner="task/a")
    (told_of,) = diff_differences.diff_objects(
        {"agent/a": replace(found, spec=spec)}, {"agent/a": want}, {}, change_class
    )
    assert told_of.action == "continue"
    golden_text.said(told_of.words)
