from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from planloop.controllers.plan.controller import PlanReconciler
from planloop.reconciler.engine.queue import AddressQueue
from planloop.reconciler.engine.work_pools import WorkPools
from planloop.reconciler.plan_language_port import CheckDocument, CheckedDocument
from planloop.schemas import address as addresses
from tests.product import HUMAN_CLI, Drop, JsonObject, PatchHeld
from tests.reconciler import small_language
from tests.reconciler.plans import CountedIds, Plan, agent, op, opened

pytestmark = pytest.mark.anyio

FILE: JsonObject = {
    "plan": "p",
    "goal": "all",
    "approve": ["/tasks/a/tasks"],
    "tasks": {"a": {"goal": "a", "agent": {"script": []}}, "b": {"goal": "b"}},
}
ADDRESS = addresses.parse_address("plan/p")


@pytest.fixture
async def plan(tmp_path: Path) -> AsyncIterator[Plan]:
    async with opened(tmp_path) as found:
        await found.save(FILE)
        yield found


def controller(plan: Plan, check: CheckDocument = small_language.check) -> PlanReconciler:
    work = WorkPools(AddressQueue())
    return PlanReconciler(plan.store, check, clock=plan.clock, ids=CountedIds(500), work=work)


def status(plan: Plan) -> JsonObject:
    found = plan.store.view.get("plan/p")
    assert found is not None
    return found.status


async def gone(plan: Plan, address: str) -> None:
    """What the engine does with a deleting object that has no finalizers left."""
    found = plan.store.view.get(address)
    assert found is not None
    assert found.deleting
    await plan.write(Drop(address, found.uid))


async def test_law_3_a_second_reconcile_writes_nothing(plan: Plan) -> None:
    driver = controller(plan)
    await driver.reconcile(ADDRESS)
    rev = plan.rev
    plan.clock.at += 60
    await driver.reconcile(ADDRESS)
    await controller(plan).reconcile(ADDRESS)
    assert plan.rev == rev


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("", "running"),
        ("waiting", "running"),
        ("checking", "running"),
        ("blocked", "blocked"),
        ("paused", "paused"),
        ("done", "done"),
        ("failed", "failed"),
        ("cancelled", "cancelled"),
    ],
)
async def test_plan_has_the_state_of_its_root_task(plan: Plan, state: str, expected: str) -> None:
    await plan.status("task/.", {"state": state, "why": "because"})
    await controller(plan).reconcile(ADDRESS)
    assert status(plan)["state"] == expected
    conditions = status(plan)["conditions"]
    assert conditions["Done"]["status"] == ("True" if expected == "done" else "False")
    assert conditions["Failed"]["status"] == ("True" if expected == "failed" else "False")
    assert conditions["Done"]["message"] == ("because" if expected == "done" else "")


async def test_a_plan_that_is_done_can_become_running_again(plan: Plan) -> None:
    driver = controller(plan)
    for state in ("done", "running"):
        await plan.status("task/.", {"state": state})
        await driver.reconcile(ADDRESS)
    assert status(plan)["state"] == "running"
    assert status(plan)["conditions"]["Done"]["status"] == "False"


async def test_restored_task_is_created_once_the_old_one_is_deleted(plan: Plan) -> None:
    driver = controller(plan)
    await driver.reconcile(ADDRESS)
    old = plan.store.view.get("task/b")
    await plan.patch(op("remove", "/tasks/b"))
    await plan.patch(op("add", "/tasks/b", {"goal": "again"}))
    await driver.reconcile(ADDRESS)
    assert status(plan)["pending"] == ["task/b"]
    still = plan.store.view.get("task/b")
    assert still is not None
    assert still.deleting
    await gone(plan, "task/b")
    await driver.reconcile(ADDRESS)
    new = plan.store.view.get("task/b")
    assert old is not None
    assert new is not None
    assert (new.uid != old.uid, new.spec["goal"], status(plan)["pending"]) == (True, "again", [])


async def test_a_new_owner_makes_what_is_missing(plan: Plan) -> None:
    found = plan.store.view.get("task/b")
    assert found is not None
    await plan.write(Drop("task/b", found.uid))
    await controller(plan).reconcile(ADDRESS)
    assert plan.store.view.get("task/b") is not None


async def test_document_written_by_the_gate_is_not_compiled_again(plan: Plan) -> None:
    compiled: list[JsonObject] = []

    def check(document: JsonObject) -> CheckedDocument:
        compiled.append(document)
        return small_language.check(document)

    driver = controller(plan, check)
    await plan.patch(op("add", "/tasks/c", {"goal": "c"}))
    await driver.reconcile(ADDRESS)
    assert not compiled
    await controller(plan, check).reconcile(ADDRESS)
    assert len(compiled) == 1, "a new owner cannot know what has become of the libraries"


async def test_document_that_could_not_be_compiled_is_retried_after_a_patch(plan: Plan) -> None:
    def check(document: JsonObject) -> CheckedDocument:
        is_broken = "c" not in document["tasks"]
        return small_language.check({**document, "nonsense": True} if is_broken else document)

    driver = controller(plan, check)
    await driver.reconcile(ADDRESS)
    assert status(plan)["conditions"]["DocumentInvalid"]["status"] == "True"
    await plan.patch(op("add", "/tasks/c", {"goal": "c"}))
    await driver.reconcile(ADDRESS)
    assert status(plan)["conditions"]["DocumentInvalid"]["status"] == "False"


async def test_pending_item_is_named_with_the_command_that_answers_it(plan: Plan) -> None:
    driver = controller(plan)
    verdict = await plan.patch(op("add", "/tasks/a/tasks", {"x": {"goal": "x"}}), by=agent("a"))
    assert isinstance(verdict, PatchHeld)
    await driver.reconcile(ADDRESS)
    held = status(plan)["conditions"]["Held"]
    assert (held["status"], held["unblocks"]) == ("True", [f"plan approve {verdict.approval}"])
    await plan.gate.reject(verdict.approval, HUMAN_CLI)
    await driver.reconcile(ADDRESS)
    assert status(plan)["conditions"]["Held"]["status"] == "False"


async def test_an_approval_goes_with_the_agent_that_asked(plan: Plan) -> None:
    driver = controller(plan)
    verdict = await plan.patch(op("add", "/tasks/a/tasks", {"x": {"goal": "x"}}), by=agent("a"))
    assert isinstance(verdict, PatchHeld)
    await plan.patch(op("remove", "/tasks/a"))
    await gone(plan, "agent/a")
    await driver.reconcile(ADDRESS)
    assert plan.store.view.get(verdict.approval) is None


async def test_rolled_back_file_is_reported_as_held_back(plan: Plan) -> None:
    await plan.save({**FILE, "goal": "other"})
    await plan.gate.roll_back(1, HUMAN_CLI)
    await controller(plan).reconcile(ADDRESS)
    assert status(plan)["conditions"]["FileHeldBack"]["status"] == "True"


async def test_deleted_plan_needs_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path / "empty") as plan:
        await controller(plan).reconcile(ADDRESS)
        assert plan.rev == 0
