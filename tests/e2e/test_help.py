"""`plan apply` reports why work is blocked, and a command that unblocks it."""

from __future__ import annotations

import json
import re

import pytest

from tests import golden_text
from tests.e2e.folder import Folder
from tests.e2e.test_tool_servers import TRICKY
from tests.fakes.model_server.running import started

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]

APPROVED = """\
plan: p
approve: ["shell(echo *)"]
tasks:
  a: {goal: x, agent: {tools: [shell], script: [{call: {shell: {command: echo hi}}}, {done: it is}]}}
"""


def named(line: str) -> list[str]:
    """The words after `plan` of the command at the end of a line."""
    found = re.search(r"· plan (\S+ \S+)$", line.strip())
    assert found is not None, line
    return found[1].split()


def test_call_that_needs_approval_is_shown_with_the_command_that_gives_it(folder: Folder) -> None:
    folder.write("p.plan.yaml", APPROVED)
    with folder.started("p.plan.yaml") as owner:
        line = owner.until(r"blocked +task/a ")
        golden_text.said_in(line)
        assert "1 blocked" in folder.run("tree").out

        assert folder.run(*named(line)).code == 0

        assert owner.ended() == 0


def test_failing_model_is_reported_and_retried_by_the_named_command(folder: Folder) -> None:
    refusal = {"status": 401, "error": {"message": "who are you"}}
    with started([refusal, {"reply": {"text": "the answer"}}], folder.path) as server:
        folder.write("p.plan.yaml", f"plan: p\ngoal: x\nagent: {{model: 'm@{server.url}', tools: [read]}}\n")
        with folder.started("p.plan.yaml") as owner:
            line = owner.until(r"blocked +plan/p ")
            golden_text.said_in(line)
            assert ". " in folder.run("tree").out.splitlines()[1]

            assert folder.run(*named(line)).code == 0

            assert owner.ended() == 0
    golden_text.said(owner.text.splitlines()[-1])
    golden_text.said_in(folder.run("logs", "agent/.").out)


def test_failed_plan_gives_the_reason_and_what_retries_it(folder: Folder) -> None:
    folder.write("p.plan.yaml", "plan: p\ngoal: x\nrun: echo no such luck >&2; test -e luck\n")

    said = folder.run("apply", "p.plan.yaml")

    assert said.code == 10
    assert re.search(r"failed +plan/p +.*no such luck", said.out)
    golden_text.said_in(said.err)
    (folder.path / "luck").touch()
    golden_text.said_in(said.err)
    assert folder.run("resume", ".").code == 0
    assert folder.run("apply", "p.plan.yaml").code == 0


def test_the_budget_that_is_used_up_is_named_with_its_task(folder: Folder) -> None:
    script = [{"call": {"list": {"path": "."}}}] * 4
    folder.write(
        "p.plan.yaml", f"plan: p\nbudget: {{turns: 2}}\ntasks:\n  a: {{agent: {{tools: [list], script: {script}}}}}\n"
    )
    with folder.started("p.plan.yaml") as owner:
        line = owner.until(r"blocked +task/a ")

    golden_text.said(line.strip(), "the plan", "budget.turns")


def test_agent_that_waits_repeatedly_names_its_current_wait(folder: Folder) -> None:
    tricky = {"command": TRICKY, "env": {"TRICKY_NOTES": str(folder.path / "notes")}}
    agent = {"model": "house/big", "tools": ["tricky"]}
    house = {"url": "http://house.example/v1"}
    document = {"plan": "p", "goal": "x", "budget": {"usd": 1}, "models": {"house": house}, "mcp": {"tricky": tricky}}
    folder.write("p.plan.yaml", json.dumps(document | {"agent": agent}))
    with folder.started("p.plan.yaml") as owner:
        line = owner.until(r"blocked +plan/p ")

        golden_text.said(line.strip(), "house/big", "limits.unknown-price")


def test_waiter_for_a_slot_is_told_so_and_typos_get_a_suggestion(folder: Folder) -> None:
    group = "tasks: {a: {run: sleep 500}, b: {run: 'true'}}"
    folder.write("p.plan.yaml", f"plan: p\nlimits: {{tasks: 1}}\ntasks:\n  all: {{{group}}}\n")
    with folder.started("p.plan.yaml") as owner:
        owner.until(r"running +task/all/a ")

        said = folder.run("describe", "all/b").out
        golden_text.said_in(said)
        golden_text.said_in(said)
        golden_text.said_in(folder.run("describe", "b").err, "task/all/b")
        golden_text.said_in(folder.run("get", "taks").err)
        golden_text.said_in(folder.run("patch", "limits.tasks=2").err)
        folder.run("patch", ".", "limits.tasks=2")
        assert folder.run("wait", "all/b").code == 0
