"""Assemble the owner of a replay: the real controllers and gate, with hooks, deciders and effects from the log.

Hooks that are rules, programs or functions return their recorded verdicts: nothing is evaluated, read or started. Hooks
that are agents need nothing here, because their questions and answers are messages.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import anyio

from planloop.client.plan_paths import PlanPaths
from planloop.controllers.agent.conflicts.controller import ConflictReconciler
from planloop.controllers.agent.controller import AgentReconciler
from planloop.controllers.agent.decide import DECIDER_JOB
from planloop.controllers.agent.deciders.port import DeciderReply, ProposedCall
from planloop.controllers.agent.models.port import ModelClient
from planloop.controllers.agent.observe import ObservedAgent
from planloop.controllers.agent.services import AgentServices, Connections, DeciderServices, ProgramSettings
from planloop.controllers.agent.status import unwrap_value
from planloop.controllers.agent.tools.registry import BUILT_IN_TOOLS
from planloop.controllers.hook.controller import HookReconciler
from planloop.controllers.lock.controller import LockReconciler
from planloop.controllers.plan.controller import PlanReconciler
from planloop.controllers.shared.sandbox import ALL_SANDBOXES
from planloop.controllers.shared.simulated_worlds import Worlds
from planloop.controllers.task.controller import TaskReconciler
from planloop.controllers.task.run_environment import RunEnvironment
from planloop.owner.replay import recorded_effects
from planloop.owner.replay.history import entry, status_in
from planloop.owner.replay.recorded_effects import wait_until_replay_ends
from planloop.owner.replay.replay_store import OwnerStoreView
from planloop.owner.replay.scheduler import ReplayScheduler
from planloop.reconciler.admission.gate import PlanGate
from planloop.reconciler.clock import Ids
from planloop.reconciler.engine.engine import Engine
from planloop.reconciler.engine.queue import AddressQueue, Backoff
from planloop.reconciler.engine.reconcile import Outcome, Reconciler
from planloop.reconciler.engine.work_pools import WorkPools
from planloop.reconciler.errors import WriteConflict
from planloop.reconciler.plan_language_port import PlanLanguage
from planloop.schemas.address import Address
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.log.record import RecordDraft
from planloop.schemas.objects.hook import HookVerdict, hook_verdict_from_json


class RecordedHooks:
    """Who answers in place of such hooks, from the record of the verdict when that comes next."""

    def __init__(self, director: ReplayScheduler, is_alive: Callable[[], bool]) -> None:
        self._director = director
        self._is_alive = is_alive

    def at_once(self, agent: str, turn: int, key: str) -> HookVerdict:
        """See `services.HookReplay`."""
        wanted = self._director.expected
        found = None if wanted is None else _fired(wanted.draft, agent, turn, key)
        if found is None:
            raise WriteConflict(agent, None, None)
        return self._verdict(found)

    def first(self, agent: str, turn: int, key: str) -> tuple[HookVerdict, bool]:
        """See `services.HookReplay`."""
        wanted = self._director.expected
        asked = None if wanted is None else _consulted(wanted.draft, agent, key)
        if asked is None:
            return self.at_once(agent, turn, key), False
        memory = self._director.likeness.ours(unwrap_value(asked.get("memory")))
        return HookVerdict(memory=memory), True

    async def verdict(self, agent: str, turn: int, key: str) -> HookVerdict:
        """See `services.HookReplay`."""
        director = self._director
        index = director.story.next(director.cursor, lambda draft: _fired(draft, agent, turn, key) is not None)
        if not await director.due(index, self._is_alive) or index is None:
            await wait_until_replay_ends()
        found = _fired(director.story.records[index].draft, agent, turn, key)
        assert found is not None, "looked for before"
        return self._verdict(found)

    def _verdict(self, told: JsonObject) -> HookVerdict:
        return hook_verdict_from_json(self._director.likeness.ours(told["verdict"]))


def _fired(draft: RecordDraft, agent: str, turn: int, key: str) -> JsonObject | None:
    """What the record says of that verdict; None when it says nothing of it."""
    said = (one for one in draft.entries if (one.type, one.subject) == ("hook.fired", agent))
    told = (each for one in said if one.data["turn"] == turn for each in one.data["fired"])
    return next((each for each in told if each["key"] == key), None)


def _consulted(draft: RecordDraft, agent: str, key: str) -> JsonObject | None:
    """What the record says of asking the hook's agent; None when it does not say that it was asked."""
    said = (one for one in draft.entries if (one.type, one.subject) == ("message.sent", agent))
    return next((one.data for one in said if one.data.get("key") == key), None)


OF_THE_TURN: Final = frozenset({"turn", "text", "usage", "note", "calls"})
"""What the record of a reply says that is no data of the mind's own."""


class RecordedDeciders:
    """Who answers in place of such a mind, from the record of its reply when that comes next; nothing is started."""

    def __init__(self, director: ReplayScheduler, is_alive: Callable[[], bool]) -> None:
        self._director = director
        self._is_alive = is_alive

    async def reply(self, seen: ObservedAgent) -> DeciderReply:
        """What the agent's mind answered in this turn."""
        director, agent = self._director, seen.resource.address
        index = director.story.next(director.cursor, lambda draft: entry(draft, "model.replied", agent) is not None)
        if index is not None and self._is_asked_between(agent, index):
            director.give_up(f"{agent} was asked several times for one reply, and the log has only the last")
        if not await director.due(index, self._is_alive) or index is None:
            await wait_until_replay_ends()
        return _reply_of(director, director.story.records[index].draft, agent)

    def _is_asked_between(self, agent: str, index: int) -> bool:
        """Whether the reply at `index` is not the answer to this request: a mixin asked again."""
        records = self._director.story.records[self._director.cursor : index]
        return any(entry(one.draft, "model.requested", agent) is not None for one in records)


