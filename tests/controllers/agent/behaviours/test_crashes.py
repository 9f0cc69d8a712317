"""The owner dies after each append while calls go through every layer: one result each, effects once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.controllers.agent.arena import Arena
from tests.controllers.agent.behaviours.tools import Flaky, tools_with
from tests.controllers.agent.mortal import live_and_die
from tests.controllers.agent.test_crashes import answered
from tests.product import EffectClass

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


async def play(here: Arena) -> None:
    if here.find("plan/arena") is None:
        await here.apply(PLAN)
    await answered(here)
    await check(here)


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


@pytest.mark.sweep(keep=5)
@pytest.mark.parametrize("after", range(1, 40))
async def test_law_5_a_crash_after_any_append_does_nothing_twice(tmp_path: Path, after: int) -> None:
    await _die_and_live(tmp_path, after)


async def _die_and_live(folder: Path, after: int) -> None:
    flaky = Flaky(failures=3, effect=EffectClass.READ)
    await live_and_die(play, folder, (after, after * 7 % 11 + 2), tools=tools_with(flaky))
