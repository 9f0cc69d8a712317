"""The engine's laws, with a real store and virtual time."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from trio.testing import MockClock

from planloop.reconciler.engine.reconcile import Again, Done, Failed, Outcome, TerminalFailure
from planloop.reconciler.errors import StoreFailed, TerminalError, TransientError, WriteConflict
from planloop.reconciler.store.store import Store
from tests.product import Drop, Uid
from tests.reconciler.stage import PLAN, nothing, set_status, stage

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return "trio", {"clock": MockClock(autojump_threshold=0)}


async def finish(store: Store, address: str) -> Outcome:
    """Drives an object to done, once."""
    resource = store.view.get(address)
    if resource is not None and resource.state != "done":
        await set_status(store, address, state="done")
    return Done()


async def test_law_3_address_dirtied_while_it_runs_runs_again_and_never_in_parallel(tmp_path: Path) -> None:
    async def slow(store: Store, address: str) -> Outcome:
        await anyio.sleep(1)
        return Done()

    async with stage(tmp_path, task=slow) as on:
        on.put("task/a")
        await anyio.sleep(0.5)
        for number in range(5):
            on.set("task/a", number=number)
        await on.quiet()

        assert on.seen() == ["task/a", "task/a"]


async def test_law_3_a_second_reconcile_with_nothing_changed_writes_nothing(tmp_path: Path) -> None:
    async with stage(tmp_path, task=finish) as on:
        on.put("task/a")
        await on.quiet()
        rev = on.store.view.rev

        on.work.poke("task/a")
        await on.quiet()

        assert on.store.view.rev == rev


async def test_law_3_change_without_a_wake_is_found_at_the_next_start(tmp_path: Path) -> None:
    async with stage(tmp_path, runs=False, task=finish) as on:
        on.put("task/a")
        on.put("task/b")

    async with stage(tmp_path, epoch=2, task=finish) as on:
        await on.quiet()

        assert [task.state for task in on.store.view.list("task")] == ["done", "done"]


async def test_law_3_skipped_states_reach_the_same_end(tmp_path: Path) -> None:
    async def mirror(store: Store, address: str) -> Outcome:
        resource = store.view.get(address)
        if resource is not None and resource.status.get("seen") != resource.spec["n"]:
            await set_status(store, address, seen=resource.spec["n"])
        return Done()

    async with stage(tmp_path, task=mirror) as on:
        for number in range(10):
            on.put("task/a", n=number)
        await on.quiet()

        assert on.get("task/a").status["seen"] == 9
        assert len(on.seen()) < 10


async def test_operators_change_is_served_before_the_backlog_of_a_start(tmp_path: Path) -> None:
    async with stage(tmp_path, runs=False, task=nothing) as on:
        for number in range(50):
            on.put(f"task/t{number:02}")

    async def slow(store: Store, address: str) -> Outcome:
        await anyio.sleep(1)
        return Done()

    async with stage(tmp_path, epoch=2, task=slow) as on:
        await anyio.lowlevel.checkpoint()
        on.set("task/t49", wish=1)
        await on.quiet()

        assert on.seen().index("task/t49") <= 16  # Only what the workers already held goes before.


async def test_law_4_a_back_off_ends_when_the_object_changes(tmp_path: Path) -> None:
    async def fails_until_told(store: Store, address: str) -> Outcome:
        resource = store.view.get(address)
        return Done() if resource is not None and resource.spec.get("mended") else Failed("NoLuck", "not yet")

    async with stage(tmp_path, task=fails_until_told) as on:
        on.put("task/a")
        await anyio.sleep(300)  # The delay is at its cap of a minute by now.
        tries = len(on.seen())
        began = anyio.current_time()

        on.put("task/a", mended=True)
        await on.quiet()

        assert len(on.seen()) - tries <= 2
        assert anyio.current_time() - began < 1


async def test_a_failure_is_a_condition_until_it_is_over(tmp_path: Path) -> None:
    tries: list[float] = []

    async def third_time_lucky(store: Store, address: str) -> Outcome:
        tries.append(anyio.current_time())
        if len(tries) < 3:
            raise TransientError("NoLuck", "the world said no")
        return Done()

    async with stage(tmp_path, task=third_time_lucky) as on:
        on.put("task/a")
        await anyio.sleep(0.01)
        condition = on.condition("task/a", "Retrying")
        assert condition is not None and (condition["reason"], condition["message"]) == ("NoLuck", "the world said no")
        await on.quiet()

        assert on.condition("task/a", "Retrying") is None
        assert len(tries) == 3  # Its own condition did not wake it.
        assert tries[2] - tries[1] > tries[1] - tries[0] > 0


@pytest.mark.parametrize("raised", [True, False], ids=["raised", "returned"])
async def test_a_terminal_failure_waits_for_a_change(tmp_path: Path, raised: bool) -> None:
    async def hopeless(store: Store, address: str) -> Outcome:
        if raised:
            raise TerminalError("Hopeless", "this cannot work")
        return TerminalFailure("Hopeless", "this cannot work")

    async with stage(tmp_path, task=hopeless) as on:
        on.put("task/a")
        await on.quiet()
        condition = on.condition("task/a", "Stalled")
        assert condition is not None and condition["reason"] == "Hopeless"
        assert len(on.seen()) == 1

        on.put("task/a", other=True)
        await on.quiet()

        assert len(on.seen()) == 2


async def test_internal_error_is_reported_and_stops_no_other_object(tmp_path: Path) -> None:
    async def sometimes_wrong(store: Store, address: str) -> Outcome:
        if address == "task/bad":
            raise ZeroDivisionError("ours")
        return await finish(store, address)

    async with stage(tmp_path, task=sometimes_wrong) as on:
        on.put("task/bad")
        on.put("task/good")
        await on.quiet()

        assert [(report.address, type(report.error)) for report in on.bugs] == [("task/bad", ZeroDivisionError)]
        condition = on.condition("task/bad", "Stalled")
        assert condition is not None and condition["reason"] == "InternalError"
        assert on.get("task/good").state == "done"


async def test_lost_race_is_retried_immediately(tmp_path: Path) -> None:
    async def races(store: Store, address: str) -> Outcome:
        resource = store.view.get(address)
        assert resource is not None
        if resource.status.get("tries", 0) < 2:
            await set_status(store, address, tries=resource.status.get("tries", 0) + 1)
            raise WriteConflict(address, 1, 2)
        return await finish(store, address)

    async with stage(tmp_path, task=races) as on:
        on.put("task/a")
        await on.quiet()

        assert on.get("task/a").state == "done"
        assert anyio.current_time() < 0.1


async def test_requeued_object_comes_back_by_itself(tmp_path: Path) -> None:
    times: list[float] = []

    async def thrice(store: Store, address: str) -> Outcome:
        times.append(anyio.current_time())
        return Again(60) if len(times) < 3 else Done()

    async with stage(tmp_path, task=thrice) as on:
        on.put("task/a")
        await on.quiet()

        assert [round(time - times[0]) for time in times] == [0, 60, 120]


async def test_deleting_object_without_finalizers_goes_and_wakes_owner_and_plan(tmp_path: Path) -> None:
    async with stage(tmp_path, task=nothing, plan=nothing) as on:
        on.put(PLAN)
        on.put("task/.")
        on.put("task/a", owner="task/.")
        await on.quiet()
        on.seen().clear()
        on.seen("plan").clear()

        on.delete("task/a")
        await on.quiet()

        assert on.store.view.get("task/a") is None
        assert "task/." in on.seen()
        assert on.seen("plan") == [PLAN]


async def test_finalizer_keeps_an_object_until_its_controller_removes_it(tmp_path: Path) -> None:
    async def tears_down(store: Store, address: str) -> Outcome:
        resource = store.view.get(address)
        if resource is not None and resource.deleting:
            await anyio.sleep(5)
            on.delete(address, finalizers=())
        return Done()

    async with stage(tmp_path, task=tears_down) as on:
        on.put("task/a")
        on.delete("task/a", finalizers=("task",))
        await anyio.sleep(1)
        assert on.get("task/a").deleting
        await on.quiet()

        assert on.store.view.get("task/a") is None


async def test_kinds_without_a_reconciler_are_dropped_too(tmp_path: Path) -> None:
    async with stage(tmp_path, task=nothing) as on:
        on.put("hook/h")
        on.delete("hook/h")
        await on.quiet()

        assert on.store.view.get("hook/h") is None


async def test_law_7_what_is_written_for_an_older_object_changes_nothing(tmp_path: Path) -> None:
    async with stage(tmp_path, task=nothing) as on:
        on.put("task/a", uid="old")
        await on.quiet()
        on.write(Drop("task/a", Uid("old")))
        on.put("task/a", uid="new")

        on.write(Drop("task/a", Uid("old")), actor="controller:task")
        await on.quiet()

        assert on.get("task/a").uid == "new"


async def test_controllers_that_undo_each_other_are_slowed_down_and_named(tmp_path: Path) -> None:
    async def left(store: Store, address: str) -> Outcome:
        await set_status(store, "task/a", side="left")
        return Done()

    async def right(store: Store, address: str) -> Outcome:
        resource = store.view.get("task/a")
        if resource is not None and resource.status.get("side") == "left":
            await set_status(store, "task/a", side="right")
        return Done()

    async with stage(tmp_path, task=left, agent=right) as on:
        on.put("agent/a", refs=("task/a",))
        on.put("task/a", owner="agent/a")
        await anyio.sleep(5)

        condition = on.condition("task/a", "Fighting")
        assert condition is not None and condition["reason"] == "HotLoop"
        assert len(on.seen()) < 500


async def test_a_store_that_cannot_be_written_stops_the_engine_with_its_reason(tmp_path: Path) -> None:
    async def full(store: Store, address: str) -> Outcome:
        raise StoreFailed("the disk is full", "make room")

    async with stage(tmp_path, runs=False, task=full) as on:
        on.put("task/a")
        with pytest.raises(StoreFailed, match="the disk is full"):
            await on.engine.run()


async def test_law_12_a_quiet_plan_takes_no_step_at_all(tmp_path: Path) -> None:
    async with stage(tmp_path, task=finish) as on:
        for number in range(100):
            on.put(f"task/t{number}")
        await on.quiet()
        steps, rev = len(on.seen()), on.store.view.rev

        await anyio.sleep(86_400)

        assert (len(on.seen()), on.store.view.rev) == (steps, rev)
        assert on.engine.is_quiescent()


async def test_a_plan_with_work_under_way_is_not_quiet(tmp_path: Path) -> None:
    async with stage(tmp_path, task=nothing) as on:
        on.put("task/a")
        await on.quiet()
        ended: list[float] = []

        async def job() -> None:
            await anyio.sleep(30)
            ended.append(anyio.current_time())

        on.work.start("job", "task/a", job, pool="free")
        assert not on.engine.is_quiescent()
        await on.quiet()

        assert ended and not on.work.is_live("job")


async def test_a_job_that_keeps_failing_is_tried_with_growing_delays(tmp_path: Path) -> None:
    tries: list[float] = []

    async def job() -> None:
        tries.append(anyio.current_time())
        if len(tries) < 5:
            raise TransientError("NoLuck", "again")

    async def starts_it(store: Store, address: str) -> Outcome:
        if len(tries) < 5:
            on.work.start("job", address, job, pool="free")
        return Done()

    async with stage(tmp_path, task=starts_it) as on:
        on.put("task/a")
        await on.quiet()

        gaps = [later - sooner for sooner, later in pairwise(tries)]
        assert gaps == sorted(gaps) and gaps[-1] > 4 * gaps[0] > 0


async def test_internal_error_in_a_job_is_reported_and_blocks_no_waiter(tmp_path: Path) -> None:
    async def broken() -> None:
        raise ZeroDivisionError("ours")

    async with stage(tmp_path, task=nothing) as on:
        on.put("task/a")
        await on.quiet()
        on.work.start("job", "task/a", broken, pool="free")
        await on.quiet()

        assert [type(report.error) for report in on.bugs] == [ZeroDivisionError]
        condition = on.condition("task/a", "Stalled")
        assert condition is not None and condition["reason"] == "InternalError"
