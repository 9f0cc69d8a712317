"""Budgets of running plans: granted at the start, raised, lowered, refused, requested and given back."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest

from tests.controllers.agent.arena import Arena, arena
from tests.controllers.ledger.balancing import check_balanced
from tests.golden_text import said
from tests.product import Author, Json, JsonObject, Patch, PatchAccepted, PatchRefused, PatchVerdict, op_from_json

pytestmark = pytest.mark.anyio

TWO = """
    budget: {usd: 20, turns: 100}
    tasks:
      backend: {budget: {usd: 4, turns: 10}, agent: {script: [{when: {message: end}, done: x}]}}
      other: {agent: {script: [{when: {message: end}, done: x}]}}
"""


def stated(path: str, value: Json) -> JsonObject:
    return {"op": "add", "path": path, "value": value}


def faults(verdict: PatchVerdict) -> list[tuple[str, str, str]]:
    assert isinstance(verdict, PatchRefused), verdict
    return [(fault.rule, fault.message, fault.hint) for fault in verdict.faults]


async def by_agent(here: Arena, name: str, *ops: JsonObject) -> PatchVerdict:
    parsed = tuple(op_from_json(index, op) for index, op in enumerate(ops))
    return await here.gate.submit(Patch(Author("agent", name), parsed, here.store.view.rev))


def ledger(here: Arena, task: str, unit: str) -> JsonObject:
    found: JsonObject = here.get(task).status["ledger"][unit]
    return found


async def test_child_gets_its_budget_in_its_first_record_and_returns_the_rest(
    tmp_path: Path,
) -> None:
    async with arena(tmp_path) as here:
        here.store.on_change(lambda *_: check_balanced(here.store.view))
        await here.apply(TWO)
        await here.settled()
        root = ledger(here, "task/.", "turns")
        assert (root["left"], root["granted"]) == (89, {here.get("task/backend").uid: 10}), "the other took a turn"
        await here.tell("agent/backend", "end", "m1")
        await here.until_state("task/backend", "done")
        await here.settled()
        root, child = ledger(here, "task/.", "turns"), ledger(here, "task/backend", "turns")
        assert child == {"bound": 10, "left": 8, "spent": 2, "giver": here.get("task/.").uid, "closed": True}
        assert (root["left"], root["spent"], "granted" in root) == (97, 3, False)
        assert [draft.subject for draft in await here.log() if draft.type == "budget.refunded"] == ["task/backend"]


async def test_law_3_a_task_that_ends_while_nothing_of_it_runs_gives_its_budget_back(tmp_path: Path) -> None:
    text = """
        budget: {turns: 100}
        tasks:
          paused: {budget: {turns: 5}, run: "read line < gate", pause: false}
          other: {run: "read line < never"}
    """
    for name in ("gate", "never"):
        os.mkfifo(tmp_path / name)
    async with arena(tmp_path) as here:
        await here.apply(text)
        await here.until_state("task/paused", "running")
        await here.apply(text.replace("pause: false", "pause: true"))
        await anyio.Path(tmp_path / "gate").write_text("go\n")
        await here.until(lambda: "result" in here.get("task/paused").status)
        await here.until_state("task/paused", "paused")
        await here.apply(text.replace("pause: false", "cancel: true"))
        await here.until(lambda: ledger(here, "task/.", "turns")["left"] == 100)
        assert ledger(here, "task/paused", "turns")["closed"]


async def test_raise_over_the_remaining_budget_is_refused_with_both_figures_and_a_fix(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply(TWO)
        await here.settled()
        told = faults(await here.patch(stated("/tasks/backend/budget/usd", "40")))
        assert told == [
            (
                "budget",
                "budget.usd $40.00 is more than the plan has left ($20.00)",
                "raise the plan's budget first: plan patch . budget.usd=40",
            )
        ]


async def test_used_budget_cannot_be_granted_whatever_the_sums_of_the_plan(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            budget: {turns: 10}
            tasks:
              backend: {budget: {turns: 4}, agent: {script: [{when: {message: end}, done: x}]}}
              other: {agent: {script: [{say: a}, {again: true}, {say: b}, {when: {message: end}, done: x}]}}
        """)
        await here.settled()
        assert isinstance(await here.patch(stated("/tasks/backend/budget/turns", 20)), PatchRefused)
        for number in range(3):
            await here.tell("agent/other", f"go {number}", f"m{number}")
            await here.settled()
        spent = ledger(here, "task/.", "turns")["spent"]
        assert spent >= 3
        ((rule, message, _),) = faults(await here.patch(stated("/tasks/backend/budget/turns", 10)))
        most = 10 - spent
        assert rule == "budget"
        said(message, left=f"({most} turns)")
        assert isinstance(await here.patch(stated("/tasks/backend/budget/turns", most)), PatchAccepted)
        await here.settled()
        assert ledger(here, "task/backend", "turns")["bound"] == most


