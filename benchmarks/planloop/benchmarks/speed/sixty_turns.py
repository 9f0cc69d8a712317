"""Conversations of 60 tool turns: processor time of late and early turns, and the stored bytes of a conversation.

Floor, in the same run: an aiohttp client that sends a prompt of the same length as in that turn. Stored bytes are the
rows of the log and the blobs since the plan was applied, per conversation; `events.jsonl` repeats the rows as text.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sqlite3
import statistics
import tempfile
import time
from pathlib import Path

from planloop.benchmarks.speed._agents import Running, model_server, notes, owner, plan_of

TURNS = 60
AT_ONCE = 20
MARKS = (2, 12, 26, 38, 50, 60)  # Turns of each agent between which time is measured; the first two warm up.
TURN_BYTES = 260  # About the bytes that a turn adds to the prompt.
ROUNDS = 3
GOAL_LOG_KB = 60
GOAL_RATIO = 1.5


async def floor(url: str) -> list[float]:
    """Milliseconds of processor time for one request, between each two marks."""
    import aiohttp

    found, last = [], 0
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def talk(since: int, until: int) -> None:
            for turn in range(since, until):
                prompt = b'{"model":"m","messages":["%b"]}' % (b"x" * (3_000 + turn * TURN_BYTES))
                async with session.post(f"{url}/chat/completions", data=prompt) as response:
                    await response.read()

        for mark in MARKS:
            before = time.process_time()
            await asyncio.gather(*(talk(last, mark) for _ in range(AT_ONCE)))
            found.append((time.process_time() - before) / (AT_ONCE * (mark - last)) * 1000)
            last = mark
    return found[1:]


def stored(running: Running) -> tuple[int, int]:
    """Bytes of log rows and of blobs."""
    file = next(running.folder.rglob("log.db"))
    connection = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
    (rows,) = connection.execute("SELECT sum(length(CAST(body AS BLOB))) FROM log").fetchone()
    (blobs,) = connection.execute("SELECT coalesce(sum(length(content)), 0) FROM blobs").fetchone()
    connection.close()
    return rows, blobs


async def ours(folder: Path, url: str) -> tuple[list[float], list[tuple[int, int]]]:
    """Milliseconds of processor time per turn between each two marks, and the bytes stored per conversation by then."""
    cpu: list[float] = []
    kept: list[tuple[int, int]] = []
    async with owner(folder, plan_of(AT_ONCE, url)) as running:
        at_first, last, before = stored(running), 0, 0.0
        for mark in MARKS:
            await running.until(lambda: running.turns >= AT_ONCE * mark)  # noqa: B023 - awaited here
            now = time.process_time()
            if last:
                cpu.append((now - before) / (AT_ONCE * (mark - last)) * 1000)
                rows, blobs = stored(running)
                kept.append(((rows - at_first[0]) // AT_ONCE, (blobs - at_first[1]) // AT_ONCE))
            last, before = mark, time.process_time()
    return cpu, kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    rounds = parser.parse_args().rounds
    least: list[list[float]] = []
    used: list[list[float]] = []
    kept: list[tuple[int, int]] = []
    with model_server(TURNS) as server:
        for _ in range(rounds):
            least.append(asyncio.run(floor(server.url())))
            with tempfile.TemporaryDirectory(prefix="sixty-") as name:
                notes(Path(name), TURNS)
                cpu, kept = asyncio.run(ours(Path(name), server.url()))
            used.append(cpu)
    floors = [statistics.median(each) for each in zip(*least, strict=True)]
    turns = [statistics.median(each) for each in zip(*used, strict=True)]
    print(f"load {os.getloadavg()[0]:.1f}; {AT_ONCE} conversations at once; medians of {rounds} rounds")
    print(f"{'turns':>8}{'ms per turn':>12}{'floor':>8}{'× floor':>9}{'× first':>9}{'log KB':>9}{'blobs KB':>10}")
    for index, mark in enumerate(MARKS[1:]):
        rows, blobs = kept[index]
        line = (
            f"{MARKS[index]:>4}–{mark:<3}{turns[index]:>12.3f}{floors[index]:>8.3f}{turns[index] / floors[index]:>9.1f}"
        )
        print(f"{line}{turns[index] / turns[0]:>9.2f}{rows / 1024:>9.1f}{blobs / 1024:>10.1f}")
    print(f"goal: at most {GOAL_RATIO} × the first turns, and {GOAL_LOG_KB} KB of log for a conversation")


if __name__ == "__main__":
    main()
