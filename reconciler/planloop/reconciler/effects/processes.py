"""The port for child processes that outlive a crash of their owner: start, find, adopt and stop them by operation id.

The port; the real one is `local_processes.py`. Each process runs in its own process group, labelled in its environment
with plan, operation and epoch, and writes its output and its exit code to files named by the operation, so that the
next owner can tell never-started from running, ended and lost (law 5).
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
    """What a command is enclosed in: tier 0 nothing, 1 its group and bounds, 2 bubblewrap, 3 the container `container`.

    At tier 2 it may read `readable` and write below its `cwd` and `writable`, but for `guarded`; the folders `held`
    stay where they are. `is_alone`: of the plan's folder it sees only these. All are absolute. `network` is whether it
    may ask anybody; without it, `hosts` are patterns of `host:port` that it may, through a proxy. `memory_bytes` and
    `processes` bound all of it together where that can be, else each process. `inside` is the folder in the container;
    None for that in which the command's `cwd` is mounted, empty for the container's own.
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
    """What to run. Exactly one of `argv` and `shell` is given; `cwd` is absolute; `env` is the whole environment.

    `stdin` is given whole, then closed. `output_bytes_max` stops the group when passed. `memory_bytes_max`,
    `processes_max` and `cpu_s_max` become rlimits; None leaves the inherited limit. `file_bytes_max` bounds every file
    that it writes, its output among them: what still holds when the owner that watches the output has died. `sandbox`
    is for those `Processes` that enclose (`planloop.containers.sandbox`); others take no notice of it.
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
    """How a process came to its end, as far as anybody saw."""

    EXITED = "exited"
    TIMED_OUT = "timed out"
    TOO_MUCH_OUTPUT = "too much output"
    LOST = "lost"  # The process began and is gone, and its exit was not observed.
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
    """What is known of an operation of an earlier owner."""

    NEVER_BEGAN = "never began"
    RUNNING = "running"
    ENDED = "ended"
    LOST = "lost"


class Processes(Protocol):
    """Runs and finds processes by operation id (`op`)."""

    async def run(self, op: str, command: ProcessCommand) -> ProcessExit:
        """Runs `command` to its end. Cancelling stops its whole group (TERM, grace, KILL) before this returns."""
        ...

    async def trace(self, op: str) -> OperationTrace:
        """What became of `op`. NEVER_BEGAN is made true for good: a late start of it will do nothing."""
        ...

    async def adopt(self, op: str, timeout_s: float | None = None) -> ProcessExit:
        """Waits for a RUNNING or ENDED operation as `run` would have; cancelling stops its group."""
        ...

    async def stop(self, op: str) -> None:
        """Stops the group of `op` and whatever left it but carries its label; returns when none is left."""
        ...

    async def read_output(self, op: str, after: int = 0) -> bytes:
        """What `op` has written so far from byte `after` on: live output for `plan logs -f`."""
        ...

    def forget(self, ops: Sequence[str]) -> None:
        """Removes the files of ended operations whose results are durable."""
        ...

    async def sweep(self, keep: frozenset[str]) -> list[str]:
        """Stops every process that carries this plan's label and an operation outside `keep`; returns those ops.

        Called when a new owner starts and has traced what it knows of; files that an earlier one left go too.
        """
        ...
