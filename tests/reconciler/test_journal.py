"""Law 5: intent before effect, result after it, and what the next owner makes of a call that has neither."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from trio.testing import MockClock

from planloop.reconciler.effects import journal
from planloop.reconciler.store.sqlite.sqlite_store import SqliteStore
from tests.fakes.virtual_time import VirtualClock
from tests.golden_text import said
from tests.product import CallResult, CallSpec, CallState, EffectClass, ProcessCommand, Put, RecordDraft, Resource, Uid
from tests.simulation.simulated_processes import SimulatedMachine, SimulatedProcesses

pytestmark = pytest.mark.anyio
CALL = "call/c1"


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return "trio", {"clock": MockClock(autojump_threshold=0)}


def spec(effect: EffectClass = EffectClass.ONCE, *, op: str = "op1", is_process: bool = True) -> CallSpec:
    return CallSpec("task/a", "u", 1, op, "run", {}, effect, is_process=is_process)


@dataclass
class Desk:
    """An owner's store, and a machine that survives the owner."""

    store: SqliteStore
    machine: SimulatedMachine
    folder: Path

    async def start(self, call: CallSpec) -> None:
        await self.store.append(
            RecordDraft("call.started", "controller:task", call.owner, journal.start_changes(call, "c1"))
        )

    def begin(self, shell: str) -> None:
        """Start the process without waiting for it."""
        self.machine.start("op1", ProcessCommand(str(self.folder), shell=shell))

    async def recover(self) -> journal.Recovery:
        return await journal.recover_calls(self.store, SimulatedProcesses(self.machine))

    @property
    def call(self) -> Resource:
        found = self.store.view.get(CALL)
        assert found is not None
        return found


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with opened(tmp_path) as made:
        yield made


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Desk]:
    clock = VirtualClock()
    async with SqliteStore.open(folder / "state", clock=clock, epoch=1, inline=True) as store:
        await store.append(RecordDraft("object.created", "human:cli", "task/a", (Put("task/a", Uid("u"), {}),)))
        yield Desk(store, SimulatedMachine(clock), folder)


async def test_a_started_call_names_its_owner_and_its_operation(desk: Desk) -> None:
    await desk.start(spec())

    assert (desk.call.state, desk.call.owner, desk.call.spec["op"]) == ("Started", "task/a", "op1")


async def test_a_settled_call_is_gone_and_an_unknown_one_stays(desk: Desk) -> None:
    await desk.start(spec())
    unknown = CallResult(CallState.UNKNOWN, "the power went")
    await desk.store.append(
        RecordDraft("call.settled", "controller:task", CALL, journal.settle_changes(CALL, desk.call.uid, unknown))
    )
    assert (desk.call.state, desk.call.status["why"]) == ("Unknown", "the power went")

    done = CallResult(CallState.SUCCEEDED)
    await desk.store.append(
        RecordDraft("call.settled", "controller:task", CALL, journal.settle_changes(CALL, desk.call.uid, done))
    )

    assert desk.store.view.get(CALL) is None


@pytest.mark.parametrize("effect", list(EffectClass))
async def test_what_never_began_may_begin(desk: Desk, effect: EffectClass) -> None:
    await desk.start(spec(effect))

    found = await desk.recover()

    assert (desk.call.state, found.again, found.keep) == ("Authorized", (CALL,), frozenset())
    assert not desk.machine.start("op1", ProcessCommand(str(desk.folder), shell="true")), (
        "the old start can still happen"
    )


@pytest.mark.parametrize("shell", ["sleep 60", "true"], ids=["running", "ended"])
async def test_what_runs_or_ended_is_left_to_be_adopted(desk: Desk, shell: str) -> None:
    await desk.start(spec())
    desk.begin(shell)

    found = await desk.recover()

    assert (desk.call.state, found.adoptable, found.keep) == ("Started", (CALL,), frozenset({"op1"}))


@pytest.mark.parametrize(
    ("effect", "state"),
    [
        (EffectClass.READ, "Authorized"),
        (EffectClass.IDEMPOTENT, "Authorized"),
        (EffectClass.RECONCILABLE, "Unknown"),
        (EffectClass.ONCE, "Unknown"),
    ],
)
async def test_law_5_what_was_lost_runs_again_only_where_its_class_says_so(
    desk: Desk, effect: EffectClass, state: str
) -> None:
    await desk.start(spec(effect))
    desk.begin("sleep 60")
    desk.machine.kill("op1")

    await desk.recover()

    assert desk.call.state == state


async def test_an_effect_inside_the_owner_leaves_no_trace_and_counts_as_lost(desk: Desk) -> None:
    await desk.start(spec(is_process=False))

    found = await desk.recover()

    assert (desk.call.state, found.in_doubt) == ("Unknown", (CALL,))


async def test_recovering_again_finds_nothing_new(desk: Desk) -> None:
    await desk.start(spec())
    await desk.recover()
    rev = desk.store.view.rev

    assert await desk.recover() == journal.Recovery()
    assert desk.store.view.rev == rev


async def test_a_call_that_may_begin_again_gets_a_new_operation_under_the_same_address(desk: Desk) -> None:
    await desk.start(spec())
    await desk.recover()

    await desk.start(spec(op="op2"))

    assert (desk.call.state, desk.call.spec["op"], desk.call.uid) == ("Started", "op2", "c1")


async def test_a_person_settles_a_doubt_either_way(desk: Desk) -> None:
    await desk.start(spec(is_process=False))
    await desk.recover()
    doubted = desk.call

    happened = journal.settle_unknown(doubted, happened=True)
    did_not = journal.settle_unknown(doubted, happened=False)

    await desk.store.append(RecordDraft("call.reconciled", "human:cli", CALL, happened))
    assert (desk.call.state, desk.call.status["result"]["state"]) == ("Succeeded", "Succeeded")
    await desk.store.append(RecordDraft("call.reconciled", "human:cli", CALL, did_not))
    assert desk.call.state == "Authorized"


async def test_what_is_not_in_doubt_cannot_be_settled(desk: Desk) -> None:
    await desk.start(spec())

    with pytest.raises(ValueError) as caught:
        journal.settle_unknown(desk.call, happened=True)
    said(str(caught.value))
