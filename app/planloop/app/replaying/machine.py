"""The product over a stage: the reconcilers that `planloop.app.wiring` builds, with the story in the world's place."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import anyio

from planloop.app.places import Place
from planloop.app.replaying import recorded
from planloop.app.replaying.directing import Director
from planloop.app.replaying.recorded_hooks import RecordedHooks
from planloop.app.replaying.recorded_minds import RecordedMinds
from planloop.app.replaying.stage import LifeOf
from planloop.controllers.agent import AgentReconciler, World
from planloop.controllers.agent.conflicts import ConflictReconciler
from planloop.controllers.agent.deciding import MIND
from planloop.controllers.agent.models.port import Models
from planloop.controllers.agent.tools.registry import BUILT_IN
from planloop.controllers.hook import HookReconciler
from planloop.controllers.lock import LockReconciler
from planloop.controllers.plan import PlanReconciler
from planloop.controllers.sandboxes import EVERY
from planloop.controllers.task.controller import TaskController
from planloop.controllers.task.surroundings import Surroundings
from planloop.controllers.worlds import Worlds
from planloop.reconciler.admitting.gate import Gate
from planloop.reconciler.admitting.language import Language
from planloop.reconciler.clock import Ids
from planloop.reconciler.contract import Outcome, Reconciler
from planloop.reconciler.driving.engine import Engine
from planloop.reconciler.driving.queueing import AddressQueue, Backoff
from planloop.reconciler.driving.working_pools import WorkPools
from planloop.schemas.address import Address
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import frozen

SLOTS: Final = 1 << 20
"""Of every pool: who waits for a place in the story must not take the slot of who is next there."""


LONGEST_RETRY_S: Final = 1e6
"""Virtual: who loses race after race waits for its place in the story, and is asked again whenever that moves on."""


class StoryClock:
    """The time of the story; sleeping is the virtual loop's."""

    def __init__(self, director: Director) -> None:
        self._director = director

    def now(self) -> float:
        return self._director.now()

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


class StoryPools(WorkPools):
    """Pools with room for everybody, whose jobs know when they were begun."""

    def __init__(self, queue: AddressQueue, director: Director) -> None:
        super().__init__(queue, {"tools": SLOTS, "minds": SLOTS, "models": SLOTS})
        self._director = director

    def start(self, key: str, owner: str, job: Callable[[], Awaitable[None]], *, pool: str, priority: int = 0) -> None:
        bounded = "free" if pool.startswith("models") else pool
        super().start(key, owner, self._director.begun_at(job), pool=bounded, priority=priority)

    def cancel(self, key: str) -> None:
        """Calls the job off, but for a request whose answer was there first in the original.

        Whoever would call it off looks more often here, where the answer waits for its place.
        """
        job, director = self._jobs.get(key), self._director
        asked = job if key.startswith(f"{MIND}:") else None
        if asked is None or not director.story.is_answered(asked.owner, director.cursor):
            super().cancel(key)


class Timely:
    """A reconciler whose steps, and the jobs that they begin, are of the time at which it was asked."""

    def __init__(self, director: Director, reconciler: Reconciler) -> None:
        self._director = director
        self._reconciler = reconciler

    @property
    def kind(self) -> str:
        return self._reconciler.kind

    async def reconcile(self, address: Address) -> Outcome:
        self._director.arrive()
        return await self._reconciler.reconcile(address)


class CountedIds:
    """Ids that are the same in every replay, and that no random one is likely to equal."""

    def __init__(self) -> None:
        self._given = 0

    def mint(self) -> str:
        self._given += 1
        return f"f{self._given:011x}"


@frozen
class Stand:
    """What a replay stands on: where the plan is, the compiler, and what models cost by the plan's document.

    The models are asked for prices and sizes and never for a reply. Simulated worlds are called again, as their files
    are now.
    """

    place: Place
    language: Language
    models: Callable[[Callable[[], JsonObject]], Models]
    worlds: Worlds


@frozen
class Cast:
    """One owner of the replay."""

    store: LifeOf
    gate: Gate
    queue: AddressQueue
    engine: Engine


def cast(director: Director, store: LifeOf, stand: Stand, ids: Ids) -> Cast:
    """An owner that begins where the story is."""
    place, language = stand.place, stand.language
    clock = StoryClock(director)
    queue = AddressQueue(backoff=Backoff(cap_s=LONGEST_RETRY_S))
    work = StoryPools(queue, director)
    gate = Gate(store, place.name, ids=ids, clock=clock, language=language)
    plan = f"plan/{place.name}"
    engine = Engine(store, clock, queue, work, _reconcilers(director, store, stand, (gate, work, ids)), plan)
    return Cast(store, gate, queue, engine)


def _reconcilers(
    director: Director, store: LifeOf, stand: Stand, parts: tuple[Gate, WorkPools, Ids]
) -> Sequence[Reconciler]:
    gate, work, ids = parts
    place, language = stand.place, stand.language
    clock, processes = StoryClock(director), recorded.RecordedProcesses(director, store.is_alive)
    root = place.root.absolute()

    def document() -> JsonObject:
        found = store.view.get(f"plan/{place.name}")
        return {} if found is None else found.spec

    world = World(
        store,
        clock,
        ids,
        processes,
        work,
        gate,
        f"plan/{place.name}",
        root,
        {},
        sys.executable,
        models=recorded.RecordedModels(director, stand.models(document), store.is_alive),
        servers=recorded.RecordedServers(director),
        minds=RecordedMinds(director, store.is_alive).reply,
        hooks=RecordedHooks(director, store.is_alive),
        worlds=stand.worlds,
    )
    checks, strays = recorded.RecordedChecks(director), recorded.RecordedStrays(director)
    surroundings = Surroundings(place.name, root, {}, checks, sandboxes=EVERY, strays=strays)
    made: list[Reconciler] = [
        TaskController(store, work, processes, clock, ids, surroundings),
        AgentReconciler(world, recorded.tools(director, BUILT_IN, store.is_alive)),
        ConflictReconciler(store, clock, gate),
        LockReconciler(store, clock, work),
        HookReconciler(store, clock),
        PlanReconciler(store, language.check, clock=clock, ids=ids, work=work),
    ]
    return [Timely(director, one) for one in made]
