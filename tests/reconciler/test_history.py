from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from planloop.reconciler.admission import history
from planloop.reconciler.admission.field_ownership import FieldStamp
from planloop.reconciler.diff.file_patch import HELD_BACK
from planloop.reconciler.errors import TerminalError
from tests.product import HUMAN_CLI, HUMAN_FILE, JsonObject, PatchAccepted
from tests.reconciler.plans import Plan, agent, op, opened, save_of

pytestmark = pytest.mark.anyio

ONE: JsonObject = {"plan": "p", "goal": "1", "tasks": {"a": {"goal": "a", "agent": {"script": []}}}}
TWO: JsonObject = {**ONE, "goal": "2", "tasks": {**ONE["tasks"], "b": {"goal": "b"}}}


@pytest.fixture
async def plan(tmp_path: Path) -> AsyncIterator[Plan]:
    async with opened(tmp_path) as found:
        await found.save(ONE)
        yield found


async def test_every_answer_of_the_gate_is_a_revision_with_author_and_reason(plan: Plan) -> None:
    await plan.patch(op("replace", "/goal", "3"), reason="better")
    await plan.patch(op("replace", "/goal", "4"), by=agent("a"), reason="mine")
    await plan.status("task/a", {"state": "running"})
    found = await history.plan_revisions(plan.store, "plan/p")
    assert [(one.rev, one.type, one.author, one.reason) for one in found] == [
        (1, "plan.patched", "human:file", "saved p.yaml"),
        (2, "plan.patched", "human:cli", "better"),
        (3, "plan.refused", "agent:a", "mine"),
    ]
    assert [one.path for one in found[1].ops] == [("goal",)] == [one.path for one in found[2].ops]
    assert (await history.plan_revisions(plan.store, "plan/p", limit=1))[0].rev == 3


async def test_the_document_of_any_revision_can_be_read(plan: Plan) -> None:
    await plan.save(TWO)
    assert (await _document(plan, 1), await _document(plan, 2)) == (ONE, TWO)
    assert await history.plan_at(plan.store, "plan/p", 0) is None


async def _document(plan: Plan, rev: int) -> JsonObject | None:
    found = await history.plan_at(plan.store, "plan/p", rev)
    return None if found is None else found.spec


async def test_why_gives_author_time_reason_and_overridden_value_of_a_field(plan: Plan) -> None:
    plan.clock.at = 2_000.0
    await plan.patch(op("replace", "/tasks/a/goal", "new"), reason="it was wrong")
    why = await history.field_origin(plan.store, plan.gate.present, ("tasks", "a", "goal"))
    assert why is not None
    assert (why.value, why.stamp, why.at, why.reason) == ("new", FieldStamp(2, HUMAN_CLI), 2_000.0, "it was wrong")
    assert (why.before, why.over) == ("a", FieldStamp(1, HUMAN_FILE))
    first = await history.field_origin(plan.store, plan.gate.present, ("goal",))
    assert first is not None
    assert (first.stamp, first.had_before) == (FieldStamp(1, HUMAN_FILE), False)
    assert await history.field_origin(plan.store, plan.gate.present, ("nothing",)) is None


async def test_a_rollback_is_a_new_revision_with_the_old_document(plan: Plan) -> None:
    await plan.save(TWO)
    verdict = await plan.gate.roll_back(1, HUMAN_CLI)
    assert isinstance(verdict, PatchAccepted)
    assert verdict.rev == 3
    assert plan.document == ONE
    gone = plan.store.view.get("task/b")
    assert gone is not None
    assert gone.deleting


async def test_a_rollback_holds_the_file_back_until_it_changes(plan: Plan) -> None:
    await plan.save(TWO)
    await plan.gate.roll_back(1, HUMAN_CLI)
    again = await plan.save(TWO)
    assert again.rev == 3
    assert isinstance(again, PatchAccepted)
    assert again.notes == (HELD_BACK,) == plan.gate.preview_file(save_of(TWO)).notes
    assert plan.document == ONE
    changed = {**TWO, "goal": "3"}
    await plan.save(changed)
    assert plan.document == changed, "a changed file is applied in full, also what the rollback took back"


async def test_rolling_back_what_the_file_has_no_part_in_leaves_the_file_alone(plan: Plan) -> None:
    await plan.patch(op("add", "/notes", "n"))
    await plan.gate.roll_back(1, HUMAN_CLI)
    assert plan.document == ONE
    await plan.save(ONE)
    assert plan.gate.present.file.get("held_back") is None


async def test_undo_to_before_the_plan_or_to_the_future_is_refused(plan: Plan) -> None:
    for rev in (0, 99):
        with pytest.raises(TerminalError, match="plan history"):
            await plan.gate.roll_back(rev, HUMAN_CLI)