def _reply_of(director: ReplayScheduler, draft: RecordDraft, agent: str) -> DeciderReply:
    said = entry(draft, "model.replied", agent)
    assert said is not None, "looked for before"
    merge, ours = status_in(draft, agent), director.likeness.ours
    # Not the whole: the ids of the calls in it are still to be minted here.
    data: JsonObject = ours({name: value for name, value in said.data.items() if name not in OF_THE_TURN})
    answer: JsonObject = unwrap_value(merge["open"]["reply"])
    made = [call for call in answer["calls"] if not call.get("is_implied")]
    calls = tuple(
        ProposedCall(
            call["tool"],
            ours(call["arguments"]),
            call.get("key", ""),
            call.get("fault", ""),
            bool(call.get("is_parallel")),
        )
        for call in made
    )
    return DeciderReply(
        text=ours(answer["text"]),
        calls=calls,
        then=answer["then"],
        sleep_s=answer.get("sleep_s"),
        memory=ours(unwrap_value(merge.get("memory"))),
        usage=said.data.get("usage") or {},
        note=ours(str(said.data.get("note", ""))),
        data=data,
    )


SLOTS: Final = 1 << 20
"""Of every pool: who waits for a place in the story must not take the slot of who is next there."""


LONGEST_RETRY_S: Final = 1e6
"""Virtual: who loses race after race waits for its place in the story, and is asked again whenever that moves on."""


class ReplayClock:
    """The time of the story; sleeping is the virtual loop's."""

    def __init__(self, director: ReplayScheduler) -> None:
        self._director = director

    def now(self) -> float:
        return self._director.now()

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


class ReplayPools(WorkPools):
    """Pools with room for everybody, whose jobs know when they were begun."""

    def __init__(self, queue: AddressQueue, director: ReplayScheduler) -> None:
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
        asked = job if key.startswith(f"{DECIDER_JOB}:") else None
        if asked is None or not director.story.is_answered(asked.owner, director.cursor):
            super().cancel(key)


class TimedReconciler:
    """A reconciler whose steps, and the jobs that they begin, are of the time at which it was asked."""

    def __init__(self, director: ReplayScheduler, reconciler: Reconciler) -> None:
        self._director = director
        self._reconciler = reconciler

    @property
    def kind(self) -> str:
        return self._reconciler.kind

    async def reconcile(self, address: Address) -> Outcome:
        self._director.arrive()
        return await self._reconciler.reconcile(address)


class ReplayIds:
    """Ids that are the same in every replay, and that no random one is likely to equal."""

    def __init__(self) -> None:
        self._given = 0

    def mint(self) -> str:
        self._given += 1
        return f"f{self._given:011x}"


@frozen
class ReplaySetup:
    """What a replay stands on: where the plan is, the compiler, and what models cost by the plan's document.

    The models are asked for prices and sizes and never for a reply. Simulated worlds are called again, as their files
    are now.
    """

    place: PlanPaths
    language: PlanLanguage
    models: Callable[[Callable[[], JsonObject]], ModelClient]
    worlds: Worlds


@frozen
class ReplayParts:
    """One owner of the replay."""

    store: OwnerStoreView
    gate: PlanGate
    queue: AddressQueue
    engine: Engine


def build_replay(director: ReplayScheduler, store: OwnerStoreView, stand: ReplaySetup, ids: Ids) -> ReplayParts:
    """An owner that begins where the story is."""
    place, language = stand.place, stand.language
    clock = ReplayClock(director)
    queue = AddressQueue(backoff=Backoff(cap_s=LONGEST_RETRY_S))
    work = ReplayPools(queue, director)
    gate = PlanGate(store, place.name, ids=ids, clock=clock, language=language)
    plan = f"plan/{place.name}"
    engine = Engine(store, clock, queue, work, _reconcilers(director, store, stand, (gate, work, ids)), plan)
    return ReplayParts(store, gate, queue, engine)


def _reconcilers(
    director: ReplayScheduler, store: OwnerStoreView, stand: ReplaySetup, parts: tuple[PlanGate, WorkPools, Ids]
) -> Sequence[Reconciler]:
    gate, work, ids = parts
    place, language = stand.place, stand.language
    clock, processes = ReplayClock(director), recorded_effects.RecordedProcesses(director, store.is_alive)
    root = place.root.absolute()

    def document() -> JsonObject:
        found = store.view.get(f"plan/{place.name}")
        return {} if found is None else found.spec

    world = AgentServices(
        store,
        clock,
        ids,
        work,
        gate,
        f"plan/{place.name}",
        root,
        ProgramSettings(processes, {}, sys.executable),
        DeciderServices(
            recorded_effects.RecordedModels(director, stand.models(document), store.is_alive),
            RecordedDeciders(director, store.is_alive).reply,
            RecordedHooks(director, store.is_alive),
        ),
        Connections(recorded_effects.RecordedServers(director), worlds=stand.worlds),
    )
    checks, strays = recorded_effects.RecordedChecks(director), recorded_effects.RecordedStrays(director)
    surroundings = RunEnvironment(place.name, root, {}, checks, sandboxes=ALL_SANDBOXES, strays=strays)
    made: list[Reconciler] = [
        TaskReconciler(store, work, processes, clock, ids, surroundings),
        AgentReconciler(world, recorded_effects.recorded_tools(director, BUILT_IN_TOOLS, store.is_alive)),
        ConflictReconciler(store, clock, gate),
        LockReconciler(store, clock, work),
        HookReconciler(store, clock),
        PlanReconciler(store, language.check, clock=clock, ids=ids, work=work),
    ]
    return [TimedReconciler(director, one) for one in made]
