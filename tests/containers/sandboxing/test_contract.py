"""Enclosed processes pass the contract of all processes."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import anyio.lowlevel
import pytest

from reconciler.effects import process_table
from reconciler.effects.processes import Command, Processes, Sandbox
from schemas.sandbox import GROUP
from tests.containers.sandboxing import homes
from tests.containers.sandboxing.owners import BegunEnclosingOwner
from tests.contracts.processes_contract import ProcessesContract
from tests.fakes.owners import kill_operation


@dataclass
class EnclosedMachine:
    home: Path
    folder: Path
    epochs: int = 0

    def owner(self) -> Processes:
        self.epochs += 1
        return homes.enclosing(self.home, self.folder, self.epochs)

    async def begin_and_crash(self, op: str, command: Command) -> None:
        owner = BegunEnclosingOwner(self.home, self.folder, op, command)
        await owner.until_begun()
        while not _is_inside(str(self.folder), op, command):
            await anyio.lowlevel.checkpoint()
        owner.kill()

    async def kill(self, op: str) -> None:
        await kill_operation(str(self.folder), op)


def _is_inside(plan: str, op: str, command: Command) -> bool:
    """Whether the command itself runs: what is stopped while it is still being enclosed never had a say in it."""
    wanted = f"/bin/sh\0-c\0{command.shell}\0".encode()
    ours = [Path(f"/proc/{one.pid}/cmdline") for one in process_table.labelled(plan) if one.op == op]
    for line in ours:
        with suppress(OSError):
            if line.read_bytes() == wanted or line.read_bytes() == wanted.removeprefix(b"/bin/"):
                return True
    return command.sandbox is not None and command.sandbox.tier == GROUP


class Enclosed(ProcessesContract):
    tier: int

    @pytest.fixture
    def machine(self, tmp_path: Path) -> EnclosedMachine:
        return EnclosedMachine(tmp_path, tmp_path / ".plan" / "p" / "run")

    def command(self, folder: Path, shell: str, **more: object) -> Command:
        return super().command(folder, shell, sandbox=Sandbox(self.tier), **more)


class TestBounded(Enclosed):
    tier = 1


class TestInBubblewrap(Enclosed):
    tier = 2

    @pytest.fixture(autouse=True)
    def has_bubblewrap(self) -> None:
        homes.need_bubblewrap()
