"""The port for child processes that survive a crash of their owner: start, find, adopt and stop them by operation id.

`local_processes.py` implements it. Each process runs in its own process group, with plan, operation and epoch as labels
in its environment. Its output and exit code are in files named by the operation, so that the next owner can distinguish
never started, running, ended and lost (law 5).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import Enum
from typing import Final, Protocol

from planloop.schemas.frozen import frozen
from planloop.schemas.limits import COMMAND_FILE_BYTES_MAX


@frozen
class CommandSandbox:
    """The sandbox of a command. Tiers: 0 none, 1 process group and limits, 2 bubblewrap, 3 the container `container`.

    In tier 2, it may read `readable` and write below its `cwd` and `writable`, except `guarded`; the folders `held`
    cannot be replaced. `is_alone`: it sees only these of the plan's folder. All paths are absolute. `network`: it has
    full network access; otherwise `hosts` are patterns of `host:port` that it may reach through a proxy. `memory_bytes`
    and `processes` limit all its processes together if possible, else each process. `inside` is the folder in the
    container; None for the folder where the command's `cwd` is mounted, empty for the container's own.
    """

    tier: int
    container: str = ""
    inside: str | None = None
    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    guarded: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    network: bool = False
    hosts: tuple[str, ...] = ()
    memory_bytes: int | None = None
    processes: int | None = None
    is_alone: bool = False


@frozen
class ProcessCommand:
    """A command to run: exactly one of `argv` and `shell`. `cwd` is absolute; `env` is the whole environment.

    `stdin` is written, then closed. Exceeding `output_bytes_max` stops the group. `memory_bytes_max`, `processes_max`
    and `cpu_s_max` become rlimits; None keeps the inherited limit. `file_bytes_max` limits each file that it writes,
    including its output: this limit also works after a crash of the owner, which watches the output. Only `Processes`
    with sandboxes (`planloop.containers.sandbox`) use `sandbox`.
    """

    cwd: str
    argv: tuple[str, ...] = ()
    shell: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: bytes = b""
    timeout_s: float | None = None
    output_bytes_max: int | None = None
    memory_bytes_max: int | None = None
    processes_max: int | None = None
    cpu_s_max: int | None = None
    file_bytes_max: int = COMMAND_FILE_BYTES_MAX
    sandbox: CommandSandbox | None = None


class ExitCause(Enum):
    """How a process ended, as far as known."""

    EXITED = "exited"
    TIMED_OUT = "timed out"
    TOO_MUCH_OUTPUT = "too much output"
    LOST = "lost"  # It started and has ended, but its exit code is unknown.
    NOT_STARTED = "not started"  # The program is missing, not executable, or its cwd is gone; see `output`.


UNKNOWN_OUTCOME: Final = "its outcome is unknown"
"""Message about a command whose exit was not observed (LOST)."""


@frozen
class ProcessExit:
    """How a process ended. `code` is negative for a signal, None unless EXITED; `output` is stdout and stderr mixed."""

    ending: ExitCause
    code: int | None
    output: bytes


class OperationTrace(Enum):
    """What is known about an operation of an earlier owner."""

    NEVER_BEGAN = "never began"
    RUNNING = "running"
    ENDED = "ended"
    LOST = "lost"


class Processes(Protocol):
    """Runs and finds processes by operation id (`op`)."""

    async def run(self, op: str, command: ProcessCommand) -> ProcessExit:
        """Run `command` to its end. Cancelling stops its whole group (TERM, grace, KILL) before this returns."""
        ...

    async def trace(self, op: str) -> OperationTrace:
        """Find out what happened to `op`. NEVER_BEGAN is final: a late start will do nothing."""
        ...

    async def adopt(self, op: str, timeout_s: float | None = None) -> ProcessExit:
        """Wait for a RUNNING or ENDED operation like `run`. Cancelling stops its group."""
        ...

    async def stop(self, op: str) -> None:
        """Stop the group of `op`, and processes with its label that left the group; return when none is left."""
        ...

    async def read_output(self, op: str, after: int = 0) -> bytes:
        """Return the output of `op` so far from byte `after` on, for `plan logs -f`."""
        ...

    def forget(self, ops: Sequence[str]) -> None:
        """Remove the files of ended operations whose results are durable."""
        ...

    async def sweep(self, keep: frozenset[str]) -> list[str]:
        """Stop all processes with this plan's label and an operation outside `keep`; return these operations.

        A new owner calls it after it has traced all known operations. Also removes files of earlier owners.
        """
        ...
