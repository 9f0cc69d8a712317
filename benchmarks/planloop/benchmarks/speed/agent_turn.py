"""A turn of an agent: one model call over local HTTP, one tool call, everything durable; processor time of the owner.

Floors, in the same run: an aiohttp client that sends a prompt of that size and reads the reply; and the same with one
durable append to SQLite for each, where concurrent appends share a commit. `--profile FILE` writes the cProfile data of
the owner.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import os
import sqlite3
import statistics
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from queue import SimpleQueue

from planloop.benchmarks.speed._agents import cpu_per_turn, model_server, notes, plan_of

TURNS = 22
WARM = 2  # Turns of each agent before the measurement: imports, caches, connections.
ROUNDS = 3
AT_ONCE = (20, 100)
PROMPT = b'{"model":"m","messages":[{"role":"user","content":"%b"}]}' % (b"x" * 3_000)
ROW = "x" * 2_000  # About the size of a turn in the log.
GOAL = "0.5 ms"


async def at_once(once: Callable[[], Awaitable[object]], workers: int, each: int) -> float:
    """Milliseconds of processor time of this process for one call of `once`."""

    async def worker(count: int) -> None:
        for _ in range(count):
            await once()

    await asyncio.gather(*(worker(1) for _ in range(workers)))
    before = time.process_time()
    await asyncio.gather(*(worker(each) for _ in range(workers)))
    return (time.process_time() - before) / (workers * each) * 1000


class FloorLog:
    """Rows made durable by one thread, with all waiting rows in one commit."""

    def __init__(self, folder: Path) -> None:
        self._queue: SimpleQueue[asyncio.Future[None] | None] = SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._path = folder / "floor.db"
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    async def append(self) -> None:
        done: asyncio.Future[None] = self._loop.create_future()
        self._queue.put(done)
        await done

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        connection = sqlite3.connect(self._path, isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE log (rev INTEGER PRIMARY KEY, body TEXT)")
        while (first := self._queue.get()) is not None:
            batch = [first]
            while not self._queue.empty() and (more := self._queue.get()) is not None:
                batch.append(more)
            connection.execute("BEGIN")
            connection.executemany("INSERT INTO log (body) VALUES (?)", [(ROW,)] * len(batch))
            connection.execute("COMMIT")
            self._loop.call_soon_threadsafe(_settle, batch)
        connection.close()


def _settle(batch: list[asyncio.Future[None]]) -> None:
    for each in batch:
        each.set_result(None)


async def floors(url: str, agents: int, folder: Path) -> tuple[float, float]:
    import aiohttp

    log = FloorLog(folder)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def ask() -> None:
            async with session.post(f"{url}/chat/completions", data=PROMPT) as response:
                await response.read()

        async def ask_and_append() -> None:
            await ask()
            await log.append()

        bare = await at_once(ask, agents, 2_000 // agents)
        durable = await at_once(ask_and_append, agents, 2_000 // agents)
    log.close()
    return bare, durable


def ours(agents: int, url: str) -> float:
    with tempfile.TemporaryDirectory(prefix="turns-") as name:
        notes(Path(name), TURNS)
        return asyncio.run(cpu_per_turn(Path(name), plan_of(agents, url), agents, (WARM, TURNS)))[0]


def floor(agents: int, url: str) -> tuple[float, float]:
    with tempfile.TemporaryDirectory(prefix="turns-") as name:
        return asyncio.run(floors(url, agents, Path(name)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--profile", type=Path)
    arguments = parser.parse_args()
    profiler = cProfile.Profile()
    print(
        f"load {os.getloadavg()[0]:.1f}; milliseconds of processor time per turn, medians of {arguments.rounds} rounds"
    )
    with model_server(TURNS) as server:
        for agents in AT_ONCE:
            rounds: list[tuple[float, float, float]] = []
            for _ in range(arguments.rounds):
                least = floor(agents, server.url())
                if arguments.profile:
                    profiler.enable()
                rounds.append((*least, ours(agents, server.url())))
                profiler.disable()
            bare, durable, used = (statistics.median(side) for side in zip(*rounds, strict=True))
            print(f"{agents:3} at once: {used:6.3f}   aiohttp {bare:6.3f}   with a durable append {durable:6.3f}")
            print(f"             {used / bare:6.1f} × aiohttp   {used / durable:.1f} × durable   goal {GOAL}")
    if arguments.profile:
        profiler.dump_stats(arguments.profile)


if __name__ == "__main__":
    main()
