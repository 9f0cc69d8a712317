"""Simulated processes in virtual time, for crash simulations from one seed.

`SimulatedMachine` survives owners like a kernel; each owner gets a `SimulatedProcesses` over it. A process is a list of
timed steps that is played up to "now" at each access, so nothing runs between accesses, and a crash of the owner does
not affect processes. It passes the same contract suite as the real one (`tests/contracts/`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field

import anyio
import anyio.lowlevel

from planloop.reconciler.clock import Clock
from planloop.reconciler.effects.processes import ExitCause, OperationTrace, ProcessCommand, ProcessExit
from planloop.schemas import limits
from planloop.schemas.frozen import mutable
from tests.simulation.simulated_shell import ShellRun, SimulatedProgram, start_obstacle_of


@mutable
class _Process:
    command: ProcessCommand
    began_at: float
    run: ShellRun
    killed_at: float = math.inf
    has_state: bool = True  # False: its exit code was not recorded.

    def play(self, now: float) -> None:
        has_ended = self.began_at + self.run.ends_after_s <= min(now, self.killed_at)
        # The end counts exactly: the difference of two floats may fall short of the last step.
        self.run.play(self.run.ends_after_s if has_ended else min(now, self.killed_at) - self.began_at)

    def ends_at(self) -> float:
        """When it ends of its own; infinite for one that never does."""
        return min(self.killed_at, self.began_at + self.run.ends_after_s)


@mutable
class SimulatedMachine:
    """The processes of one plan. `began` lists the operations that really began, in order: the effects that happened.

    `programs` are tried in order for a command; the first answer other than None is what it does. `on_begin` hears
    every operation at the moment it begins.
    """

    clock: Clock
    programs: Sequence[SimulatedProgram] = ()
    began: list[str] = field(default_factory=list)
    commands: dict[str, ProcessCommand] = field(default_factory=dict)
    processes: dict[str, _Process] = field(default_factory=dict)
    fenced: set[str] = field(default_factory=set)
    changed: anyio.Event = field(default_factory=anyio.Event)
    on_begin: Callable[[str], None] = field(default=lambda _: None)

    def start(self, op: str, command: ProcessCommand) -> bool:
        """Whether `op` began now: not when it is fenced or began before."""
        if op in self.fenced or op in self.processes:
            return False
        self.on_begin(op)
        self.began.append(op)
        self.commands[op] = command
        self.processes[op] = _Process(command, self.clock.now(), ShellRun.of(command, self.programs))
        return True

    def looked_at(self, op: str) -> _Process | None:
        """The process of `op`, played up to now."""
        process = self.processes.get(op)
        if process is not None:
            process.play(self.clock.now())
        return process

    def is_running(self, op: str) -> bool:
        process = self.looked_at(op)
        return process is not None and self.clock.now() < process.ends_at()

    def running(self) -> list[str]:
        return [op for op in self.processes if self.is_running(op)]

    def kill(self, op: str) -> None:
        """End `op` now without recording its exit code, like a power cut or the OOM killer."""
        self._end(op, -9, is_noted=False)

    def stop(self, op: str) -> None:
        """Ends `op` now as its owner does, which is noted."""
        process = self.processes[op]
        self._end(op, -9 if process.run.ignores_term else -15, is_noted=True)

    def _end(self, op: str, code: int, *, is_noted: bool) -> None:
        process = self.looked_at(op)
        if process is not None and self.is_running(op):
            process.killed_at = self.clock.now()
            process.run.code = code
            process.has_state = is_noted
            self.changed.set()
            self.changed = anyio.Event()


class SimulatedProcesses:
    """A `Processes` for one owner of `machine`. `is_dead` says that the owner was killed: it then touches nothing."""

    def __init__(
        self,
        machine: SimulatedMachine,
        *,
        grace_s: float = limits.TERM_GRACE_S,
        is_dead: Callable[[], bool] = lambda: False,
    ) -> None:
        self._machine = machine
        self._grace_s = grace_s
        self._is_dead = is_dead

    async def run(self, op: str, command: ProcessCommand) -> ProcessExit:
        obstacle = start_obstacle_of(command)
        if obstacle:
            return ProcessExit(ExitCause.NOT_STARTED, None, obstacle.encode())
        if not self._machine.start(op, command):
            return ProcessExit(ExitCause.NOT_STARTED, None, b"the operation was begun before")
        return await self._await_end(op, command.timeout_s, command.output_bytes_max, is_child=True)

    async def trace(self, op: str) -> OperationTrace:
        await anyio.lowlevel.checkpoint()
        process = self._machine.looked_at(op)
        if process is None:
            self._machine.fenced.add(op)
            return OperationTrace.NEVER_BEGAN
        if self._machine.is_running(op):
            return OperationTrace.RUNNING
        return OperationTrace.ENDED if process.has_state else OperationTrace.LOST

    async def adopt(self, op: str, timeout_s: float | None = None) -> ProcessExit:
        return await self._await_end(op, timeout_s, None, is_child=False)

    async def stop(self, op: str) -> None:
        await self.trace(op)
        await self._stop([op])

    async def read_output(self, op: str, after: int = 0) -> bytes:
        process = self._machine.looked_at(op)
        return bytes(process.run.output[after:]) if process else b""

    def forget(self, ops: Sequence[str]) -> None:
        if not self._is_dead():
            for op in ops:
                self._machine.processes.pop(op, None)

    async def sweep(self, keep: frozenset[str]) -> list[str]:
        strays = sorted(op for op in self._machine.running() if op not in keep)
        await self._stop(strays)
        return strays

    async def _await_end(
        self, op: str, timeout_s: float | None, output_max: int | None, *, is_child: bool
    ) -> ProcessExit:
        machine = self._machine
        process = machine.processes.get(op)
        if process is None:
            return ProcessExit(ExitCause.LOST, None, b"")
        bound = limits.OUTPUT_KEPT_BYTES_MAX if output_max is None else output_max
        ending = ExitCause.TIMED_OUT
        try:
            with anyio.move_on_after(timeout_s):
                ending = await self._watch(process, bound)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._stop([op])
            raise
        if ending is not ExitCause.EXITED:
            await self._stop([op])
            return ProcessExit(ending, None, bytes(process.run.output[:bound]))
        if not process.has_state and not is_child:
            return ProcessExit(ExitCause.LOST, None, bytes(process.run.output))
        # A parent sees the signal that ended its child, even if it was not recorded.
        return ProcessExit(ending, process.run.code, bytes(process.run.output[:bound]))

    async def _watch(self, process: _Process, bound: int) -> ExitCause:
        clock = self._machine.clock
        while True:
            await anyio.lowlevel.checkpoint()
            process.play(clock.now())
            if len(process.run.output) > bound or process.run.is_flooding:
                return ExitCause.TOO_MUCH_OUTPUT
            left_s = process.ends_at() - clock.now()
            if left_s <= 0:
                return ExitCause.EXITED
            changed = self._machine.changed
            with anyio.move_on_after(left_s):
                await changed.wait()

    async def _stop(self, ops: Iterable[str]) -> None:
        if self._is_dead():
            return
        for op in ops:
            process = self._machine.looked_at(op)
            if process is None or not self._machine.is_running(op):
                continue
            grace_s = self._grace_s if process.run.ignores_term else 0.0
            with anyio.move_on_after(min(grace_s, process.ends_at() - self._machine.clock.now())):
                await anyio.sleep_forever()
            if not self._is_dead():
                self._machine.stop(op)
