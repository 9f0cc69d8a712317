"""docs/reference/mcp.md is true: its plan runs, and its session is what a client and a person really get."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import anyio.to_thread
import pytest

from planloop.server.mcp.resources import SCHEME
from planloop.server.mcp.tool_handlers import TASK_TOOLS
from tests.docs.sessions import Terminal, check
from tests.e2e import mcp_clients
from tests.e2e.folder import Folder

pytestmark = [pytest.mark.anyio, pytest.mark.process, pytest.mark.timeout(240)]

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "mcp.md"
SESSION = re.compile(r"(?ms)^```session\n(.*?)^```\n")


def lines(session: str) -> Iterator[str]:
    """What is typed and called in it, in order."""
    return (line for line in session.splitlines() if line.startswith(("$ ", "> ")))


async def played(folder: Folder, session: str) -> str:
    """The session with what is really answered."""
    out: list[str] = []
    terminal = Terminal(folder.path)
    async with mcp_clients.over_stdio(folder, "--as", "helper") as caller:
        for line in lines(session):
            if line.startswith("$ "):
                text, _ = await anyio.to_thread.run_sync(terminal.type, line[2:])
            else:
                tool, _, arguments = line[2:].partition(" ")
                text = (await caller.call(tool, **json.loads(arguments))).text
            out += [line, *(f"  {one}".rstrip() for one in text.rstrip().splitlines()), ""]
    return "\n".join(out)


async def test_the_session_is_what_a_client_gets(folder: Folder, is_updating: bool) -> None:
    page = PAGE.read_text()
    (plan,) = re.findall(r"(?ms)^```yaml\n(plan:.*?)^```\n", page)
    (session,) = SESSION.findall(page)
    with mcp_clients.running(folder, plan, "handbook.plan.yaml"):
        real = await played(folder, session)
    now = page.replace(session, real)
    check(PAGE, now, is_updating=is_updating)


def test_the_page_names_every_tool_of_ours_and_no_other_kind_of_resource() -> None:
    page = PAGE.read_text()
    assert re.findall(r"(?m)^\| `(\w+)` \|", page) == [offer.name for offer in TASK_TOOLS]
    assert set(re.findall(rf"`{SCHEME}PLAN/(\w+)", page)) == {"plan", "tasks", "task", "messages", "locks"}
