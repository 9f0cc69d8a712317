"""Another writer of a plan's log: a real store in its own process, like the owner's."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]

# Owns the plan and appends `count` records at `rate` a second, each with a change of a status. Each line of its input
# asks for more: "count rate". It says the revision after each round, and says nothing of itself otherwise.
WRITER = """
import asyncio, sys, time
from pathlib import Path
from planloop.reconciler.clock import SystemClock
from planloop.reconciler.store import owner_lock
from planloop.reconciler.store.sqlite import database
from planloop.reconciler.store.sqlite.sqlite_store import SqliteStore
from planloop.schemas.log.record import RecordDraft, SetStatus, Put

async def rounds(store, folder):
    await store.append(RecordDraft("object.created", "controller:test", "task/t", (Put("task/t", "u", {"goal": "g"}),)))
    print(store.durable_rev, flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        count, rate = map(int, line.split())
        begun = time.monotonic()
        for n in range(count):
            change = SetStatus("task/t", "u", {"n": n, "pad": "x" * 100})
            store.propose(RecordDraft("task.changed", "controller:task", "task/t", (change,), {"n": n}))
            if n % 10 == 9:
                await asyncio.sleep(max(0.0, begun + n / rate - time.monotonic()))
        await store.flush(store.view.rev)
        print(store.durable_rev, flush=True)

async def main(folder):
    with owner_lock.own_plan(folder, now=time.time(), stored_epoch=database.stored_epoch) as owner:
        async with SqliteStore.open(folder, clock=SystemClock(), epoch=owner.epoch) as store:
            await store.append(owner_lock.epoch_draft(owner, folder.name))
            await rounds(store, folder)

asyncio.run(main(Path(sys.argv[1])))
"""


class Writer:
    """A process that owns a plan and writes when told."""

    def __init__(self, process: subprocess.Popen[str], rev: int) -> None:
        self._process = process
        self.rev = rev

    def start(self, count: int, rate: int) -> None:
        """Start to write that many records."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{count} {rate}\n")
        self._process.stdin.flush()

    def wait(self) -> int:
        """The revision once all of a round are durable."""
        assert self._process.stdout is not None
        self.rev = int(self._process.stdout.readline())
        return self.rev

    def write(self, count: int) -> int:
        """Write that many records as fast as possible; return the last revision."""
        self.start(count, 1_000_000)
        return self.wait()

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self._process.wait()


@contextmanager
def writing(folder: Path) -> Iterator[Writer]:
    """A writer of the plan with this state folder; it creates a missing log and ends with the block."""
    command = [sys.executable, "-c", WRITER, str(folder)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=ROOT, text=True, **pipes) as process:  # type: ignore[call-overload]
        try:
            assert process.stdout is not None
            yield Writer(process, int(process.stdout.readline()))
            if process.poll() is None and process.stdin is not None:
                process.stdin.close()
                process.wait(10)
        finally:
            process.kill()


def deleted(folder: Path) -> None:
    """Remove `folder` atomically: a reader of its log may still add files to it."""
    doomed = folder.with_name(f"{folder.name}-deleted")
    folder.rename(doomed)
    shutil.rmtree(doomed)
