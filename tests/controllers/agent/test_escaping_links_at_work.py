"""A command's folder is replaced by a link while it runs, and its owner dies: the call keeps its result."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest

from planloop.reconciler.errors import StoreFailed
from planloop.reconciler.store.sqlite.sqlite_store import StoreOptions
from tests.controllers.agent.arena import Arena, arena

pytestmark = pytest.mark.anyio

PLAN = """
    tasks:
      holder:
        agent: {tools: [lock], script: [{call: {lock: {paths: [held.txt]}}}, {when: {message: end}, done: x}]}
      ready: {run: read line < ready}
      t:
        cwd: work
        agent: {script: [{done: x}]}
        tasks:
          c:
            needs: [ready]
            cwd: work/sub
            agent:
              script:
                - call: {shell: {command: "echo > ../../began; read line < ../../go; echo zebra; LAST; exit 3"}}
                - fail: enough
"""


async def begun(here: Arena, last: str) -> None:
    """Return when the command runs while another agent holds a file."""
    await here.apply(PLAN.replace("LAST", last))
    await here.until(lambda: any(one.status.get("holders") for one in here.store.view.list("lock")))
    await anyio.Path(here.folder / "ready").write_text("go\n")
    await anyio.Path(here.folder / "began").read_text()


@pytest.mark.parametrize(("last", "is_told"), [("echo x >> ../../held.txt", True), ("true", False)])
async def test_end_of_a_command_is_reported_though_its_folder_led_out_meanwhile(
    tmp_path: Path, last: str, is_told: bool
) -> None:
    (tmp_path / "work/sub").mkdir(parents=True)
    (tmp_path / "held.txt").write_text("held")
    for name in ("ready", "began", "go"):
        os.mkfifo(tmp_path / name)
    is_dying = False

    def hook(point: str, rev: int) -> None:
        if point == "after-commit" and is_dying:
            raise StoreFailed("crash", "none")

    with pytest.raises(ExceptionGroup):
        async with arena(tmp_path, options=StoreOptions(hook=hook), is_inline=True) as here:
            await begun(here, last)
            is_dying = True
            await here.patch({"op": "add", "path": "/notes", "value": "one more batch"})
    (tmp_path / "work/sub").rename(tmp_path / "work/away")
    (tmp_path / "work/sub").symlink_to("..")

    async with arena(tmp_path, epoch=2, is_inline=True) as here:
        await anyio.Path(tmp_path / "go").write_text("go\n")
        await here.until_state("task/t/c", "failed")
        (result,) = await here.results("shell")
        assert (result["state"], result["exit_code"]) == ("Failed", 3) and "zebra" in result["text"]
        assert ("`held.txt`, locked by agent/holder" in result["text"]) is is_told
        assert here.bugs == []
