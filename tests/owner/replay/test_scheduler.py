"""What a replay calls off: what the original called off, and nothing that had its answer by then."""

from __future__ import annotations

import anyio
import pytest

from planloop.owner.replay.assembly import ReplayPools
from planloop.owner.replay.equivalence import Equivalence
from planloop.owner.replay.history import ReplayHistory
from planloop.owner.replay.scheduler import ReplayScheduler
from planloop.reconciler.engine.queue import AddressQueue
from tests.product import JsonObject, Record, RecordDraft, SubRecord

AGENT = "agent/writer"
EDITED = RecordDraft("plan.patched", "human:cli", "plan/p", (), {})
ASKED = RecordDraft("agent.woken", "controller:agent", AGENT, (), {}, also=(SubRecord("model.requested", AGENT, {}),))
REPLIED = RecordDraft("model.replied", "agent:writer", AGENT, (), {"text": "done"})
TAKEN_OVER = RecordDraft("epoch.taken", "controller:owner", "plan/p", (), {})


def failed(reason: str) -> RecordDraft:
    data: JsonObject = {"reason": reason}
    return RecordDraft("model.failed", "agent:writer", AGENT, (), data)


def told(*drafts: RecordDraft) -> ReplayHistory:
    records = tuple(Record(number, float(number), 1, draft) for number, draft in enumerate(drafts, 1))
    return ReplayHistory("p", records, (), {}, {}, lambda name: None)


async def goes_on(story: ReplayHistory, key: str) -> bool:
    """Whether a job of the agent goes on when it is called off before the first record of `story`."""
    pools = ReplayPools(AddressQueue(), ReplayScheduler(story, Equivalence()))
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
async def test_request_answered_just_after_an_edit_is_not_cancelled(answer: RecordDraft) -> None:
    assert await goes_on(told(EDITED, answer), "mind:u:1.1")


@pytest.mark.anyio
@pytest.mark.parametrize(
    "what_came", [(failed("Cancelled"), ASKED, REPLIED), (ASKED, REPLIED), (TAKEN_OVER, REPLIED), ()]
)
async def test_request_cancelled_in_the_original_is_cancelled(what_came: tuple[RecordDraft, ...]) -> None:
    assert not await goes_on(told(EDITED, *what_came), "mind:u:1.1")


@pytest.mark.anyio
async def test_jobs_that_ask_no_decider_are_cancelled() -> None:
    assert not await goes_on(told(EDITED, REPLIED), "call/c")
