"""Observe one agent: everything that a decision about it is made from, read from the view once and frozen.

Parsing a spec costs more than deciding does, so parsed specs are kept by object identity in `SpecCache`, a bounded
cache.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Final, Generic, TypeVar

from planloop.controllers.agent import budget
from planloop.controllers.agent import status as statuses
from planloop.controllers.agent.budget import AgentCap
from planloop.controllers.agent.deciders.port import ChildView, DeciderTraits, traits_of
from planloop.controllers.agent.hooks import watchers
from planloop.controllers.agent.status import AgentStatus
from planloop.controllers.shared.ledger import ledger_chain
from planloop.reconciler.engine.work_pools import WorkPlane
from planloop.reconciler.store.store import View
from planloop.schemas import limits
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen, remade
from planloop.schemas.objects import plan as objects_plan
from planloop.schemas.objects.agent import AgentSpec, CliAgentSpec, ModelDeciderSpec, agent_from_json
from planloop.schemas.objects.approval import WAITING
from planloop.schemas.objects.fork import IN_USE, MOVING, fork_request, fork_status_from_json
from planloop.schemas.objects.hook import HookSpec, expiry_reason, hook_from_json
from planloop.schemas.objects.mcp import ServedPrompt, find_served_prompt
from planloop.schemas.objects.message import Message
from planloop.schemas.objects.model import models_digest
from planloop.schemas.objects.task import ENDED, TaskSpec, TaskState, is_task_over, task_from_json
from planloop.schemas.resource import Resource

T = TypeVar("T")


class ParsedSpecs(Generic[T]):
    """Parses a spec once: the fold keeps the same dict until the spec changes."""

    def __init__(self, parse: Callable[[JsonObject], T]) -> None:
        self._parse = parse
        self._kept: dict[str, tuple[JsonObject, T]] = {}

    def of(self, resource: Resource) -> T:
        kept = self._kept.get(resource.address)
        if kept is not None and kept[0] is resource.spec:
            return kept[1]
        if len(self._kept) >= limits.SPECS_KEPT_MAX:
            self._kept.clear()
        value = self._parse(resource.spec)
        self._kept[resource.address] = (resource.spec, value)
        return value


@frozen
class ObservedChild:
    """A child task of this agent's task. `is_live` says that it may still come to an end by itself.

    `token` names its ending: another run of the child that ends the same way is news again.
    """

    view: ChildView
    is_ended: bool
    is_live: bool
    token: str

    @property
    def address(self) -> str:
        return self.view.task

    @property
    def state(self) -> str:
        return self.view.state


class ChildCache:
    """Child tasks as their parents see them, each read once for each change of it."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[Resource, ObservedChild]] = {}

    def of(self, view: View, addresses: Sequence[str]) -> tuple[ObservedChild, ...]:
        """Those of `addresses` that are there, in the same order."""
        if len(self._kept) > limits.SPECS_KEPT_MAX + len(addresses):
            self._kept.clear()
        found = (view.get(address) for address in addresses)
        return tuple(self._of(resource) for resource in found if resource is not None)

    def _of(self, resource: Resource) -> ObservedChild:
        kept = self._kept.get(resource.address)
        if kept is not None and kept[0] is resource:
            return kept[1]
        child = observed_child(resource)
        self._kept[resource.address] = (resource, child)
        return child


class StatusCache:
    """Statuses of agents, parsed as far as they changed since the last look: the fold keeps what it leaves alone."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[JsonObject, AgentStatus]] = {}

    def of(self, resource: Resource) -> AgentStatus:
        kept = self._kept.get(resource.uid)
        if kept is not None and kept[0] is resource.status:
            return kept[1]
        if len(self._kept) >= limits.STATUSES_KEPT_MAX:
            self._kept.clear()
        status = statuses.read_agent_status(resource.status, kept)
        self._kept[resource.uid] = (resource.status, status)
        return status

    def forget(self, uid: str) -> None:
        """The agent rests: what is asleep is rows in the store."""
        self._kept.pop(uid, None)


@frozen
class SpecCache:
    """The parsed specs of agents, tasks, hooks and the plan's models, the statuses of agents, the children of tasks."""

    agents: ParsedSpecs[AgentSpec] = field(default_factory=lambda: ParsedSpecs(agent_from_json))
    tasks: ParsedSpecs[TaskSpec] = field(default_factory=lambda: ParsedSpecs(task_from_json))
    hooks: ParsedSpecs[HookSpec] = field(default_factory=lambda: ParsedSpecs(hook_from_json))
    tables: ParsedSpecs[str] = field(default_factory=lambda: ParsedSpecs(models_digest))
    children: ChildCache = field(default_factory=ChildCache)
    statuses: StatusCache = field(default_factory=StatusCache)


