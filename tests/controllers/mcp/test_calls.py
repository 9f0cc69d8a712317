"""Calls of a server's tools: results of every kind, progress, cancelling, bounds of time, and what a lost answer is."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from tests import golden_text
from tests.controllers.agent.arena import ENV, arena
from tests.controllers.mcp.plans import BAD, DONE, TRICKY, call, plan, texts, tricky
from tests.product import CallState, JsonObject
from tests.servers.in_process import InProcess

pytestmark = pytest.mark.anyio


async def test_results_of_every_kind_reach_the_caller(tmp_path: Path) -> None:
    async with arena(tmp_path, start=InProcess()) as here:
        steps = [call("t.echo", text="hi"), call("t.fail"), BAD, call("t.picture"), call("t.large", size=100_000)]
        await here.apply(plan({"t": tricky()}, *steps, DONE))
        await here.until_state("task/.", "done", "failed")
        plain, failed, picture, large = [
            r for r in await here.results() if r.get("text") != "finished; the checks decide"
        ]
        assert (plain["state"], plain["text"]) == ("Succeeded", "hi")
        assert (failed["state"], failed["error"]) == ("Failed", "ToolError")
        head, _, digest = picture["text"].rstrip("]").rpartition(" ")
        assert here.store.get_blob(digest) == b"hello"
        golden_text.said(head)
        assert "value" not in picture
        assert len(large["text"]) < 40_000 and here.store.get_blob(large["blob"]) == b"x" * 100_000


async def test_argument_error_of_a_server_is_returned_as_a_failure(tmp_path: Path) -> None:
    async with arena(tmp_path, start=InProcess()) as here:
        unknown: JsonObject = {"expect": {"error": "UnknownTool"}}
        await here.apply(plan({"t": tricky()}, call("t.echo", wrong=1), BAD, call("t.nothing"), unknown, DONE))
        await here.until_state("task/.", "done", "failed")
        assert here.state("task/.") == "done"
        wrong = (await here.results("t.echo"))[0]
        assert wrong["state"] == "Failed" and "text" in wrong["text"]


async def test_call_reports_progress_and_is_cancelled_at_the_server(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    async with arena(tmp_path, start=InProcess()) as here:
        await here.apply(plan({"t": tricky(notes)}, call("t.hang"), DONE))
        await here.until(lambda: any(each.status.get("progress") for each in here.store.view.list("call")))
        assert here.store.view.list("call")[0].status["progress"] == "1 of 3 one of three"
        await here.patch({"op": "add", "path": "/cancel", "value": True})
        await here.until_state("task/.", "cancelled")
        await here.settled()
    assert "hang cancelled" in notes.read_text().splitlines()


async def test_interrupting_message_cancels_the_call_at_the_server_which_continues(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    script = [call("t.hang"), BAD, call("t.echo", text="still here"), DONE]
    async with arena(tmp_path, start=InProcess()) as here:
        await here.apply(plan({"t": tricky(notes)}, *script))
        await here.until(lambda: any(each.status.get("progress") for each in here.store.view.list("call")))
        await here.tell("agent/.", "stop", "m", delivery="interrupt")
        await here.until_state("task/.", "done", "failed")
        assert await texts(here, "t.echo") == ["still here"]
    assert notes.read_text().splitlines()[1:4] == ["hang began", "hang cancelled", "echo still here"]


@pytest.mark.parametrize(("effect", "state"), [("once", "Unknown"), ("read", "Failed")])
async def test_call_past_its_timeout_is_cancelled_and_its_class_decides_the_outcome(
    tmp_path: Path, effect: str, state: str
) -> None:
    notes = tmp_path / "notes"
    async with arena(tmp_path, start=InProcess()) as here:
        server = tricky(notes, timeout=1, effects={"hang": effect})
        await here.apply(plan({"t": server}, call("t.hang"), BAD, DONE))
        await here.until(lambda: "hang cancelled" in notes.read_text().splitlines() if notes.exists() else False)
        if state == "Unknown":
            await here.until(lambda: any(each.state == CallState.UNKNOWN for each in here.store.view.list("call")))
            await here.until_state("agent/.", "blocked")
        else:
            await here.until_state("task/.", "done")
            assert (await here.results("t.hang"))[0]["error"] == "TimedOut"


@pytest.mark.parametrize(("effect", "lives"), [("read", True), ("idempotent", True), ("once", False)])
async def test_a_call_whose_server_died_is_made_again_only_if_its_class_allows(
    tmp_path: Path, effect: str, lives: bool
) -> None:
    notes = tmp_path / "notes"
    async with arena(tmp_path, start=InProcess()) as here:
        await here.apply(plan({"t": tricky(notes, effects={"die": effect})}, call("t.die"), DONE))
        if lives:
            await here.until_state("task/.", "done")
            assert await texts(here, "t.die") == ["alive"]
        else:
            await here.until(lambda: any(each.state == CallState.UNKNOWN for each in here.store.view.list("call")))
            (doubt,) = here.store.view.list("call")
            golden_text.said(doubt.status["why"])
    assert ("die lives" in notes.read_text().splitlines()) is lives


async def test_tool_sees_the_declared_variables_only(tmp_path: Path) -> None:
    async with arena(tmp_path, start=InProcess()) as here:
        server = tricky()
        server["env"] = {"GREETING": "hello", "PLANLOOP_PLAN": "mine"}
        steps = [call("t.see", name=name) for name in ("GREETING", "PYTEST_CURRENT_TEST", "PLANLOOP_PLAN")]
        await here.apply(plan({"t": server}, *steps, DONE))
        await here.until_state("task/.", "done", "failed")
        assert await texts(here, "t.see") == ["hello", "-", str(tmp_path)]


async def test_resources_are_listed_and_read(tmp_path: Path) -> None:
    async with arena(tmp_path, start=InProcess()) as here:
        steps = [
            call("resource", server="t"),
            call("resource", server="t", uri="tricky://motto"),
            call("resource", server="x"),
        ]
        await here.apply(plan({"t": tricky()}, *steps, DONE, tools=["t", "resource"]))
        await here.until_state("task/.", "done", "failed")
        listed, read, refused = (await here.results("resource"))[:3]
        assert "tricky://motto" in listed["text"] and read["text"] == "all that can go wrong"
        assert refused["state"] == "Denied"


async def test_server_that_requests_our_model_is_refused(tmp_path: Path) -> None:
    async with arena(tmp_path, start=InProcess()) as here:
        await here.apply(plan({"t": tricky()}, call("t.think"), BAD, call("t.echo", text="goes on"), DONE))
        await here.until_state("task/.", "done", "failed")
        refused = (await here.results("t.think"))[0]
        assert refused["state"] == "Failed" and refused["text"]
        assert await texts(here, "t.echo") == ["goes on"]


@pytest.mark.process
async def test_a_server_that_hangs_as_a_whole_is_started_again(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        server = tricky(timeout=3, effects={"block": "read"})
        go: JsonObject = {"when": {"message": "go"}, **call("t.echo", text="back")}
        await here.apply(plan({"t": server}, call("t.block"), BAD, go, DONE))
        await here.until(lambda: here.get("mcp/t").status.get("runs", {}).get("plan", {}).get("restarts") == 1)
        await here.until_state("mcp/t", "ready")
        await here.tell("agent/.", "go", "m")
        await here.until_state("task/.", "done", "failed")
        assert await texts(here, "t.echo") == ["back"]
        ended = [draft.data["reason"] for draft in await here.log() if draft.type == "server.ended"]
        assert ended[0] == "Hung"


@pytest.mark.process
async def test_secrets_of_a_server_are_masked_in_its_results_and_output(tmp_path: Path) -> None:
    shouts = "import os, sys; print('I have', os.environ['TOKEN'], file=sys.stderr, flush=True)"
    script = f"{sys.executable} -c {shlex.quote(shouts)}; exec {sys.executable} {TRICKY}"
    server: JsonObject = {"command": ["sh", "-c", script], "env": {"TOKEN": "env:PATH"}}
    async with arena(tmp_path) as here:
        await here.apply(plan({"t": server}, call("t.see", name="TOKEN"), DONE))
        await here.until_state("task/.", "done", "failed")
        assert await texts(here, "t.see") == ["•••"]
        (said,) = (tmp_path / ".plan").rglob("mcp-t.out")
        assert "I have •••" in said.read_text()
        await here.settled()
    kept = [each for each in (tmp_path / ".plan").rglob("*") if each.is_file()]
    assert not any(ENV["PATH"].encode() in each.read_bytes() for each in kept)
