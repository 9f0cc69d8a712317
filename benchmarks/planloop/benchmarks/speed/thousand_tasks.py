"""1,000 `true` tasks in a dependency tree, two at a time: `plan apply` as a whole process, every state durable.

Floors, in the same run: 1,000 runs of `true` with posix_spawn, two at a time, and with asyncio; and 1,000 lines
appended to a file and flushed, as before the start of each task. Processor time includes the commands; other load on
the machine hardly changes it. Memory is the peak.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TASKS = 1_000
ROUNDS = 3
GOAL_S = 1.3
ROOT = Path(__file__).parents[4]


def plan() -> str:
    """A binary tree of needs: each task waits for its parent in the tree."""
    rows = [f"  t{n}: {{run: 'true'" + (f", needs: [t{(n - 1) // 2}]" if n else "") + "}" for n in range(TASKS)]
    return "plan: tree\nlimits: {parallel: 2}\ntasks:\n" + "\n".join(rows) + "\n"


def spawn_floor() -> float:
    true = shutil.which("true") or "/bin/true"
    start, running = time.perf_counter(), 0
    for _ in range(TASKS):
        if running == 2:
            os.wait()
            running -= 1
        os.posix_spawn(true, [true], os.environ)
        running += 1
    for _ in range(running):
        os.wait()
    return time.perf_counter() - start


def asyncio_floor() -> float:
    async def run() -> None:
        slots = asyncio.Semaphore(2)

        async def one() -> None:
            async with slots:
                process = await asyncio.create_subprocess_exec("true")
                await process.wait()

        await asyncio.gather(*(one() for _ in range(TASKS)))

    start = time.perf_counter()
    asyncio.run(run())
    return time.perf_counter() - start


def flush_floor() -> float:
    with tempfile.TemporaryFile() as file:
        start = time.perf_counter()
        for _ in range(TASKS):
            os.write(file.fileno(), b"x" * 500)
            os.fdatasync(file.fileno())
        return time.perf_counter() - start


def ours() -> tuple[float, float, int]:
    """Seconds of the whole process, seconds from the first to the last record, and number of records."""
    with tempfile.TemporaryDirectory(prefix="thousand-") as name:
        folder = Path(name)
        (folder / "tree.plan.yaml").write_text(plan())
        start = time.perf_counter()
        command = [sys.executable, "-m", "planloop", "apply", "tree.plan.yaml"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, check=False, env=environment)
        whole = time.perf_counter() - start
        assert done.returncode == 0, "every task is `true`"
        lines = (folder / ".plan" / "tree" / "events.jsonl").read_text().splitlines()
    first, last = json.loads(lines[0]), json.loads(lines[-1])
    return whole, last["at"] - first["at"], len(lines)


def main() -> None:
    spawn, loop, flush, runs = [], [], [], []
    cpu = 0.0
    for _ in range(ROUNDS):
        spawn.append(spawn_floor())
        loop.append(asyncio_floor())
        flush.append(flush_floor())
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        runs.append(ours())
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu += (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / ROUNDS
    floor = statistics.median(spawn)
    print(f"{'':38}{'s':>8}{'× spawn':>9}")
    for title, seconds in (
        ("posix_spawn", floor),
        ("asyncio", statistics.median(loop)),
        ("append + fdatasync", statistics.median(flush)),
        ("plan apply, first record to last", statistics.median(inside for _, inside, _ in runs)),
        ("plan apply, whole process", statistics.median(whole for whole, _, _ in runs)),
        ("plan apply, processor", cpu),
    ):
        print(f"{title:38}{seconds:>8.2f}{seconds / floor:>9.2f}")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"{runs[-1][2]:,} records; peak memory {peak:.0f} MB; goal: at most {GOAL_S} s")


if __name__ == "__main__":
    main()