@frozen
class ObservedAgent:
    """One agent and what bears on it. `live` are the keys of its jobs, `left` what budgets leave it by unit.

    `calls`, `approvals` and `threads` are the objects that it owns, by address; `plan_rev` is the revision of this
    view; `servers` are the tool servers that it may use, `containers` those that its task works with; `unanswerable`
    are its requests that nobody is left to answer;
    `table` tells one table of models of the plan from another; `purse` are its task and those above it that have a
    ledger, nearest first, and `caps` what bounds it by itself;
    `hooks` are those that watch it and are not over, by name, the outermost first; `hook` is the one that the agent
    itself was made for, None once that is over; `is_engaged`: it talks with a person, or listens to who does, and ends
    by `done` only; `is_judge`: it has a conflict to rule on.
    """

    resource: Resource
    spec: AgentSpec
    status: AgentStatus
    task: Resource | None
    task_spec: TaskSpec | None
    children: tuple[ObservedChild, ...]
    calls: Mapping[str, Resource]
    approvals: Mapping[str, Resource]
    live: frozenset[str]
    now: float
    left: Mapping[str, float]
    plan_rev: int = 0
    threads: Mapping[str, Resource] = field(default_factory=dict)
    unanswerable: frozenset[str] = frozenset()
    servers: tuple[Resource, ...] = ()
    containers: tuple[Resource, ...] = ()
    table: str = ""
    purse: tuple[Resource, ...] = ()
    caps: tuple[AgentCap, ...] = ()
    fork: Resource | None = None
    hooks: Mapping[str, tuple[Resource, HookSpec]] = field(default_factory=dict)
    hook: Resource | None = None
    is_engaged: bool = False
    is_judge: bool = False

    @property
    def is_moving(self) -> bool:
        """Whether git is at work in the fork that it works in: it begins nothing meanwhile."""
        return self.fork is not None and fork_status_from_json(self.fork.status).state in MOVING

    @property
    def is_to_move(self) -> bool:
        """Whether its task was given a fork that is not there yet: its next turn is taken in that."""
        if self.fork is None or self.task is None or fork_status_from_json(self.fork.status).state in IN_USE:
            return False
        return fork_request(self.task.status).wish == "made"

    @property
    def is_watcher(self) -> bool:
        """Whether it was made for a hook: it has no task of its own, and nothing wakes it but what it is asked."""
        return bool(self.spec.watches)

    @property
    def hands_over(self) -> bool:
        """Whether it gets a last turn when its budget is used up: whoever thinks and has a task to hand over."""
        return self.nature.is_model and not self.is_watcher

    @property
    def nature(self) -> DeciderTraits:
        """What its mind is like."""
        return traits_of(self.spec.mind)

    @property
    def go(self) -> int | None:
        return None if self.task is None else self.task.status.get("go")

    @property
    def is_wanted(self) -> bool:
        """Whether what it does is still wanted: its incarnation is the one that is to go, or it answers a question.

        What runs when its task is paused comes to its end and is used when it goes on.
        """
        if self.resource.deleting or self.task is None:
            return False
        if self.is_watcher:
            return self.task.status.get("incarnation") == self.status.incarnation and self.hook is not None
        opened = self.status.open
        if opened is not None and opened.is_answer:
            return self.is_over
        is_paused = self.go is None and self.task_state == TaskState.PAUSED
        wanted = self.task.status.get("incarnation") if is_paused else self.go
        return wanted is not None and wanted == self.status.incarnation

    @property
    def is_over(self) -> bool:
        """Whether its task has come to its end by itself, so that it can be asked but not set to work."""
        return self.task is not None and is_task_over(self.task.status)

    @property
    def interrupts(self) -> tuple[Message, ...]:
        """Unread messages that are to stop the step in flight."""
        if not self.status.inbox:
            return ()
        return tuple(message for message in self.unread if message.delivery == "interrupt")

    @property
    def unread(self) -> tuple[Message, ...]:
        """What is to be read, oldest first: expired messages and those for an earlier run are not."""
        if not self.status.inbox:
            return ()
        incarnation = self.status.incarnation
        found = (each for each in self.status.inbox.values() if not each.is_void(self.now, incarnation))
        return tuple(sorted(found, key=lambda message: (message.sent_at, message.seq, message.id)))

    @property
    def task_state(self) -> str:
        return "" if self.task is None else self.task.state

    @property
    def verdict(self) -> JsonObject | None:
        verdict = None if self.task is None else self.task.status.get("verdict")
        return verdict if isinstance(verdict, dict) else None


