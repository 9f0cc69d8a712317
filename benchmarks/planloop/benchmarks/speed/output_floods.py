"""Event loop delay while eight commands in a container write 10 MB each.

A 5 ms timer on an otherwise idle loop. Floor, alternating: the same commands through the engine's socket, each read by
a separate thread that stores the output. A third row follows the output of a container and stores its newest 512 KiB in
a file, like the owner; its floor reads the same output and stores nothing.

Needs an engine and a static busybox. Removes everything that it creates.
"""

from __future__ import annotations

import http.client
import os
import statistics
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import anyio.to_thread

from planloop.benchmarks.speed.containers import IMAGE, LABEL, Bare, load
from planloop.containers.engine.docker_engine import DockerEngine
from planloop.containers.engine.engine import ContainerCreation, ExecCommand, engine_address
from planloop.reconciler.effects.rolling_file import RollingFile

ROUNDS = 3
AT_ONCE = 8
FLOOD_BYTES = 10_000_000
KEPT_BYTES = 500_000
GOAL_MS = 50.0
TICK_S = 0.005
FLOOD = ["sh", "-c", f"yes 'what a command says in one line, about as long as this' | head -c {FLOOD_BYTES}"]
ALIVE = ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.05; done"]


async def late_ms(work: Callable[[], Awaitable[None]]) -> tuple[list[float], float]:
    """Delays of a timer during `work` in milliseconds, sorted, and the duration of `work` in seconds."""
    late: list[float] = []

    async def tick() -> None:
        while True:
            start = time.perf_counter()
            await anyio.sleep(TICK_S)
            late.append((time.perf_counter() - start - TICK_S) * 1e3)

    start = time.perf_counter()
    async with anyio.create_task_group() as group:
        group.start_soon(tick)
        await work()
        group.cancel_scope.cancel()
    return sorted(late), time.perf_counter() - start


async def at_once(one: Callable[[int], Coroutine[Any, Any, None]]) -> None:
    async with anyio.create_task_group() as group:
        for number in range(AT_ONCE):
            group.start_soon(one, number)


class Stack:
    """One container in which commands write, and `AT_ONCE` containers that write themselves."""

    def __init__(self, address: str, folder: Path) -> None:
        self.engine = DockerEngine({"DOCKER_HOST": address})
        self.path = address.removeprefix("unix://")
        self.folder = folder
        self.inside = ""
        self.floods: list[str] = []

    async def make(self) -> None:
        self.inside = await self._made("in", ALIVE)
        self.floods = [await self._made(str(number), FLOOD) for number in range(AT_ONCE)]

    async def _made(self, name: str, command: list[str]) -> str:
        with suppress(Exception):
            await self.engine.remove(f"planloop-speed-flood-{name}")
        ref = await self.engine.create(
            ContainerCreation(f"planloop-speed-flood-{name}", IMAGE, {LABEL: "1"}, cmd=tuple(command))
        )
        await self.engine.start(ref)
        return ref

    async def remove(self) -> None:
        for one in await self.engine.containers({LABEL: "1"}):
            await self.engine.remove(one.id)

    async def run_directly(self, _: int) -> None:
        def flood() -> None:
            bare, kept = Bare(self.path), 0
            body = {"Cmd": FLOOD, "AttachStdout": True, "AttachStderr": True}
            made = bare.ask("POST", f"/containers/{self.inside}/exec", body)
            kept = received(bare, "POST", f"/exec/{made['Id']}/start", '{"Detach": false, "Tty": false}')
            assert kept >= FLOOD_BYTES, kept

        await anyio.to_thread.run_sync(flood)

    async def run(self, number: int) -> None:
        ended = await self.engine.run(
            self.inside, ExecCommand(tuple(FLOOD), f"f{number}", output_bytes_max=2 * FLOOD_BYTES)
        )
        assert len(ended.output) == FLOOD_BYTES, len(ended.output)

    async def follow_directly(self, number: int) -> None:
        path = f"/containers/{self.floods[number]}/logs?stdout=1&stderr=1"
        await anyio.to_thread.run_sync(lambda: received(Bare(self.path), "GET", path, None))

    async def follow(self, number: int) -> None:
        file = RollingFile(self.folder / f"{number}.out", KEPT_BYTES)
        async for piece in self.engine.logs(self.floods[number], is_following=False):
            file.add(piece)


def received(bare: Bare, method: str, path: str, body: str | None) -> int:
    """Count the bytes of the response, touching each piece once."""
    bare.connection.request(method, path, body, {"Content-Type": "application/json", "Host": "engine"})
    answer: http.client.HTTPResponse = bare.connection.getresponse()
    kept = bytearray()
    while piece := answer.read1(65_536):
        kept += piece
    return len(kept)


async def measured(address: str) -> dict[str, list[tuple[list[float], float]]]:
    with TemporaryDirectory(prefix="floods-") as name:
        stack = Stack(address, Path(name))
        await stack.make()
        try:
            sides: dict[str, Any] = {
                "commands, direct": stack.run_directly,
                "commands, planloop": stack.run,
                "output of containers, direct": stack.follow_directly,
                "output of containers, planloop": stack.follow,
            }
            found: dict[str, list[tuple[list[float], float]]] = {title: [] for title in sides}
            for _ in range(ROUNDS):
                for title, side in sides.items():
                    found[title].append(await late_ms(lambda: at_once(side)))  # noqa: B023 - awaited here
            return found
        finally:
            await stack.remove()


def main() -> None:
    address = engine_address(os.environ)
    load(address)
    print(f"{AT_ONCE} at once, {FLOOD_BYTES / 1e6:.0f} MB each: delay of the loop in ms (medians of {ROUNDS} rounds)")
    print(f"{'':34}{'median':>8}{'99 %':>8}{'at most':>9}{'worst of all':>14}{'s':>8}")
    for title, rounds in anyio.run(measured, address).items():
        columns = [statistics.median(late[int(len(late) * part)] for late, _ in rounds) for part in (0.5, 0.99)] + [
            statistics.median(late[-1] for late, _ in rounds),
            max(late[-1] for late, _ in rounds),
        ]
        took = statistics.median(seconds for _, seconds in rounds)
        print(f"{title:34}{columns[0]:>8.1f}{columns[1]:>8.1f}{columns[2]:>9.1f}{columns[3]:>14.1f}{took:>8.2f}")
    print(f"goal: delay at most {GOAL_MS:.0f} ms")


if __name__ == "__main__":
    main()
