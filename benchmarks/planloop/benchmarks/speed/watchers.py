"""Cost of 200 watchers of `plan serve` while nothing happens and at 1,000 events per second, and delay of a record.

Floors, in the same run: an aiohttp server with idle websockets, or one that sends prepared frames of the same size at
the same rate. A real store in a separate process writes the log, like an owner.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp

WATCHERS = 200
IDLE_S = 30.0  # Longer than a heartbeat interval.
EVENTS, RATE = 5_000, 1_000
SINGLE, SINGLE_RATE = 100, 20  # Records one by one, to measure their delay.
ROOT = Path(__file__).parents[4]
TICKS = os.sysconf("SC_CLK_TCK")
GOAL = "idle watchers cost nothing; a record arrives at watchers within 20 ms, median"

# Creates a log. For each line "count rate", appends `count` records with their times at `rate` per second.
WRITER = """
import asyncio, sys, time
from pathlib import Path
from planloop.reconciler.clock import SystemClock
from planloop.reconciler.store import owner_lock
from planloop.reconciler.store.sqlite import database
from planloop.reconciler.store.sqlite.sqlite_store import SqliteStore
from planloop.schemas.log.record import RecordDraft, Put, SetStatus

async def main(folder):
    with owner_lock.own_plan(folder, now=time.time(), stored_epoch=database.stored_epoch) as owner:
        async with SqliteStore.open(folder, clock=SystemClock(), epoch=owner.epoch) as store:
            await store.append(owner_lock.epoch_draft(owner, folder.name))
            put = Put("task/t", "u", {"goal": "g"})
            await store.append(RecordDraft("object.created", "human:cli", "task/t", (put,)))
            print(store.durable_rev, flush=True)
            loop = asyncio.get_running_loop()
            while line := await loop.run_in_executor(None, sys.stdin.readline):
                count, rate = map(int, line.split())
                begun = time.monotonic()
                for n in range(count):
                    change = SetStatus("task/t", "u", {"n": n, "pad": "x" * 300})
                    await store.append(RecordDraft("task.changed", "controller:task", "task/t", (change,), {"n": n}))
                    await asyncio.sleep(max(0.0, begun + n / rate - time.monotonic()))
                print(store.durable_rev, flush=True)

asyncio.run(main(Path(sys.argv[1])))
"""

# Idle websockets. For each line "count rate bytes", sends prepared frames to all of them.
FLOOR = """
import asyncio, sys, time
from aiohttp import web, WSMsgType

sockets = set()

async def tail(request):
    socket = web.WebSocketResponse(heartbeat=25.0, compress=False)
    await socket.prepare(request)
    sockets.add(socket)
    async for _ in socket:
        pass
    sockets.discard(socket)
    return socket

