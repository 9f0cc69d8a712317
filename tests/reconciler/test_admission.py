"""What agents may and may not do through the gate, rule by rule; law 6 as a property stands in `test_law_6.py`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path

import pytest

from planloop.schemas import limits
from planloop.schemas.objects.budget import Account, account_to_json
from tests.product import HUMAN_CLI, Json, JsonObject, PatchAccepted, PatchOp, PatchRefused, PatchVerdict
from tests.reconciler.plans import Plan, agent, op, opened

pytestmark = pytest.mark.anyio

SCRIPT: JsonObject = {"script": []}
DOCUMENT: JsonObject = {
    "plan": "p",
    "goal": "all",
    "agent": SCRIPT,
    "tasks": {
        "a": {
            "goal": "first",
            "cwd": "a",
            "agent": {**SCRIPT, "deny": ["shell(rm *)"]},
            "acceptance": [{"sh": "make"}],
            "open": ["notes"],
            "notes": "be quick",
            "tasks": {"x": {"goal": "part", "agent": SCRIPT, "cwd": "a/x"}},
        },
        "b": {"goal": "second", "agent": {**SCRIPT, "tools": ["read", "task"]}, "cwd": "b"},
    },
}


@pytest.fixture
async def plan(tmp_path: Path) -> AsyncIterator[Plan]:
    async with opened(tmp_path) as found:
        await found.save(DOCUMENT)
        yield found


def rules(verdict: PatchVerdict) -> list[str]:
    """The grounds of a refusal, empty for what was accepted."""
    return [fault.rule for fault in verdict.faults] if isinstance(verdict, PatchRefused) else []


async def by(plan: Plan, who: str, *ops: PatchOp) -> list[str]:
    return rules(await plan.patch(*ops, by=agent(who)))


async def test_an_agent_may_add_children_and_work_on_them(plan: Plan) -> None:
    child: Json = {"goal": "n", "agent": SCRIPT, "cwd": "a/n"}
    assert await by(plan, "a", op("add", "/tasks/a/tasks/n", child)) == []
    assert await by(plan, "a", op("replace", "/tasks/a/tasks/n/goal", "m")) == []
    assert await by(plan, "a", op("remove", "/tasks/a/tasks/n")) == []


@pytest.mark.parametrize("path", ["/tasks/b/notes", "/goal", "/limits", "/tasks/c", "/agents"])
async def test_law_6_an_agent_stays_in_its_own_subtree(plan: Plan, path: str) -> None:
    assert "scope" in await by(plan, "a", op("add", path, {"goal": "mine"}))


@pytest.mark.parametrize("field", ["goal", "needs", "acceptance", "rights", "budget", "agent", "cwd", "env"])
async def test_law_6_an_agents_own_terms_belong_to_its_parent(plan: Plan, field: str) -> None:
    assert "scope" in await by(plan, "a", op("add", f"/tasks/a/{field}", {}))


async def test_an_agent_cannot_remove_its_own_task(plan: Plan) -> None:
    assert "scope" in await by(plan, "a", op("remove", "/tasks/a"))


async def test_the_root_agent_is_held_to_the_same_terms(plan: Plan) -> None:
    assert "scope" in await by(plan, ".", op("add", "/budget", {"tokens": 1}))
    assert await by(plan, ".", op("add", "/tasks/new", {"goal": "n"})) == []


async def test_fields_written_by_the_file_belong_to_the_file(plan: Plan) -> None:
    assert await by(plan, ".", op("replace", "/tasks/a/goal", "mine")) == ["owner"]
    assert await by(plan, "a", op("remove", "/tasks/a/tasks/x")) == ["owner"]


async def test_a_field_that_the_plan_opens_is_free_though_the_file_writes_it(plan: Plan) -> None:
    assert await by(plan, "a", op("replace", "/tasks/a/notes", "be slow")) == []
    assert await by(plan, "b", op("replace", "/tasks/a/notes", "be mine")) == []


@pytest.mark.parametrize("field", ["open", "protect", "approve"])
async def test_an_agent_opens_nothing_to_itself(plan: Plan, field: str) -> None:
    assert "scope" in await by(plan, "a", op("add", f"/tasks/a/tasks/x/{field}", ["goal"]))


@pytest.mark.parametrize("field", ["open", "protect", "approve"])
async def test_task_added_by_an_agent_holds_no_operator_only_field(plan: Plan, field: str) -> None:
    inner: JsonObject = {"goal": "n", "cwd": "a", field: ["goal"]}
    assert "scope" in await by(plan, "a", op("add", "/tasks/a/tasks/n", inner))
    assert "scope" in await by(plan, "a", op("add", "/tasks/a/tasks/n", {"goal": "n", "tasks": {"m": inner}}))


async def test_a_field_the_file_does_not_write_is_free(plan: Plan) -> None:
    assert await by(plan, "a", op("add", "/tasks/a/tasks/x/notes", "from above")) == []


async def test_field_changed_by_another_since_it_was_read_is_a_conflict(plan: Plan) -> None:
    read = plan.rev
    await plan.patch(op("add", "/tasks/a/tasks/x/notes", "a person's"), by=HUMAN_CLI)
    verdict = await plan.patch(op("add", "/tasks/a/tasks/x/notes", "mine"), by=agent("a"), base=read)
    assert isinstance(verdict, PatchRefused)
    (fault,) = verdict.faults
    assert fault.rule == "conflict"
    assert "human:cli" in fault.message
    assert "a person's" in fault.message


async def test_a_conflict_shows_only_the_beginning_of_a_long_value(plan: Plan) -> None:
    read, long = plan.rev, "0123456789" * limits.VALUE_SHOWN_CHARS
    await plan.patch(op("add", "/tasks/a/tasks/x/notes", long), by=HUMAN_CLI)
    verdict = await plan.patch(op("add", "/tasks/a/tasks/x/notes", "mine"), by=agent("a"), base=read)
    assert isinstance(verdict, PatchRefused)
    shown = verdict.faults[0].message.partition("It now is ")[2]
    assert (len(shown), shown[-1]) == (limits.VALUE_SHOWN_CHARS, "…")
    assert repr(long).startswith(shown[:-1])


async def test_several_budgets_of_one_patch_are_charged_to_one_account(plan: Plan) -> None:
    await plan.status("task/a", {"ledger": {"tokens": account_to_json("tokens", Account(bound=Decimal(10)))}})
    ops = [op("add", f"/tasks/a/tasks/{name}", {"goal": name, "budget": {"tokens": 4}}) for name in "mno"]
    assert "budget" in await by(plan, "a", *ops), "two of them fit, all three do not"
    assert await by(plan, "a", *ops[:2]) == []


async def test_own_earlier_change_is_not_a_conflict(plan: Plan) -> None:
    read = plan.rev
    await plan.patch(op("add", "/tasks/a/tasks/n", {"goal": "n"}), by=agent("a"))
    assert rules(await plan.patch(op("add", "/tasks/a/tasks/n/notes", "m"), by=agent("a"), base=read)) == []


async def test_changes_elsewhere_are_not_a_conflict(plan: Plan) -> None:
    read = plan.rev
    await plan.patch(op("replace", "/tasks/b/goal", "other"))
    assert rules(await plan.patch(op("add", "/tasks/a/tasks/n", {"goal": "n"}), by=agent("a"), base=read)) == []


async def test_operator_overrides_a_newer_change_and_sees_the_overridden_value(plan: Plan) -> None:
    read = plan.rev
    await plan.patch(op("replace", "/tasks/a/notes", "an agent's"), by=agent("a"))
    verdict = await plan.patch(op("replace", "/tasks/a/notes", "mine"), base=read)
    assert isinstance(verdict, PatchAccepted)
    (note,) = verdict.notes
    assert "agent:a" in note
    assert "an agent's" in note


async def test_a_revision_from_the_future_is_stale(plan: Plan) -> None:
    assert rules(await plan.patch(op("replace", "/goal", "x"), base=plan.rev + 5)) == ["stale"]


async def test_law_6_a_child_runs_no_command_that_its_author_may_not(plan: Plan) -> None:
    assert await by(plan, "b", op("add", "/tasks/b/tasks", {"n": {"run": "make", "cwd": "b"}})) == ["rights"]
    checks: Json = [{"sh": "make"}]
    assert await by(plan, "b", op("add", "/tasks/b/tasks", {"n": {"acceptance": checks, "cwd": "b"}})) == ["rights"]
    files: Json = [{"require-file": "x"}]
    assert await by(plan, "b", op("add", "/tasks/b/tasks", {"n": {"acceptance": files, "cwd": "b"}})) == []


async def test_law_6_a_denied_command_stays_denied_below(plan: Plan) -> None:
    assert await by(plan, "a", op("add", "/tasks/a/tasks/n", {"run": "rm -rf x", "cwd": "a"})) == ["rights"]
    assert await by(plan, "a", op("add", "/tasks/a/tasks/n", {"run": "make x", "cwd": "a"})) == []


@pytest.mark.parametrize("cwd", [".", "b", "a/../b", "/etc"])
async def test_childs_workspace_is_inside_its_authors(plan: Plan, cwd: str) -> None:
    assert await by(plan, "a", op("add", "/tasks/a/tasks/n", {"goal": "n", "cwd": cwd})) == ["rights"]


async def test_all_errors_are_reported_together_in_words_to_act_on(plan: Plan) -> None:
    verdict = await plan.patch(
        op("replace", "/tasks/b/goal", "mine"),
        op("replace", "/tasks/a/tasks/x/goal", "mine"),
        op("add", "/tasks/a/acceptance", []),
        op("add", "/tasks/a/tasks/x/colour", "red"),
        by=agent("a"),
    )
    assert isinstance(verdict, PatchRefused)
    assert sorted(rules(verdict)) == ["owner", "schema", "scope", "scope"]
    assert all(fault.message for fault in verdict.faults)
    assert all(fault.hint for fault in verdict.faults if fault.rule != "schema")


async def test_removed_agent_changes_nothing(plan: Plan) -> None:
    assert "scope" in await by(plan, "nobody", op("add", "/tasks/nobody", {"goal": "n"}))


async def test_the_plan_keeps_its_name(plan: Plan) -> None:
    assert rules(await plan.patch(op("replace", "/plan", "q"))) == ["schema"]


async def test_errors_of_the_compiler_keep_their_code_and_place(plan: Plan) -> None:
    verdict = await plan.patch(op("add", "/tasks/a/colour", "red"))
    assert isinstance(verdict, PatchRefused)
    (fault,) = verdict.faults
    assert fault.diagnostic is not None
    assert (fault.diagnostic.code, fault.path) == ("P0201", ("tasks", "a", "colour"))
