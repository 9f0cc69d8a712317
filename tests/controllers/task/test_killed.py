"""The owner is killed with SIGKILL while a command runs, and another takes over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from tests.controllers.task.harness import Harness, harness, spec
from tests.product import Put, RecordDraft, RunWork

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).parents[3]


@contextmanager
def killed_owner(folder: Path, effect: str = "once") -> Iterator[None]:
    """An owner that was killed when its command had begun and waited at the gate."""
    os.mkfifo(folder / "gate")
    command = [sys.executable, "-m", "tests.controllers.task.owner", str(folder), effect]
    with subprocess.Popen(command, cwd=ROOT) as owner:
        # Opening the writing end returns when the command has opened its own: it has begun.
        gate = os.open(folder / "gate", os.O_WRONLY)
        owner.send_signal(signal.SIGKILL)
    try:
        yield
    finally:
        os.close(gate)


def let_go(folder: Path) -> None:
    (folder / "gate").write_text("end\n")


async def when(here: Harness, holds: Callable[[], bool]) -> None:
    with anyio.fail_after(45):
        await here.until(holds)


async def test_a_running_command_is_adopted_and_run_once(tmp_path: Path) -> None:
    with killed_owner(tmp_path):
        async with harness(tmp_path, epoch=2) as here:
            assert here.state("task/a") == "running"
            let_go(tmp_path)
            await when(here, lambda: here.state("task/.") == "done")
            await here.settled()

    assert (tmp_path / "out").read_text().split() == ["begin", "end", "b"]


async def test_command_that_ended_without_an_owner_is_not_run_again(tmp_path: Path) -> None:
    with killed_owner(tmp_path):
        let_go(tmp_path)
        lines = tmp_path / "out"
        with anyio.fail_after(45):
            while "end" not in lines.read_text():
                await anyio.lowlevel.checkpoint()
        async with harness(tmp_path, epoch=2) as here:
            await when(here, lambda: here.state("task/.") == "done")
            assert here.task("task/a").status["incarnation"] == 1

    assert lines.read_text().split() == ["begin", "end", "b"]


async def test_command_killed_with_its_owner_is_unknown_and_not_run_again(tmp_path: Path) -> None:
    with killed_owner(tmp_path):
        kill_group(tmp_path)
        async with harness(tmp_path, epoch=2) as here:
            await when(here, lambda: here.state("task/a") == "blocked")
            await here.settled()
            assert here.reason("task/a") == "InDoubt"

    assert (tmp_path / "out").read_text().split() == ["begin"]


async def test_an_idempotent_command_killed_with_its_owner_is_run_again(tmp_path: Path) -> None:
    with killed_owner(tmp_path, "idempotent"):
        kill_group(tmp_path)
        async with harness(tmp_path, epoch=2) as here:
            await when(here, lambda: here.lines("out").count("begin") == 2)
            let_go(tmp_path)
            await when(here, lambda: here.state("task/.") == "done")


async def test_a_command_left_running_is_stopped_when_its_task_was_cancelled(tmp_path: Path) -> None:
    with killed_owner(tmp_path):
        async with harness(tmp_path, epoch=2) as here:
            task = here.task("task/a")
            cancelled = {**task.spec, "cancel": True}
            put = Put(task.address, task.uid, cancelled, task.refs, task.owner, task.finalizers)
            here.store.propose(RecordDraft("plan.patched", "human:cli", task.address, (put,)))
            await when(here, lambda: here.state("task/a") == "cancelled")
            await here.settled()
            assert labelled(tmp_path) == []


def labelled(folder: Path) -> list[int]:
    """The processes that carry the label of the plan in `folder`."""
    mark = f"PLANLOOP_PLAN={folder}".encode()
    found = []
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and mark in (process / "environ").read_bytes():
                found.append(int(process.name))
        except OSError:
            continue
    return found


def kill_group(folder: Path) -> None:
    """The machine's memory runs out: everything of the plan is killed at once."""
    while pids := labelled(folder):
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


async def stop_an_owner(folder: Path, effect: str) -> None:
    """An owner that ends in good order while its command runs."""
    async with harness(folder) as here:
        here.apply(root=spec(), a=spec(RunWork(shell="echo begin >> out; exec sleep 600", effect=effect)))
        await when(here, lambda: here.lines("out") == ["begin"])


async def test_command_cut_off_when_its_owner_stopped_is_unknown(tmp_path: Path) -> None:
    await stop_an_owner(tmp_path, "once")
    assert labelled(tmp_path) == []
    async with harness(tmp_path, epoch=2) as here:
        await here.settled()
        assert (here.state("task/a"), here.reason("task/a")) == ("blocked", "InDoubt")


async def test_an_idempotent_command_cut_off_when_its_owner_stopped_is_run_again(tmp_path: Path) -> None:
    await stop_an_owner(tmp_path, "idempotent")
    async with harness(tmp_path, epoch=2) as here:
        await when(here, lambda: here.lines("out") == ["begin", "begin"])
