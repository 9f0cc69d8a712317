"""`retry` repeats only transient failures of calls that may run again, each try with its own intent."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.controllers.agent.arena import arena
from tests.controllers.agent.behaviours.tools import Flaky, tools_with
from tests.product import EffectClass

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


async def test_read_that_fails_twice_is_tried_three_times_and_has_one_result(
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
async def test_unknown_or_permanently_failed_call_is_not_repeated(
    tmp_path: Path, error: str, effect: EffectClass, tries: int
) -> None:
    flaky = Flaky(name="shell", failures=9, error=error, effect=effect)
    async with arena(tmp_path, tools=tools_with(flaky)) as here:
        await here.apply(plan("{ok: false}", call="shell: {command: x}"))
        await here.until_state("task/.", "done", "failed")
        assert len(flaky.began) == tries


@pytest.mark.parametrize("how", ["interrupt", "removed"])
async def test_law_4_a_pause_between_tries_ends_when_something_newer_comes(tmp_path: Path, how: str) -> None:
    flaky = Flaky(failures=9)
    text = plan("{ok: true}", settings="{backoff: 60s}")
    async with arena(tmp_path, tools=tools_with(flaky)) as here:
        await here.apply("tasks:\n  a:\n    goal: g\n" + textwrap.indent(text, "    "))
        await here.until(lambda: any("retries" in call.status for call in here.store.view.list("call")))
        if how == "interrupt":
            await here.tell("agent/a", "stop", "m1", delivery="interrupt")
            await here.until(lambda: not here.store.view.list("call"))
            assert [result["state"] for result in await here.results("search")] == ["Cancelled"]
        else:
            await here.patch({"op": "remove", "path": "/tasks/a"})
            await here.until(lambda: here.find("agent/a") is None)
        assert len(flaky.began) == 1 and not here.work.live_count


async def test_without_a_budget_for_retries_nothing_is_tried_again(tmp_path: Path) -> None:
    flaky = Flaky(failures=9)
    async with arena(tmp_path, tools=tools_with(flaky)) as here:
        await here.apply(plan("{ok: false}", settings="{max: 5, backoff: 1ms}") + "budget: {retries: 2}\n")
        await here.until_state("task/.", "done", "failed")
        await here.settled()
        assert len(flaky.began) == 3
        assert float(here.get("task/.").status["ledger"]["retries"]["spent"]) == 2


async def test_denial_during_the_pause_holds_for_the_next_try(tmp_path: Path) -> None:
    flaky = Flaky(failures=9)
    async with arena(tmp_path, tools=tools_with(flaky)) as here:
        await here.apply(plan("{ok: false}", settings="{backoff: 300ms}"))
        await here.until(lambda: any("retries" in call.status for call in here.store.view.list("call")))
        await here.patch({"op": "add", "path": "/agent/deny", "value": ["search"]})
        await here.until_state("task/.", "done", "failed")
        assert len(flaky.began) == 1
        assert [result["state"] for result in await here.results("search")] == ["Denied"]