def served_prompt_of(seen: ObservedAgent, name: str) -> ServedPrompt:
    """The prompt `server/name` of a server as its status has it; empty when it is not known."""
    server, _, prompt = name.partition("/")
    found = next((each for each in seen.servers if each.address == f"mcp/{server}"), None)
    return (None if found is None else find_served_prompt(found.status, prompt)) or ServedPrompt()


def agent_instructions(seen: ObservedAgent) -> str:
    """Its whole prompt: what servers give it first, then the plan's own words."""
    served = (served_prompt_of(seen, name).text for name in seen.spec.served_prompts)
    return "\n\n".join(text for text in (*served, seen.spec.prompt) if text)


def observe_agent(
    resource: Resource, view: View, work: WorkPlane, specs: SpecCache, now: float, plan: str
) -> ObservedAgent:
    """What is known of the agent `resource` of the plan at the address `plan` at this moment."""
    spec = specs.agents.of(resource)
    task = view.get(spec.task)
    task_spec = specs.tasks.of(task) if task is not None else None
    status = specs.statuses.of(resource)
    kinds = _owned(view, resource.address)
    caps = tuple(budget.caps_of_agent(spec, status))
    return ObservedAgent(
        resource=resource,
        spec=spec,
        status=status,
        task=task,
        task_spec=task_spec,
        children=() if task_spec is None or spec.watches else specs.children.of(view, task_spec.children),
        calls=kinds["call"],
        approvals=kinds["approval"],
        threads=kinds["thread"],
        is_judge=bool(kinds["conflict"]),
        unanswerable=frozenset(one.address for one in kinds["approval"].values() if _is_unanswerable(view, one)),
        live=frozenset(work.live_for(resource.address)),
        now=now,
        left=_left(view, spec, status, caps),
        purse=tuple(ledger_chain(view, spec.task)),
        caps=caps,
        plan_rev=view.rev,
        fork=None if task_spec is None or not task_spec.fork else view.get(task_spec.fork),
        servers=tuple(one for ref in resource.refs if ref.startswith("mcp/") and (one := view.get(ref)) is not None),
        containers=() if task_spec is None or spec.watches else _all(view, task_spec.containers),
        table="" if (document := view.get(plan)) is None else specs.tables.of(document),
        hooks=_hooks(spec, status, view, specs) if spec.hooks else NO_HOOKS,
        hook=watchers.hook_of(view, resource.address, spec),
        is_engaged=_is_engaged(view, resource.address, spec, plan),
    )


def _all(view: View, names: Sequence[str]) -> tuple[Resource, ...]:
    return tuple(one for name in names if (one := view.get(name)) is not None)


NO_HOOKS: Final[Mapping[str, tuple[Resource, HookSpec]]] = {}


def _hooks(
    spec: AgentSpec, status: AgentStatus, view: View, specs: SpecCache
) -> Mapping[str, tuple[Resource, HookSpec]]:
    found = (each for address in spec.hooks if (each := view.get(address)) is not None)
    live = [(each, specs.hooks.of(each)) for each in found if not watchers.is_hook_over(view, each)]
    # Turns may follow each other faster than its controller looks; times are its business alone.
    ended = status.turn - (status.open is not None)
    return {made.name: (each, made) for each, made in live if not expiry_reason(made.expires, each.status, ended, 0.0)}


