"""Waiting calls: asleep or blocked with a reason, ended by the state, and no memory while they wait."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import anyio
import anyio.lowlevel
import pytest

from planloop.controllers.agent.tools.registry import BUILT_IN_TOOLS
from planloop.controllers.agent.tools.tool import CallEnding, PendingCall, Settlement, Tool, ToolContext, success
from tests.controllers.agent.arena import Arena, arena
from tests.controllers.agent.mortal import lived, to_the_end
from tests.product import CallState, EffectClass, Resource

pytestmark = pytest.mark.anyio

What = Literal["child", "input", "lock"]
# The waiting tool takes the name of one that plans know.
PLAN = """
agent:
  tools: [list, shell]
  script:
    - call: {list: {what: WHAT}}
    - expect: {ok: true}
    - call: {shell: {command: echo after >> effects}}
    - done: over
"""
CARELESS = PLAN.replace(
    "    - expect: {ok: true}\n", "    - when: {result: {error: Interrupted}}\n      done: gave up\n"
)
STATES = {"child": CallState.AWAITING_CHILD, "input": CallState.AWAITING_INPUT, "lock": CallState.AWAITING_LOCK}


def watch(context: ToolContext, what: What = "child") -> CallEnding:
    """Waits until the folder has a file `first`, then until it has a file `second`."""
    del context
    return PendingCall(STATES[what], call={"step": "first"}, why=f"waits for a {what}", unblocks=("touch first",))


async def slow_watch(context: ToolContext, what: What = "child") -> CallEnding:
    """`watch` after a start that takes time."""
    await anyio.lowlevel.checkpoint()
    return watch(context, what)


def watched(context: ToolContext) -> CallEnding | None:
    step = str(context.call.status["step"])
    if not (context.services.folder / step).exists():
        return None
    if step == "second":
        return Settlement(success("both are there"))
    return PendingCall(CallState(context.call.state), call={"step": "second"}, why="waits for the second")


TOOLS = {**BUILT_IN_TOOLS, "list": Tool("list", watch, EffectClass.READ, resolve=watched)}
SLOW = {**BUILT_IN_TOOLS, "list": Tool("list", slow_watch, EffectClass.ONCE, resolve=watched)}


def waiting_call(here: Arena) -> Resource | None:
    found = here.store.view.list("call")
    return found[0] if found else None


async def touch(here: Arena, name: str) -> None:
    """Change a state that the agent waits for and wake the agent; the wake-up does not say what changed."""
    (here.folder / name).touch()
    here.work.poke("agent/.")


async def waits(here: Arena, step: str = "first") -> Resource:
    def is_at() -> bool:
        call = waiting_call(here)
        return call is not None and call.status.get("step") == step

    await here.until(is_at)
    await here.settled()
    call = waiting_call(here)
    assert call is not None
    return call


@pytest.mark.parametrize(
    ("what", "state", "agent_state", "condition"),
    [
        ("child", "AwaitingChild", "asleep", ""),
        ("input", "AwaitingInput", "blocked", "AwaitingInput"),
        ("lock", "AwaitingLock", "blocked", "AwaitingLock"),
    ],
)
@pytest.mark.parametrize("tools", [TOOLS, SLOW], ids=["instant", "slow"])
async def test_waiting_call_is_rows_and_its_agent_names_what_it_waits_for(
    tmp_path: Path, what: str, state: str, agent_state: str, condition: str, tools: dict[str, Tool]
) -> None:
    async with arena(tmp_path, tools=tools) as here:
        await here.apply(PLAN.replace("WHAT", what))
        call = await waits(here)
        agent = here.get("agent/.").status
        assert (call.state, agent["state"], agent["why"]) == (state, agent_state, f"waits for a {what}")
        await here.jobs_left(0)
        if condition:
            assert agent["conditions"][condition]["unblocks"] == ["touch first"]
        await touch(here, "first")
        await waits(here, "second")
        await touch(here, "second")
        await here.until_state("task/.", "done")
        assert here.read("effects") == "after\n"
        assert condition not in here.get("agent/.").status.get("conditions", {})
        assert [each["text"] for each in await here.results("list")] == ["both are there"]


async def test_looking_again_at_a_call_that_waits_writes_nothing(tmp_path: Path) -> None:
    async with arena(tmp_path, tools=TOOLS) as here:
        await here.apply(PLAN.replace("WHAT", "child"))
        await waits(here)
        rev = here.store.view.rev
        here.work.poke("agent/.")
        await here.settled()
        assert here.store.view.rev == rev


async def test_a_call_does_not_overtake_one_that_waits(tmp_path: Path) -> None:
    plan = PLAN.replace(
        "- call: {list: {what: WHAT}}", "- call: [{list: {}}, {shell: {command: echo next >> effects}}]"
    )
    tools = {**BUILT_IN_TOOLS, "list": Tool("list", watch, EffectClass.ONCE, resolve=watched)}
    async with arena(tmp_path, tools=tools) as here:
        await here.apply(plan)
        await here.until(lambda: here.state("agent/.") == "asleep")
        await here.settled()
        assert not (tmp_path / "effects").exists()
        (tmp_path / "second").touch()
        await touch(here, "first")
        await here.until_state("task/.", "done")
        assert here.read("effects").split() == ["next", "after"]


@pytest.mark.parametrize("how", ["interrupt", "steer", "goal"])
async def test_news_gives_up_a_wait_with_a_result(tmp_path: Path, how: str) -> None:
    async with arena(tmp_path, tools=TOOLS) as here:
        await here.apply(CARELESS.replace("WHAT", "child"))
        await waits(here)
        if how == "goal":
            await here.patch({"op": "add", "path": "/goal", "value": "another"})
        else:
            await here.tell("agent/.", "stop that", "m", delivery=how)  # type: ignore[arg-type]
        await here.until_state("task/.", "done")
        assert here.get("task/.").status["result"]["text"] == "gave up"
        assert waiting_call(here) is None
        settled = [draft.data["result"] for draft in await here.log() if draft.type == "call.settled"]
        assert settled[0]["error"] == "Interrupted"


async def test_a_queued_message_leaves_a_wait_alone(tmp_path: Path) -> None:
    async with arena(tmp_path, tools=TOOLS) as here:
        await here.apply(PLAN.replace("WHAT", "child"))
        await waits(here)
        await here.tell("agent/.", "by the way", "m")
        await here.settled()
        assert waiting_call(here) is not None and "m" in here.get("agent/.").status["inbox"]


async def test_cancelling_the_task_takes_the_waiting_call_away(tmp_path: Path) -> None:
    async with arena(tmp_path, tools=TOOLS) as here:
        await here.apply(PLAN.replace("WHAT", "input"))
        await waits(here)
        await here.patch({"op": "add", "path": "/cancel", "value": True})
        await here.until_state("task/.", "cancelled")
        await here.settled()
        assert waiting_call(here) is None and here.get("agent/.").status.get("open") is None


async def test_time_in_a_wait_is_not_active_time(tmp_path: Path) -> None:
    async with arena(tmp_path, tools=TOOLS) as here:
        await here.apply(PLAN.replace("WHAT", "child"))
        await waits(here)
        since = here.get("agent/.").status["open"]["waiting_since"]
        (tmp_path / "second").touch()
        await touch(here, "first")
        await here.until_state("task/.", "done")
        ended = [draft.data for draft in await here.log() if draft.type == "turn.ended"]
        started = [record for record in await here.store.log(0, 10_000) if record.draft.type == "turn.started"]
        assert since > 0
        assert ended[0]["active_s"] <= since - started[0].at + 0.2


async def looked_at(here: Arena) -> None:
    """Run until the task is done; the awaited state is set once the call waits."""
    if here.find("plan/arena") is None:
        await here.apply(PLAN.replace("WHAT", "input"))
    if here.state("task/.") not in ("done", "failed"):
        await waits(here, "second" if (here.folder / "first").exists() else "first")
        await touch(here, "first")
        await waits(here, "second")
        await touch(here, "second")
        await here.until_state("task/.", "done", "failed")
    await here.settled()
    await check(here)


@pytest.mark.sweep(keep=3)
@pytest.mark.parametrize("after", range(1, 24))
async def test_law_5_crash_at_any_record_resumes_the_wait(tmp_path: Path, after: int) -> None:
    with anyio.fail_after(45):
        is_over = await lived(looked_at, tmp_path, 1, after, tools=TOOLS)
        if not is_over:
            (tmp_path / "first").touch()
            (tmp_path / "second").touch()
            is_over = await lived(rest_of_it, tmp_path, 2, tools=TOOLS)
        assert is_over


async def rest_of_it(here: Arena) -> None:
    await to_the_end(here, PLAN.replace("WHAT", "input"))
    await check(here)


async def check(here: Arena) -> None:
    assert here.state("task/.") == "done"
    assert [each["text"] for each in await here.results("list")] == ["both are there"]
    assert here.read("effects") == "after\n"
