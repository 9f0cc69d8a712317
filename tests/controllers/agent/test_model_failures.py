"""Failures between an agent and a model over HTTP: each has the documented result, and each call one result."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from planloop.controllers.agent.models.router import ModelRouter, RouteContext
from planloop.schemas.objects.model import model_table
from tests.controllers.agent.arena import Arena, arena
from tests.fakes.model_server.running import RunningServer, running
from tests.product import JsonObject, SystemClock

pytestmark = pytest.mark.anyio

CALL = {"name": "shell", "arguments": {"command": "echo x >> effects"}}
WORK: list[JsonObject] = [{"reply": {"text": "I do it", "calls": [CALL]}}, {"reply": {"text": "finished"}}]
PLAN = "goal: do it once\nagent: {model: test/m, tools: [shell, list], options: {OPTIONS}}\n"

TRANSIENT: dict[str, JsonObject] = {
    "429": {"status": 429, "headers": {"retry-after": "0"}},
    "500": {"status": 500},
    "503": {"status": 503},
    "garbage": {"garbage": True},
    "cut": {"cut": 1, "reply": {"text": "a b c", "split": 1}},
    "cut in a call": {"cut": 3, "reply": {"calls": [CALL], "split": 4}},
}


@asynccontextmanager
async def asking(folder: Path, steps: list[Any]) -> AsyncIterator[tuple[Arena, RunningServer]]:
    """An arena whose models are asked over HTTP, from a scripted server."""
    async with running(steps) as server:
        table = model_table({"models": {"test": {"url": server.url}}})
        models = ModelRouter(lambda: table, RouteContext({}, folder), SystemClock().now)
        async with models.opened(), arena(folder, models=models) as here:
            yield here, server


async def check(here: Arena, server: RunningServer) -> list[JsonObject]:
    """The plan ends as without failures, and the log has every request that the server saw, with its failures.

    A request that was cancelled before it was sent has no record of its end.
    """
    await here.until_state("task/.", "done", "failed")
    await here.settled()
    assert here.state("task/.") == "done", here.get("agent/.").status
    assert here.read("effects") == "x\n"
    log = await here.log()
    assert sum(draft.type == "call.settled" and draft.data["tool"] == "shell" for draft in log) == 1
    requested = [draft.data["op"] for draft in log if draft.type == "model.requested"]
    ended = [draft.data for draft in log if draft.type in ("model.replied", "model.failed")]
    # A request cancelled before it was sent has no end to report.
    assert len(requested) == len(set(requested)) >= len(ended)
    failed = [each for each in ended if each.get("reason", "Cancelled") != "Cancelled"]
    assert len(server.asked) == len(failed) + len([each for each in ended if "reason" not in each])
    return failed


@pytest.mark.process
@pytest.mark.parametrize("at", [0, 1], ids=["first request", "after the call"])
@pytest.mark.parametrize("fault", TRANSIENT.values(), ids=TRANSIENT)
async def test_transient_failure_is_retried_and_changes_nothing(tmp_path: Path, fault: JsonObject, at: int) -> None:
    steps = [*WORK[:at], fault, *WORK[at:]]
    async with asking(tmp_path, steps) as (here, server):
        await here.apply(PLAN.replace("{OPTIONS}", "{}"))
        failed = await check(here, server)
    assert len(failed) == 1 and failed[0]["is_transient"] and failed[0]["wait_s"] > 0
    assert (server.left, server.faults) == ([], 0)


async def test_retry_waits_as_long_as_the_provider_asks(tmp_path: Path) -> None:
    steps = [{"status": 429, "headers": {"retry-after": "1000"}}]
    async with asking(tmp_path, steps) as (here, _):
        await here.apply(PLAN.replace("{OPTIONS}", "{}"))
        await here.until(lambda: "; retry " in str(here.get("agent/.").status.get("why", "")))
        failed = [draft.data for draft in await here.log() if draft.type == "model.failed"]
        assert [each["wait_s"] for each in failed] == [1000.0]
        await here.jobs_left(0)  # No task waits for it in memory.


@pytest.mark.parametrize(
    ("status", "reason"), [(401, "Refused"), (400, "BadRequest"), (404, "")], ids=["key", "request", "model"]
)
async def test_permanent_failure_blocks_with_a_fix_and_a_new_spec_retries(
    tmp_path: Path, status: int, reason: str
) -> None:
    async with asking(tmp_path, [{"status": status}, *WORK]) as (here, server):
        await here.apply(PLAN.replace("{OPTIONS}", "{}"))
        await here.until(lambda: here.state("agent/.") == "blocked")
        await here.settled()
        condition = here.get("agent/.").status["conditions"]["NoModel"]
        assert reason in condition["message"] and condition["unblocks"]
        assert len(server.asked) == 1
        await here.patch({"op": "add", "path": "/agent/options", "value": {"temperature": 0}})
        failed = await check(here, server)
    assert len(failed) == 1 and not failed[0]["is_transient"]
    assert (server.left, server.faults) == ([], 0)


async def test_edited_goal_closes_a_hanging_request_and_asks_again_with_the_goal(
    tmp_path: Path,
) -> None:
    hangs = {"hang": 1, "reply": {"text": "well, you see", "split": 1}}
    async with asking(tmp_path, [hangs, {"when": {"system": "another"}, "reply": {"text": "so be it"}}]) as (
        here,
        server,
    ):
        await here.apply(PLAN.replace("{OPTIONS}", "{}"))
        await server.until(lambda: len(server.asked) == 1)
        await here.patch({"op": "add", "path": "/goal", "value": "another goal"})
        await here.until_state("task/.", "done", "failed")
        await here.settled()
        assert here.state("task/.") == "done"
        told = server.asked[1]["messages"][-1]["content"]
        kinds = [draft.data["reason"] for draft in await here.log() if draft.type == "model.failed"]
        turns = [draft.data["turn"] for draft in await here.log() if draft.type == "turn.started"]
    assert "another goal" in told and "Cancelled" in kinds and turns == [1]
    assert server.endings == ["closed", "answered"]


async def test_interrupting_message_is_read_in_the_same_turn(tmp_path: Path) -> None:
    hangs = {"hang": True, "reply": {"text": "x"}}
    async with asking(tmp_path, [hangs, {"when": {"last": "drop it"}, "reply": {"text": "dropped"}}]) as (here, server):
        await here.apply(PLAN.replace("{OPTIONS}", "{}"))
        await server.until(lambda: len(server.asked) == 1)
        await here.tell("agent/.", "drop it", "m", delivery="interrupt")
        await here.until_state("task/.", "done")
        await here.settled()
        read = [draft.data["read"] for draft in await here.log() if draft.type in ("turn.started", "message.read")]
    assert [each for each in read if each] == [["m"]]
    assert server.endings == ["closed", "answered"]


async def test_a_queued_message_waits_until_the_agent_would_end(tmp_path: Path) -> None:
    slow = {"delay": 0.2, "reply": {"text": "", "calls": [{"name": "list", "arguments": {}}]}}
    early = {"when": {"not": "by the way"}, "reply": {"text": "finished"}}
    late = {"when": {"any": "by the way"}, "reply": {"text": "heard"}}
    async with asking(tmp_path, [slow, early, late]) as (here, server):
        await here.apply(PLAN.replace("{OPTIONS}", "{}"))
        await server.until(lambda: len(server.asked) == 1)
        await here.tell("agent/.", "by the way", "m")
        await here.until_state("task/.", "done")
        await here.settled()
        assert here.get("task/.").status["result"]["text"] == "heard"
    assert server.endings == ["answered", "answered", "answered"]


async def test_removing_an_agent_closes_its_stream_and_takes_its_command_along(tmp_path: Path) -> None:
    nap = {"name": "shell", "arguments": {"command": "touch began; sleep 300"}}
    steps = [
        {"when": {"system": "hang"}, "hang": True, "reply": {"text": "x"}},
        {"when": {"system": "nap"}, "reply": {"calls": [nap]}},
    ]
    plan = """
