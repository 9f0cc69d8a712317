"""Ways out of a container, and what commands leave behind in one."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from planloop.containers.engine import exec_kill
from planloop.containers.engine.docker_engine import DockerEngine
from planloop.containers.sandbox.container_sandbox import SandboxContainer
from planloop.containers.sandbox.sandboxed_processes import SandboxedProcesses
from tests import needs
from tests.containers import engines
from tests.containers.engines import Ground
from tests.containers.sandboxing import enclosures
from tests.containers.sandboxing.running_container import rooms_of
from tests.e2e import container_harness
from tests.product import (
    CommandSandbox,
    ContainerCreation,
    ContainerLimits,
    ContainerMount,
    ExecCommand,
    ExitCause,
    ProcessCommand,
)

pytestmark = [pytest.mark.anyio, pytest.mark.engine(keep=8), pytest.mark.timeout(120)]


class Sut:
    """A running container with a workspace in it, and commands that it encloses."""

    def __init__(self, ground: Ground, container: str, folder: Path) -> None:
        self.ground = ground
        self.container = container
        self.folder = folder

    @property
    def processes(self) -> SandboxedProcesses:
        return enclosures.enclosing(self.folder, self.folder / "run", rooms=rooms_of(self.container))

    def command(self, line: str, timeout_s: float = 15.0) -> ProcessCommand:
        env = {"PATH": "/nowhere", "HOME": "/nowhere", "OWN": "own"}
        box = CommandSandbox(3, self.container)
        return ProcessCommand(str(self.folder / "work"), shell=line, env=env, timeout_s=timeout_s, sandbox=box)

    def groups(self) -> list[Path]:
        """Those that were made for commands and not removed."""
        # `glob` fails when a cgroup of another program vanishes under it.
        return [
            Path(folder, name)
            for folder, names, _ in os.walk(exec_kill.ROOT)
            if self.container in Path(folder).name
            for name in names
            if name.startswith(exec_kill.PREFIX)
        ]

    async def sleepers(self) -> bytes:
        return (await self.processes.run("look", self.command("ps | grep '[s]leep 77'"))).output


@pytest.fixture
async def sut(ground: Ground, tmp_path: Path) -> AsyncIterator[Sut]:
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "secret").write_text("sesame")
    wanted = ContainerCreation(
        ground.name(), ground.image, ground.labels, cmd=("sleep", "600"),
        bound=ContainerLimits(pids=40, memory_bytes=64 << 20),
        mounts=(ContainerMount(str(work), host=str(work)),),
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
    is_late = line.endswith("sleep 77")
    ended = await sut.processes.run("a", sut.command(line, timeout_s=3.0 if is_late else 60.0))

    assert ended.ending is (ExitCause.TIMED_OUT if is_late else ExitCause.EXITED)
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
        "test -S {engine}",
        "nc 127.0.0.1 {port} </dev/null",
    ],
)
async def test_this_machine_is_unreachable(sut: Sut, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "sesame")
    with socket.create_server(("127.0.0.1", 0)) as server:
        engine = container_harness.machines_address().removeprefix("unix://")
        words = line.format(folder=sut.folder, port=server.getsockname()[1], engine=engine)
        ended = await sut.processes.run("a", sut.command(words))

    assert ended.ending is ExitCause.EXITED and ended.code != 0
    assert b"sesame" not in ended.output


async def test_command_has_its_own_and_the_containers_variables_and_runs_in_its_folder(sut: Sut) -> None:
    ended = await sut.processes.run("a", sut.command("pwd; echo $OWN; echo $PATH; exit 3"))

    assert (ended.code, ended.output.decode()) == (3, f"{sut.folder}/work\nown\n/bin\n")


async def test_fork_bomb_stays_inside_and_is_reported(sut: Sut) -> None:
    ended = await sut.processes.run("a", sut.command("f() { f | f & }; f; sleep 2", timeout_s=60.0))

    assert await sut.sleepers() == b""
    needs.cgroups()
    assert b"the container reached its limit of processes" in ended.output


async def test_filling_memory_stays_inside_and_is_reported(sut: Sut) -> None:
    ended = await sut.processes.run("a", sut.command("x=x; while :; do x=$x$x; done", timeout_s=30.0))

    assert ended.code not in (0, None)
    assert (await sut.processes.run("b", sut.command("echo goes on"))).output == b"goes on\n"
    needs.cgroups()
    assert b"the container ran out of memory" in ended.output


@pytest.mark.parametrize(
    "line",
    [
        "kill -9 -1",
        "for each in /proc/[0-9]*; do kill -9 ${each#/proc/}; done",
        "kill -9 1; kill -9 $PPID",
    ],
)
async def test_command_that_kills_all_it_sees_is_ended_and_kills_nothing_outside(sut: Sut, line: str) -> None:
    await sut.processes.run("a", sut.command(f"(env -i setsid sleep 77 &); {line}", timeout_s=60.0))

    assert sut.groups() == []
    assert all(words != b"sleep\x0077\x00" for words in _words(sut.container))


def _words(container: str) -> list[bytes]:
    """The command lines of what runs in the container, as this machine sees them."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if container in (place / "cgroup").read_text():
                found.append((place / "cmdline").read_bytes())
    return found


