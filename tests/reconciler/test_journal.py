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
class JournalStage:
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
async def stage(tmp_path: Path) -> AsyncIterator[JournalStage]:
    async with opened(tmp_path) as made:
        yield made


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[JournalStage]:
    clock = VirtualClock()
    async with SqliteStore.open(folder / "state", clock=clock, epoch=1, inline=True) as store:
        await store.append(RecordDraft("object.created", "human:cli", "task/a", (Put("task/a", Uid("u"), {}),)))
        yield JournalStage(store, SimulatedMachine(clock), folder)


async def test_a_started_call_names_its_owner_and_its_operation(stage: JournalStage) -> None:
    await stage.start(spec())

    assert (stage.call.state, stage.call.owner, stage.call.spec["op"]) == ("Started", "task/a", "op1")


async def test_settled_call_is_removed_and_an_unknown_one_is_kept(stage: JournalStage) -> None:
    await stage.start(spec())
    unknown = CallResult(CallState.UNKNOWN, "the power went")
    await stage.store.append(
        RecordDraft("call.settled", "controller:task", CALL, journal.settle_changes(CALL, stage.call.uid, unknown))
    )
    assert (stage.call.state, stage.call.status["why"]) == ("Unknown", "the power went")

    done = CallResult(CallState.SUCCEEDED)
    await stage.store.append(
        RecordDraft("call.settled", "controller:task", CALL, journal.settle_changes(CALL, stage.call.uid, done))
    )

    assert stage.store.view.get(CALL) is None


@pytest.mark.parametrize("effect", list(EffectClass))
async def test_operation_that_never_began_may_start(stage: JournalStage, effect: EffectClass) -> None:
    await stage.start(spec(effect))

    found = await stage.recover()

    assert (stage.call.state, found.again, found.keep) == ("Authorized", (CALL,), frozenset())
    assert not stage.machine.start("op1", ProcessCommand(str(stage.folder), shell="true")), (
        "the old start can still happen"
    )


@pytest.mark.parametrize("shell", ["sleep 60", "true"], ids=["running", "ended"])
async def test_running_or_ended_operation_is_left_to_be_adopted(stage: JournalStage, shell: str) -> None:
    await stage.start(spec())
    stage.begin(shell)

    found = await stage.recover()

    assert (stage.call.state, found.adoptable, found.keep) == ("Started", (CALL,), frozenset({"op1"}))


@pytest.mark.parametrize(
    ("effect", "state"),
    [
        (EffectClass.READ, "Authorized"),
        (EffectClass.IDEMPOTENT, "Authorized"),
        (EffectClass.RECONCILABLE, "Unknown"),
        (EffectClass.ONCE, "Unknown"),
    ],
)
async def test_law_5_lost_command_runs_again_only_where_its_class_allows_it(
    stage: JournalStage, effect: EffectClass, state: str
) -> None:
    await stage.start(spec(effect))
    stage.begin("sleep 60")
    stage.machine.kill("op1")

    await stage.recover()

    assert stage.call.state == state


async def test_an_effect_inside_the_owner_leaves_no_trace_and_counts_as_lost(stage: JournalStage) -> None:
    await stage.start(spec(is_process=False))

    found = await stage.recover()

    assert (stage.call.state, found.in_doubt) == ("Unknown", (CALL,))


async def test_recovering_again_finds_nothing_new(stage: JournalStage) -> None:
    await stage.start(spec())
    await stage.recover()
    rev = stage.store.view.rev

    assert await stage.recover() == journal.Recovery()
    assert stage.store.view.rev == rev


async def test_rerunnable_call_gets_a_new_operation_under_the_same_address(stage: JournalStage) -> None:
    await stage.start(spec())
    await stage.recover()

    await stage.start(spec(op="op2"))

    assert (stage.call.state, stage.call.spec["op"], stage.call.uid) == ("Started", "op2", "c1")


async def test_operator_settles_an_unknown_outcome_either_way(stage: JournalStage) -> None:
    await stage.start(spec(is_process=False))
    await stage.recover()
    doubted = stage.call

    happened = journal.settle_unknown(doubted, happened=True)
    did_not = journal.settle_unknown(doubted, happened=False)

    await stage.store.append(RecordDraft("call.reconciled", "human:cli", CALL, happened))
    assert (stage.call.state, stage.call.status["result"]["state"]) == ("Succeeded", "Succeeded")
    await stage.store.append(RecordDraft("call.reconciled", "human:cli", CALL, did_not))
    assert stage.call.state == "Authorized"


async def test_known_outcome_cannot_be_settled(stage: JournalStage) -> None:
    await stage.start(spec())

    with pytest.raises(ValueError) as caught:
        journal.settle_unknown(stage.call, happened=True)
    said(str(caught.value))
