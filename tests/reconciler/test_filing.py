from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from planloop.reconciler.diff import file_patch
from tests.golden_text import said_in
from tests.product import JsonObject, PatchAccepted, PatchRefused
from tests.reconciler.plans import Plan, agent, op, opened, save_of

pytestmark = pytest.mark.anyio

FILE: JsonObject = {
    "plan": "p",
    "goal": "all",
    "tasks": {
        "a": {"goal": "first", "agent": {"script": []}},
        "g": {"goal": "group", "tasks": {"k": {"goal": "kept", "protect": True}, "l": {"goal": "loose"}}},
    },
}


@pytest.fixture
async def plan(tmp_path: Path) -> AsyncIterator[Plan]:
    async with opened(tmp_path) as found:
        await found.save(FILE)
        yield found


def without(document: JsonObject, *names: str) -> JsonObject:
    return {**document, "tasks": {name: task for name, task in document["tasks"].items() if name not in names}}


def status(plan: Plan) -> JsonObject:
    found = plan.store.view.get("plan/p")
    assert found is not None
    return found.status


async def test_law_9_a_child_that_an_agent_added_survives_a_save_that_does_not_mention_it(plan: Plan) -> None:
    await plan.patch(op("add", "/tasks/a/tasks", {"x": {"goal": "part"}}), by=agent("a"))
    assert isinstance(await plan.save({**FILE, "goal": "all of it"}), PatchAccepted)
    assert plan.document["tasks"]["a"]["tasks"] == {"x": {"goal": "part"}}
    assert plan.document["goal"] == "all of it"


async def test_operators_save_overrides_a_live_change_and_reports_it(plan: Plan) -> None:
    await plan.patch(op("replace", "/tasks/a/goal", "changed live"))
    verdict = await plan.save({**FILE, "tasks": {**FILE["tasks"], "a": {"goal": "changed in the file"}}})
    assert isinstance(verdict, PatchAccepted)
    assert plan.document["tasks"]["a"] == {"goal": "changed in the file"}
    said_in(verdict.notes)
    assert status(plan)["conditions"]["FileConflict"]["status"] == "True"


async def test_a_live_change_that_the_file_does_not_touch_stays(plan: Plan) -> None:
    await plan.patch(op("replace", "/tasks/a/goal", "changed live"))
    assert isinstance(await plan.save({**FILE, "goal": "other"}), PatchAccepted)
    assert plan.document["tasks"]["a"]["goal"] == "changed live"


async def test_law_9_protected_task_stays_and_is_reported_when_its_lines_go(plan: Plan) -> None:
    verdict = await plan.save(without(FILE, "g"))
    assert isinstance(verdict, PatchAccepted)
    assert plan.document["tasks"]["g"] == {"goal": "group", "tasks": {"k": {"goal": "kept", "protect": True}}}
    assert any("task/g/k is protected and stays" in note for note in verdict.notes)
    assert plan.store.view.get("task/g/k") is not None


async def test_protected_task_is_removed_once_the_flag_is_off(plan: Plan) -> None:
    assert isinstance(await plan.patch(op("remove", "/tasks/g/tasks/k")), PatchRefused)
    await plan.patch(op("remove", "/tasks/g/tasks/k/protect"))
    assert isinstance(await plan.save(without(FILE, "g")), PatchAccepted)
    assert "g" not in plan.document["tasks"]


async def test_taking_off_the_flag_and_the_task_in_one_patch_is_refused(plan: Plan) -> None:
    verdict = await plan.patch(op("remove", "/tasks/g/tasks/k/protect"), op("remove", "/tasks/g/tasks/k"))
    assert isinstance(verdict, PatchRefused)
    assert [fault.rule for fault in verdict.faults] == ["protect"]


async def test_a_protected_task_may_move(plan: Plan) -> None:
    moved: JsonObject = {**without(FILE, "g"), "moved": {"g/k": "k"}}
    moved["tasks"] = {**moved["tasks"], "k": {"goal": "kept", "protect": True}}
    before = plan.store.view.get("task/g/k")
    assert isinstance(await plan.save(moved), PatchAccepted)
    after = plan.store.view.get("task/k")
    assert before is not None
    assert after is not None
    assert after.uid == before.uid
    assert "g" not in plan.document["tasks"]


async def test_a_comment_changes_the_base_and_nothing_else(plan: Plan) -> None:
    save = save_of(FILE)
    commented = type(save)("p.yaml", save.content + b"\n# why\n", FILE)
    before = status(plan)["document_rev"]
    verdict = await plan.gate.submit_file(commented)
    assert isinstance(verdict, PatchAccepted)
    assert plan.store.get_blob(status(plan)["file"]["blob"]) == commented.content
    assert status(plan)["document_rev"] == before


async def test_a_target_is_applied_alone_and_the_rest_stays_to_be_applied(plan: Plan) -> None:
    edited: dict[str, Any] = {**FILE, "goal": "other", "tasks": {**FILE["tasks"], "new": {"goal": "n"}}}
    await plan.save(edited, targets=("task/new",))
    assert plan.document == {**FILE, "tasks": {**FILE["tasks"], "new": {"goal": "n"}}}
    await plan.save(edited)
    assert plan.document == edited


OLD: JsonObject = {"goal": "1", "tasks": {"a": {"goal": "1"}, "b": {"goal": "1"}}}
NEW: JsonObject = {
    "goal": "2",
    "tasks": {"a": {"goal": "2"}, "c": {"goal": "2", "tasks": {"x": {"goal": "2"}, "y": {"goal": "2"}}}},
}


def test_no_target_means_everything() -> None:
    assert file_patch.select_changes(OLD, NEW, (), ()) == NEW


def test_a_target_brings_what_it_hangs_from_but_not_its_siblings() -> None:
    chosen = file_patch.select_changes(OLD, NEW, ("task/c/x",), ())
    assert chosen == {**OLD, "tasks": {**OLD["tasks"], "c": {"goal": "2", "tasks": {"x": {"goal": "2"}}}}}


def test_target_in_a_new_plan_brings_the_plan_itself() -> None:
    assert file_patch.select_changes({}, NEW, ("task/a",), ()) == {"goal": "2", "tasks": {"a": {"goal": "2"}}}


def test_a_target_that_was_removed_is_removed() -> None:
    assert file_patch.select_changes(OLD, NEW, ("task/b",), ()) == {"goal": "1", "tasks": {"a": {"goal": "1"}}}


def test_exclude_keeps_the_old_state() -> None:
    chosen = file_patch.select_changes(OLD, NEW, (), ("task/a", "task/b", "task/c/y"))
    c = {"goal": "2", "tasks": {"x": {"goal": "2"}}}
    assert chosen == {"goal": "2", "tasks": {"a": {"goal": "1"}, "b": {"goal": "1"}, "c": c}}


def test_an_exclude_within_a_target_wins() -> None:
    chosen = file_patch.select_changes(OLD, NEW, ("task/c",), ("task/c/y",))
    assert chosen["tasks"]["c"] == {"goal": "2", "tasks": {"x": {"goal": "2"}}}
