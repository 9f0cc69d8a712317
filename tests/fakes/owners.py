"""Owners in processes of their own, for tests that kill them with SIGKILL."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import anyio
import anyio.to_thread

from planloop.reconciler.effects import process_table
from planloop.schemas import canonical_json
from tests.product import ProcessCommand

# The owner says `begun` once the shim has taken its state file, and then waits for the end like any owner.
OWNER = """
import json, sys
from pathlib import Path
import anyio
from planloop.reconciler.effects.local_processes import LocalProcesses
from planloop.reconciler.effects.processes import ProcessCommand

async def main(folder, op, command):
    processes = LocalProcesses(Path(folder), folder, 1)
    state = Path(folder) / f"{op}.state"
    async with anyio.create_task_group() as group:
        group.start_soon(processes.run, op, ProcessCommand(**command))
        while not state.exists() or not state.read_text().endswith("\\n"):
            await anyio.sleep(0.001)
        print("begun", flush=True)

anyio.run(main, sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
"""
ROOT = Path(__file__).resolve().parents[2]


class BegunOwner:
    """An owner in its own process that runs one operation by `script`, which is given `before` and the operation."""

    def __init__(
        self, folder: Path, op: str, command: ProcessCommand, *, script: str = OWNER, before: tuple[str, ...] = ()
    ) -> None:
        stated = {name: value for name, value in asdict(command).items() if name != "stdin"}
        arguments = [sys.executable, "-c", script, *before, str(folder), op, canonical_json.encode(stated).decode()]
        self._process = subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE)

    async def until_begun(self) -> None:
        assert self._process.stdout is not None
        line = await anyio.to_thread.run_sync(self._process.stdout.readline)
        assert line == b"begun\n", "the owner could not begin"

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


async def kill_operation(plan: str, op: str) -> None:
    """KILLs every process of `op` and returns when all are gone."""
    pids = [one.pid for one in process_table.labelled_processes(plan) if one.op == op]
    for pid in pids:
        with suppress(ProcessLookupError):  # Some die with the first.
            os.kill(pid, signal.SIGKILL)
    for pid in pids:
        await process_table.wait_for_exit(pid)


# Says each operation before it starts it, as the log would, and starts the next when two are running.
COUNTING_OWNER = """
import sys
from pathlib import Path
import anyio
from planloop.reconciler.effects.local_processes import LocalProcesses
from planloop.reconciler.effects.processes import ProcessCommand

async def main(folder):
    processes = LocalProcesses(Path(folder) / "run", folder, 1)
    slots = anyio.Semaphore(2)

    async def one(op):
        async with slots:
            print(op, flush=True)
            command = ProcessCommand(folder, shell=f"sleep 0.001; echo {op} >> effects", env={"PATH": "/usr/bin:/bin"})
            await processes.run(op, command)

    async with anyio.create_task_group() as group:
        for number in range(1000):
            group.start_soon(one, f"op{number}")

anyio.run(main, sys.argv[1])
"""


class CountingOwner:
    """An owner in its own process that runs `echo <op> >> effects` for op0, op1 and so on, two at a time."""

    def __init__(self, folder: Path) -> None:
        arguments = [sys.executable, "-c", COUNTING_OWNER, str(folder)]
        self._process = subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE)

    async def killed_after(self, delay_s: float) -> list[str]:
        """Kills the owner `delay_s` after its first start; returns the operations that it had said it would start."""
        assert self._process.stdout is not None
        first = await anyio.to_thread.run_sync(self._process.stdout.readline)
        await anyio.sleep(delay_s)
        self._process.kill()
        rest = await anyio.to_thread.run_sync(self._process.stdout.read)
        self._process.wait()
        self._process.stdout.close()
        return (first + rest).decode().split()
