"""A goal edited while the model writes: time from the edit until the new request arrives at the model server.

Floor, in the same run: an aiohttp client that closes a stream early and sends a new request. Edits are far enough apart
for the model to send its first word. The server takes the times of arrival, on the clock that all processes share.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import tempfile
import time
from pathlib import Path

from planloop.benchmarks.speed._agents import Server, model_server, owner, plan_of

EDITS = 30
PAUSE_S = 0.1  # Between two edits: the agent waits for its model.
AGENTS = (1, 100)
GOAL = "50 ms, median"


async def arrival(server: Server) -> float:
    """Wait for the next request at the server; return its time of arrival."""
    return float(json.loads(await asyncio.to_thread(server.reports.readline))[0])


async def floor(server: Server) -> list[float]:
    import aiohttp

    found: list[float] = []
    async with aiohttp.ClientSession() as session:
        url, body = f"{server.url('hang/v1')}/chat/completions", b"x" * 3_000
        response = await session.post(url, data=body)
        await arrival(server)
        for _ in range(EDITS):
            await response.content.readany()
            begun = time.monotonic()
            response.close()
            response = await session.post(url, data=body)
            found.append((await arrival(server) - begun) * 1000)
        response.close()
    return found


async def ours(server: Server, agents: int) -> list[float]:
    """A person's patch redirects one of `agents` agents, all of which wait for replies."""
    from planloop.schemas.json_patch import op_from_json
    from planloop.schemas.log.patch import HUMAN_CLI, Patch

    found: list[float] = []
    with tempfile.TemporaryDirectory(prefix="redirect-") as name:
        async with owner(Path(name), plan_of(agents, server.url("hang/v1"))) as running:
            gate, store = running.core.gate, running.core.store  # type: ignore[attr-defined]
            for _ in range(agents):
                await arrival(server)
            for number in range(EDITS):
                await asyncio.sleep(PAUSE_S)
                op = {"op": "replace", "path": "/tasks/a0/goal", "value": f"read the notes, {number}"}
                begun = time.monotonic()
                verdict = await gate.submit(Patch(HUMAN_CLI, (op_from_json(0, op),), store.view.rev))
                assert type(verdict).__name__ == "PatchAccepted", verdict
                found.append((await arrival(server) - begun) * 1000)
    return found


def line(name: str, found: list[float], least: float) -> str:
    median, late = statistics.median(found), statistics.quantiles(found, n=20)[18]
    return f"{name:32}{median:>10.2f}{late:>9.2f}{median / least:>9.1f}"


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    print(f"load {os.getloadavg()[0]:.1f}; {EDITS} edits each")
    print(f"{'':32}{'median ms':>10}{'p95 ms':>9}{'× floor':>9}")
    with model_server(0, reports=True) as server:
        found = asyncio.run(floor(server))
    least = statistics.median(found)
    print(line("close and send again, aiohttp", found, least))
    for agents in AGENTS:
        with model_server(0, reports=True) as server:
            print(line(f"edit of the goal, {agents} agents", asyncio.run(ours(server, agents)), least))
    print(f"goal: {GOAL}")


if __name__ == "__main__":
    main()
