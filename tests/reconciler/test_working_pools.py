"""The work plane: limits, priority, cancelling, and waking of owners. On asyncio and on trio."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest

from planloop.reconciler.engine.queue import AddressQueue
from planloop.reconciler.engine.reconcile import AttemptFailure, Bug, Failed
from planloop.reconciler.engine.work_pools import WorkPools
from planloop.reconciler.errors import TransientError

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Stage:
    """Jobs that report when they run and end on request."""

    def __init__(self, **bounds: int) -> None:
        self.queue = AddressQueue()
        self.work = WorkPools(self.queue, bounds)
        self.ran: list[str] = []
        self.ends: dict[str, anyio.Event] = {}

    def job(self, key: str) -> Callable[[], Awaitable[None]]:
        self.ends[key] = anyio.Event()

        async def run() -> None:
            self.ran.append(key)
            await self.ends[key].wait()

        return run

    def start(self, key: str, *, pool: str = "tools", priority: int = 0) -> None:
        self.work.start(key, f"task/{key}", self.job(key), pool=pool, priority=priority)

    async def settle(self) -> None:
        """Lets every task run until it waits."""
        for _ in range(20):
            await anyio.lowlevel.checkpoint()

    async def end(self, key: str) -> None:
        self.ends[key].set()
        await self.settle()


@asynccontextmanager
async def running(stage: Stage) -> AsyncIterator[Stage]:
    async with anyio.create_task_group() as group:
        await group.start(stage.work.run)
        yield stage
        group.cancel_scope.cancel()


async def test_pool_never_runs_more_jobs_than_it_allows() -> None:
    async with running(Stage(tools=2)) as stage:
        for key in "abc":
            stage.start(key)
        await stage.settle()
        assert sorted(stage.ran) == ["a", "b"]
        assert [stage.work.is_running(key) for key in "abc"] == [True, True, False]
        assert stage.work.is_live("c")

        await stage.end("a")

        assert sorted(stage.ran) == ["a", "b", "c"]
        assert not stage.work.is_live("a")


async def test_a_job_of_higher_priority_goes_first() -> None:
    async with running(Stage(tools=1)) as stage:
        stage.start("first")
        stage.start("low")
        stage.start("high", priority=5)
        await stage.settle()

        await stage.end("first")

        assert stage.ran == ["first", "high"]


async def test_pools_do_not_share_their_slots_and_free_has_no_bound() -> None:
    async with running(Stage(tools=1, models=1)) as stage:
        stage.start("a")
        stage.start("b", pool="models")
        for number in range(50):
            stage.start(f"wait{number}", pool="free")
        await stage.settle()

        assert len(stage.ran) == 52


async def test_starting_a_live_key_again_does_nothing() -> None:
    async with running(Stage(tools=2)) as stage:
        stage.start("a")
        await stage.settle()
        stage.work.start("a", "task/a", stage.job("other"), pool="tools")
        await stage.settle()

        assert stage.ran == ["a"]
        assert stage.work.live_for("task/a") == ("a",)


async def test_a_cancelled_job_cleans_up_while_it_is_still_live() -> None:
    cleaned = anyio.Event()

    async def stubborn() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await cleaned.wait()

    async with running(Stage()) as stage:
        stage.work.start("a", "task/a", stubborn, pool="tools")
        await stage.settle()
        stage.work.cancel("a")
        await stage.settle()
        assert stage.work.is_live("a") and stage.queue.pop() is None

        cleaned.set()
        await stage.settle()

        assert not stage.work.is_live("a") and stage.queue.pop() == "task/a"


async def test_a_queued_job_that_is_cancelled_never_runs() -> None:
    async with running(Stage(tools=1)) as stage:
        stage.start("a")
        stage.start("b")
        await stage.settle()
        stage.work.cancel("b")
        stage.work.cancel("unknown")
        assert not stage.work.is_live("b") and stage.queue.pop() == "task/b"

        await stage.end("a")

        assert stage.ran == ["a"]


async def test_a_key_may_be_started_again_after_its_queued_job_was_cancelled() -> None:
    async with running(Stage(tools=1)) as stage:
        stage.start("a")
        stage.start("b")
        stage.work.cancel("b")
        stage.start("b")
        await stage.settle()

        await stage.end("a")

        assert sorted(stage.ran) == ["a", "b"]


async def test_wider_bound_takes_effect_immediately() -> None:
    async with running(Stage(tools=1)) as stage:
        stage.start("a")
        stage.start("b")
        await stage.settle()

        stage.work.resize("tools", 2)
        await stage.settle()

        assert sorted(stage.ran) == ["a", "b"]


async def test_jobs_started_before_the_plane_runs_wait_for_it() -> None:
    stage = Stage()
    stage.start("a")
    assert stage.work.is_live("a") and not stage.work.is_running("a")

    async with running(stage):
        await stage.settle()
        assert stage.ran == ["a"]


async def test_stopping_the_plane_lets_running_jobs_clean_up() -> None:
    cleaned: list[str] = []

    async def job() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
                cleaned.append("a")

    async with running(Stage()) as stage:
        stage.work.start("a", "task/a", job, pool="tools")
        await stage.settle()

    assert cleaned == ["a"]


@pytest.mark.parametrize(
    ("error", "kind"),
    [(TransientError("NoLuck", "later"), Failed), (ZeroDivisionError("ours"), Bug)],
    ids=["world", "bug"],
)
async def test_job_that_raises_is_reported_and_stops_no_other(error: Exception, kind: type[AttemptFailure]) -> None:
    faults: list[tuple[str, str, AttemptFailure]] = []

    async def broken() -> None:
        raise error

    async def on_failure(owner: str, key: str, fault: AttemptFailure) -> None:
        faults.append((owner, key, fault))

    async with running(Stage()) as stage:
        stage.work.on_failure = on_failure
        stage.work.start("broken", "task/broken", broken, pool="tools")
        stage.start("b")
        await stage.settle()

        assert [(owner, key, type(fault)) for owner, key, fault in faults] == [("task/broken", "broken", kind)]
        assert stage.ran == ["b"]
