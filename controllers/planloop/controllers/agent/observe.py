"""Observe one agent: read everything that a decision about it needs from the view, once, as a frozen value.

Parsing a spec costs more than deciding, so `SpecCache` keeps parsed specs by object identity, up to a limit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Final, Generic, TypeVar

from planloop.controllers.agent import status as statuses
from planloop.controllers.agent.budget import NO_BUDGET, AgentBudget, observe_budget
from planloop.controllers.agent.deciders.port import ChildView, DeciderTraits, traits_of
from planloop.controllers.agent.hooks import watchers
from planloop.controllers.agent.status import AgentStatus, OpenTurn
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
    """Parses each spec once: the fold keeps the same dict until the spec changes."""

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
    """A child task of the agent's task. `is_live`: it has not ended and is not being removed.

    `token` identifies its end: the end of another incarnation is news again, even in the same state.
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
        """The children at `addresses` that exist, in the same order."""
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
    """Parsed statuses of agents. Only members that changed since the last observation are parsed again."""

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
        """Forget the status of an agent that rests: a sleeping agent takes no memory."""
        self._kept.pop(uid, None)


@frozen
class SpecCache:
    """Caches of parsed specs (agents, tasks, hooks, the plan's models), statuses of agents, and children of tasks."""

    agents: ParsedSpecs[AgentSpec] = field(default_factory=lambda: ParsedSpecs(agent_from_json))
    tasks: ParsedSpecs[TaskSpec] = field(default_factory=lambda: ParsedSpecs(task_from_json))
    hooks: ParsedSpecs[HookSpec] = field(default_factory=lambda: ParsedSpecs(hook_from_json))
    tables: ParsedSpecs[str] = field(default_factory=lambda: ParsedSpecs(models_digest))
    children: ChildCache = field(default_factory=ChildCache)
    statuses: StatusCache = field(default_factory=StatusCache)


@frozen
class TurnObjects:
    """The objects that an agent owns, by address, and `jobs`, the keys of the jobs that run for it.

    `unanswerable` are its requests to agents that take no more turns; `is_judge`: it has a conflict to resolve.
    """

    calls: Mapping[str, Resource] = field(default_factory=dict)
    approvals: Mapping[str, Resource] = field(default_factory=dict)
    threads: Mapping[str, Resource] = field(default_factory=dict)
    unanswerable: frozenset[str] = frozenset()
    jobs: frozenset[str] = frozenset()
    is_judge: bool = False


@frozen
class HookContext:
    """`watching` are the live hooks that watch the agent, by name, the outermost first.

    `works_for` is the hook that the agent was created for; None for other agents, and once that hook is over.
    `is_engaged`: the agent talks with an operator, or watches an agent that does, and ends its task only by `done`.
    """

    watching: Mapping[str, tuple[Resource, HookSpec]] = field(default_factory=dict)
    works_for: Resource | None = None
    is_engaged: bool = False


@frozen
class TaskContext:
    """The child tasks and containers of the agent's task, the tool servers of the agent, and the fork of the task.

    `models_digest` changes with the table of models in the plan.
    """

    children: tuple[ObservedChild, ...] = ()
    containers: tuple[Resource, ...] = ()
    servers: tuple[Resource, ...] = ()
    fork: Resource | None = None
    models_digest: str = ""