async def test_environment_of_another_users_command_is_not_readable(sut: Sut) -> None:
    box = ExecCommand(("sh", "-c", "sleep 77"), "theirs", env={"TOKEN": "sesame"}, user="1000")
    async with anyio.create_task_group() as group:
        group.start_soon(sut.ground.engine.run, sut.container, box)
        while not any(b"sleep" in words and b"77" in words for words in _words(sut.container)):
            await anyio.lowlevel.checkpoint()
        ended = await sut.processes.run("a", sut.command("cat /proc/*/environ /proc/*/mem | grep TOKEN"))
        group.cancel_scope.cancel()

    assert b"sesame" not in ended.output


async def test_a_container_that_ends_under_a_command_leaves_its_end_unknown(sut: Sut) -> None:
    async with anyio.create_task_group() as group:

        async def kill() -> None:
            while not sut.groups():
                await anyio.lowlevel.checkpoint()
            await sut.ground.engine.stop(sut.container, 0)

        needs.cgroups()
        group.start_soon(kill)
        ended = await sut.processes.run("a", sut.command("sleep 77"))

    assert (ended.ending, ended.code) == (ExitCause.LOST, None)
    assert b"the container went away under it" in ended.output


async def test_a_command_cannot_write_cgroups_to_leave_its_group(sut: Sut) -> None:
    ended = await sut.processes.run(
        "a",
        sut.command(
            "for each in $(find / -name cgroup.procs 2>/dev/null); do echo $$ > $each && echo left; done; exit 3"
        ),
    )

    assert ended.code == 3 and b"left" not in ended.output


async def test_an_image_without_a_shell_runs_programs(engine: DockerEngine, ground: Ground, tmp_path: Path) -> None:
    bare = (await engines.image(engine, tmp_path, is_bare=True)).id
    ref = await ground.engine.create(ContainerCreation(ground.name(), bare, ground.labels, cmd=("/sleep", "600")))
    await ground.engine.start(ref)
    sut = Sut(ground, ref, tmp_path)
    box = CommandSandbox(3, ref)

    ended = await sut.processes.run("a", ProcessCommand("/", argv=("/sleep", "0"), sandbox=box, timeout_s=60.0))
    none = await sut.processes.run("b", ProcessCommand("/", argv=("/none",), sandbox=box, timeout_s=60.0))

    assert (ended.ending, ended.code) == (ExitCause.EXITED, 0), ended.output
    assert none.code == 127 and b"/none" in none.output
    assert sut.groups() == []


async def test_removal_of_a_container_ends_its_command(sut: Sut) -> None:
    await sut.ground.engine.remove(sut.container)

    ended = await sut.processes.run("a", sut.command("echo x"))

    assert ended.code == 126 and b"could not run the command" in ended.output


def test_a_folder_is_found_by_the_nearest_mount_around_it() -> None:
    room = SandboxContainer("x", {"/plan": "/inside", "/plan/deep": "/else"})

    assert room.place_of("/plan/src") == "/inside/src"
    assert room.place_of("/plan/deep/er") == "/else/er"
    assert room.place_of("/elsewhere") == ""
