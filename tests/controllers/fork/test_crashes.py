"""The owner dies at each of its writes, and in each run of git; the next one goes on: nothing twice, nothing lost."""

from __future__ import annotations

import shutil
from pathlib import Path

import anyio
import pytest

from reconciler.effects.processes import Command, Exit, Processes
from reconciler.errors import StoreFailed
from tests.controllers.agent.arena import Arena
from tests.controllers.agent.mortal import Play, lived
from tests.controllers.fork.repository import Home

pytestmark = [pytest.mark.anyio, pytest.mark.sweep]

SLICES = 10  # Each is a test of its own, well within the time that one has.
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


def played(home: Home) -> Play:
    """Goes on until the task is done and its fork is brought in."""

    async def play(owner: Arena) -> None:
        if owner.find("plan/arena") is None:
            await owner.apply(PLAN.replace("ROOT", str(home.path)))
        await owner.until_state("task/t", "done", "failed")
        await owner.until(lambda: not owner.get("fork/t").status.get("folder"))
        await owner.settled()
        assert owner.state("task/t") == "done"
        await check(home, owner)

    return play


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


async def goes_on(home: Home) -> bool:
    """Whether the owner that comes next brings all of it to its end."""
    return await lived(played(home), home.path, 2)


@pytest.mark.parametrize("nth", range(SLICES))
async def test_the_owner_may_die_after_any_of_its_writes(tmp_path: Path, nth: int) -> None:
    after = nth + 1
    while not await lived(played(home := begun(tmp_path / str(after))), home.path, 1, after):
        assert await goes_on(home), after
        after += SLICES
    assert after > WRITES_MIN


@pytest.mark.parametrize("nth", range(SLICES))
@pytest.mark.parametrize("when", ["before", "during", "after"])
async def test_the_owner_may_die_at_any_run_of_git(tmp_path: Path, when: str, nth: int) -> None:
    at = nth + 1
    while not await lived(played(home := begun(tmp_path / str(at))), home.path, 1, git=Dying(at, when).of):
        assert await goes_on(home), at
        at += SLICES
    assert at > RUNS_MIN