@frozen
class ObservedAgent:
    """One agent with all that a decision about it reads. `plan_rev` is the revision of the view that was read."""

    resource: Resource
    spec: AgentSpec
    status: AgentStatus
    task: Resource | None
    task_spec: TaskSpec | None
    now: float
    plan_rev: int = 0
    budget: AgentBudget = NO_BUDGET
    objects: TurnObjects = TurnObjects()
    hooks: HookContext = HookContext()
    context: TaskContext = TaskContext()

    @property
    def opened(self) -> OpenTurn:
        """The open turn. The agent must have one."""
        assert self.status.open is not None, "only called inside a turn"
        return self.status.open

    @property
    def is_moving(self) -> bool:
        """Whether git is changing the agent's fork: the agent starts nothing until git has finished."""
        return self.context.fork is not None and fork_status_from_json(self.context.fork.status).state in MOVING

    @property
    def is_to_move(self) -> bool:
        """Whether the fork of its task is requested and not ready, so that the next turn waits for it."""
        if (
            self.context.fork is None
            or self.task is None
            or fork_status_from_json(self.context.fork.status).state in IN_USE
        ):
            return False
        return fork_request(self.task.status).wish == "made"

    @property
    def is_watcher(self) -> bool:
        """Whether it works for a hook: it has no task of its own, and only questions wake it."""
        return bool(self.spec.watches)

    @property
    def hands_over(self) -> bool:
        """Whether it gets a last turn when its budget is used up: only models that have a task do."""
        return self.nature.is_model and not self.is_watcher

    @property
    def nature(self) -> DeciderTraits:
        """The traits of its decider."""
        return traits_of(self.spec.mind)

    @property
    def wanted_incarnation(self) -> int | None:
        """The incarnation that the task wants its agent to run (`go` in its status); None if it is not to run."""
        return None if self.task is None else self.task.status.get("go")

    @property
    def is_wanted(self) -> bool:
        """Whether results of its work still count: its incarnation is the current one, or it answers a question.

        Jobs that run when the task is paused finish, and their results are used when the task resumes.
        """
        if self.resource.deleting or self.task is None:
            return False
        if self.is_watcher:
            return self.task.status.get("incarnation") == self.status.incarnation and self.hooks.works_for is not None
        opened = self.status.open
        if opened is not None and opened.is_answer:
            return self.is_over
        is_paused = self.wanted_incarnation is None and self.task_state == TaskState.PAUSED
        wanted = self.task.status.get("incarnation") if is_paused else self.wanted_incarnation
        return wanted is not None and wanted == self.status.incarnation

    @property
    def is_over(self) -> bool:
        """Whether its task is over: the agent answers questions but does no more work."""
        return self.task is not None and is_task_over(self.task.status)

    @property
    def interrupts(self) -> tuple[Message, ...]:
        """Unread messages that stop the step in flight."""
        if not self.status.mail.inbox:
            return ()
        return tuple(message for message in self.unread if message.delivery == "interrupt")

    @property
    def unread(self) -> tuple[Message, ...]:
        """Unread messages, oldest first, without expired ones and those for an earlier run."""
        if not self.status.mail.inbox:
            return ()
        incarnation = self.status.incarnation
        found = (each for each in self.status.mail.inbox.values() if not each.is_void(self.now, incarnation))
        return tuple(sorted(found, key=lambda message: (message.sent_at, message.seq, message.id)))

    @property
    def task_state(self) -> str:
        return "" if self.task is None else self.task.state

    @property
    def verdict(self) -> JsonObject | None:
        verdict = None if self.task is None else self.task.status.get("verdict")
        return verdict if isinstance(verdict, dict) else None


def served_prompt_of(agent: ObservedAgent, name: str) -> ServedPrompt:
    """The prompt `server/name` from the status of its server; empty if it is not known."""
    server, _, prompt = name.partition("/")
    found = next((each for each in agent.context.servers if each.address == f"mcp/{server}"), None)
    return (None if found is None else find_served_prompt(found.status, prompt)) or ServedPrompt()


def agent_instructions(agent: ObservedAgent) -> str:
    """The agent's instructions: the prompts from its tool servers, then the prompt in the plan."""
    served = (served_prompt_of(agent, name).text for name in agent.spec.served_prompts)
    return "\n\n".join(text for text in (*served, agent.spec.prompt) if text)


def observe_agent(
    resource: Resource, view: View, work: WorkPlane, specs: SpecCache, now: float, plan: str
) -> ObservedAgent:
    """Observe the agent `resource` of the plan at the address `plan`."""
    spec = specs.agents.of(resource)
    task = view.get(spec.task)
    status = specs.statuses.of(resource)
    task_spec = specs.tasks.of(task) if task is not None else None
    return ObservedAgent(
        resource=resource,
        spec=spec,
        status=status,
        task=task,
        task_spec=task_spec,
        now=now,
        plan_rev=view.rev,
        budget=observe_budget(view, spec, status),
        objects=_turn_objects(view, resource.address, frozenset(work.live_for(resource.address))),
        hooks=_hook_context(view, resource.address, spec, status, specs, plan),
        context=_task_context(view, resource, spec, task_spec, specs, plan),
    )


