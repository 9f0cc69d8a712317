"""A whole plan in virtual time from one seed: its owner may crash at any write, a new one goes on, laws are checked.

`simulate` compiles a plan, submits it through the gate and runs owners one after another over one folder and one
machine until nothing is left to do. What survives a crash is what survives SIGKILL: the files of the store, the
processes, and the person who saves the plan file. `build` plugs in the reconcilers, the product's by default.
"""

from __future__ import annotations

import random  # noqa: TID251 - seeded
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Literal, TypeAlias

import anyio
import trio
from trio.testing import MockClock

from planloop.client.plan_sources import FolderSources
from planloop.compiler import merge, plan_compiler
from planloop.reconciler.admission.gate import PlanGate
from planloop.reconciler.diff.file_patch import FileSave
from planloop.reconciler.effects import journal
from planloop.reconciler.engine.engine import Engine, InternalErrorReport
from planloop.reconciler.engine.queue import AddressQueue
from planloop.reconciler.engine.reconcile import Reconciler
from planloop.reconciler.engine.work_pools import WorkPools
from planloop.reconciler.errors import StoreFailed
from planloop.reconciler.plan_language_port import PlanLanguage
from planloop.reconciler.store.sqlite.sqlite_store import SqliteStore, StoreOptions
from planloop.schemas.spec import tables
from tests.fakes.virtual_time import SeededIds, VirtualClock
from tests.product import PatchAccepted, Record, RecordDraft, Resource
from tests.simulation import laws
from tests.simulation.product import Parts, product
from tests.simulation.simulated_processes import SimulatedMachine, SimulatedProcesses

NAME = "sim"
PLAN = f"plan/{NAME}"
FILE = "sim.plan.yaml"
LONGEST_S = 1_000_000.0  # Of virtual time: a plan that is not over by then never ends.

Point = Literal["before-commit", "after-commit"]


class Crashed(BaseException):
    """The owner was killed here. No `except Exception` may see it."""


@dataclass(frozen=True, slots=True)
class Crash:
    """At the `commit`-th write to the disk, counted over all owners from 1: just before it holds, or just after.

    `loses_processes` makes it a power cut: all processes are gone, and their exit codes were not recorded.
    """

    commit: int
    point: Point = "before-commit"
    loses_processes: bool = False


@dataclass(frozen=True, slots=True)
class Edit:
    """A save of the plan file, `at_s` seconds after the first."""

    at_s: float
    text: str


@dataclass(slots=True)
class Story:
    """What came of it all. `objects` are those of the end, `files` the workspace's with their contents."""

    objects: dict[str, Resource] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    log: list[Record] = field(default_factory=list)
    bugs: list[InternalErrorReport] = field(default_factory=list)
    commits: int = 0
    owners: int = 0
    doubts: int = 0  # Calls that a person was asked about.

    def states(self, *kinds: str) -> Mapping[str, str]:
        """The states of the objects of `kinds`, by address."""
        return {address: one.state for address, one in self.objects.items() if one.kind in kinds}

    def lines(self, name: str) -> list[str]:
        """The lines of a workspace file, sorted: parallel tasks write in any order."""
        return sorted(self.files.get(name, "").splitlines())


Build: TypeAlias = Callable[[Parts], Sequence[Reconciler]]


def drawn(chance: random.Random, count: int, among: int) -> list[Crash]:
    """Random crashes, each at one of the first `among` writes."""
    commits = sorted(chance.sample(range(1, among + 1), count))
    return [Crash(commit, chance.choice(("before-commit", "after-commit"))) for commit in commits]


def simulate(
    text: str,
    *,
    seed: int = 0,
    crashes: Sequence[Crash] = (),
    edits: Sequence[Edit] = (),
    files: Mapping[str, str] = MappingProxyType({}),
    build: Build = product,
) -> Story:
    """Runs the plan `text` to its end, in a folder of its own that has `files`, and returns the story.

    Raises AssertionError when a law is broken.
    """
    with workspace() as folder:
        for name, content in files.items():
            (folder / name).write_text(content)
        return simulate_in(folder, text, seed=seed, crashes=crashes, edits=edits, build=build)


