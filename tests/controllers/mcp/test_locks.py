"""Tools of servers that write files: if the plan declares it, the call locks the file as `write` does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controllers.agent.arena import arena
from tests.controllers.mcp.plans import OK, call, tricky, written
from tests.product import Json, JsonObject
from tests.servers.in_process import InProcess

pytestmark = pytest.mark.anyio


def agents(**scripts: list[JsonObject]) -> JsonObject:
    """Tasks by name, each with its agent."""
    tools: Json = ["t", "lock", "release"]
    return {name: {"agent": {"tools": tools, "script": [*steps]}} for name, steps in scripts.items()}


async def test_a_call_that_writes_waits_for_the_file_and_has_it_to_the_end_of_its_turn(tmp_path: Path) -> None:
    async with arena(tmp_path, start=InProcess()) as here:
        server = tricky(writes={"echo": "text"})
        one: list[JsonObject] = [call("lock", paths=["a.txt"]), {"when": "go", "done": "x"}]
        two: list[JsonObject] = [{"when": "go", **call("t.echo", text="./a.txt")}, OK]
        await here.apply(written({"mcp": {"t": server}, "tasks": agents(one=one, two=two)}))
        await here.until(lambda: bool(here.store.view.list("lock")))
        await here.tell("agent/two", "go", "m1")
        await here.until_state("agent/two", "blocked")
        (waits,) = here.store.view.owned_by("agent/two")
        assert waits.status["wants"] == {"a.txt": "write"}
        await here.tell("agent/one", "go", "m2")
        await here.until_state("task/two", "done", "failed")
        assert here.state("task/two") == "done"
        assert here.store.view.list("lock") == []


async def test_tools_without_a_lock_declaration_take_no_locks(tmp_path: Path) -> None:
    async with arena(tmp_path, start=InProcess()) as here:
        only: list[JsonObject] = [call("t.echo", text="a.txt"), OK]
        await here.apply(written({"mcp": {"t": tricky(writes={"pid": "text"})}, "tasks": agents(one=only)}))
        await here.until_state("task/one", "done", "failed")
        assert not [draft for draft in await here.log() if draft.type.startswith("lock.")]
