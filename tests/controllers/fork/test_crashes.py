"""The owner dies at each of its writes, and in each run of git; the next one goes on: nothing twice, nothing lost."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from planloop.reconciler.errors import StoreFailed
from planloop.reconciler.store.sqlite.sqlite_store import StoreOptions
from tests.controllers.agent.arena import Arena, arena
from tests.controllers.agent.mortal import Play, lived
from tests.controllers.fork.repository import Home
from tests.product import ProcessCommand, Processes
from tests.product import ProcessExit as Exit

pytestmark = [pytest.mark.anyio, pytest.mark.needs("git"), pytest.mark.sweep]

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
    """Processes of git of which one, the `at`-th, is the last: the owner dies while it runs."""

    def __init__(self, at: int) -> None:
        self.left = at

    def of(self, processes: Processes) -> Processes:
        """The same processes, but that they die."""
        dying = self

        class Wrapped:
            def __getattr__(self, name: str) -> object:
                return getattr(processes, name)

            async def run(self, op: str, command: ProcessCommand) -> Exit:
                dying.left -= 1
                with anyio.move_on_after(DURING_S if dying.left == 0 else None):
                    ended = await processes.run(op, command)
                if dying.left == 0:
                    raise StoreFailed("crash", "none")
                return ended

        return Wrapped()  # type: ignore[return-value]


class Copies:
    """Copies of `home`, made while an owner plays: what a kill would leave at every `SLICES`-th point from the `nth`.

    The points are the calls of `passed`, `count` in all.
    """

    def __init__(self, home: Home, nth: int, into: Path) -> None:
        self.home = home
        self.count = 0
        self.made: list[Path] = []
        self._nth = nth
        self._into = into

    def passed(self) -> None:
        if self.count % SLICES == self._nth:
            copy = self._into / str(self.count)
            shutil.copytree(self.home.path, copy, symlinks=True)
            self.made.append(copy)
        self.count += 1

    def at_write(self, point: str, rev: int) -> None:
        """The hook of a store: after each batch that it made durable."""
        del rev
        if point == "after-commit":
            self.passed()

    def before_git(self, processes: Processes) -> Processes:
        return self._around(processes, is_before=True)

    def after_git(self, processes: Processes) -> Processes:
        return self._around(processes, is_before=False)

    def _around(self, processes: Processes, *, is_before: bool) -> Processes:
        passed = self.passed

        class Wrapped:
            def __getattr__(self, name: str) -> object:
                return getattr(processes, name)

            async def run(self, op: str, command: ProcessCommand) -> Exit:
                if is_before:
                    passed()
                ended = await processes.run(op, command)
                if not is_before:
                    passed()
                return ended

        return Wrapped()  # type: ignore[return-value]

    def restored(self) -> Iterator[Path]:
        """Put each copy in the place of `home`, one after the other."""
        for copy in self.made:
            shutil.rmtree(self.home.path)
            shutil.copytree(copy, self.home.path, symlinks=True)
            yield copy


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
    home = begun(tmp_path / "home")
    copies = Copies(home, nth, tmp_path)
    async with arena(home.path, is_inline=True, options=StoreOptions(hook=copies.at_write)) as owner:
        await played(home)(owner)
    for copy in copies.restored():
        assert await goes_on(home), copy
    assert copies.count > WRITES_MIN


@pytest.mark.sweep(keep=2)
@pytest.mark.parametrize("nth", range(SLICES))
@pytest.mark.parametrize("when", ["before", "after"])
async def test_the_owner_may_die_before_and_after_any_run_of_git(tmp_path: Path, when: str, nth: int) -> None:
    home = begun(tmp_path / "home")
    copies = Copies(home, nth, tmp_path)
    git = copies.before_git if when == "before" else copies.after_git
    assert await lived(played(home), home.path, 1, git=git)
    for copy in copies.restored():
        assert await goes_on(home), copy
    assert copies.count > RUNS_MIN


@pytest.mark.parametrize("nth", range(SLICES))
async def test_the_owner_may_die_during_any_run_of_git(tmp_path: Path, nth: int) -> None:
    """Git is killed in the middle, so the play up to there is needed each time."""
    at = nth + 1
    while not await lived(played(home := begun(tmp_path / str(at))), home.path, 1, git=Dying(at).of):
        assert await goes_on(home), at
        at += SLICES
    assert at > RUNS_MIN
