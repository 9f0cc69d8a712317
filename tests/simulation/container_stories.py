"""A whole plan with containers in virtual time: its owner may crash at any write and at any call of the engine.

The engine is simulated (`tests.simulation.simulated_engine`) and survives owners. Actions of other clients are given by
time. At the end, the engine has no objects of the plan, and all other objects are unchanged.
"""

from __future__ import annotations

import random  # noqa: TID251 - seeded
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import anyio
import trio
from trio.testing import MockClock

from planloop.containers.engine.names import ContainerNames
from planloop.controllers.container.context import ContainerContext
from planloop.controllers.container.controller import ContainerReconciler
from planloop.controllers.container.teardown import containers_to_remove
from planloop.controllers.container.watch import ContainerWatch
from planloop.reconciler.admission.gate import PlanGate
from planloop.reconciler.engine.engine import Engine
from planloop.reconciler.engine.reconcile import Reconciler
from planloop.reconciler.store.sqlite.sqlite_store import SqliteStore
from tests.fakes.virtual_time import VirtualClock
from tests.product import ENDED, ContainerCreation, ImageFacts
from tests.simulation.harness import NAME, Crash, Crashed, Edit, Story, _Simulation, workspace
from tests.simulation.product import Parts, product
from tests.simulation.simulated_engine import RegistryImage, SimulatedDaemon, SimulatedEngine

LOOK_S = 0.25
IMAGE = ImageFacts("sha256:busybox", 1)
NAMES = ContainerNames(NAME, "sim-0123")
OTHERS = "others-db"


@dataclass(frozen=True, slots=True)
class Death:
    """At the `call`-th call of the engine that changes something, counted over all owners from 1."""

    call: int
    point: Literal["before", "after"] = "before"


@dataclass(frozen=True, slots=True)
class Outside:
    """What others do, `at_s` seconds after the plan began."""

    at_s: float
    act: Callable[[SimulatedDaemon], Awaitable[None] | None]


@dataclass(slots=True)
class ContainerStory(Story):
    """`daemon` is the engine at the end."""

    daemon: SimulatedDaemon = field(default_factory=lambda: SimulatedDaemon(VirtualClock(), Path()))
    calls: int = 0

    def why(self, address: str) -> str:
        ready = self.objects[address].status["conditions"]["Ready"]
        return f"{ready['reason']}: {ready['message']}"


def simulate_containers(
    text: str,
    *,
    seed: int = 0,
    crashes: Sequence[Crash] = (),
    deaths: Sequence[Death] = (),
    edits: Sequence[Edit] = (),
    outside: Sequence[Outside] = (),
    strangers: Collection[str] = (),
    prepare: Callable[[SimulatedDaemon], None] = lambda _: None,
) -> ContainerStory:
    """Runs the plan `text` to its end and returns the story. Raises AssertionError when a law is broken.

    `strangers` are the names of containers that others make meanwhile, and that are to run at the end.
    """
    with workspace() as folder:
        simulation = _ContainerSimulation(folder, seed, crashes, (Edit(0.0, text), *edits), deaths, outside)
        simulation.strangers = {OTHERS, *strangers}
        prepare(simulation.daemon)
        trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING = True  # type: ignore[misc]
        trio._core._run._r = random.Random(seed)
        trio.run(simulation.run, clock=MockClock(autojump_threshold=0))
        return simulation.container_story


class _ContainerSimulation(_Simulation):
    def __init__(
        self,
        folder: Path,
        seed: int,
        crashes: Sequence[Crash],
        edits: Sequence[Edit],
        deaths: Sequence[Death],
        outside: Sequence[Outside],
    ) -> None:
        super().__init__(folder, seed, crashes, edits, self._built)
        self.story = self.container_story = ContainerStory()
        self.daemon = self.container_story.daemon = SimulatedDaemon(self._clock, folder)
        self.daemon.images["busybox:1"] = IMAGE
        self.daemon.registry["slow:1"] = RegistryImage(ImageFacts("sha256:slow", 1), 30.0)
        self._deaths = {(death.call, death.point) for death in deaths}
        self._outside = list(outside)
        self.strangers = {OTHERS}
        self._context: ContainerContext | None = None

    def _built(self, parts: Parts) -> Sequence[Reconciler]:
        run_folder = self._state / "run"
        run_folder.mkdir(exist_ok=True)
        engine = SimulatedEngine(self.daemon, lambda call, when: self._at_call(parts.epoch, call, when))
        context = ContainerContext(
            parts.store, parts.clock, parts.work, engine, NAMES, parts.epoch, self._folder, run_folder, {}
        )
        self._context = context
        watch = ContainerWatch(context)
        return [*product(parts), ContainerReconciler(context, lambda: parts.background.start(watch.__call__))]

    def _at_call(self, epoch: int, call: str, when: str) -> None:
        if epoch in self._dead:
            raise Crashed
        if when == "before":
            self.container_story.calls += 1
        if (self.container_story.calls, when) in self._deaths:
            self._deaths.discard((self.container_story.calls, when))
            self._dead.add(epoch)
            raise Crashed

    async def run(self) -> None:
        labels = {"planloop.plan": "another", "planloop.address": "container/db"}
        others = ContainerCreation(OTHERS, IMAGE.id, labels, cmd=("sleep", "infinity"))
        engine = SimulatedEngine(self.daemon)
        await engine.start(await engine.create(others))
        await super().run()
        left = {one.creation.name: one.state for one in self.daemon.containers.values()}
        state = "exited" if self.daemon.restarts else "running"
        assert left == dict.fromkeys(self.strangers, state), "what is not ours was touched, or ours was left"
        assert self.daemon.networks == {}, "a network was left behind"

    async def _be_the_person(self, store: SqliteStore, gate: PlanGate, engine: Engine) -> None:
        while True:
            now = self._clock.now() - self._began_at
            while self._edits and self._edits[0].at_s <= now:
                await self._save(gate, self._edits[0].text)
                self._edits.pop(0)
            while self._outside and self._outside[0].at_s <= now:
                if (done := self._outside.pop(0).act(self.daemon)) is not None:
                    await done
            if not self._edits and not self._outside and self._is_over(store):
                await engine.until_quiescent()
                if self._is_over(store):
                    return
            await anyio.sleep(LOOK_S)

    def _is_over(self, store: SqliteStore) -> bool:
        root = store.view.get("task/.")
        return (
            root is not None
            and root.state in ENDED
            and self._context is not None
            and not containers_to_remove(self._context)
        )