def _is_engaged(view: View, address: str, spec: AgentSpec, plan: str) -> bool:
    """Whether the session is with the agent or one that it listens to: what it says then does not end its task."""
    document = view.get(plan) if isinstance(spec.mind, ModelDeciderSpec | CliAgentSpec) and not spec.watches else None
    primary = "" if document is None else objects_plan.primary_agent(document.status)
    return bool(primary) and (primary == address or watchers.is_listening(view, address, primary))


def observe_again(seen: ObservedAgent, view: View, specs: SpecCache, plan: str) -> ObservedAgent | None:
    """The agent after steps of its own: what bears on it from outside is as it was. None when it is gone."""
    resource = view.get(seen.resource.address)
    if resource is None:
        return None
    kinds, status = _owned(view, resource.address), specs.statuses.of(resource)
    caps = tuple(budget.caps_of_agent(seen.spec, status)) if seen.caps or status.escalated else ()
    return remade(
        seen,
        resource=resource,
        status=status,
        task=view.get(seen.spec.task),
        calls=kinds["call"],
        approvals=kinds["approval"],
        threads=kinds["thread"],
        is_judge=bool(kinds["conflict"]),
        unanswerable=frozenset(one.address for one in kinds["approval"].values() if _is_unanswerable(view, one)),
        left=_left(view, seen.spec, status, caps) if seen.left or caps else seen.left,
        purse=tuple(ledger_chain(view, seen.spec.task)) if seen.purse else (),
        caps=caps,
        plan_rev=view.rev,
        fork=None if seen.fork is None else view.get(seen.fork.address),
        hooks=_hooks(seen.spec, status, view, specs) if seen.spec.hooks else NO_HOOKS,
        hook=watchers.hook_of(view, resource.address, seen.spec),
        is_engaged=_is_engaged(view, resource.address, seen.spec, plan),
    )


def _left(view: View, spec: AgentSpec, status: AgentStatus, caps: Sequence[AgentCap]) -> Mapping[str, float]:
    """What budgets leave it by unit: those of its task and above, its own caps, and its budget where it has no task."""
    left = budget.cap_left(budget.left_of_task(view, spec.task), caps)
    return watchers.left_for_watcher(left, spec.budget, status.used) if spec.watches else left


def _owned(view: View, address: str) -> dict[str, dict[str, Resource]]:
    """The calls, approvals and threads of an agent, by kind and address."""
    kinds: dict[str, dict[str, Resource]] = {"call": {}, "approval": {}, "thread": {}, "conflict": {}}
    for each in view.owned_by(address):
        of_kind = kinds.get(each.kind)
        if of_kind is not None:
            of_kind[each.address] = each
    return kinds


def _is_unanswerable(view: View, approval: Resource) -> bool:
    """Whether a request waits for an agent that takes no turns any more."""
    if approval.kind != "approval" or approval.spec["kind"] != "request" or approval.state != WAITING:
        return False
    of = str(approval.spec["what"].get("of", ""))
    agent = view.get(of) if of.startswith("agent/") else None
    task = None if agent is None else view.get(str(agent.spec["task"]))
    return of.startswith("agent/") and (agent is None or agent.deleting or task is None or task.state in ENDED)


def observed_child(resource: Resource) -> ObservedChild:
    """A child task as its parent sees it."""
    status, state = resource.status, resource.state
    is_ended = state in ENDED
    return ObservedChild(
        view=ChildView(
            task=resource.address,
            state=state,
            goal=str(resource.spec.get("goal", "")),
            result=status.get("result"),
            message=str((status.get("conditions", {}).get("Ready") or {}).get("message", "")),
            is_removing=resource.deleting,
        ),
        is_ended=is_ended,
        is_live=not is_ended and not resource.deleting,
        token=f"{resource.uid}:{status.get('incarnation', 0)}:{state}",
    )
