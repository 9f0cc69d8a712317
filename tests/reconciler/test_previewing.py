from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from planloop.reconciler.admission import preview
from planloop.reconciler.admission.preview import InvalidPreview
from planloop.schemas import canonical_json
from tests.golden_text import said
from tests.product import Json, JsonObject, PatchAccepted, PatchRefused
from tests.reconciler.plans import Plan, op, opened, save_of

pytestmark = pytest.mark.anyio

ONE: JsonObject = {"plan": "p", "goal": "1", "tasks": {"a": {"goal": "a"}}}
TWO: JsonObject = {**ONE, "goal": "2"}


@pytest.fixture
async def plan(tmp_path: Path) -> AsyncIterator[Plan]:
    async with opened(tmp_path) as found:
        await found.save(ONE)
        yield found


def saved(plan: Plan, document: JsonObject) -> preview.StoredPreview:
    """A preview that went through a file."""
    return preview.preview_from_json(
        canonical_json.decode(canonical_json.encode(plan.gate.save_preview(save_of(document))))
    )


async def test_a_saved_preview_does_what_it_showed(plan: Plan) -> None:
    preview = saved(plan, TWO)
    assert plan.document == ONE
    assert [one["address"] for one in preview.differences] == ["task/."]
    assert isinstance(await plan.gate.submit_saved(preview), PatchAccepted)
    assert plan.document == TWO
    assert plan.gate.present.filed == TWO
    assert await plan.save(TWO) == PatchAccepted(plan.rev)


async def test_a_saved_preview_is_refused_once_the_document_has_changed(plan: Plan) -> None:
    preview = saved(plan, TWO)
    await plan.patch(op("add", "/notes", "n"))
    verdict = await plan.gate.submit_saved(preview)
    assert isinstance(verdict, PatchRefused)
    assert [fault.rule for fault in verdict.faults] == ["stale"]
    assert "revision 2" in verdict.faults[0].message


async def test_approval_of_an_outdated_preview_does_not_apply_it(plan: Plan) -> None:
    preview = saved(plan, TWO)
    await plan.patch(op("add", "/notes", "n"))
    verdict = await plan.gate.submit_saved(preview, is_approved=True)
    assert isinstance(verdict, PatchRefused)
    assert [fault.rule for fault in verdict.faults] == ["stale"]


async def test_running_work_does_not_make_a_preview_stale(plan: Plan) -> None:
    preview = saved(plan, TWO)
    await plan.status("task/a", {"state": "running"})
    assert isinstance(await plan.gate.submit_saved(preview), PatchAccepted)


async def test_a_preview_of_another_plan_is_refused(plan: Plan, tmp_path: Path) -> None:
    async with opened(tmp_path / "other") as other:
        preview = saved(other, TWO)
    verdict = await plan.gate.submit_saved(preview)
    assert isinstance(verdict, PatchRefused)
    assert "another plan" in verdict.faults[0].message


@pytest.mark.parametrize(
    "raw", [None, [], {}, {"version": 99}, {"version": 1}, {"version": 1, "plan": "p", "patch": 3}]
)
def test_invalid_saved_preview_is_reported(raw: Json) -> None:
    with pytest.raises(InvalidPreview) as caught:
        preview.preview_from_json(raw)
    said(str(caught.value))
