"""Ways out of a container, and what commands leave behind in one."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from containers import grouping
from containers.engine import Bound, Creation, Placed
from containers.sandboxing.enclosing import EnclosingProcesses
from containers.sandboxing.rooms import Room
from reconciler.effects.processes import Command, Ending, Sandbox
from tests.containers.engines import Ground
from tests.containers.sandboxing import homes
from tests.containers.sandboxing.rooming import rooms_of

pytestmark = pytest.mark.anyio


class Sut:
    """A running container with a workspace in it, and commands that it encloses."""

    def __init__(self, ground: Ground, container: str, folder: Path) -> None:
        self.ground = ground
        self.container = container
        self.folder = folder

    @property
    def processes(self) -> EnclosingProcesses:
        return homes.enclosing(self.folder, self.folder / "run", rooms=rooms_of(self.container))

    def command(self, line: str, timeout_s: float = 15.0) -> Command:
        env = {"PATH": "/nowhere", "HOME": "/nowhere", "OWN": "own"}
        box = Sandbox(3, self.container)
        return Command(str(self.folder / "work"), shell=line, env=env, timeout_s=timeout_s, sandbox=box)

    def groups(self) -> list[Path]:
        """Those that were made for commands and not removed."""
        return list(grouping.ROOT.glob(f"**/*{self.container}*/{grouping.PREFIX}*"))

    async def sleepers(self) -> bytes:
        return (await self.processes.run("look", self.command("ps | grep '[s]leep 77'"))).output


@pytest.fixture
async def sut(ground: Ground, tmp_path: Path) -> AsyncIterator[Sut]:
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "secret").write_text("sesame")
    wanted = Creation(
        ground.name(), ground.image, ground.labels, cmd=("sleep", "600"), bound=Bound(pids=40, memory_bytes=64 << 20),
        mounts=(Placed(str(work), host=str(work)),),
    )  # fmt: skip
    container = await ground.engine.create(wanted)
    await ground.engine.start(container)
    yield Sut(ground, container, tmp_path)


@pytest.mark.parametrize(
    "line",
    [
        "setsid sleep 77 & exit 0",
        "(setsid sh -c 'sleep 77 & sleep 77' &); exit 0",
        "sleep 77; sleep 77",
        "env -i setsid sh -c 'sleep 77 & sleep 77 & exit 0' & sleep 77",
        "(env -i setsid sh -c '(env -i setsid sleep 77 &); exit 0' &) ; exit 0",
    ],
)
async def test_nothing_outlives_its_command_inside(sut: Sut, line: str) -> None:
    ended = await sut.processes.run("a", sut.command(line, timeout_s=2.0))

    assert ended.ending is (Ending.TIMED_OUT if line.endswith("sleep 77") else Ending.EXITED)
    assert await sut.sleepers() == b""
    assert sut.groups() == []


@pytest.mark.parametrize(
    "line",
    [
        "cat {folder}/secret",
        "cat /proc/1/root{folder}/secret",
        "ln -s {folder}/secret way && cat way",
        "cat /proc/*/environ | grep TOKEN",
        "echo x > /proc/sys/kernel/hostname",
        "mount -t tmpfs none /tmp",
        "test -S /var/run/docker.sock",
        "nc 127.0.0.1 {port} </dev/null",
    ],
)
async def test_nothing_of_this_machine_is_reached(sut: Sut, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "sesame")
    with socket.create_server(("127.0.0.1", 0)) as server:
        words = line.format(folder=sut.folder, port=server.getsockname()[1])
        ended = await sut.processes.run("a", sut.command(words))

    assert ended.ending is Ending.EXITED and ended.code != 0
    assert b"sesame" not in ended.output


async def test_it_has_its_own_variables_and_the_containers_and_runs_where_its_folder_is(sut: Sut) -> None:
    ended = await sut.processes.run("a", sut.command("pwd; echo $OWN; echo $PATH; exit 3"))

    assert (ended.code, ended.output.decode()) == (3, f"{sut.folder}/work\nown\n/bin\n")


async def test_forking_without_end_stays_inside(sut: Sut) -> None:
    await sut.processes.run("a", sut.command("f() { f | f & }; f; sleep 77", timeout_s=2.0))

    assert await sut.sleepers() == b""


async def test_a_container_that_goes_away_under_a_command_ends_it(sut: Sut) -> None:
    await sut.ground.engine.remove(sut.container)

    ended = await sut.processes.run("a", sut.command("echo x"))

    assert ended.code == 126 and b"could not run it" in ended.output


def test_a_folder_is_found_by_the_nearest_mount_around_it() -> None:
    room = Room("x", {"/plan": "/inside", "/plan/deep": "/else"})

    assert room.place_of("/plan/src") == "/inside/src"
    assert room.place_of("/plan/deep/er") == "/else/er"
    assert room.place_of("/elsewhere") == ""
