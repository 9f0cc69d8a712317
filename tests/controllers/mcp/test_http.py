"""Servers over streamable HTTP: found when they come up, found again when they come back."""

from __future__ import annotations

import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from anyio.abc import Process

from planloop.controllers.mcp import link as mcp_link
from planloop.controllers.mcp.server_request import ToolServerRequest
from planloop.schemas import limits
from planloop.schemas.objects.mcp import ServerFailed
from tests import golden_text
from tests.controllers.agent.arena import ENV, Arena, arena
from tests.controllers.mcp.plans import BAD, DONE, TRICKY, call, plan, texts
from tests.fakes.virtual_time import StillClock
from tests.product import CallState, JsonObject
from tests.servers.in_process import over_http

pytestmark = pytest.mark.anyio


@pytest.fixture
def port() -> Iterator[int]:
    """A port for this test alone: it stays bound here without listening, so that no other process is given it."""
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # A server of this test may listen there.
        one.bind(("127.0.0.1", 0))
        yield int(one.getsockname()[1])


def move_to_next_try(here: Arena, clock: StillClock) -> None:
    """Move the clock to the time at which the server is tried again, if it waits for that."""
    run = here.get("mcp/t").status.get("runs", {}).get("plan", {})
    if run.get("state") == "restarting" and clock.at_s < run["next_at"]:
        clock.at_s = run["next_at"]
        here.work.poke("mcp/t")


async def until_over(here: Arena, clock: StillClock) -> None:
    """Return when the plan has ended; the clock moves from one try of its server to the next."""

    def is_over() -> bool:
        move_to_next_try(here, clock)
        return here.state("task/.") in ("done", "failed")

    await here.until(is_over)


@asynccontextmanager
async def listening(port: int, notes: Path) -> AsyncIterator[Process]:
    """The tricky server on a port, ready to be spoken to; killed at the end."""
    env = {"TRICKY_NOTES": str(notes)}
    async with await anyio.open_process([sys.executable, str(TRICKY), str(port)], env=env, stdin=None) as process:
        try:
            assert process.stderr is not None
            said = b""
            while b"running on" not in said:
                said += await process.stderr.receive()
            yield process
        finally:
            if process.returncode is None:
                process.kill()


@pytest.mark.process
async def test_a_server_at_a_url_is_used_like_any_other(tmp_path: Path, port: int) -> None:
    async with listening(port, tmp_path / "notes"), arena(tmp_path) as here:
        server = {"url": f"http://127.0.0.1:{port}/mcp"}
        steps = [call("t.echo", text="hi"), call("resource", server="t", uri="tricky://motto"), call("t.picture")]
        await here.apply(plan({"t": server}, *steps, DONE, tools=["t", "resource"]))
        await here.until_state("task/.", "done", "failed")
        assert (await texts(here))[:2] == ["hi", "all that can go wrong"]
        assert here.state("task/.") == "done"
        await here.settled()


async def test_cancelling_a_call_over_http_cancels_it_at_the_server(tmp_path: Path, port: int) -> None:
    notes = tmp_path / "notes"
    async with over_http(port, notes):
        async with arena(tmp_path) as here:
            await here.apply(plan({"t": {"url": f"http://127.0.0.1:{port}/mcp"}}, call("t.hang"), DONE))
            await here.until(lambda: any(each.status.get("progress") for each in here.store.view.list("call")))
            await here.patch({"op": "add", "path": "/cancel", "value": True})
            await here.until_state("task/.", "cancelled")
            await here.settled()
        with anyio.fail_after(45):
            while "hang cancelled" not in notes.read_text():
                await anyio.lowlevel.checkpoint()


async def test_server_that_is_not_started_yet_is_found_when_it_comes_up(tmp_path: Path, port: int) -> None:
    clock = StillClock()
    async with arena(tmp_path, clock=clock) as here:
        await here.apply(plan({"t": {"url": f"http://127.0.0.1:{port}/mcp"}}, call("t.echo", text="hi"), DONE))
        await here.until(lambda: here.get("mcp/t").status.get("runs", {}).get("plan", {}).get("failures", 0) >= 1)
        async with over_http(port, tmp_path / "notes"):
            await until_over(here, clock)
            assert await texts(here, "t.echo") == ["hi"]
            await here.settled()


async def test_server_that_went_away_is_reconnected(tmp_path: Path, port: int) -> None:
    notes = tmp_path / "notes"
    go = {"when": {"message": "go"}, **call("t.echo", text="again")}
    clock = StillClock()
    async with arena(tmp_path, clock=clock) as here:
        async with over_http(port, notes):
            server = {"url": f"http://127.0.0.1:{port}/mcp", "effects": {"echo": "read"}}
            await here.apply(plan({"t": server}, call("t.echo", text="hi"), go, DONE))
            await here.until_state("agent/.", "asleep")
        async with over_http(port, notes):
            await here.tell("agent/.", "go", "m")
            await until_over(here, clock)
            assert await texts(here, "t.echo") == ["hi", "again"]
            await here.settled()


