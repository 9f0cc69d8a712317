"""Servers over streamable HTTP: found when they come up, found again when they come back."""

from __future__ import annotations

import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from anyio.abc import Process

from tests.controllers.agent.arena import arena
from tests.controllers.mcp.plans import DONE, TRICKY, call, plan, texts

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


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
            process.kill()


async def test_a_server_at_a_url_is_used_like_any_other(tmp_path: Path) -> None:
    port = free_port()
    async with listening(port, tmp_path / "notes"), arena(tmp_path) as here:
        server = {"url": f"http://127.0.0.1:{port}/mcp"}
        steps = [call("t.echo", text="hi"), call("resource", server="t", uri="tricky://motto"), call("t.picture")]
        await here.apply(plan({"t": server}, *steps, DONE, tools=["t", "resource"]))
        await here.until_state("task/.", "done", "failed")
        assert (await texts(here))[:2] == ["hi", "all that can go wrong"]
        assert here.state("task/.") == "done"
        await here.settled()


async def test_cancelling_a_call_over_http_cancels_it_at_the_server(tmp_path: Path) -> None:
    port, notes = free_port(), tmp_path / "notes"
    async with listening(port, notes):
        async with arena(tmp_path) as here:
            await here.apply(plan({"t": {"url": f"http://127.0.0.1:{port}/mcp"}}, call("t.hang"), DONE))
            await here.until(lambda: any(each.status.get("progress") for each in here.store.view.list("call")))
            await here.patch({"op": "add", "path": "/cancel", "value": True})
            await here.until_state("task/.", "cancelled")
            await here.settled()
        with anyio.fail_after(10):
            while "hang cancelled" not in notes.read_text():
                await anyio.lowlevel.checkpoint()


async def test_a_server_that_nobody_started_yet_is_found_when_it_comes_up(tmp_path: Path) -> None:
    port = free_port()
    async with arena(tmp_path) as here:
        await here.apply(plan({"t": {"url": f"http://127.0.0.1:{port}/mcp"}}, call("t.echo", text="hi"), DONE))
        await here.until(lambda: here.get("mcp/t").status.get("runs", {}).get("plan", {}).get("failures", 0) >= 1)
        async with listening(port, tmp_path / "notes"):
            await here.until_state("task/.", "done", "failed")
            assert await texts(here, "t.echo") == ["hi"]
            await here.settled()


async def test_a_server_that_went_away_is_connected_to_again(tmp_path: Path) -> None:
    port, notes = free_port(), tmp_path / "notes"
    go = {"when": {"message": "go"}, **call("t.echo", text="again")}
    async with arena(tmp_path) as here:
        async with listening(port, notes):
            server = {"url": f"http://127.0.0.1:{port}/mcp", "effects": {"echo": "read"}}
            await here.apply(plan({"t": server}, call("t.echo", text="hi"), go, DONE))
            await here.until_state("agent/.", "asleep")
        async with listening(port, notes):
            await here.tell("agent/.", "go", "m")
            await here.until_state("task/.", "done", "failed")
            assert await texts(here, "t.echo") == ["hi", "again"]
            await here.settled()
