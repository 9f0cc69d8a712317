"""An owner to be killed: runs a small plan in the given folder until a test ends this process."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio

from tests.controllers.task.harness import harness, spec
from tests.product import RunWork

# Begins, waits to be let go, ends: `sh` reads a pipe that the test writes to, so that nothing polls.
COMMAND = "echo begin >> out; read line < gate; echo $line >> out"


async def own(folder: Path, effect: str) -> None:
    async with harness(folder) as here:
        here.apply(
            root=spec(), a=spec(RunWork(shell=COMMAND, effect=effect)), b=spec("echo b >> out", needs=("task/a",))
        )
        await anyio.sleep_forever()


if __name__ == "__main__":
    anyio.run(own, Path(sys.argv[1]), sys.argv[2])
