"""The owner dies at each of its writes, and in each run of git; the next one goes on: nothing twice, nothing lost."""

from __future__ import annotations

import shutil
from pathlib import Path

import anyio
import pytest

from reconciler.effects.processes import Command, Exit, Processes
from reconciler.errors import StoreFailed
from reconciler.storing.sqlite_store import StoreOptions
from tests.controllers.agent.arena import Arena, Wrapping, arena
from tests.controllers.fork.repository import Home

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SLICES = 8  # Each is a test of its own, well within the time that one has.
WRITES_MIN, RUNS_MIN = 15, 40  # If there were fewer, something of a fork's life would no longer be told or done.
DURING_S = 0.002  # Git has begun by then and has not ended.

PLAN = """
tasks:
  t:
    fork: true
    agent:
      tools: [shell, write]
      script:
        - call: {write: {path: new, content: mine}}
        - call: {shell: {command: "echo mine > a; rm gone; echo theirs > ROOT/a; echo theirs > ROOT/b"}}
        - done: first
        - when: {rejected: true}
          call: {shell: {command: "grep -v '<<<\\\\|===\\\\|>>>' a > c; mv c a; cat ROOT/runs >> told"}}
        - done: second
"""


class Dying:
    """Processes of git of which one, the `at`-th, is the last: the owner dies before, during or after it."""

    def __init__(self, at: int, when: str) -> None:
        self.left = at
        self.when = when

    def of(self, processes: Processes) -> Processes:
        """The same processes, but that they die."""
        dying = self

        class Wrapped:
            def __getattr__(self, name: str) -> object:
                return getattr(processes, name)

            async def run(self, op: str, command: Command) -> Exit:
                dying.left -= 1
                if dying.left == 0 and dying.when == "before":
                    raise StoreFailed("crash", "none")
                with anyio.move_on_after(DURING_S if dying.left == 0 and dying.when == "during" else None):
                    ended = await processes.run(op, command)
                if dying.left == 0:
                    raise StoreFailed("crash", "none")
                return ended

        return Wrapped()  # type: ignore[return-value]


def crashing(after: int) -> StoreOptions:
    """A store that dies when it has made `after` batches durable, before anybody hears of the last."""
    left = after

    def hook(point: str, rev: int) -> None:
        nonlocal left
        if point == "after-commit":
            left -= 1
            if left <= 0:
                raise StoreFailed("crash", "none")

    return StoreOptions(hook=hook)


async def run(home: Home, epoch: int, options: StoreOptions | None, git: Wrapping | None) -> bool:
    """Runs an owner until the task is done (True) or the owner dies (False)."""
    is_done = False
    try:
        async with arena(home.path, epoch=epoch, options=options, is_inline=True, git=git) as owner:
            if owner.find("plan/arena") is None:
                await owner.apply(PLAN.replace("ROOT", str(home.path)))
            await owner.until_state("task/t", "done", "failed")
            await owner.until(lambda: not owner.get("fork/t").status.get("folder"))
            await owner.settled()
            is_done = owner.state("task/t") == "done"
            await check(home, owner)
    except* StoreFailed:
        pass
    return is_done


async def check(home: Home, owner: Arena) -> None:
    """What holds however often the owner died."""
    merged = sorted(home.read("a").split())
    assert merged == ["mine", "theirs"], "both sides are in, once each"
    assert (home.read("b"), home.read("new")) == ("theirs\n", "mine")
    assert not (home.path / "gone").exists()
    assert (home.branches(), home.trees()) == ([], 0)
    assert [each.type for each in await owner.log()].count("fork.brought") == 1
    assert owner.store.view.list("lock") == []
    assert [each.name for each in (home.path / ".plan/arena/forks").iterdir()] == []


def begun(path: Path) -> Home:
    shutil.rmtree(path, ignore_errors=True)
    home = Home(path).begin(a="one\n", b="b\n", gone="x\n")
    home.write("runs", "")
    return home


@pytest.mark.parametrize("nth", range(SLICES))
async def test_the_owner_may_die_after_any_of_its_writes(tmp_path: Path, nth: int) -> None:
    after = nth + 1
    while not await run(begun(tmp_path / str(after)), 1, crashing(after), None):
        assert await run(Home(tmp_path / str(after)), 2, None, None), after
        after += SLICES
    assert after > WRITES_MIN


@pytest.mark.parametrize("nth", range(SLICES))
@pytest.mark.parametrize("when", ["before", "during", "after"])
async def test_the_owner_may_die_at_any_run_of_git(tmp_path: Path, when: str, nth: int) -> None:
    at = nth + 1
    while not await run(begun(tmp_path / str(at)), 1, None, Dying(at, when).of):
        assert await run(Home(tmp_path / str(at)), 2, None, None), at
        at += SLICES
    assert at > RUNS_MIN
