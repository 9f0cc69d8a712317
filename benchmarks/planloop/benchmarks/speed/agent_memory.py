"""Memory of an agent while it waits for its model's reply, and while it sleeps.

Resident memory of a process with many agents, minus that of the same process with one, per agent. Floor, measured the
same way: an aiohttp client whose requests wait for a reply. The model server is a separate process that sends one word
and nothing more.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from planloop.benchmarks.speed._agents import model_server, owner, plan_of

GOAL = "40 KiB waiting, one row sleeping"
FILES_SPARE = 200  # Open files other than connections.


def resident_kib() -> float:
    gc.collect()
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return float(line.split()[1])
    raise AssertionError("/proc reports the memory of a process on Linux")


async def floor(count: int, url: str) -> float:
    import aiohttp

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        heard, all_heard = 0, asyncio.Event()

        async def wait() -> None:
            nonlocal heard
            async with session.post(f"{url}/chat/completions", data=b"x" * 3_000) as response:
                async for _ in response.content.iter_any():
                    heard += 1
                    if heard == count:
                        all_heard.set()

        waiting = [asyncio.ensure_future(wait()) for _ in range(count)]
        await all_heard.wait()
        held = resident_kib()
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    return held


async def waiting(count: int, url: str) -> float:
    """Agents that have received one word of a reply."""
    with tempfile.TemporaryDirectory(prefix="memory-") as name:
        heard = 0
        async with owner(Path(name), plan_of(count, url)) as running:
            listening = running.core.hearing.listen()  # type: ignore[attr-defined]
            while heard < count:
                await anext(listening)
                heard += 1
            # Lets memory go that is used only during the burst, such as records that are not written yet.
            await asyncio.sleep(1.0)
            return resident_kib()


async def sleeping(count: int, url: str) -> float:
    """Agents that sleep until tomorrow."""
    del url
    rows = "".join(f"  a{n}: {{agent: {{script: [{{sleep: 86400}}]}}}}\n" for n in range(count))
    text = f"plan: p\nlimits: {{parallel: 128, models: {{'*': 1}}}}\ntasks:\n{rows}"
    with tempfile.TemporaryDirectory(prefix="memory-") as name:
        async with owner(Path(name), text) as running:
            await running.until(lambda: running.slept >= count)
            await asyncio.sleep(1.0)
            return resident_kib()


KINDS = {"floor": floor, "waiting": waiting, "sleeping": sleeping}


def held_kib(kind: str, count: int, url: str) -> float:
    command = [sys.executable, "-m", "planloop.benchmarks.speed.agent_memory", "--child", kind, str(count), url]
    return float(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--counts", type=int, nargs="*", default=[1_000, 10_000])
    arguments = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if arguments.child:
        kind, count, url = arguments.child
        print(asyncio.run(KINDS[kind](int(count), url)))
        return
    for count in arguments.counts:
        if count + FILES_SPARE > hard:
            print(f"{count:,} at once need as many open files; this machine allows {hard:,} (was {soft:,})")
            continue
        each: dict[str, float] = {}
        for kind in KINDS:
            with model_server(0) as server:
                url = server.url("hang/v1")
                each[kind] = (held_kib(kind, count, url) - held_kib(kind, 1, url)) / (count - 1)
        least = each["floor"]
        print(f"{count:6,} at once: aiohttp alone {least:5.1f} KiB each")
        for kind in ("waiting", "sleeping"):
            print(f"   an agent {kind:8}      {each[kind]:5.1f} KiB   {each[kind] / least:.1f} × the floor")
    print(f"goal: {GOAL}")


if __name__ == "__main__":
    main()
