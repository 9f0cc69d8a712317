"""Tool descriptions of a server: accepted at first, and subject to approval when they change."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controllers.agent.arena import Arena, arena
from tests.controllers.mcp.plans import BAD, DONE, call, plan, texts, tricky
from tests.product import HUMAN_CLI, JsonObject, Resource
from tests.servers.in_process import InProcess

pytestmark = pytest.mark.anyio

GO: JsonObject = {"when": {"message": "go"}, **call("t.echo", text="x")}


def names(here: Arena) -> list[str]:
    return [tool["name"] for tool in here.get("mcp/t").status["tools"]]


async def turned(here: Arena, *after: JsonObject) -> Resource:
    """A server that changed its words about `echo`; the approval that stands for it."""
    await here.apply(plan({"t": tricky()}, call("t.turn"), *after))
    await here.until(lambda: bool(here.store.view.list("approval")))
    await here.until_state("agent/.", "asleep")
    return here.store.view.list("approval")[0]


async def test_tool_whose_description_changes_is_withheld_and_reported(tmp_path: Path) -> None:
    async with arena(tmp_path, start=InProcess()) as here:
        approval = await turned(here, GO, BAD, DONE)
        what = approval.spec["what"]
        assert approval.spec["kind"] == "tool" and "IMPORTANT" in what["after"]["description"]
        assert what["before"]["description"] == "Gives the text back."
        assert "ToolsWithheld" in here.get("mcp/t").status["conditions"]
        await here.tell("agent/.", "go", "m")
        await here.until_state("task/.", "done", "failed")
        assert here.state("task/.") == "done" and await texts(here, "t.echo") == []
        withheld = [draft.data for draft in await here.log() if draft.type == "call.authorized"]
        assert any("withheld" in str(each) for each in withheld)


async def test_a_yes_gives_it_back_and_clears_the_condition(tmp_path: Path) -> None:
    async with arena(tmp_path, start=InProcess()) as here:
        approval = await turned(here, GO, DONE)
        await here.gate.approve(approval.address, HUMAN_CLI)
        await here.until(lambda: here.find(approval.address) is None)
        assert "ToolsWithheld" not in here.get("mcp/t").status["conditions"]
        await here.tell("agent/.", "go", "m")
        await here.until_state("task/.", "done", "failed")
        assert await texts(here, "t.echo") == ["x"]


async def test_refused_change_stays_withheld_and_is_not_asked_again(tmp_path: Path) -> None:
    async with arena(tmp_path, start=InProcess()) as here:
        approval = await turned(here, {"when": {"message": "go"}, **call("t.turn")}, GO, BAD, DONE)
        await here.gate.reject(approval.address, HUMAN_CLI)
        await here.until(lambda: here.find(approval.address) is None)
        await here.tell("agent/.", "go", "m")
        await here.tell("agent/.", "go on", "n")
        await here.until_state("task/.", "done", "failed")
        assert here.store.view.list("approval") == [] and await texts(here, "t.echo") == []


async def test_tools_are_sorted_once_and_later_ones_come_last(tmp_path: Path) -> None:
    async with arena(tmp_path, start=InProcess()) as here:
        await here.apply(
            plan(
                {"t": tricky()},
                {"when": {"message": "go"}, **call("t.grow")},
                {"when": {"message": "on"}, **call("t.aardvark")},
                DONE,
            )
        )
        await here.until_state("agent/.", "asleep")
        first = names(here)
        assert first == sorted(first)
        await here.tell("agent/.", "go", "m")
        await here.until(lambda: names(here) == [*first, "aardvark"])
        await here.tell("agent/.", "on", "n")
        await here.until_state("task/.", "done", "failed")
        assert await texts(here, "t.aardvark") == ["aardvark"]


async def test_accepted_tools_hold_for_the_next_process_of_the_server(tmp_path: Path) -> None:
    """A server may tell something else only after its restart."""
    async with arena(tmp_path, start=InProcess()) as here:
        approval = await turned(here, GO, DONE)
        await here.gate.approve(approval.address, HUMAN_CLI)
        await here.until(lambda: here.find(approval.address) is None)
    async with arena(tmp_path, start=InProcess(), epoch=2) as here:
        # The new process describes `echo` as the first one did, which differs from the last approved description.
        await here.until(lambda: bool(here.store.view.list("approval")))
        assert "echo" in here.store.view.list("approval")[0].spec["what"]["tool"]


async def test_a_server_offers_only_what_the_plan_lets_it(tmp_path: Path) -> None:
    async with arena(tmp_path, start=InProcess()) as here:
        server = tricky(tools=["echo", "sing"])
        await here.apply(plan({"t": server}, call("t.echo", text="x"), DONE))
        await here.until_state("task/.", "done", "failed")
        assert names(here) == ["echo"]
        assert here.get("mcp/t").status["conditions"]["ToolsMissing"]["message"] == "sing"


async def test_a_server_that_cries_wolf_fills_no_log(tmp_path: Path) -> None:
    """Each word of a change had the lists written down again, however they were."""
    async with arena(tmp_path, start=InProcess()) as here:
        await here.apply(plan({"t": tricky()}, call("t.cry", times=50), call("t.grow"), GO, DONE))
        await here.until_state("agent/.", "asleep")
        await here.until(lambda: "aardvark" in names(here))
        changed = [draft for draft in await here.log() if draft.type == "server.changed"]
        assert len(changed) == 1
