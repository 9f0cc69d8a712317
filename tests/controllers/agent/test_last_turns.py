"""The end of a budget: one last turn without tools, then parked until it grows; unknown prices."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from planloop.client.render.budgets import Costs
from tests import golden_text
from tests.controllers.agent.arena import Arena, arena
from tests.controllers.ledger.balancing import check_balanced
from tests.fakes.scripted_models import ScriptedModels
from tests.product import JsonObject, TokenPrice

pytestmark = pytest.mark.anyio

PLAN = """
budget: {tokens: 100000}
agent: {script: [{when: {message: handover}, say: heard}, {when: {message: end}, done: x}]}
tasks:
  child:
    goal: count the files
    budget: {tokens: 20000}
    agent: {model: test/m, tools: [list]}
"""


def step(reply: JsonObject, tokens: int, **when: Any) -> JsonObject:
    out: JsonObject = {"reply": reply, "usage": {"in": tokens - 10, "out": 10}}
    return out | ({"when": when} if when else {})


def looks(tokens: int, **when: Any) -> JsonObject:
    return step({"calls": [{"name": "list", "arguments": {"path": "."}}]}, tokens, **when)


def ledger(here: Arena, task: str) -> JsonObject:
    found: JsonObject = here.get(task).status["ledger"]["tokens"]
    return found


def watch(here: Arena) -> None:
    here.store.on_change(lambda *_: check_balanced(here.store.view))


async def test_at_the_end_of_its_budget_an_agent_hands_over_without_tools_and_is_parked(tmp_path: Path) -> None:
    models = ScriptedModels(
        [
            step({"text": "three of nine are counted"}, 6_000, last="last turn"),
            {**looks(6_000), "times": 2},
            looks(1_500),
            looks(1_000, tool="list"),
            step({"text": "nine files"}, 900),
        ]
    )
    async with arena(tmp_path, models=models) as here:
        watch(here)
        await here.apply(PLAN)
        await here.until_state("agent/child", "parked")
        await here.settled()
        told = [str(draft.changes) for draft in await here.log() if draft.type == "turn.ended"]
        assert any("agent/.'" in changes and "three of nine" in changes for changes in told), (
            "the parent gets the message"
        )
        offered = [json.loads(request.tools) if request.tools else [] for request in models.asked]
        names = [{each["function"]["name"] for each in tools} for tools in offered]
        assert "list" in names[0]
        assert names[-1] <= {"done", "fail"}
        held = ledger(here, "task/child")
        assert "reserved" not in held
        assert held["spent"] <= 20_000
        assert here.get("task/child").status["conditions"]["Ready"]["reason"] == "BudgetSpent"

        await here.patch({"op": "replace", "path": "/tasks/child/budget/tokens", "value": 60_000})
        await here.until_state("task/child", "done")
        assert models.left == [] or len(models.left) <= 1
        assert here.get("agent/child").status["used"]["tokens"] == ledger(here, "task/child")["spent"]


async def test_a_last_turn_may_say_that_the_work_is_done(tmp_path: Path) -> None:
    done = {"calls": [{"name": "done", "arguments": {"result": "nine"}}]}
    models = ScriptedModels([step(done, 5_000, last="last turn"), {**looks(9_000), "times": 2}])
    async with arena(tmp_path, models=models) as here:
        watch(here)
        await here.apply(PLAN)
        await here.until_state("task/child", "done")
        await here.settled()
        assert ledger(here, "task/child")["closed"] is True
        assert ledger(here, "task/.")["spent"] == ledger(here, "task/child")["spent"]


async def test_model_with_an_unknown_price_is_not_asked_where_money_is_bounded(tmp_path: Path) -> None:
    models = ScriptedModels([step({"text": "nine"}, 500)], price=None)
    async with arena(tmp_path, models=models) as here:
        await here.apply("budget: {usd: 5}\nagent: {model: test/m}\n")
        await here.until_state("agent/.", "blocked")
        assert models.asked == []
        (told,) = here.get("agent/.").status["conditions"].values()
        golden_text.said(told["message"])
        await here.settled()  # Law 12: no timer either.
        await here.patch({"op": "add", "path": "/limits", "value": {"unknown-price": "allow"}})
        await here.until_state("task/.", "done")
        assert here.get("task/.").status["ledger"]["usd"]["unknown"] == 1


async def test_money_is_counted_by_the_providers_usage_and_prices(tmp_path: Path) -> None:
    price = TokenPrice(usd_in=Decimal(2), usd_out=Decimal(10), usd_cached=Decimal(1))
    models = ScriptedModels([step({"text": "nine"}, 1_010)], price=price)
    async with arena(tmp_path, models=models) as here:
        await here.apply("budget: {usd: 5}\nagent: {model: test/m}\n")
        await here.until_state("task/.", "done")
        await here.settled()
        assert here.get("task/.").status["ledger"]["usd"]["spent"] == "0.0021"
        assert here.get("agent/.").status["used"]["usd"] == "0.0021"


async def test_cost_of_a_removed_agent_stays_in_the_cost_of_its_parent(tmp_path: Path) -> None:
    models = ScriptedModels([step({"text": "nine"}, 1_000)])
    async with arena(tmp_path, models=models) as here:
        await here.apply("""
            agent: {script: [{when: {message: end}, done: x}]}
            tasks:
              child: {agent: {model: test/m}}
        """)
        await here.until_state("task/child", "done")
        await here.patch({"op": "remove", "path": "/tasks/child"})
        await here.until(lambda: here.find("task/child") is None)
        everything = [*here.store.view.list("task"), *here.store.view.list("agent")]
        assert Costs(everything).line(here.get("task/.")) == "1k tokens"


async def test_provider_that_counts_differently_is_reported(tmp_path: Path) -> None:
    models = ScriptedModels([step({"text": "nine"}, 50_000)])
    async with arena(tmp_path, models=models) as here:
        await here.apply("agent: {model: test/m}\n")
        await here.until_state("task/.", "done")
        (said,) = [entry.data for entry in await here.log() if entry.type == "model.replied"]
        assert said["usage"]["in"] == 49_990
        assert 0 < said["tokens_counted"] < 10_000, "every tool there is, and a line"
