"""Failed and cancelled requests are billed, and no reservation of an ended request is left."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controllers.agent.arena import Arena, arena
from tests.controllers.agent.test_models import says
from tests.controllers.ledger.balancing import check_balanced
from tests.fakes.scripted_models import ScriptedModels
from tests.product import JsonObject

pytestmark = pytest.mark.anyio

HANGS: JsonObject = {"reply": {"text": "half a sentence", "split": 4}, "hang": 2}
STUBBORN = """
goal: go
budget: {tokens: 100000}
mixins: {stubborn: {around: [{retry: {max: 3, backoff: 1ms}, on: turn}, {timeout: 200ms, on: turn}]}}
agent: {model: test/m, mixins: [stubborn]}
"""


def watch(here: Arena) -> None:
    here.store.on_change(lambda *_: check_balanced(here.store.view))


def tokens(here: Arena, task: str = "task/.") -> JsonObject:
    found: JsonObject = here.get(task).status["ledger"]["tokens"]
    return found


def reserved_in(here: Arena) -> frozenset[str]:
    """The requests with a reservation."""
    task = here.find("task/.")
    found: JsonObject = {} if task is None else task.status.get("ledger", {}).get("tokens", {}).get("reserved", {})
    return frozenset(op for ops in found.values() for op in ops)


async def failures(here: Arena) -> list[tuple[str, bool]]:
    """The reasons of failed requests, and whether their usage is known."""
    return [(each.data["reason"], "usage" in each.data) for each in await here.log() if each.type == "model.failed"]


async def test_request_repeated_by_a_mixin_is_billed_and_reserved_separately(tmp_path: Path) -> None:
    models = ScriptedModels([HANGS, says("ok")])
    async with arena(tmp_path, models=models) as here:
        watch(here)
        reserved: list[frozenset[str]] = []
        here.store.on_change(lambda *_: reserved.append(reserved_in(here)))
        await here.apply(STUBBORN)
        await here.until_state("task/.", "done")
        await here.settled()
        first, second = (request.key.attempt for request in models.asked)
        assert (first, second) == (1, 2)
        (reply,) = [each.data["usage"] for each in await here.log() if each.type == "model.replied"]
        assert max(map(len, reserved)) == 1 and len(frozenset().union(*reserved)) == 2
        assert reserved_in(here) == frozenset() and tokens(here)["spent"] > reply["in"] + reply["out"]


async def test_a_failure_after_a_mixin_asked_once_more_is_recorded_and_waited_for(tmp_path: Path) -> None:
    models = ScriptedModels([HANGS, {"status": 500}, says("ok")])
    async with arena(tmp_path, models=models) as here:
        watch(here)
        await here.apply(STUBBORN)
        await here.until_state("task/.", "done")
        await here.settled()
        assert await failures(here) == [("Overloaded", False)]
        assert reserved_in(here) == frozenset()


async def test_mixin_does_not_ask_again_without_enough_budget(tmp_path: Path) -> None:
    models = ScriptedModels([HANGS])
    async with arena(tmp_path, models=models) as here:
        watch(here)
        await here.apply(STUBBORN)
        await here.until(lambda: len(models.asked) == 1)
        await here.patch({"op": "replace", "path": "/budget/tokens", "value": 1})
        await here.until_state("task/.", "failed")
        await here.settled()
        assert len(models.asked) == 1 and reserved_in(here) == frozenset()


async def test_a_request_of_a_cancelled_task_is_billed_for_what_it_had_cost(tmp_path: Path) -> None:
    models = ScriptedModels([HANGS])
    async with arena(tmp_path, models=models) as here:
        watch(here)
        await here.apply("""
            budget: {tokens: 100000}
            tasks: {kid: {goal: think, agent: {model: test/m}}}
        """)
        await here.until(lambda: len(models.asked) == 1)
        await here.patch({"op": "add", "path": "/tasks/kid/cancel", "value": True})
        await here.until_state("task/kid", "cancelled")
        await here.settled()
        assert await failures(here) == [("Cancelled", True)]
        assert tokens(here)["spent"] > 0 and reserved_in(here) == frozenset()
