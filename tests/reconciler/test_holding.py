from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from planloop.reconciler.errors import TerminalError
from planloop.schemas.objects.approval import WAITING, ApprovalSpec
from tests.golden_text import said
from tests.product import (
    HUMAN_CLI,
    HUMAN_FILE,
    JsonObject,
    Patch,
    PatchAccepted,
    PatchHeld,
    PatchRefused,
    Put,
    SetStatus,
    Uid,
)
from tests.reconciler.plans import Plan, agent, op, opened

pytestmark = pytest.mark.anyio

NAMES = "abcdef"
FILE: JsonObject = {
    "plan": "p",
    "goal": "all",
    "agent": {"script": []},
    "approve": ["/tasks/*/tasks", "/tasks/*/agent", "shell(git push *)"],
    "tasks": {name: {"goal": name, "agent": {"script": []}} for name in NAMES},
}


@pytest.fixture
async def plan(tmp_path: Path) -> AsyncIterator[Plan]:
    async with opened(tmp_path) as found:
        await found.save(FILE)
        for name in NAMES:
            await found.status(f"task/{name}", {"state": "running", "started_at": 1.0})
        yield found


def keeping(names: str) -> JsonObject:
    return {**FILE, "tasks": {name: FILE["tasks"][name] for name in names}}


async def held(plan: Plan, names: str) -> PatchHeld:
    verdict = await plan.save(keeping(names))
    assert isinstance(verdict, PatchHeld), verdict
    return verdict


async def test_an_edit_that_stops_a_few_tasks_passes(plan: Plan) -> None:
    assert isinstance(await plan.save(keeping("abc")), PatchAccepted)


async def test_an_edit_that_stops_many_running_tasks_is_held_with_the_differences(plan: Plan) -> None:
    verdict = await held(plan, "ab")
    said(verdict.why)
    assert plan.document == FILE
    waiting = plan.store.view.get(verdict.approval)
    assert waiting is not None
    assert waiting.state == "waiting"
    assert [one["action"] for one in waiting.spec["differences"]] == ["cancel"] * 4


async def test_more_than_half_of_a_few_is_many(plan: Plan) -> None:
    await plan.save(keeping("abc"))
    for name in "def":
        await plan.status("task/a", {"state": "running"})
        gone = plan.store.view.get(f"task/{name}")
        assert gone is not None
        await plan.status(f"task/{name}", {"state": "cancelled"})
    said((await held(plan, "a")).why)


async def test_groups_do_not_count_as_running_work(plan: Plan) -> None:
    await plan.patch(op("add", "/tasks/g", {"goal": "group", "tasks": {"x": {"goal": "x", "run": "true"}}}))
    for address in ("task/g", "task/g/x"):
        await plan.status(address, {"state": "running"})
    said((await held(plan, "ab")).why)


async def test_the_only_running_task_may_be_stopped_without_asking(plan: Plan) -> None:
    for name in "bcdef":
        await plan.status(f"task/{name}", {"state": "done"})
    assert isinstance(await plan.save(keeping("bcdef")), PatchAccepted)


async def test_removing_done_tasks_is_not_a_loss(plan: Plan) -> None:
    for name in "bcdef":
        await plan.status(f"task/{name}", {"state": "done"})
    assert isinstance(await plan.save(keeping("a")), PatchAccepted)


async def test_cancelling_a_parent_counts_all_that_runs_below_it(plan: Plan) -> None:
    assert isinstance(await plan.patch(op("add", "/cancel", True)), PatchHeld)


async def test_a_protected_running_task_is_not_stopped_unasked(plan: Plan) -> None:
    await plan.patch(op("add", "/tasks/a/protect", True))
    verdict = await plan.patch(op("add", "/tasks/a/cancel", True))
    assert isinstance(verdict, PatchHeld)
    assert "protected tasks: task/a" in verdict.why


async def test_operator_who_has_seen_the_differences_is_not_asked_again(plan: Plan) -> None:
    assert isinstance(await plan.save(keeping("a"), is_approved=True), PatchAccepted)


async def test_the_same_edit_waits_once(plan: Plan) -> None:
    first = await held(plan, "ab")
    rev = plan.rev
    assert (await held(plan, "ab")).approval == first.approval
    assert plan.rev == rev


async def test_a_newer_save_takes_the_place_of_one_that_waits(plan: Plan) -> None:
    first = await held(plan, "ab")
    second = await held(plan, "a")
    assert plan.store.view.get(first.approval) is None
    assert plan.store.view.get(second.approval) is not None


async def test_an_approved_edit_is_applied_as_its_author_and_leaves_nothing_waiting(plan: Plan) -> None:
    waiting = await held(plan, "ab")
    verdict = await plan.gate.approve(waiting.approval, HUMAN_CLI, "yes")
    assert isinstance(verdict, PatchAccepted)
    assert plan.document == keeping("ab")
    assert plan.store.view.list("approval") == []
    (record,) = await plan.store.log(plan.rev - 1, 1)
    assert record.draft.actor == str(HUMAN_FILE)
    assert record.draft.data["approved"] == {"approval": waiting.approval, "by": "human:cli", "reason": "yes"}