async def main():
    application = web.Application()
    application.router.add_get("/tail", tail)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(site._server.sockets[0].getsockname()[1], flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        count, rate, size = map(int, line.split())
        frame, begun = b"x" * size, time.monotonic()
        for n in range(count):
            for socket in sockets:
                await socket.send_frame(frame, WSMsgType.TEXT)
            await asyncio.sleep(max(0.0, begun + n / rate - time.monotonic()))
        print("done", flush=True)

asyncio.run(main())
"""


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


@contextmanager
def program(*command: str, folder: Path = ROOT) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, *command], cwd=folder, text=True, env=environment, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def ask(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()


async def next_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return await asyncio.to_thread(process.stdout.readline)


class Crowd:
    """Clients of one server. `frames` and `bytes` count what the first client receives, `late` are its delays.

    `single` are the delays of records that were appended one by one.
    """

    def __init__(self, url: str, token: str) -> None:
        self._url = url
        self._headers = {"Authorization": f"Bearer {token}"}
        self._tasks: list[asyncio.Task[None]] = []
        self.rev = 0
        self.frames = 0
        self.bytes = 0
        self.late: list[float] = []
        self.single: list[float] = []
        self.revs: dict[int, int] = {}
        self._news = asyncio.Event()

    async def join(self, session: aiohttp.ClientSession, count: int) -> None:
        for _ in range(count):
            socket = await session.ws_connect(self._url, headers=self._headers, max_msg_size=0)
            self._tasks.append(asyncio.create_task(self._listen(socket, len(self._tasks))))

    async def _listen(self, socket: aiohttp.ClientWebSocketResponse, number: int) -> None:
        async for message in socket:
            now = time.time()
            self._news.set()
            if number:  # Other clients read only the end of a frame, so that the clients are not what is measured.
                found = re.match(r'\{"rev":(\d+)', message.data[:30])
                self.revs[number] = int(found[1]) if found else 0
                continue
            self.frames += 1
            self.bytes += len(message.data)
            if message.data.startswith("{"):
                records = json.loads(message.data)["records"]
                self.late += [(now - record["at"]) * 1e3 for record in records]
                self.rev = self.revs[0] = records[-1]["rev"]

    async def until(self, rev: int) -> None:
        while min(self.revs.values(), default=0) < rev:
            self._news.clear()
            await self._news.wait()

    def leave(self) -> None:
        for task in self._tasks:
            task.cancel()


async def idle(process: subprocess.Popen[str]) -> float:
    """Processor use in percent while nothing happens."""
    await asyncio.sleep(1.0)
    before = cpu_s(process.pid)
    await asyncio.sleep(IDLE_S)
    return (cpu_s(process.pid) - before) / IDLE_S * 100


async def ours(folder: Path) -> tuple[float, float, float, Crowd]:
    """Processor use in percent, idle without and with watchers; seconds at the full rate; and the clients."""
    state = folder / ".plan" / "p"
    with program("-c", WRITER, str(state)) as writer:
        first = int(await next_line(writer))
        with program("-m", "planloop", "serve", "--port", "0", folder=folder) as gateway:
            found = re.search(r"(http://[^/]+)/#token=(\S+)", await next_line(gateway))
            assert found is not None
            alone = await idle(gateway)
            crowd = Crowd(f"{found[1]}/v1/plans/p/tail?after={first}", found[2])
            async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
                await crowd.join(session, 1)
                ask(writer, f"{SINGLE} {SINGLE_RATE}")
                await crowd.until(int(await next_line(writer)))
                crowd.frames, crowd.bytes, crowd.single, crowd.late = 0, 0, crowd.late, []
                await crowd.join(session, WATCHERS - 1)
                many = await idle(gateway)
                before = cpu_s(gateway.pid)
                ask(writer, f"{EVENTS} {RATE}")
                await crowd.until(int(await next_line(writer)))
                busy = cpu_s(gateway.pid) - before
                crowd.leave()
            return alone, many, busy, crowd


async def floor(frames: int, size: int) -> tuple[float, float]:
    with program("-c", FLOOR) as server:
        crowd = Crowd(f"http://127.0.0.1:{int(await next_line(server))}/tail", "")
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            await crowd.join(session, WATCHERS)
            many = await idle(server)
            before = cpu_s(server.pid)
            ask(server, f"{frames} {max(1, round(frames * RATE / EVENTS))} {size}")
            await next_line(server)
            busy = cpu_s(server.pid) - before
            crowd.leave()
        return many, busy


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="watchers-") as name:
        alone, many, busy, crowd = asyncio.run(ours(Path(name)))
    floor_many, floor_busy = asyncio.run(floor(crowd.frames, round(crowd.bytes / max(1, crowd.frames))))
    single, late = (statistics.quantiles(found, n=20) for found in (crowd.single, crowd.late))
    print(f"{'':44}{'ours':>9}{'floor':>9}")
    print(f"{'idle, no watchers, % of a processor':44}{alone:>9.2f}")
    print(f"{f'idle, {WATCHERS} watchers, % of a processor':44}{many:>9.2f}{floor_many:>9.2f}")
    print(f"{f'{EVENTS:,} records at {RATE:,} per second to {WATCHERS}, s':44}{busy:>9.2f}{floor_busy:>9.2f}", end="")
    print(f"   {busy / floor_busy:.1f} × floor; {EVENTS / crowd.frames:.1f} records per frame")
    print(f"{'append → watcher, one by one, ms':44}{single[9]:>9.1f}{'':9}   95 %: {single[18]:.1f}")
    print(f"{f'append → one of {WATCHERS}, at full rate, ms':44}{late[9]:>9.1f}{'':9}   95 %: {late[18]:.1f}")
    print(f"goal: {GOAL}")


if __name__ == "__main__":
    main()
