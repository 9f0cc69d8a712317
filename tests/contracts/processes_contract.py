"""What every `Processes` must do, real or simulated. Subclasses give a `machine` and the backend it runs on.

Commands use only words that the simulated shell knows, so that both are asked the very same.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import anyio
import anyio.lowlevel
import pytest

from tests.product import ExitCause, OperationTrace, ProcessCommand, Processes
from tests.product import ProcessExit as Exit

NOTHING: frozenset[str] = frozenset()


class Machine(Protocol):
    """Where owners come and go and processes stay."""

    def owner(self) -> Processes:
        """A new owner of the same plan, with a grace that a test can wait for."""
        ...

    async def begin_and_crash(self, op: str, command: ProcessCommand) -> None:
        """Begins `op` under an owner that is then killed, without a chance to clean up."""
        ...

    async def kill(self, op: str) -> None:
        """Kills the processes of `op` from outside, all of them."""
        ...


class ProcessesContract:
    pytestmark = pytest.mark.anyio

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        """Where commands run."""
        place = tmp_path / "workspace"
        place.mkdir()
        return place

    def command(self, folder: Path, shell: str, **more: object) -> ProcessCommand:
        env = {"PATH": "/usr/bin:/bin"}
        return ProcessCommand(str(folder), shell=shell, env=env, **more)  # type: ignore[arg-type]  # the tests' own keywords

    async def test_exit_code_and_both_outputs_are_returned(self, machine: Machine, folder: Path) -> None:
        exit_ = await machine.owner().run("a", self.command(folder, "echo out; echo err >&2; exit 3"))

        assert exit_ == Exit(ExitCause.EXITED, 3, b"out\nerr\n"), exit_

    async def test_a_program_is_run_without_a_shell_between(self, machine: Machine, folder: Path) -> None:
        command = ProcessCommand(str(folder), argv=("echo", "a  b", "$HOME"), env={"PATH": "/usr/bin:/bin"})

        assert (await machine.owner().run("a", command)).output == b"a  b $HOME\n"

    async def test_a_signal_is_a_negative_exit_code(self, machine: Machine, folder: Path) -> None:
        exit_ = await machine.owner().run("a", self.command(folder, "kill -KILL $$"))

        assert (exit_.ending, exit_.code) == (ExitCause.EXITED, -9)

    async def test_input_is_passed_whole_and_then_closed(self, machine: Machine, folder: Path) -> None:
        exit_ = await machine.owner().run("a", self.command(folder, "cat", stdin=b"one\ntwo"))

        assert exit_.output == b"one\ntwo", exit_

    async def test_a_timeout_stops_the_process(self, machine: Machine, folder: Path) -> None:
        owner = machine.owner()

        exit_ = await owner.run("a", self.command(folder, "echo so far; sleep 60", timeout_s=2.0))

        assert (exit_.ending, exit_.code) == (ExitCause.TIMED_OUT, None)
        assert exit_.output.startswith(b"so far\n")
        assert await owner.sweep(NOTHING) == []

    async def test_process_that_ignores_term_is_killed_after_the_grace(self, machine: Machine, folder: Path) -> None:
        owner = machine.owner()

        exit_ = await owner.run("a", self.command(folder, 'trap "" TERM; sleep 60', timeout_s=0.1))

        assert exit_.ending is ExitCause.TIMED_OUT
        assert await owner.trace("a") is not OperationTrace.RUNNING

    async def test_law_11_too_much_output_stops_the_process_and_keeps_the_beginning(
        self, machine: Machine, folder: Path
    ) -> None:
        exit_ = await machine.owner().run("a", self.command(folder, "yes", output_bytes_max=1000))

        assert exit_ == Exit(ExitCause.TOO_MUCH_OUTPUT, None, b"y\n" * 500)

    @pytest.mark.parametrize(
        "command",
        [
            ProcessCommand("/no/such/folder", shell="true"),
            ProcessCommand("/", argv=("no-such-program",), env={"PATH": "/bin"}),
        ],
        ids=["no folder", "no program"],
    )
    async def test_failed_start_reports_the_reason(self, machine: Machine, command: ProcessCommand) -> None:
        exit_ = await machine.owner().run("a", command)

        assert (exit_.ending, exit_.code) == (ExitCause.NOT_STARTED, None)
        assert b"no" in exit_.output and b"such" in exit_.output

    async def test_cancelling_a_run_leaves_nothing_behind(self, machine: Machine, folder: Path) -> None:
        owner = machine.owner()

        async with anyio.create_task_group() as group:
            group.start_soon(owner.run, "a", self.command(folder, "sleep 60; touch late"))
            await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()

        assert await owner.trace("a") is not OperationTrace.RUNNING
        assert await owner.sweep(NOTHING) == []
        assert not (folder / "late").exists()

    @pytest.mark.parametrize("shell", ["sleep 60", 'trap "" TERM; sleep 60'])
    async def test_process_stopped_by_an_owner_is_known_to_the_next(
        self, machine: Machine, folder: Path, shell: str
    ) -> None:
        await machine.begin_and_crash("a", self.command(folder, shell))
        await machine.owner().stop("a")

        assert await machine.owner().trace("a") is OperationTrace.ENDED
        # TERM may arrive while the trap is not set yet, and a shell that forks its command at that moment loses it.
        assert (await machine.owner().adopt("a")).code in (-15, -9)

    async def test_operation_never_starts_twice(self, machine: Machine, folder: Path) -> None:
        command = self.command(folder, "echo x >> effects")
        assert (await machine.owner().run("a", command)).code == 0

        again = await machine.owner().run("a", command)

        assert again.ending is ExitCause.NOT_STARTED
        assert (folder / "effects").read_text() == "x\n"

    async def test_operation_that_never_began_cannot_start_later(self, machine: Machine, folder: Path) -> None:
        owner = machine.owner()
        assert await owner.trace("a") is OperationTrace.NEVER_BEGAN

        late = await owner.run("a", self.command(folder, "echo x >> effects"))

        assert late.ending is ExitCause.NOT_STARTED
        assert await owner.trace("a") is OperationTrace.NEVER_BEGAN
        assert not (folder / "effects").exists()

    async def test_a_running_process_of_a_dead_owner_is_adopted(self, machine: Machine, folder: Path) -> None:
        await machine.begin_and_crash("a", self.command(folder, "echo hello; sleep 0.5; exit 4"))
        owner = machine.owner()
        assert await owner.trace("a") is OperationTrace.RUNNING

        assert await owner.adopt("a") == Exit(ExitCause.EXITED, 4, b"hello\n")
        assert await owner.trace("a") is OperationTrace.ENDED

    async def test_process_that_ended_without_an_owner_reports_its_ending(self, machine: Machine, folder: Path) -> None:
        await machine.begin_and_crash("a", self.command(folder, "sleep 0.3; echo x >> effects; exit 5"))
        owner = machine.owner()
        await owner.adopt("a")

        assert await machine.owner().trace("a") is OperationTrace.ENDED
        assert await machine.owner().adopt("a") == Exit(ExitCause.EXITED, 5, b"")
        assert (folder / "effects").read_text() == "x\n"

    async def test_a_process_that_vanished_is_lost(self, machine: Machine, folder: Path) -> None:
        await machine.begin_and_crash("a", self.command(folder, "echo hello; sleep 60"))
        await machine.kill("a")

        assert await machine.owner().trace("a") is OperationTrace.LOST
        assert (await machine.owner().adopt("a")).ending is ExitCause.LOST

    async def test_an_adopted_process_keeps_a_timeout(self, machine: Machine, folder: Path) -> None:
        await machine.begin_and_crash("a", self.command(folder, "sleep 60"))
        owner = machine.owner()

        assert (await owner.adopt("a", timeout_s=0.1)).ending is ExitCause.TIMED_OUT
        assert await owner.sweep(NOTHING) == []

    async def test_cancelling_an_adoption_stops_the_process(self, machine: Machine, folder: Path) -> None:
        await machine.begin_and_crash("a", self.command(folder, "sleep 60"))
        owner = machine.owner()

        with anyio.move_on_after(0.1):
            await owner.adopt("a")

        assert await owner.trace("a") is not OperationTrace.RUNNING

    async def test_sweep_stops_unclaimed_processes(self, machine: Machine, folder: Path) -> None:
        await machine.begin_and_crash("kept", self.command(folder, "sleep 60"))
        await machine.begin_and_crash("stray", self.command(folder, "sleep 60"))
        owner = machine.owner()

        assert await owner.sweep(frozenset({"kept"})) == ["stray"]
        assert await owner.trace("kept") is OperationTrace.RUNNING
        assert await owner.trace("stray") is not OperationTrace.RUNNING
        await owner.stop("kept")
        assert await owner.sweep(NOTHING) == []

    async def test_stopping_an_operation_also_fences_it(self, machine: Machine, folder: Path) -> None:
        owner = machine.owner()
        await owner.stop("a")

        assert (await owner.run("a", self.command(folder, "true"))).ending is ExitCause.NOT_STARTED

    async def test_output_can_be_read_in_parts(self, machine: Machine, folder: Path) -> None:
        owner = machine.owner()
        await owner.run("a", self.command(folder, "echo one; echo two"))

        assert await owner.read_output("a") == b"one\ntwo\n"
        assert await owner.read_output("a", after=4) == b"two\n"
        assert await owner.read_output("b") == b""

    async def test_a_forgotten_operation_leaves_no_output(self, machine: Machine, folder: Path) -> None:
        owner = machine.owner()
        await owner.run("a", self.command(folder, "echo one"))

        owner.forget(["a", "never"])

        assert await owner.read_output("a") == b""
