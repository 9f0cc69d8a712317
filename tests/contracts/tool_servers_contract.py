"""The contract of a tool server behind pipes, in a process of its own or in this loop."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from planloop.controllers.mcp import link as mcp_link
from planloop.controllers.mcp.server_process import StartServer, ToolServerLaunch
from planloop.controllers.mcp.server_request import ToolServerRequest
from planloop.reconciler.effects import process_table
from planloop.schemas import limits
from planloop.schemas.objects.mcp import ServerFailed
from tests.product import Json, JsonObject

pytestmark = pytest.mark.anyio

TRICKY = Path(__file__).parents[1] / "servers" / "tricky.py"
PATIENCE_S = 45.0


@dataclass
class Session:
    """A link to one tricky server, and what that server printed and noted."""

    link: mcp_link.ToolServerLink
    notes: Path
    printed: list[bytes] = field(default_factory=list)

    def asked(self, work: Callable[[], Any]) -> ToolServerRequest:
        """Submits a request."""
        request = ToolServerRequest(work, PATIENCE_S)
        self.link.submit(request)
        return request

    async def call(self, tool: str, *, again: JsonObject | None = None, **arguments: Json) -> Any:
        """The `Answer` of one round of a call, or the questions that the server asks first."""
        call: JsonObject = {"op": "op", "tool": tool, "arguments": arguments}
        return await self.asked(partial(self.link.call, call, _unheard, again or {})).result()

    async def text(self, tool: str, **arguments: Json) -> str:
        """The text of a call that answers with text alone."""
        (content,) = (await self.call(tool, **arguments)).result["content"]
        return str(content["text"])

    async def tools(self) -> list[str]:
        """The names of the tools that the server offers."""
        offer = await self.asked(self.link.offered).result()
        return [tool.name for tool in offer.tools]

    async def until(self, holds: Callable[[], bool]) -> None:
        """Returns when `holds` is true."""
        with anyio.fail_after(PATIENCE_S):
            while not holds():
                await anyio.lowlevel.checkpoint()

    def noted(self, line: str) -> bool:
        """Whether the server wrote down this line."""
        return line in self.notes.read_text().splitlines()


async def _unheard(done: float, total: float | None, message: str | None) -> None:
    pass


@asynccontextmanager
async def session(start: StartServer, folder: Path) -> AsyncIterator[Session]:
    """A server that `start` starts, connected until the block is left."""
    notes = folder / "notes"
    env = {"TRICKY_NOTES": str(notes), "GREETING": "hello"}
    launch = ToolServerLaunch((sys.executable, str(TRICKY)), str(folder), env)
    printed: list[bytes] = []
    link = mcp_link.ToolServerLink(printed.append)
    transport = mcp_link.stdio_transport(start(launch, _ended), printed.append, link.gone)
    try:
        async with link.opened(transport), anyio.create_task_group() as group:
            group.start_soon(link.serve)
            yield Session(link, notes, printed)
            group.cancel_scope.cancel()
    finally:
        link.close()


async def _ended(pid: int) -> None:
    """The server ends when its input is closed; one that does not is a failure."""
    with anyio.fail_after(limits.SERVER_STOP_S + PATIENCE_S):
        await process_table.wait_for_exit(pid)


class ToolServersContract:
    """One session makes every check that leaves its server alive: starting a process costs most."""

    @pytest.fixture
    def start(self) -> StartServer:
        raise NotImplementedError

    async def test_a_session_lists_answers_fails_asks_cancels_prints_and_changes(
        self, start: StartServer, tmp_path: Path
    ) -> None:
        async with session(start, tmp_path) as one:
            link = one.link
            assert (link.server()["name"], link.server()["version"]) == ("tricky", "1.0")
            before = await one.tools()
            assert {"echo", "hang", "die"} <= {*before}

            assert await one.text("echo", text="ü\n\u2028x") == "ü\n\u2028x"
            assert await one.text("large", size=200_000) == "x" * 200_000
            assert [await one.text("see", name=name) for name in ("GREETING", "PYTEST_CURRENT_TEST")] == ["hello", "-"]
            assert await one.text("pid") == await one.text("pid") != ""
            failed = (await one.call("fail")).result
            assert failed["isError"] and "fail" in failed["content"][0]["text"]
            assert (await one.call("echo", wrong=1)).result["isError"]
            assert [part["type"] for part in (await one.call("picture")).result["content"]] == ["text", "image"]
            read = await one.asked(partial(link.resource, "tricky://motto")).result()
            assert read["contents"][0]["text"] == "all that can go wrong"
            prompt = await one.asked(partial(link.prompt, "needy", {"topic": "x"})).result()
            assert prompt["messages"][0]["content"]["text"] == "Talk about x."

            await self._asks(one)
            await self._cancels(one)
            assert await one.text("mutter", text="no license") == "muttered"
            await one.until(lambda: b"no license\n" in b"".join(one.printed))
            assert await one.text("grow") == "grown"
            await one.until(link.changed.is_set)
            assert {*await one.tools()} == {*before, "aardvark"}
            assert not link.gone.is_set()
        assert link.gone.is_set()

    async def _asks(self, one: Session) -> None:
        asked = await one.call("greet")
        assert asked["requests"]["who"]["message"] == "What is your name?"
        answered = await one.call("greet", again={"asked": asked, "content": {"name": "Ada"}})
        assert answered.result["content"][0]["text"] == "hello Ada"

    async def _cancels(self, one: Session) -> None:
        """A call that the caller gives up is cancelled at the server, after it reported its progress."""
        progress: list[tuple[float, float | None, str | None]] = []

        async def progressed(done: float, total: float | None, message: str | None) -> None:
            progress.append((done, total, message))

        call: JsonObject = {"op": "op", "tool": "hang", "arguments": {}}
        request = one.asked(partial(one.link.call, call, progressed, {}))
        await one.until(lambda: bool(progress))
        assert progress == [(1, 3, "one of three")]
        request.give_up()
        await one.until(lambda: one.noted("hang cancelled"))

    async def test_a_death_in_the_middle_of_a_call_fails_it_and_the_next_server_is_another_one(
        self, start: StartServer, tmp_path: Path
    ) -> None:
        async with session(start, tmp_path) as one:
            first = await one.text("pid")
            with pytest.raises(ServerFailed) as failed:
                await one.call("die")
            await one.until(one.link.gone.is_set)
        assert (failed.value.reason, failed.value.has_begun) == ("Disconnected", True)

        async with session(start, tmp_path) as other:
            assert await other.text("pid") != first
            assert await other.text("die") == "alive"

    async def test_leaving_ends_a_server_that_still_works(self, start: StartServer, tmp_path: Path) -> None:
        async with session(start, tmp_path) as one:
            call: JsonObject = {"op": "op", "tool": "hang", "arguments": {}}
            one.asked(partial(one.link.call, call, _unheard, {}))
            await one.until(lambda: one.noted("hang began"))
        assert one.link.gone.is_set()
        assert one.noted("hang cancelled")
