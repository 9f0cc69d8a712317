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
    """Answers for such hooks from their recorded verdicts, when the record is next in the log."""

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
    """Return the verdict in the record; None if it has none."""
    entries = (one for one in draft.entries if (one.type, one.subject) == ("hook.fired", agent))
    verdicts = (each for one in entries if one.data["turn"] == turn for each in one.data["fired"])
    return next((each for each in verdicts if each["key"] == key), None)


def _consulted(draft: RecordDraft, agent: str, key: str) -> JsonObject | None:
    """Return the recorded question to the hook's agent; None if the record has none."""
    entries = (one for one in draft.entries if (one.type, one.subject) == ("message.sent", agent))
    return next((one.data for one in entries if one.data.get("key") == key), None)


OF_THE_TURN: Final = frozenset({"turn", "text", "usage", "note", "calls"})
"""Fields of a recorded reply that do not come from the decider's data."""


class RecordedDeciders:
    """Answers for deciders from their recorded replies, when the record is next in the log. Starts nothing."""

    def __init__(self, director: ReplayScheduler, is_alive: Callable[[], bool]) -> None:
        self._director = director
        self._is_alive = is_alive

    async def reply(self, seen: ObservedAgent) -> DeciderReply:
        """Return the recorded reply of the agent's decider in this turn."""
        director, agent = self._director, seen.resource.address
        index = director.story.next(director.cursor, lambda draft: entry(draft, "model.replied", agent) is not None)
        if index is not None and self._is_asked_between(agent, index):
            director.give_up(f"{agent} got several requests for one reply, and the log has only the last reply")
        if not await director.due(index, self._is_alive) or index is None:
            await wait_until_replay_ends()
        return _reply_of(director, director.story.records[index].draft, agent)

    def _is_asked_between(self, agent: str, index: int) -> bool:
        """Return whether the reply at `index` answers a later request, because a mixin repeated it."""
        records = self._director.story.records[self._director.cursor : index]
        return any(entry(one.draft, "model.requested", agent) is not None for one in records)


def _reply_of(director: ReplayScheduler, draft: RecordDraft, agent: str) -> DeciderReply:
    said = entry(draft, "model.replied", agent)
    assert said is not None, "looked for before"
    merge, ours = status_in(draft, agent), director.likeness.ours
    # Only these fields: the ids of the calls are minted by the replay.
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
"""Of every pool. A job that waits for its place in the log must not take the slot of the next one."""


LONGEST_RETRY_S: Final = 1e6
"""Virtual seconds. A writer that keeps losing races waits for its place in the log, and is retried at each step."""


class ReplayClock:
    """The time of the log. Sleeping uses the virtual event loop."""

    def __init__(self, director: ReplayScheduler) -> None:
        self._director = director

    def now(self) -> float:
        return self._director.now()

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


class ReplayPools(WorkPools):
    """Pools without a practical limit, whose jobs know when they were started."""

    def __init__(self, queue: AddressQueue, director: ReplayScheduler) -> None:
        super().__init__(queue, {"tools": SLOTS, "minds": SLOTS, "models": SLOTS})
        self._director = director

    def start(self, key: str, owner: str, job: Callable[[], Awaitable[None]], *, pool: str, priority: int = 0) -> None:
        bounded = "free" if pool.startswith("models") else pool
        super().start(key, owner, self._director.begun_at(job), pool=bounded, priority=priority)

    def cancel(self, key: str) -> None:
        """Cancel the job, unless it is a request that was answered before it could be cancelled in the original.

        In a replay, answers wait for their place in the log, so controllers check more often whether to cancel.
        """
        job, director = self._jobs.get(key), self._director
        asked = job if key.startswith(f"{DECIDER_JOB}:") else None
        if asked is None or not director.story.is_answered(asked.owner, director.cursor):
            super().cancel(key)


class TimedReconciler:
    """A reconciler whose steps and jobs have the time of the next record."""

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
    """Ids that are the same in every replay, and unlikely to equal a random one."""

    def __init__(self) -> None:
        self._given = 0

    def mint(self) -> str:
        self._given += 1
        return f"f{self._given:011x}"


@frozen
class ReplaySetup:
    """The inputs of a replay: the plan's paths, the compiler, the models of a plan document, and simulated worlds.

    The models only provide prices and sizes, never a reply. Simulated worlds are called again with their current files.
    """

    place: PlanPaths
    language: PlanLanguage
    models: Callable[[Callable[[], JsonObject]], ModelClient]
    worlds: Worlds


@frozen
class ReplayParts:
    """The parts of one owner in a replay."""

    store: OwnerStoreView
    gate: PlanGate
    queue: AddressQueue
    engine: Engine


def build_replay(director: ReplayScheduler, store: OwnerStoreView, stand: ReplaySetup, ids: Ids) -> ReplayParts:
    """Build an owner that starts at the current place in the log."""
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

    services = AgentServices(
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
        AgentReconciler(services, recorded_effects.recorded_tools(director, BUILT_IN_TOOLS, store.is_alive)),
        ConflictReconciler(store, clock, gate),
        LockReconciler(store, clock, work),
        HookReconciler(store, clock),
        PlanReconciler(store, language.check, clock=clock, ids=ids, work=work),
    ]
    return [TimedReconciler(director, one) for one in made]
