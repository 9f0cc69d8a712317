"""An owner of enclosing processes in a process of its own, for tests that kill it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import anyio.to_thread

from reconciler.effects.processes import Command
from schemas import encoding
from tests.containers.sandboxing.homes import REPOSITORY

OWNER = """
import json, sys
from pathlib import Path
import anyio
from reconciler.effects.processes import Command, Sandbox
from tests.containers.sandboxing.homes import enclosing
from tests.containers.sandboxing.rooming import rooms_of

async def main(home, folder, op, command):
    box = command.pop("sandbox")
    processes = enclosing(Path(home), Path(folder), rooms=rooms_of(box["container"]))
    command = Command(**command, sandbox=Sandbox(**box))
    state = Path(folder) / f"{op}.state"
    async with anyio.create_task_group() as group:
        group.start_soon(processes.run, op, command)
        while not state.exists() or not state.read_text().endswith("\\n"):
            await anyio.sleep(0.001)
        print("begun", flush=True)

anyio.run(main, sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4]))
"""


class BegunEnclosingOwner:
    """Runs one operation and says so once it has begun."""

    def __init__(self, home: Path, folder: Path, op: str, command: Command) -> None:
        stated = {name: value for name, value in asdict(command).items() if name != "stdin"}
        words = [sys.executable, "-c", OWNER, str(home), str(folder), op, encoding.encode(stated).decode()]
        self._process = subprocess.Popen(words, cwd=REPOSITORY, stdout=subprocess.PIPE)

    async def until_begun(self) -> None:
        assert self._process.stdout is not None
        line = await anyio.to_thread.run_sync(self._process.stdout.readline)
        assert line == b"begun\n", "the owner could not begin"

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
