"""Of an edit with many differences the first are recorded and told, together with how many there are in all."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from planloop.client.presenters import approvals, revisions
from planloop.client.render import approval_requests
from planloop.schemas import limits
from tests.golden_text import said
from tests.product import HUMAN_CLI, JsonObject, PatchAccepted, PatchHeld
from tests.reconciler.plans import Plan, agent, op, opened

pytestmark = pytest.mark.anyio

FILE: JsonObject = {
    "plan": "p",
    "goal": "all",
    "approve": ["/tasks/a/tasks"],
    "tasks": {"a": {"goal": "first", "agent": {"script": []}, "tasks": {"old": {"goal": "is there"}}}},
}
MANY = revisions.FIELDS_SHOWN_MAX + 20
NOW = 100.0


@pytest.fixture
async def plan(tmp_path: Path) -> AsyncIterator[Plan]:
    async with opened(tmp_path) as found:
        yield found


async def held(plan: Plan, count: int) -> PatchHeld:
    await plan.save(FILE)
    fresh = (op("add", f"/tasks/a/tasks/x{at}", {"goal": f"part {at}"}) for at in range(count))
    verdict = await plan.patch(*fresh, by=agent("a"))
    assert isinstance(verdict, PatchHeld), verdict
    return verdict


async def test_card_of_a_large_held_edit_gives_the_total_and_the_number_omitted(plan: Plan) -> None:
    verdict = await held(plan, MANY)
    (card,) = approvals.waiting_answer(plan.store.view, "p", NOW)["approvals"]
    said(card["summary"], f"{MANY}")
    assert (len(card["does"]), card["does_left"]) == (200, MANY - 200)
    assert (len(card["fields"]), card["fields_left"]) == (500, MANY - 500)
    approval = plan.store.view.get(verdict.approval)
    assert approval is not None
    assert dict(approval_requests.approval_facts(approval))["would be"] == card["summary"]


async def test_history_gives_equal_texts_for_the_hold_and_the_approval(plan: Plan) -> None:
    verdict = await held(plan, MANY)
    done = await plan.gate.approve(verdict.approval, HUMAN_CLI)
    assert isinstance(done, PatchAccepted)
    for rev in (verdict.rev, done.rev):
        (record,) = await plan.store.log(rev - 1, 1)
        told = revisions.revision_detail(record, "plan/p", FILE)
        said(told["summary"], f"{MANY}")
        assert (len(told["does"]), told["does_left"]) == (200, MANY - 200)


async def test_fully_recorded_edit_reports_nothing_omitted(plan: Plan) -> None:
    await held(plan, limits.DIFFERENCES_RECORDED_MAX)
    (card,) = approvals.waiting_answer(plan.store.view, "p", NOW)["approvals"]
    said(card["summary"])
    assert (len(card["does"]), card["does_left"], card["fields_left"]) == (200, 0, 0)
