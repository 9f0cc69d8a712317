"""What a replay calls off: what the original called off, and nothing that had its answer by then."""

from __future__ import annotations

import anyio
import pytest

from planloop.app.replaying.directing import Director
from planloop.app.replaying.likeness import Likeness
from planloop.app.replaying.machine import StoryPools
from planloop.app.replaying.story import Story
from planloop.reconciler.driving.queueing import AddressQueue
from tests.product import Also, Draft, JsonObject, Record

AGENT = "agent/writer"
EDITED = Draft("plan.patched", "human:cli", "plan/p", (), {})
ASKED = Draft("agent.woken", "controller:agent", AGENT, (), {}, also=(Also("model.requested", AGENT, {}),))
REPLIED = Draft("model.replied", "agent:writer", AGENT, (), {"text": "done"})
TAKEN_OVER = Draft("epoch.taken", "controller:owner", "plan/p", (), {})


def failed(reason: str) -> Draft:
    data: JsonObject = {"reason": reason}
    return Draft("model.failed", "agent:writer", AGENT, (), data)


def told(*drafts: Draft) -> Story:
    records = tuple(Record(number, float(number), 1, draft) for number, draft in enumerate(drafts, 1))
    return Story("p", records, (), {}, {}, lambda name: None)


async def goes_on(story: Story, key: str) -> bool:
    """Whether a job of the agent goes on when it is called off before the first record of `story`."""
    pools = StoryPools(AddressQueue(), Director(story, Likeness()))
    begun, is_answered, ended = anyio.Event(), anyio.Event(), anyio.Event()
    went_on = False

    async def job() -> None:
        nonlocal went_on
        begun.set()
        try:
            await is_answered.wait()
            went_on = True
        finally:
            ended.set()

    with anyio.fail_after(45):
        async with anyio.create_task_group() as group:
            await group.start(pools.run)
            pools.start(key, AGENT, job, pool="free")
            await begun.wait()
            pools.cancel(key)
            await anyio.wait_all_tasks_blocked()
            is_answered.set()
            await ended.wait()
            group.cancel_scope.cancel()
    return went_on


@pytest.mark.anyio
@pytest.mark.parametrize("answer", [REPLIED, failed("Overloaded")])
async def test_a_request_that_was_answered_just_after_an_edit_is_not_called_off(answer: Draft) -> None:
    assert await goes_on(told(EDITED, answer), "mind:u:1.1")


@pytest.mark.anyio
@pytest.mark.parametrize(
    "what_came", [(failed("Cancelled"), ASKED, REPLIED), (ASKED, REPLIED), (TAKEN_OVER, REPLIED), ()]
)
async def test_a_request_that_was_called_off_in_the_original_is_called_off(what_came: tuple[Draft, ...]) -> None:
    assert not await goes_on(told(EDITED, *what_came), "mind:u:1.1")


@pytest.mark.anyio
async def test_jobs_that_ask_no_mind_are_called_off() -> None:
    assert not await goes_on(told(EDITED, REPLIED), "call/c")
