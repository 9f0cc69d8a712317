"""Time to load litellm in its process, and the longest delay of the event loop meanwhile.

A ticker sleeps for 5 ms; the delay is how late it wakes. Floor, in the same run: the same ticker for the same time
while nothing loads. Run it on an idle machine.
"""

from __future__ import annotations

import asyncio
import statistics
import time

TICK_S = 0.005
ROUNDS = 3
GOAL_MS = 50.0


async def ticking(until: asyncio.Future[float]) -> list[float]:
    """The delay of each tick in ms."""
    late = []
    while not until.done():
        before = time.perf_counter()
        await asyncio.sleep(TICK_S)
        late.append((time.perf_counter() - before - TICK_S) * 1000)
    return late


async def loading() -> float:
    """Seconds from the first request for a litellm model to its failure: no server listens there."""
    import os

    import anyio

    from planloop.controllers.agent.models.catalog import ModelEndpoint
    from planloop.controllers.agent.models.litellm_chat import LitellmAdapter
    from planloop.controllers.agent.models.port import ModelFailed, ModelRequest, RequestKey

    request = ModelRequest(RequestKey("agent/a", "u", 1, 1, 1), "openai/m", (b'{"role":"user","content":"hello"}',))
    began = time.perf_counter()
    async with anyio.create_task_group() as group:
        models = LitellmAdapter(group, dict(os.environ), time.time)
        try:
            await models.complete(ModelEndpoint("http://127.0.0.1:9/v1", "openai/m"), request)
        except ModelFailed as failed:
            assert failed.reason == "Unreachable", failed
        took = time.perf_counter() - began
        await models.aclose()
        group.cancel_scope.cancel()
    return took


async def measure() -> None:
    import planloop.controllers.agent.models.litellm_chat  # noqa: F401 - ours, 0.2 s: the owner of an agent has it

    for _ in range(ROUNDS):
        work = asyncio.ensure_future(loading())
        late = await ticking(work)
        took = work.result()
        idle = asyncio.ensure_future(asyncio.sleep(took, 0.0))
        floor = await ticking(idle)
        print(
            f"loaded in {took:5.2f} s; latest tick {max(late):6.1f} ms, median {statistics.median(late):.2f} ms; "
            f"floor: latest {max(floor):.1f} ms, median {statistics.median(floor):.2f} ms"
        )
    print(f"goal: no delay of {GOAL_MS:g} ms")


if __name__ == "__main__":
    asyncio.run(measure())
