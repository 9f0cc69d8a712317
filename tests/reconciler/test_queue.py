"""The address queue against a model of its promises: one at a time, nothing lost, highest priority, earliest time."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from planloop.reconciler.engine.queue import AddressQueue, Backoff
from tests import sets

ADDRESSES = ("task/a", "task/b", "task/c")
PRIORITIES = st.integers(-2, 2)


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class QueueMachine(RuleBasedStateMachine):
    """Compares the queue with sets that say for each address what was asked and not yet given."""

    @initialize()
    def begin(self) -> None:
        self.time = Time()
        self.queue = AddressQueue(self.time, backoff=Backoff(1.0, 8.0, 0.0))
        self.wanted: dict[str, tuple[float, int]] = {}  # not processing: due and priority
        self.working: dict[str, tuple[float, int] | None] = {}  # processing: what was asked since

    def ask(self, address: str, due: float, priority: int) -> None:
        asked = self.working.get(address) if address in self.working else self.wanted.get(address)
        merged = (due, priority) if asked is None else (min(due, asked[0]), max(priority, asked[1]))
        if address in self.working:
            self.working[address] = merged
        else:
            self.wanted[address] = merged

    @rule(address=st.sampled_from(ADDRESSES), priority=PRIORITIES)
    def add_now(self, address: str, priority: int) -> None:
        self.queue.add(address, priority=priority)
        self.ask(address, self.time.now, priority)

    @rule(address=st.sampled_from(ADDRESSES), after_s=st.sampled_from([0.5, 1.0, 3.0]), priority=PRIORITIES)
    def add_later(self, address: str, after_s: float, priority: int) -> None:
        self.queue.add(address, after_s=after_s, priority=priority)
        self.ask(address, self.time.now + after_s, priority)

    @rule(seconds=st.sampled_from([0.25, 0.5, 2.0]))
    def time_passes(self, seconds: float) -> None:
        self.time.now += seconds

    @rule()
    def pop(self) -> None:
        address = self.queue.pop()
        ready = {name: asked for name, asked in self.wanted.items() if asked[0] <= self.time.now}
        if address is None:
            assert not ready, f"{ready} was asked for and not given"
            return
        assert address in ready, f"{address} was given before its time, or twice at once"
        assert ready[address][1] == max(priority for _, priority in ready.values())
        del self.wanted[address]
        self.working[address] = None

    @precondition(lambda self: self.working)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        address = data.draw(st.sampled_from(sorted(self.working)))
        self.queue.done(address)
        asked = self.working.pop(address)
        if asked is not None:
            self.wanted[address] = asked

    @precondition(lambda self: self.working)
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        address = data.draw(st.sampled_from(sorted(self.working)))
        delay_s = self.queue.retry(address)
        assert 1.0 <= delay_s <= 8.0
        self.ask(address, self.time.now + delay_s, 0)

    @invariant()
    def counts_agree(self) -> None:
        counts = self.queue.counts()
        assert counts.processing == len(self.working)
        waiting = len(self.wanted) + sum(asked is not None for asked in self.working.values())
        # Asked "now" while at work is kept beside the work itself, asked "later" among the delayed.
        assert counts.ready + counts.delayed <= waiting
        assert counts.is_empty == (not waiting and not self.working)


QueueMachine.TestCase.settings = settings(max_examples=sets.examples(60, 30), stateful_step_count=40)
TestQueue = QueueMachine.TestCase


@given(failures=st.integers(1, 200), chance=st.floats(0, 1, exclude_max=True))
def test_a_delay_doubles_to_its_cap_and_strays_by_the_jitter_only(failures: int, chance: float) -> None:
    backoff = Backoff(0.05, 60.0, 0.2)
    plain = min(60.0, 0.05 * 2.0 ** (failures - 1))

    delay_s = backoff.delay_s(failures, chance)

    assert plain * 0.8 <= delay_s <= plain * 1.2 + 1e-9


def test_success_starts_the_delays_again() -> None:
    queue = AddressQueue(Time(), backoff=Backoff(1.0, 60.0, 0.0))
    assert [queue.retry("task/a") for _ in range(3)] == [1.0, 2.0, 4.0]

    queue.forget("task/a")

    assert queue.retry("task/a") == 1.0


def test_failures_of_a_job_are_not_those_of_its_owner() -> None:
    queue = AddressQueue(Time(), backoff=Backoff(1.0, 60.0, 0.0))
    queue.retry("task/a", key="job")
    queue.retry("task/a", key="job")

    assert queue.retry("task/a") == 1.0


def test_law_4_newer_intent_ends_a_back_off_immediately() -> None:
    queue = AddressQueue(Time())
    queue.retry("task/a")
    assert queue.pop() is None

    queue.add("task/a")

    assert queue.pop() == "task/a"


def test_within_a_priority_the_oldest_is_served_first() -> None:
    queue = AddressQueue(Time())
    for address in ("task/b", "task/a", "task/c", "task/a"):
        queue.add(address)

    assert [queue.pop() for _ in range(4)] == ["task/b", "task/a", "task/c", None]


@pytest.mark.anyio
async def test_a_taker_waits_for_what_falls_due() -> None:
    queue = AddressQueue()
    async with anyio.create_task_group() as group:
        group.start_soon(queue.keep_time)
        queue.add("task/later", after_s=0.05)
        queue.add("task/sooner", after_s=0.01)

        assert [await queue.take(), await queue.take()] == ["task/sooner", "task/later"]
        group.cancel_scope.cancel()


@pytest.mark.anyio
async def test_a_cancelled_taker_does_not_swallow_a_wake_up() -> None:
    queue = AddressQueue()
    taken: list[str] = []

    async def take() -> None:
        taken.append(await queue.take())

    async with anyio.create_task_group() as group:
        group.start_soon(take)
        async with anyio.create_task_group() as doomed:
            doomed.start_soon(take)
            await anyio.lowlevel.checkpoint()
            await anyio.lowlevel.checkpoint()
            queue.add("task/a")  # Wakes the last to wait, which is cancelled before it runs.
            doomed.cancel_scope.cancel()
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()

    assert taken == ["task/a"]