async def test_undelivered_call_is_made_once_the_server_is_there_whatever_its_class(tmp_path: Path, port: int) -> None:
    notes = tmp_path / "notes"
    go = {"when": {"message": "go"}, **call("t.echo", text="again")}
    clock = StillClock()
    async with arena(tmp_path, clock=clock) as here:
        async with over_http(port, notes):
            await here.apply(plan({"t": {"url": f"http://127.0.0.1:{port}/mcp"}}, call("t.echo", text="hi"), go, DONE))
            await here.until_state("agent/.", "asleep")
        await here.tell("agent/.", "go", "m")
        await here.until_state("mcp/t", "restarting")
        move_to_next_try(here, clock)
        await here.until(lambda: here.get("mcp/t").status["runs"]["plan"]["reason"] == "Unreachable")
        assert [each.state for each in here.store.view.list("call")] == [CallState.STARTED]
        async with over_http(port, notes):
            await until_over(here, clock)
            assert await texts(here, "t.echo") == ["hi", "again"]
            await here.settled()
    assert notes.read_text().splitlines().count("echo again") == 1


async def test_url_without_a_listener_is_tried_for_half_a_minute_before_agents_continue(
    tmp_path: Path, port: int
) -> None:
    clock = StillClock()
    async with arena(tmp_path, clock=clock) as here:
        server: JsonObject = {"url": f"http://127.0.0.1:{port}/mcp"}
        await here.apply(plan({"t": server}, call("t.echo", text="hi"), BAD, DONE, tools=["t", "list"]))
        await until_over(here, clock)
        run = here.get("mcp/t").status["runs"]["plan"]
        states = [draft.data["state"] for draft in await here.log() if draft.type == "server.ended"]
        assert here.state("task/.") == "done", "its agent continued without the server"
    assert (states[-1], set(states[:-1])) == ("failed", {"restarting"})
    tried_s = run["next_at"] - limits.BACKOFF_CAP_S - run["failing_since"]
    assert limits.SERVER_UNREACHABLE_S <= tried_s < limits.SERVER_UNREACHABLE_S + limits.SERVER_RETRY_CAP_S


@pytest.mark.process
async def test_unconnected_request_has_not_begun_and_is_a_plain_failure(tmp_path: Path, port: int) -> None:
    url = f"http://127.0.0.1:{port}/mcp"
    link = mcp_link.ToolServerLink(lambda _: None)
    async with (
        listening(port, tmp_path / "notes") as process,
        link.opened(mcp_link.http_transport(url, {}, link.gone.set)),
        anyio.create_task_group() as group,
    ):
        group.start_soon(link.serve)
        process.kill()
        await process.wait()
        request = ToolServerRequest(link.offered, 10.0)
        link.submit(request)
        with pytest.raises(ServerFailed) as fault:
            await request.result()
        group.cancel_scope.cancel()
    link.close()
    assert link.gone.is_set()
    assert (fault.value.reason, fault.value.has_begun) == ("Unreachable", False)


@pytest.mark.process
@pytest.mark.parametrize(("effect", "lives"), [("read", True), ("once", False)])
async def test_a_connection_that_broke_after_a_call_was_sent_leaves_its_end_unknown(
    tmp_path: Path, port: int, effect: str, lives: bool
) -> None:
    notes = tmp_path / "notes"
    clock = StillClock()
    async with arena(tmp_path, clock=clock) as here:
        async with listening(port, notes) as process:
            server: JsonObject = {"url": f"http://127.0.0.1:{port}/mcp", "effects": {"die": effect}}
            await here.apply(plan({"t": server}, call("t.die"), DONE))
            await process.wait()
        if not lives:
            await here.until(lambda: any(each.state == CallState.UNKNOWN for each in here.store.view.list("call")))
            return
        async with listening(port, notes):
            await until_over(here, clock)
            assert await texts(here, "t.die") == ["alive"]
            await here.settled()


async def test_headers_are_read_from_where_the_plan_points_and_are_in_no_record(tmp_path: Path, port: int) -> None:
    notes = tmp_path / "notes"
    (tmp_path / "token.txt").write_text("sesame-9731\n")
    headers: JsonObject = {"Authorization": "file:token.txt", "X-Token": "env:PATH", "X-Plain": "as it stands"}
    async with over_http(port, notes), arena(tmp_path) as here:
        server: JsonObject = {"url": f"http://127.0.0.1:{port}/mcp", "headers": headers}
        await here.apply(plan({"t": server}, *(call("t.header", name=name) for name in headers), DONE))
        await here.until_state("task/.", "done", "failed")
        said = notes.read_text().splitlines()
        assert {"Authorization: sesame-9731", f"X-Token: {ENV['PATH']}", "X-Plain: as it stands"} <= set(said)
        assert not any("sesame" in str(draft) for draft in await here.log())
        await here.settled()
    kept = [each for each in (tmp_path / ".plan").rglob("*") if each.is_file()]
    assert not any(b"sesame" in each.read_bytes() for each in kept)


async def test_missing_header_value_is_reported_by_its_place(tmp_path: Path) -> None:
    server: JsonObject = {"url": "http://127.0.0.1:1/mcp", "headers": {"Authorization": "env:NOWHERE"}}
    async with arena(tmp_path) as here:
        await here.apply(plan({"t": server}, call("t.echo", text="hi"), DONE))
        await here.until(lambda: here.state("mcp/t") == "failed")
        ready = here.get("mcp/t").status["conditions"]["Ready"]
        assert ready["reason"] == "NoSecret"
        golden_text.said(ready["message"])
        assert "headers" in ready["unblocks"][0]