tasks:
  a: {goal: hang, agent: {model: test/m}}
  b: {goal: nap, agent: {model: test/m, tools: [shell]}}
  c: {run: sleep 300}
  d: {run: sleep 300}
  e: {run: sleep 300}
"""
    async with asking(tmp_path, steps) as (here, server):
        await here.apply(plan)
        await server.until(lambda: len(server.asked) == 2)
        await here.until((tmp_path / "began").exists)  # Other calls are started too: those of c, d and e.
        await here.patch({"op": "remove", "path": "/tasks/a"}, {"op": "remove", "path": "/tasks/b"})
        await here.until(lambda: here.find("agent/a") is None and here.find("agent/b") is None)
        assert here.bugs == []
        owners = {str(call.owner) for call in here.store.view.list("call")}
        assert owners == {"task/c", "task/d", "task/e"}
        await here.jobs_left(3)
        await server.until(lambda: len(server.endings) == 2)
    assert sorted(server.endings) == ["answered", "closed"]


async def test_law_7_a_reply_to_a_run_that_is_over_is_evidence_and_changes_nothing(tmp_path: Path) -> None:
    steps = [{"delay": 0.3, "reply": {"text": "too late"}}, {"reply": {"text": "the new run"}}]
    async with asking(tmp_path, steps) as (here, server):
        await here.apply(PLAN.replace("{OPTIONS}", "{}") + "on-change: restart\n")
        await server.until(lambda: len(server.asked) == 1)
        await here.patch({"op": "add", "path": "/goal", "value": "from the start"})
        await here.until_state("task/.", "done")
        await here.settled()
        assert here.get("task/.").status["result"]["text"] == "the new run"
        assert here.get("agent/.").status["incarnation"] == 2
