"""Servers as objects: started when needed, one for many agents, restarted, stopped, and never left behind."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from planloop.reconciler.effects import process_table as table
from planloop.schemas import limits
from tests.controllers.agent.arena import Arena, arena
from tests.controllers.mcp.plans import BAD, DONE, call, plan, texts, tricky, written
from tests.golden_text import said
from tests.product import JsonObject
from tests.servers.in_process import InProcess

pytestmark = pytest.mark.anyio

WAITS: JsonObject = {"when": {"message": "go"}, **call("t.pid")}


def pids_of(here: Arena) -> set[int]:
    """The living processes that carry the label of the arena's plan."""
    return {one.pid for one in table.labelled_processes(str(here.folder))}


async def test_server_runs_only_while_an_agent_that_may_use_it_works(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    user = {"agent": {"tools": ["t"], "script": [call("t.echo", text="x"), DONE]}, "needs": ["first"]}
    other = {"agent": {"tools": ["list"], "script": [{"when": {"message": "go"}, "done": "x"}]}}
    servers = InProcess()
    async with arena(tmp_path, start=servers) as here:
        await here.apply(written({"mcp": {"t": tricky(notes)}, "tasks": {"first": other, "second": user}}))
        await here.until_state("agent/first", "asleep")
        await here.settled()
        assert (here.state("mcp/t"), notes.exists()) == ("idle", False)
        await here.tell("agent/first", "go", "m")
        await here.until_state("task/.", "done", "failed")
        await here.settled()
        assert here.state("task/second") == "done" and here.state("mcp/t") == "idle"
        assert servers.running == set()
    assert notes.read_text().count("started") == 1


async def test_forty_one_agents_share_one_process(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    task = {"agent": {"tools": ["t"], "script": [call("t.pid"), DONE]}}
    async with arena(tmp_path, start=InProcess()) as here:
        tasks = {f"a{index}": task for index in range(41)}
        await here.apply(written({"mcp": {"t": tricky(notes)}, "tasks": tasks}))
        await here.until_state("task/.", "done", "failed")
        seen = await texts(here, "t.pid")
        assert here.state("task/.") == "done"
        assert (len(seen), len(set(seen))) == (41, 1)
    assert notes.read_text().count("started") == 1


async def test_with_share_agent_each_agent_has_its_own_process(tmp_path: Path) -> None:
    task = {"agent": {"tools": ["t"], "script": [call("t.pid"), DONE]}}
    servers = InProcess()
    async with arena(tmp_path, start=servers) as here:
        await here.apply(written({"mcp": {"t": tricky(share="agent")}, "tasks": {"a": task, "b": task}}))
        await here.until_state("task/.", "done", "failed")
        assert len(set(await texts(here, "t.pid"))) == 2
        await here.settled()
        assert here.get("mcp/t").status.get("runs") == {} and servers.running == set()


@pytest.mark.process
async def test_a_killed_server_is_started_again_and_calls_work_again(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply(plan({"t": tricky()}, call("t.pid"), WAITS, DONE))
        await here.until_state("agent/.", "asleep")
        (first,) = await texts(here, "t.pid")
        os.kill(int(first), signal.SIGKILL)
        await here.until(lambda: here.get("mcp/t").status["runs"]["plan"]["restarts"] == 1)
        await here.until_state("mcp/t", "ready")
        await here.tell("agent/.", "go", "m")
        await here.until_state("task/.", "done", "failed")
        _, second = await texts(here, "t.pid")
        assert here.state("task/.") == "done" and second != first


@pytest.mark.process
async def test_server_that_ends_repeatedly_is_a_crash_loop_and_agents_continue_without(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        broken = {"command": ["sh", "-c", "echo no license >&2; exit 3"]}
        await here.apply(plan({"t": broken}, call("t.pid"), BAD, DONE, tools=["t", "list"]))
        await here.until_state("task/.", "done", "failed")
        assert here.state("task/.") == "done"
        status = here.get("mcp/t").status
        types = [draft.type for draft in await here.log() if draft.subject == "mcp/t"]
        assert types.count("server.started") == limits.SERVER_FAILURES_MAX
        ended = [draft.data for draft in await here.log() if draft.type == "server.ended"]
        assert {each["why"] for each in ended[: limits.SERVER_FAILURES_MAX]} == {"it ended: no license"}
        assert (
            ended[limits.SERVER_FAILURES_MAX - 1]["state"] == "failed"
            and status["conditions"]["Ready"]["status"] == "False"
        )


async def test_missing_program_is_reported_with_its_fix_and_found_when_installed(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        await here.apply(
            plan({"t": {"command": ["./npx", "server"]}, "n": {"command": ["npx"]}}, WAITS, DONE, tools=["t"])
        )
        await here.until_state("mcp/t", "failed")
        ready = here.get("mcp/t").status["conditions"]["Ready"]
        assert ready["reason"] == "NoProgram"
        said(ready["message"])
        assert here.state("mcp/n") == "idle"  # No agent may use it.


async def test_unset_variable_is_named_and_its_value_is_in_no_record(tmp_path: Path) -> None:
    async with arena(tmp_path, start=InProcess()) as here:
        server = tricky()
        server["env"] = {"HERE": "env:HOME_OF_NOBODY"}
        await here.apply(plan({"t": server}, call("t.pid"), BAD, DONE, tools=["t", "list"]))
        await here.until_state("task/.", "done", "failed")
        ended = [draft.data for draft in await here.log() if draft.type == "server.ended"]
        assert ended[0]["reason"] == "NoVariable" and "HOME_OF_NOBODY" in ended[0]["why"]


async def test_another_command_replaces_the_process_and_another_timeout_does_not(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    async with arena(tmp_path, start=InProcess()) as here:
        await here.apply(plan({"t": tricky(notes)}, call("t.pid"), WAITS, DONE))
        await here.until_state("agent/.", "asleep")
        await here.patch({"op": "add", "path": "/mcp/t/timeout", "value": 30})
        await here.store.flush(here.store.view.rev)
        assert notes.read_text().count("started") == 1
        await here.patch({"op": "add", "path": "/mcp/t/env/MORE", "value": "1"})
        await here.until(lambda: notes.read_text().count("started") == 2)
        await here.until_state("mcp/t", "ready")
        await here.tell("agent/.", "go", "m")
        await here.until_state("task/.", "done", "failed")
        first, second = await texts(here, "t.pid")
        assert first != second


async def test_server_removed_from_the_plan_is_stopped_and_deleted(tmp_path: Path) -> None:
    servers = InProcess()
    async with arena(tmp_path, start=servers) as here:
        await here.apply(plan({"t": tricky()}, call("t.pid"), WAITS, DONE, tools=["all"]))
        await here.until_state("agent/.", "asleep")
        assert servers.running
        await here.patch({"op": "remove", "path": "/mcp/t"})
        await here.until(lambda: here.find("mcp/t") is None)
        assert servers.running == set()
        await here.settled()


@pytest.mark.process
async def test_a_server_that_ignores_the_end_of_its_input_and_term_is_killed(tmp_path: Path) -> None:
    stubborn = f"trap '' TERM; {' '.join(tricky()['command'])}; sleep 1000"
    async with arena(tmp_path) as here:
        await here.apply(plan({"t": {"command": ["sh", "-c", stubborn]}}, call("t.pid"), DONE))
        await here.until_state("task/.", "done", "failed")
        await here.settled()
        assert here.state("task/.") == "done" and pids_of(here) == set()


async def test_leaving_the_client_from_another_task_than_entered_it_never_happens(tmp_path: Path) -> None:
    """The SDK's client fails when it is left by another task; the owner here cancels everything at once."""
    servers = InProcess()
    async with arena(tmp_path, start=servers) as here:
        await here.apply(plan({"t": tricky()}, call("t.hang"), DONE))
        await here.until(lambda: any(each.status.get("progress") for each in here.store.view.list("call")))
    assert here.bugs == []
    assert servers.running == set()