@contextmanager
def workspace() -> Iterator[Path]:
    """A folder, in memory where there is one: disks are for the store's own tests."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        yield Path(name)


def simulate_in(
    folder: Path,
    text: str,
    *,
    seed: int = 0,
    crashes: Sequence[Crash] = (),
    edits: Sequence[Edit] = (),
    build: Build = product,
) -> Story:
    """The same in a folder that stays."""
    simulation = _Simulation(folder, seed, crashes, (Edit(0.0, text), *edits), build)
    # Trio shuffles ready tasks to keep people honest; from a seed of ours the shuffle is part of the simulation.
    trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING = True  # type: ignore[misc]
    trio._core._run._r = random.Random(seed)
    trio.run(simulation.run, clock=MockClock(autojump_threshold=0))
    return simulation.story


class _Simulation:
    def __init__(
        self,
        folder: Path,
        seed: int,
        crashes: Sequence[Crash],
        edits: Sequence[Edit],
        build: Build,
    ) -> None:
        self.story = Story()
        self._folder = folder
        self._state = folder / ".plan" / NAME
        self._crashes = {(crash.commit, crash.point): crash for crash in crashes}
        self._edits = list(edits)
        self._build = build
        self._ids = SeededIds(seed)
        self._chance = random.Random(seed)
        self._clock = VirtualClock()
        self._machine = SimulatedMachine(self._clock)
        self._dead: set[int] = set()
        self._epoch = 0
        self._began_at = 0.0
        self._language = _language(folder)

    async def run(self) -> None:
        """Owners one after another until one comes to the end."""
        self._began_at = self._clock.now()
        with anyio.fail_after(LONGEST_S):
            while not await self._own():
                pass
        self._look_around()

    async def _own(self) -> bool:
        """One owner's life; False when it was killed."""
        self._epoch += 1
        self.story.owners += 1
        try:
            await self._live()
        except (BaseExceptionGroup, Crashed, StoreFailed):
            if self._epoch not in self._dead:
                raise
            return False
        return True

    async def _live(self) -> None:
        epoch = self._epoch
        options = StoreOptions(hook=self._at_write)
        async with SqliteStore.open(self._state, clock=self._clock, epoch=epoch, inline=True, options=options) as store:
            await store.append(RecordDraft("epoch.taken", "controller:owner", PLAN, data={"epoch": epoch}))
            processes = SimulatedProcesses(self._machine, is_dead=lambda: epoch in self._dead)
            self._machine.on_begin = lambda op: laws.check_intent_before_effect(store, op)
            recovery = await journal.recover_calls(store, processes)
            await processes.sweep(recovery.keep)
            queue = AddressQueue(chance=self._chance.random)
            work = WorkPools(queue, {"tools": 2})
            gate = PlanGate(store, NAME, ids=self._ids, clock=self._clock, language=self._language)
            parts = Parts(PLAN, self._folder, store, gate, processes, work, self._clock, self._ids, epoch)
            engine = Engine(store, self._clock, queue, work, self._build(parts), PLAN)
            engine.on_bug = self.story.bugs.append
            async with anyio.create_task_group() as group:
                group.start_soon(_write_soon, store)
                group.start_soon(parts.background.run)
                await group.start(engine.run)
                await self._be_the_person(store, gate, engine)
                await laws.check_second_reconcile_writes_nothing(store, work, engine)
                group.cancel_scope.cancel()
            await self._note_the_end(store)

    async def _be_the_person(self, store: SqliteStore, gate: PlanGate, engine: Engine) -> None:
        """Save the file at its time, again if the save was not acknowledged, and settle calls with an unknown
        outcome."""
        while True:
            while self._edits:
                await anyio.sleep(max(0.0, self._began_at + self._edits[0].at_s - self._clock.now()))
                await self._save(gate, self._edits[0].text)
                self._edits.pop(0)
            await engine.until_quiescent()
            if not await self._settle_doubts(store):
                return

    async def _save(self, gate: PlanGate, text: str) -> None:
        content = f"plan: {NAME}\n{text}".encode()
        made = plan_compiler.compile_source(content, file=FILE, sources=FolderSources(self._folder))
        assert made.document is not None, made.diagnostics
        verdict = await gate.submit_file(FileSave(FILE, content, made.document, is_approved=True))
        assert isinstance(verdict, PatchAccepted), verdict

    async def _settle_doubts(self, store: SqliteStore) -> bool:
        """Answer for each call with an unknown outcome whether it happened, like a person who checks its effect."""
        doubted = [call for call in store.view.list("call") if call.state == "Unknown"]
        self.story.doubts += len(doubted)
        for call in doubted:
            happened = laws.has_happened(self._folder, call)
            changes = journal.settle_unknown(call, happened=happened)
            await store.append(RecordDraft("call.reconciled", "human:cli", call.address, changes))
        return bool(doubted)

    def _at_write(self, point: str, rev: int) -> None:
        del rev
        if point == "before-commit":
            self.story.commits += 1
        crash = self._crashes.pop((self.story.commits, point), None)  # type: ignore[arg-type]
        if crash is not None:
            self._dead.add(self._epoch)
            if crash.loses_processes:
                for op in self._machine.running():
                    self._machine.kill(op)
            raise Crashed

    async def _note_the_end(self, store: SqliteStore) -> None:
        self.story.objects = {one.address: one for one in store.view.everything()}
        self.story.log = await store.log(0, 1_000_000)

    def _look_around(self) -> None:
        story = self.story
        names = [path for path in self._folder.rglob("*") if path.is_file() and ".plan" not in path.parts]
        story.files = {str(path.relative_to(self._folder)): path.read_text() for path in sorted(names)}
        assert story.bugs == [], story.bugs
        assert self._machine.running() == [], "a process was left behind"
        laws.check_log(story.log, story.objects)
        laws.check_no_once_effect_ran_twice(story.log, self._machine.began)


async def _write_soon(store: SqliteStore) -> None:
    """Stands in for the writer's thread: whatever is proposed is written at the next chance, asked for or not."""
    proposed = anyio.Event()

    def on_change(*_: object) -> None:
        proposed.set()

    store.on_change(on_change)
    while True:
        await proposed.wait()
        proposed = anyio.Event()
        await store.flush(store.view.rev)


def _language(folder: Path) -> PlanLanguage:
    sources = FolderSources(folder)
    return PlanLanguage(
        lambda document: plan_compiler.check_document(document, sources=sources),
        merge.merge_documents,
        tables.change_class,
    )
