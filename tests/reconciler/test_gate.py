from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from planloop.schemas.objects.approval import patch_from_json, patch_to_json
from tests.golden_text import said
from tests.product import HUMAN_CLI, HUMAN_FILE, Patch, PatchAccepted, PatchRefused, Record
from tests.reconciler.plans import Plan, agent, op, opened, save_of

pytestmark = pytest.mark.anyio

TWO: dict[str, Any] = {
    "plan": "p",
    "goal": "all",
    "tasks": {
        "a": {"goal": "first", "agent": {"script": []}},
        "b": {"goal": "second", "run": "true", "needs": ["a"]},
    },
}


@pytest.fixture
async def plan(tmp_path: Path) -> AsyncIterator[Plan]:
    async with opened(tmp_path) as found:
        yield found


async def last(plan: Plan) -> Record:
    (record,) = await plan.store.log(plan.rev - 1, 1)
    return record


async def test_law_2_the_first_save_makes_the_plan_and_all_its_objects_in_one_record(plan: Plan) -> None:
    verdict = await plan.save(TWO)
    assert isinstance(verdict, PatchAccepted)
    assert verdict.rev == 1 == plan.store.durable_rev
    assert plan.document == TWO
    assert [one.address for one in plan.store.view.list("task")] == ["task/.", "task/a", "task/b"]
    assert [one.address for one in plan.store.view.list("agent")] == ["agent/a"]


async def test_law_2_an_accepted_patch_is_recorded_with_author_base_reason_and_differences(plan: Plan) -> None:
    await plan.save(TWO)
    await plan.patch(op("replace", "/tasks/a/goal", "new"), reason="it was wrong")
    record = await last(plan)
    assert (record.draft.type, record.draft.actor, record.draft.subject) == ("plan.patched", "human:cli", "plan/p")
    assert (record.draft.data["reason"], record.draft.data["base_rev"]) == ("it was wrong", 1)
    assert [(one["action"], one["address"]) for one in record.draft.data["differences"]] == [("continue", "task/a")]


async def test_law_2_a_refused_patch_is_recorded_and_changes_nothing(plan: Plan) -> None:
    await plan.save(TWO)
    before = plan.store.view.everything()
    verdict = await plan.patch(op("replace", "/tasks/b/goal", "mine"), by=agent("a"), reason="tidying")
    assert isinstance(verdict, PatchRefused)
    assert plan.store.view.everything() == before
    record = await last(plan)
    assert (record.rev, record.draft.type, record.draft.actor) == (verdict.rev, "plan.refused", "agent:a")
    assert record.draft.data["ops"] == [{"op": "replace", "path": "/tasks/b/goal", "value": "mine"}]
    assert [fault["rule"] for fault in record.draft.data["faults"]] == ["scope"]
    assert record.draft.data["reason"] == "tidying"


async def test_law_2_a_file_passes_the_same_rules(plan: Plan) -> None:
    await plan.save(TWO)
    verdict = await plan.save({**TWO, "colour": "red"})
    assert isinstance(verdict, PatchRefused)
    assert plan.document == TWO
    found = plan.store.view.get("plan/p")
    assert found is not None
    invalid = found.status["conditions"]["FileInvalid"]
    assert invalid["status"] == "True"
    said(invalid["message"], "colour")
    await plan.save({**TWO, "goal": "better"})
    found = plan.store.view.get("plan/p")
    assert found is not None
    assert found.status["conditions"]["FileInvalid"]["status"] == "False"


async def test_unrunnable_change_can_be_previewed_and_is_refused_for_every_author(plan: Plan) -> None:
    asking = {"goal": "x", "agent": {"model": "m"}}
    shown = plan.gate.preview_file(save_of({**TWO, "tasks": {"c": asking}}))
    assert (shown.faults, [one.path for one in shown.stops]) == ((), [("tasks", "c", "agent")])
    assert isinstance(await plan.save({**TWO, "tasks": {"c": asking}}), PatchRefused)
    await plan.save(TWO)
    verdict = await plan.patch(op("add", "/tasks/a/tasks", {"c": asking}), by=agent("a"))
    assert isinstance(verdict, PatchRefused)
    assert plan.document == TWO


async def test_unreadable_file_is_reported_once_and_changes_nothing_else(plan: Plan) -> None:
    await plan.save(TWO)
    first = await plan.gate.report_file("p.yaml", "p.yaml:3:1: error")
    assert await plan.gate.report_file("p.yaml", "p.yaml:3:1: error") == first == plan.rev
    assert plan.document == TWO


async def test_saving_the_same_file_again_writes_nothing(plan: Plan) -> None:
    first = await plan.save(TWO)
    assert await plan.save(TWO) == PatchAccepted(first.rev)
    assert plan.rev == 1


async def test_a_patch_that_changes_nothing_writes_nothing(plan: Plan) -> None:
    first = await plan.save(TWO)
    assert await plan.patch(op("replace", "/goal", "all")) == PatchAccepted(first.rev)
    assert plan.rev == 1


async def test_a_patch_sees_every_patch_before_it(plan: Plan) -> None:
    await plan.save(TWO)
    async with anyio.create_task_group() as group:
        for name in "cdefgh":
            ops = (op("test", "/goal", "all"), op("add", f"/tasks/{name}", {"goal": name}))
            group.start_soon(plan.gate.submit, Patch(HUMAN_CLI, ops, plan.rev))
    assert list(plan.document["tasks"]) == list("abcdefgh")
    assert plan.store.view.get("task/h") is not None


async def test_only_one_of_two_patches_that_test_the_same_value_passes(plan: Plan) -> None:
    await plan.save(TWO)
    base = plan.rev
    ops = (op("test", "/goal", "all"), op("replace", "/goal", "other"))
    assert isinstance(await plan.patch(*ops, base=base), PatchAccepted)
    verdict = await plan.patch(*ops, base=base)
    assert isinstance(verdict, PatchRefused)
    assert verdict.faults[0].rule == "conflict"


async def test_preview_writes_nothing_and_shows_the_effect_of_submitting(plan: Plan) -> None:
    await plan.save(TWO)
    patch = Patch(HUMAN_CLI, (op("remove", "/tasks/b"),), plan.rev)
    preview = plan.gate.preview(patch)
    assert plan.rev == 1
    decision = await plan.gate.decide(patch)
    assert decision.preview == preview
    assert [(one.action, one.address) for one in preview.differences] == [("cancel", "task/b")]
    assert preview.document == plan.document


async def test_restart_of_the_gate_keeps_the_author_of_every_field(tmp_path: Path) -> None:
    async with opened(tmp_path) as plan:
        await plan.save(TWO)
        await plan.patch(op("add", "/tasks/a/tasks", {"x": {"goal": "part"}}), by=agent("a"))
    async with opened(tmp_path) as plan:
        verdict = await plan.patch(op("replace", "/tasks/a/tasks/x/goal", "mine"), by=agent("b"))
        assert isinstance(verdict, PatchRefused)
        edited = {**TWO, "goal": "all of it"}
        await plan.save(edited)
        assert plan.document["tasks"]["a"]["tasks"] == {"x": {"goal": "part"}}


def test_patches_survive_being_written_down() -> None:
    ops = (op("move", "/tasks/a", source="/tasks/b"), op("remove", "/x"), op("add", "/y", None))
    patch = Patch(HUMAN_FILE, ops, 7, "because", {"path": "p", "blob": "b", "document": "d"})
    assert patch_from_json(patch_to_json(patch)) == patch
