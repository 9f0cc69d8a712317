"""The owner dies after each append of a run whose calls go through every layer: one result each, effects once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import anyio
import pytest

from reconciler.errors import StoreFailed
from reconciler.storing.sqlite_store import StoreOptions
from schemas.call import EffectClass
from tests.controllers.agent.arena import Arena, arena
from tests.controllers.agent.behaviours.tools import Flaky, tools_with
from tests.controllers.agent.test_crashes import crashing, doubts, give_word

pytestmark = pytest.mark.anyio

PLAN = """
goal: everything
budget: {retries: 100}
mixins:
  guard: {before: [{run: "cat > /dev/null; echo '{}'", match: shell}], after: [{trace: true}]}
agent:
  tools: [search, shell, write]
  mixins:
    - lib:trace
    - {lib:concurrency-limit: {permits: 1}}
    - lib:cache
    - {lib:timeout: {after: 10s}}
    - {lib:retry: {max: 5, backoff: 1ms}}
    - guard
  script:
    - call: {search: {text: x}}
    - call: {shell: {command: echo parent >> effects}}
    - call: {search: {text: x}}
    - parallel: [{call: {search: {text: y}}}, {call: {search: {text: z}}}]
    - done: now
"""


async def run(folder: Path, epoch: int, flaky: Flaky, options: StoreOptions | None = None) -> bool:
    """Runs an owner until the plan is done (True) or it dies (False)."""
    is_done = False
    try:
        async with arena(folder, epoch=epoch, options=options, is_inline=True, tools=tools_with(flaky)) as here:
            if here.find("plan/arena") is None:
                await here.apply(PLAN)
            while here.state("task/.") not in ("done", "failed"):
                await here.until(lambda: here.state("task/.") in ("done", "failed") or bool(doubts(here)))
                await give_word(here)
            await here.settled()
            await check(here)
            is_done = True
    except* StoreFailed:
        pass
    return is_done


async def check(here: Arena) -> None:
    assert here.state("task/.") == "done", str(here.get("task/.").status)
    assert here.read("effects") == "parent\n"
    assert here.store.view.list("call") == []
    log = await here.log()
    settled = Counter(draft.subject for draft in log if draft.type == "call.settled" and "late" not in draft.data)
    proposed = [call["call"] for draft in log if draft.type == "model.replied" for call in draft.data["calls"]]
    assert proposed and all(settled[call] == 1 for call in proposed), "one result for each call"


@pytest.mark.parametrize("after", [2, 5, 7, 9, 11])
async def test_law_5_a_crash_in_the_middle_of_the_layers_does_nothing_twice(tmp_path: Path, after: int) -> None:
    await _die_and_live(tmp_path, after)


@pytest.mark.slow
@pytest.mark.parametrize("after", range(1, 40))
async def test_law_5_a_crash_after_any_append_does_nothing_twice(tmp_path: Path, after: int) -> None:
    await _die_and_live(tmp_path, after)


async def _die_and_live(folder: Path, after: int) -> None:
    flaky = Flaky(failures=3, effect=EffectClass.READ)
    for epoch, life in enumerate((after, after * 7 % 11 + 2), start=1):
        if await run(folder, epoch, flaky, crashing(life)):
            return
    with anyio.fail_after(15):
        assert await run(folder, 3, flaky)