async def test_an_answer_to_what_asks_no_question_is_refused_and_it_still_waits(plan: Plan) -> None:
    waiting = await held(plan, "ab")
    with pytest.raises(TerminalError) as caught:
        await plan.gate.approve(waiting.approval, HUMAN_CLI, content={"name": "Ada"})
    said(str(caught.value))
    assert plan.store.view.get(waiting.approval) is not None


async def test_a_save_is_the_merge_base_once_it_is_approved(plan: Plan) -> None:
    waiting = await held(plan, "ab")
    await plan.gate.approve(waiting.approval, HUMAN_CLI)
    assert plan.gate.present.filed == keeping("ab")


async def test_approved_edit_keeps_later_changes_elsewhere(plan: Plan) -> None:
    waiting = await held(plan, "ab")
    await plan.patch(op("replace", "/tasks/a/goal", "newer"))
    assert isinstance(await plan.gate.approve(waiting.approval, HUMAN_CLI), PatchAccepted)
    assert plan.document["tasks"] == {**keeping("ab")["tasks"], "a": {**FILE["tasks"]["a"], "goal": "newer"}}


async def test_edit_whose_place_changed_since_is_stale(plan: Plan) -> None:
    waiting = await held(plan, "ab")
    await plan.patch(op("replace", "/tasks/f/goal", "newer"))
    verdict = await plan.gate.approve(waiting.approval, HUMAN_CLI)
    assert isinstance(verdict, PatchRefused)
    assert [fault.rule for fault in verdict.faults] == ["stale"]
    assert "f" in plan.document["tasks"]
    assert plan.store.view.list("approval") == []


async def test_a_rejected_edit_changes_nothing_and_is_recorded(plan: Plan) -> None:
    waiting = await held(plan, "ab")
    rev = await plan.gate.reject(waiting.approval, HUMAN_CLI, "not now")
    assert plan.document == FILE
    assert plan.store.view.list("approval") == []
    (record,) = await plan.store.log(rev - 1, 1)
    assert (record.draft.type, record.draft.data["reason"]) == ("plan.rejected", "not now")


async def test_nothing_is_held_twice_or_without_a_place(plan: Plan) -> None:
    with pytest.raises(TerminalError, match="plan get approvals"):
        await plan.gate.approve("approval/none", HUMAN_CLI)


async def test_agents_patch_of_guarded_fields_waits_and_the_agent_reads_the_answer(plan: Plan) -> None:
    verdict = await plan.patch(op("add", "/tasks/a/tasks", {"x": {"goal": "part"}}), by=agent("a"))
    assert isinstance(verdict, PatchHeld)
    waiting = plan.store.view.get(verdict.approval)
    assert waiting is not None
    assert waiting.owner == "agent/a"
    assert isinstance(await plan.gate.approve(verdict.approval, HUMAN_CLI, "fine"), PatchAccepted)
    answered = plan.store.view.get(verdict.approval)
    assert answered is not None
    assert (answered.state, answered.status["reason"]) == ("approved", "fine")
    assert plan.document["tasks"]["a"]["tasks"] == {"x": {"goal": "part"}}


async def test_law_6_an_agent_cannot_approve_its_own_patch(plan: Plan) -> None:
    ops = (op("add", "/tasks/a/tasks", {"x": {"goal": "part"}}),)
    verdict = await plan.gate.submit(Patch(agent("a"), ops, plan.rev, is_approved=True))
    assert isinstance(verdict, PatchHeld), "only a person's approval counts"
    assert plan.document == FILE


async def test_a_guarded_field_inside_a_whole_new_task_is_guarded_too(plan: Plan) -> None:
    assert isinstance(await plan.patch(op("add", "/tasks/new", {"goal": "n"}), by=agent(".")), PatchAccepted)
    with_agent: JsonObject = {"goal": "n", "agent": {"script": []}}
    assert isinstance(await plan.patch(op("add", "/tasks/newer", with_agent), by=agent(".")), PatchHeld)


async def test_operator_needs_no_approval_for_guarded_fields(plan: Plan) -> None:
    assert isinstance(await plan.patch(op("add", "/tasks/a/tasks", {"x": {"goal": "part"}})), PatchAccepted)


async def test_requests_and_calls_only_get_their_answer(plan: Plan) -> None:
    spec = ApprovalSpec("request", "agent:a", "more budget", {"kind": "budget"})
    uid = Uid("r")
    await plan.write(
        Put("approval/r", uid, spec.to_json(), owner="agent/a"), SetStatus("approval/r", uid, {"state": WAITING})
    )
    await plan.gate.approve("r", HUMAN_CLI, "here")
    found = plan.store.view.get("approval/r")
    assert found is not None
    assert (found.state, found.status["by"]) == ("approved", "human:cli")
    with pytest.raises(TerminalError, match="already approved"):
        await plan.gate.reject("r", HUMAN_CLI)
