"""`retry`: only what may heal, only where it does no harm, each try with its own intent."""

from __future__ import annotations

from pathlib import Path

import pytest

from schemas.call import EffectClass
from tests.controllers.agent.arena import arena
from tests.controllers.agent.behaviours.tools import Flaky, tools_with

pytestmark = pytest.mark.anyio

PLAN = """
agent:
  tools: [search, shell]
  mixins: [{{lib:retry: {settings}}}]
  script:
    - call: {{{call}}}
    - expect: {expect}
    - done: so
"""


def plan(expect: str, settings: str = "{backoff: 1ms}", call: str = "search: {text: x}") -> str:
    return PLAN.format(expect=expect, settings=settings, call=call)


async def test_a_reading_call_that_fails_twice_is_made_three_times_and_the_agent_sees_one_result(
    tmp_path: Path,
) -> None:
    flaky = Flaky(failures=2)
    async with arena(tmp_path, tools=tools_with(flaky)) as here:
        await here.apply(plan("{ok: true, contains: call 3}"))
        await here.until_state("task/.", "done", "failed")
        await here.settled()
        assert here.state("task/.") == "done", here.get("agent/.").status
        assert len(set(flaky.began)) == 3, "every try has its own operation id"
        assert [result["text"] for result in await here.results("search")] == ["call 3"]
        retries = [draft.data for draft in await here.log() if draft.type == "call.reconciled"]
        assert [each["retry"] for each in retries] == [1, 2]


async def test_law_5_every_try_has_a_durable_intent_before_it(tmp_path: Path) -> None:
    flaky = Flaky(failures=1)
    async with arena(tmp_path, tools=tools_with(flaky)) as here:
        await here.apply(plan("{ok: true}"))
        await here.until_state("task/.", "done", "failed")
        ops = [
            change.spec["op"]
            for draft in await here.log()
            if draft.type == "call.started"
            for change in draft.changes
            if hasattr(change, "spec")
        ]
        assert list(dict.fromkeys(ops)) == flaky.began


@pytest.mark.parametrize(
    ("error", "effect", "tries"),
    [
        ("Unreachable", EffectClass.ONCE, 3),
        ("TimedOut", EffectClass.ONCE, 1),
        ("TimedOut", EffectClass.IDEMPOTENT, 3),
        ("BadQuery", EffectClass.READ, 1),
    ],
)
async def test_what_may_have_happened_or_will_not_heal_is_not_made_again(
    tmp_path: Path, error: str, effect: EffectClass, tries: int
) -> None:
    flaky = Flaky(name="shell", failures=9, error=error, effect=effect)
    async with arena(tmp_path, tools=tools_with(flaky)) as here:
        await here.apply(plan("{ok: false}", call="shell: {command: x}"))
        await here.until_state("task/.", "done", "failed")
        assert len(flaky.began) == tries
