"""An owner of enclosing processes in a process of its own, for tests that kill it."""

from __future__ import annotations

from pathlib import Path

from tests.fakes.owners import BegunOwner
from tests.product import ProcessCommand

OWNER = """
import json, sys
from pathlib import Path
import anyio
from planloop.reconciler.effects.processes import CommandSandbox, ProcessCommand
from tests.containers.sandboxing.enclosures import enclosing
from tests.containers.sandboxing.running_container import rooms_of

async def main(home, folder, op, command):
    box = command.pop("sandbox")
    processes = enclosing(Path(home), Path(folder), rooms=rooms_of(box["container"]))
    command = ProcessCommand(**command, sandbox=CommandSandbox(**box))
    state = Path(folder) / f"{op}.state"
    async with anyio.create_task_group() as group:
        group.start_soon(processes.run, op, command)
        while not state.exists() or not state.read_text().endswith("\\n"):
            await anyio.sleep(0.001)
        print("begun", flush=True)

anyio.run(main, sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4]))
"""


def begun_enclosing(home: Path, folder: Path, op: str, command: ProcessCommand) -> BegunOwner:
    """An owner that runs `command` enclosed."""
    return BegunOwner(folder, op, command, script=OWNER, before=(str(home),))
