"""Enclosed processes pass the contract of all processes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import anyio.lowlevel
import pytest

from planloop.containers.engine import exec_kill
from planloop.containers.engine.engine import ContainerRights
from planloop.reconciler.effects import process_table
from planloop.schemas.objects.sandbox import GROUP
from tests import needs
from tests.containers.engines import Ground
from tests.containers.sandboxing import enclosures
from tests.containers.sandboxing.owners import begun_enclosing
from tests.containers.sandboxing.running_container import rooms_of
from tests.contracts.processes_contract import ProcessesContract
from tests.fakes.owners import kill_operation
from tests.product import CommandSandbox, ContainerCreation, ContainerMount, ProcessCommand, Processes

pytestmark = pytest.mark.process


@dataclass
class EnclosedMachine:
    home: Path
    folder: Path
    container: str = ""
    epochs: int = 0

    def owner(self) -> Processes:
        self.epochs += 1
        return enclosures.enclosing(self.home, self.folder, self.epochs, rooms=rooms_of(self.container))

    async def begin_and_crash(self, op: str, command: ProcessCommand) -> None:
        owner = begun_enclosing(self.home, self.folder, op, command)
        await owner.until_begun()
        while not _is_inside(self.folder, op, command):
            await anyio.lowlevel.checkpoint()
        owner.kill()

    async def kill(self, op: str) -> None:
        await kill_operation(str(self.folder), op)


def _is_inside(folder: Path, op: str, command: ProcessCommand) -> bool:
    """Whether the command itself runs or has run: what is stopped while it is being enclosed never had a say in it."""
    state = (folder / f"{op}.state").read_text()
    box = command.sandbox
    if box is None or box.tier == GROUP or len(state.splitlines()) > 1:
        return True
    wanted = (f"/bin/sh\0-c\0{command.shell}\0".encode(), f"sh\0-c\0{command.shell}\0".encode())
    if box.container:
        # A shell may have become the one command that it was given.
        places = [place for place in Path("/proc").glob("[0-9]*") if box.container in _read(place / "cgroup").decode()]
        return any(f"{exec_kill.VARIABLE}={op};".encode() in _read(place / "environ") for place in places)
    places = [Path(f"/proc/{one.pid}") for one in process_table.labelled_processes(str(folder)) if one.op == op]
    return any(_read(place / "cmdline") in wanted for place in places)


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""


class Enclosed(ProcessesContract):
    tier: int

    @pytest.fixture
    def machine(self, tmp_path: Path) -> EnclosedMachine:
        return EnclosedMachine(tmp_path, tmp_path / ".plan" / "p" / "run")

    def command(self, folder: Path, shell: str, **more: object) -> ProcessCommand:
        return super().command(folder, shell, sandbox=CommandSandbox(self.tier), **more)


class TestBounded(Enclosed):
    tier = 1


class TestInBubblewrap(Enclosed):
    tier = 2

    @pytest.fixture(autouse=True)
    def has_bubblewrap(self) -> None:
        needs.bubblewrap()


@pytest.mark.engine(keep=4)
class TestInContainer(Enclosed):
    tier = 3
    container = ""

    @pytest.fixture
    async def machine(self, ground: Ground, tmp_path: Path) -> EnclosedMachine:
        mounts = (ContainerMount(str(tmp_path), host=str(tmp_path)),)
        wanted = ContainerCreation(
            ground.name(),
            ground.image,
            ground.labels,
            cmd=("sleep", "600"),
            mounts=mounts,
            rights=ContainerRights(cap_add=("DAC_OVERRIDE",)),
        )
        self.container = await ground.engine.create(wanted)
        await ground.engine.start(self.container)
        return EnclosedMachine(tmp_path, tmp_path / ".plan" / "p" / "run", self.container)

    def command(self, folder: Path, shell: str, **more: object) -> ProcessCommand:
        if "timeout_s" in more:
            more["timeout_s"] = 2.0  # An engine takes a while to begin.
        return ProcessesContract.command(self, folder, shell, sandbox=CommandSandbox(3, self.container), **more)


@pytest.mark.anyio
async def test_the_bounds_of_an_owner_that_was_killed_go_when_the_next_one_begins(tmp_path: Path) -> None:
    needs.cgroups()
    state = tmp_path / "run"
    command = ProcessCommand(str(tmp_path), shell="sleep 60", sandbox=CommandSandbox(GROUP, processes=20))
    owner = begun_enclosing(tmp_path, state, "a", command)
    await owner.until_begun()
    owner.kill()
    assert enclosures.leftovers(state) != []

    await enclosures.enclosing(tmp_path, state, 2).sweep(frozenset())

    assert enclosures.leftovers(state) == []