async def test_lowering_under_what_is_spent_is_allowed_and_parks_at_the_next_boundary(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply(TWO)
        await here.settled()
        for number in range(3):
            await here.tell("agent/backend", f"go {number}", f"m{number}")
            await here.settled()
        assert isinstance(await here.patch(stated("/tasks/backend/budget/turns", 1)), PatchAccepted)
        await here.settled()
        await here.tell("agent/backend", "go on", "m9")
        await here.until_state("agent/backend", "parked")
        assert here.get("task/backend").status["conditions"]["Ready"]["reason"] == "BudgetSpent"
        await here.patch(stated("/tasks/backend/budget/turns", 10))
        await here.until_state("agent/backend", "asleep")


async def test_a_raise_of_a_budget_far_above_wakes_a_parked_agent(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            budget: {turns: 2}
            tasks:
              a:
                tasks:
                  b:
                    tasks:
                      c: {agent: {tools: [list], script: [{call: {list: {}}}, {call: {list: {}}}, {done: x}]}}
        """)
        await here.until_state("agent/a/b/c", "parked")
        await here.settled()
        await here.patch(stated("/budget/turns", 50))
        await here.until_state("task/.", "done")


async def test_a_refund_wakes_an_agent_that_waits_for_more(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        here.store.on_change(lambda *_: check_balanced(here.store.view))
        await here.apply("""
            budget: {turns: 6}
            tasks:
              a: {budget: {turns: 5}, agent: {script: [{when: {message: end}, done: x}]}}
              b: {agent: {tools: [list], script: [{call: {list: {}}}, {call: {list: {}}}, {done: x}]}}
        """)
        await here.until_state("agent/b", "parked")
        await here.tell("agent/a", "end", "m1")
        await here.until_state("task/b", "done")


async def test_agent_can_give_its_children_only_its_remaining_budget(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            tasks:
              lead:
                budget: {turns: 10}
                agent: {tools: [task], script: [{when: {message: end}, done: x}]}
        """)
        await here.settled()
        for number in range(3):
            await here.tell("agent/lead", f"go {number}", f"m{number}")
            await here.settled()
        child: JsonObject = {"goal": "part", "agent": {"script": [{"done": "x"}]}}
        told = faults(
            await by_agent(here, "lead", stated("/tasks/lead/tasks", {"x": {**child, "budget": {"turns": 9}}}))
        )
        left = ledger(here, "task/lead", "turns")["left"]
        assert told[0][:2] == ("budget", f"budget.turns 9 turns is more than task/lead has left ({left} turns)")
        both: JsonObject = {name: {**child, "budget": {"turns": left - 1}} for name in ("x", "y")}
        assert [rule for rule, _, _ in faults(await by_agent(here, "lead", stated("/tasks/lead/tasks", both)))]
        one: JsonObject = {"x": {**child, "budget": {"turns": left - 1}}}
        assert isinstance(await by_agent(here, "lead", stated("/tasks/lead/tasks", one)), PatchAccepted)


async def test_agent_cannot_raise_its_own_budget(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply(TWO)
        await here.settled()
        assert isinstance(await by_agent(here, "backend", stated("/tasks/backend/budget/turns", 11)), PatchRefused)
        assert isinstance(
            await by_agent(here, "backend", {"op": "remove", "path": "/tasks/backend/budget"}), PatchRefused
        )


async def test_removed_task_returns_its_remaining_budget(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        here.store.on_change(lambda *_: check_balanced(here.store.view))
        await here.apply(TWO)
        await here.settled()
        await here.patch({"op": "remove", "path": "/tasks/backend"})
        await here.until(lambda: here.find("task/backend") is None)
        await here.settled()
        root = ledger(here, "task/.", "usd")
        assert (root["left"], root.get("granted")) == ("20", None)


async def test_approved_request_for_more_budget_resumes_the_agent(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply("""
            tasks:
              child:
                budget: {turns: 3}
                agent:
                  tools: [request, list]
                  script:
                    - call: {request: {kind: budget, what: {turns: 9}, why: it is long}}
                    - {call: {list: {}}}
                    - {call: {list: {path: .}}}
                    - {call: {list: {}}}
                    - {done: x}
        """)
        await here.until_state("agent/child", "parked")
        (approval,) = here.store.view.list("approval")
        await here.gate.approve(approval.address, Author("human", "cli"))
        await here.until_state("task/child", "done")


async def test_unused_budget_of_ended_children_can_be_granted_to_the_next(tmp_path: Path) -> None:
    # Their sum exceeds its budget, which is valid: three of the four have ended.
    async with arena(tmp_path) as here:
        await here.apply("""
            tasks:
              lead:
                budget: {turns: 20}
                agent: {tools: [task], script: [{when: {message: end}, done: x}]}
        """)
        await here.settled()
        for number in range(4):
            child: JsonObject = {"goal": "part", "agent": {"script": [{"done": "x"}]}, "budget": {"turns": 9}}
            path = "/tasks/lead/tasks" if number == 0 else f"/tasks/lead/tasks/n{number}"
            added = stated(path, {"n0": child} if number == 0 else child)
            assert isinstance(await by_agent(here, "lead", added), PatchAccepted), number
            await here.until_state(f"task/lead/n{number}", "done")
            await here.settled()
        assert ledger(here, "task/lead", "turns")["left"] == 20 - ledger(here, "task/lead", "turns")["spent"]
