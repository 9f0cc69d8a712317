"""Real processes, and the simulated ones that stand in for them, pass one contract."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from trio.testing import MockClock

from planloop.reconciler.effects.local_processes import LocalProcesses
from tests.contracts.processes_contract import ProcessesContract
from tests.fakes.owners import BegunOwner, kill_operation
from tests.fakes.virtual_time import VirtualClock
from tests.product import ProcessCommand, Processes
from tests.simulation.simulated_processes import SimulatedMachine, SimulatedProcesses

GRACE_S = 0.2


@dataclass
class RealMachine:
    folder: Path
    epochs: int = 0

    def owner(self) -> Processes:
        self.epochs += 1
        return LocalProcesses(self.folder, str(self.folder), self.epochs, grace_s=GRACE_S)

    async def begin_and_crash(self, op: str, command: ProcessCommand) -> None:
        owner = BegunOwner(self.folder, op, command)
        await owner.until_begun()
        owner.kill()

    async def kill(self, op: str) -> None:
        await kill_operation(str(self.folder), op)


class TestLocal(ProcessesContract):
    @pytest.fixture
    def machine(self, tmp_path: Path) -> RealMachine:
        return RealMachine(tmp_path / "run")

    async def test_command_does_not_inherit_an_open_file_of_our_caller(
        self, machine: RealMachine, folder: Path
    ) -> None:
        (secret := folder / "secret").write_text("told")
        left = os.open(secret, os.O_RDONLY)
        try:
            os.set_inheritable(left, True)  # As a shell leaves it: `exec 9<secret; plan apply`.
            found = await machine.owner().run("a", self.command(folder, f"cat /dev/fd/{left}"))
        finally:
            os.close(left)

        assert b"told" not in found.output


class TestLocalOnTrio(TestLocal):
    @pytest.fixture
    def anyio_backend(self) -> str:
        return "trio"


@dataclass
class MakeBelieve:
    machine: SimulatedMachine = field(default_factory=lambda: SimulatedMachine(VirtualClock()))

    def owner(self) -> Processes:
        return SimulatedProcesses(self.machine, grace_s=GRACE_S)

    async def begin_and_crash(self, op: str, command: ProcessCommand) -> None:
        is_dead = False
        owner = SimulatedProcesses(self.machine, is_dead=lambda: is_dead)
        async with anyio.create_task_group() as group:
            group.start_soon(owner.run, op, command)
            await anyio.lowlevel.checkpoint()
            is_dead = True
            group.cancel_scope.cancel()

    async def kill(self, op: str) -> None:
        self.machine.kill(op)


class TestSimulated(ProcessesContract):
    @pytest.fixture
    def anyio_backend(self) -> tuple[str, dict[str, object]]:
        return "trio", {"clock": MockClock(autojump_threshold=0)}

    @pytest.fixture
    def machine(self) -> MakeBelieve:
        return MakeBelieve()