def observe_again(agent: ObservedAgent, view: View, specs: SpecCache, plan: str) -> ObservedAgent | None:
    """Observe an agent again after its own steps. Objects that it does not write are not read again.

    None if the agent was removed.
    """
    address, fork = agent.resource.address, agent.context.fork
    resource = view.get(address)
    if resource is None:
        return None
    status = specs.statuses.of(resource)
    return remade(
        agent,
        resource=resource,
        status=status,
        task=view.get(agent.spec.task),
        plan_rev=view.rev,
        budget=observe_budget(view, agent.spec, status, agent.budget),
        objects=_turn_objects(view, address, agent.objects.jobs),
        hooks=_hook_context(view, address, agent.spec, status, specs, plan),
        context=agent.context if fork is None else remade(agent.context, fork=view.get(fork.address)),
    )


def without_jobs(agent: ObservedAgent, keys: frozenset[str]) -> ObservedAgent:
    """The agent as if the jobs with these keys had ended."""
    jobs = agent.objects.jobs - keys
    return agent if jobs == agent.objects.jobs else remade(agent, objects=remade(agent.objects, jobs=jobs))


def _turn_objects(view: View, address: str, jobs: frozenset[str]) -> TurnObjects:
    kinds = _owned(view, address)
    unanswerable = frozenset(one.address for one in kinds["approval"].values() if _is_unanswerable(view, one))
    return TurnObjects(
        kinds["call"], kinds["approval"], kinds["thread"], unanswerable, jobs, is_judge=bool(kinds["conflict"])
    )


def _hook_context(
    view: View, address: str, spec: AgentSpec, status: AgentStatus, specs: SpecCache, plan: str
) -> HookContext:
    watching = _hooks(spec, status, view, specs) if spec.hooks else NO_HOOKS
    return HookContext(watching, watchers.hook_of(view, address, spec), _is_engaged(view, address, spec, plan))


def _task_context(
    view: View, agent: Resource, spec: AgentSpec, task: TaskSpec | None, specs: SpecCache, plan: str
) -> TaskContext:
    document = view.get(plan)
    is_worker = task is not None and not spec.watches
    return TaskContext(
        children=specs.children.of(view, task.children) if task is not None and is_worker else (),
        containers=_all(view, task.containers) if task is not None and is_worker else (),
        servers=_all(view, [ref for ref in agent.refs if ref.startswith("mcp/")]),
        fork=view.get(task.fork) if task is not None and task.fork else None,
        models_digest="" if document is None else specs.tables.of(document),
    )


def _all(view: View, names: Sequence[str]) -> tuple[Resource, ...]:
    return tuple(one for name in names if (one := view.get(name)) is not None)


NO_HOOKS: Final[Mapping[str, tuple[Resource, HookSpec]]] = {}


def _hooks(
    spec: AgentSpec, status: AgentStatus, view: View, specs: SpecCache
) -> Mapping[str, tuple[Resource, HookSpec]]:
    found = (each for address in spec.hooks if (each := view.get(address)) is not None)
    live = [(each, specs.hooks.of(each)) for each in found if not watchers.is_hook_over(view, each)]
    # Turns may follow each other faster than the hook controller runs, so the limit of turns is checked here too.
    # That controller alone checks the limit of time.
    ended = status.turn - (status.open is not None)
    return {made.name: (each, made) for each, made in live if not expiry_reason(made.expires, each.status, ended, 0.0)}


def _is_engaged(view: View, address: str, spec: AgentSpec, plan: str) -> bool:
    """Whether the session is with the agent or one that it watches: a final answer then does not end its task."""
    document = view.get(plan) if isinstance(spec.mind, ModelDeciderSpec | CliAgentSpec) and not spec.watches else None
    primary = "" if document is None else objects_plan.primary_agent(document.status)
    return bool(primary) and (primary == address or watchers.is_listening(view, address, primary))


def _owned(view: View, address: str) -> dict[str, dict[str, Resource]]:
    """The calls, approvals, threads and conflicts of an agent, by kind and address."""
    kinds: dict[str, dict[str, Resource]] = {"call": {}, "approval": {}, "thread": {}, "conflict": {}}
    for each in view.owned_by(address):
        of_kind = kinds.get(each.kind)
        if of_kind is not None:
            of_kind[each.address] = each
    return kinds


def _is_unanswerable(view: View, approval: Resource) -> bool:
    """Whether a request waits for an agent that takes no more turns."""
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
