"""Bind hooks to agents: one object per hook and agent, and the agents made for hooks.

A hook watches the agents at the place where it is set; those below them get copies, as the hook says. The order is
that of the places, from the root down. A hook has the rights of its place, not those of the watched agent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from typing import Final

from planloop.compiler.lower.agents import AgentChoice, AgentSpecBuilder
from planloop.compiler.lower.hooks import HookResolver, ResolvedHook
from planloop.compiler.names import did_you_mean
from planloop.compiler.problems import Problems
from planloop.compiler.resolve.needs import TaskPath
from planloop.schemas import json_pointer, limits
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen, mutable
from planloop.schemas.objects.agent import AgentSpec
from planloop.schemas.objects.hook import (
    ABOUT_CALLS,
    Expiry,
    HookAgent,
    HookDeciderSpec,
    HookSpec,
    hook_address,
    hook_agent_address,
)
from planloop.schemas.resource import WantedObject
from planloop.schemas.rights import Rights

BY_AGENT: Final = 0
BY_TASK: Final = 1


@frozen
class HookScope:
    """A task where hooks are set: its rights, and the choice that it made where it has an agent."""

    path: TaskPath
    rights: Rights
    choice: AgentChoice
    has_agent: bool


@frozen
class InheritedHook:
    """A hook on its way down the tree, with the place where it is `set_at`: an address.

    `rank` orders places: depth, whether the agent or the task there has it, and which of them. `original` is the first
    object made of it, `asked` that one's agent; both are empty until there is an agent to watch. `is_inner`: it watches
    an agent that is a hook itself, and is asked about that one's calls only.
    """

    hook: ResolvedHook
    home: HookScope
    set_at: str
    rank: tuple[int, int, int]
    is_root: bool = False
    original: str = ""
    asked: str = ""
    is_inner: bool = False

    @property
    def concerns_calls(self) -> bool:
        return any(point in ABOUT_CALLS for point in self.hook.fields["on"])

    @property
    def copy(self) -> str:
        return str(self.hook.fields.get("copy", "same"))


@frozen
class MadeHookAgent:
    """An agent made for the hook at `hook`."""

    spec: AgentSpec
    choice: AgentChoice
    hook: str


@mutable
class HookBindings:
    """Makes the objects of hooks. `made` holds every hook object by address with what it was made from."""

    hooks: HookResolver
    making: AgentSpecBuilder
    made: dict[str, ResolvedHook] = field(default_factory=dict)
    agents: dict[str, MadeHookAgent] = field(default_factory=dict)

    @classmethod
    def of(cls, making: AgentSpecBuilder) -> HookBindings:
        """Bindings for the plan whose agents `making` makes."""
        return cls(HookResolver(making.agents.shelves, making.agents, making.faults), making)

    @staticmethod
    def scope(path: TaskPath, rights: Rights, choice: AgentChoice, *, has_agent: bool) -> HookScope:
        """See `HookScope`."""
        return HookScope(path, rights, choice, has_agent)

    def inherited(self, above: Sequence[InheritedHook], task: JsonObject, home: HookScope) -> tuple[InheritedHook, ...]:
        """What watches the agents at and below a task: what comes from above, then what is set here, each once."""
        return tuple(_once((*above, *self.set_at(task, home))))

    def set_at(self, task: JsonObject, home: HookScope) -> tuple[InheritedHook, ...]:
        """The hooks of a task and those that its own agent names; the plan's own are first."""
        to = json_pointer.task_pointer(home.path)
        named = home.choice.resolved.fields.get("hooks", ()) if home.has_agent else ()
        if not named and "hooks" not in task:
            return ()
        path, depth = "/".join(home.path) or ".", len(home.path)
        by_task = [
            InheritedHook(hook, home, f"task/{path}", (depth, BY_TASK, index), is_root=not home.path)
            for index, hook in enumerate(self.hooks.declared(task.get("hooks", {}), to))
        ]
        by_agent = [
            InheritedHook(hook, home, f"agent/{path}", (depth, BY_AGENT, index))
            for index, hook in enumerate(self.hooks.named(list(named), home.choice.resolved.at or home.choice.to))
        ]
        return (*by_agent, *by_task) if home.path else (*by_task, *by_agent)

    def watch(
        self, agent: str, task: str, carried: Sequence[InheritedHook]
    ) -> tuple[list[WantedObject], tuple[InheritedHook, ...]]:
        """The hooks of the agent at `agent`, whose task is at `task`, and what the agents below it are watched by."""
        found: list[WantedObject] = []
        below: list[InheritedHook] = []
        thinking: list[tuple[InheritedHook, tuple[str, str], HookSpec]] = []
        names: set[str] = set()
        if len(carried) > limits.HOOKS_MAX:
            summary = f"{len(carried)} hooks watch {agent}; the limit is {limits.HOOKS_MAX}"
            self.making.faults.add("P0224", summary, "combine some of them into one hook", to=carried[-1].hook.to)
        for one in carried:
            if one.hook.existing == agent:
                below.append(one)  # An agent is not its own hook; it watches its descendants.
                continue
            name = _free(one.hook.name, names)
            names.add(name)
            spec = self._spec(one, agent, name)
            address = hook_address(agent, name)
            asked = spec.mind.address if isinstance(spec.mind, HookAgent) else ""
            if asked == hook_agent_address(agent, name):
                thinking.append((one, (asked, address), spec))
            found.append(self._object(address, spec, one, task))
            if one.copy != "none":
                below.append(one if one.original else replace(one, original=address, asked=asked))
        for one, at, spec in thinking:
            found += self._agent(one, at, spec, [each for each in below if each.rank < one.rank])
        return found, tuple(below)

    def _spec(self, one: InheritedHook, agent: str, name: str) -> HookSpec:
        fields, is_copy = one.hook.fields, bool(one.original)
        is_read_only = is_copy and one.copy == "read-only"
        expires: JsonObject = {} if is_read_only else fields.get("expires", {})
        return HookSpec(
            name=name,
            watches=agent,
            on=tuple(point for point in fields["on"] if not one.is_inner or point in ABOUT_CALLS),
            mind=self._mind(one, agent, name, is_read_only=is_read_only),
            match=fields.get("match", ""),
            original=one.original,
            is_root=one.is_root,
            is_read_only=is_read_only,
            copy=fields.get("copy", "same"),
            expires=Expiry(
                expires.get("turns"), expires.get("time"), expires.get("when", {}), expires.get("approved", False)
            ),
            on_fault=fields.get("on-fault"),
            timeout_s=fields.get("timeout"),
            options=one.hook.options,
            set_at=one.set_at,
            first=tuple(fields.get("first", ())),
            transcript=fields.get("transcript"),
            stated_as="" if name == one.hook.name else one.hook.name,
        )

    def _mind(self, one: InheritedHook, agent: str, name: str, *, is_read_only: bool) -> HookDeciderSpec:
        if one.hook.mind is not None:
            return one.hook.mind
        if one.hook.existing:
            return HookAgent(one.hook.existing)
        return HookAgent(one.asked if is_read_only else hook_agent_address(agent, name))

    def _object(self, address: str, spec: HookSpec, one: InheritedHook, task: str) -> WantedObject:
        self.made[address] = one.hook
        asked = (spec.mind.address,) if isinstance(spec.mind, HookAgent) else ()
        refs = dict.fromkeys((spec.watches, *((spec.original,) if spec.original else ()), *asked))
        return WantedObject(address, spec.to_json(), tuple(refs), task, ("hook",))

    def _agent(
        self, one: InheritedHook, at: tuple[str, str], hook: HookSpec, above: Sequence[InheritedHook]
    ) -> Iterator[WantedObject]:
        """Makes the agent of a hook; gives the hooks that watch it, all without agents of their own."""
        address, of = at
        assert one.hook.agent is not None, "its address was made for it"
        spec, choice = self.making.of_hook(
            one.hook.agent, one.hook.fields.get("budget", {}), one.home.rights, one.home.choice
        )
        named = self.hooks.named(one.hook.agent.fields.get("hooks", ()), one.hook.agent.at)
        own = [replace(one, hook=hook, original="", asked="") for hook in named]
        # They do not watch its verdicts. They see its calls, as copies of the hooks that watch its agent.
        calling = [replace(each, is_inner=True) for each in above if each.concerns_calls]
        dumb = [each for each in (*calling, *own) if each.hook.is_dumb]
        watching, _ = self.watch(address, of, _once(dumb))
        yield from watching
        hooks = tuple(each.address for each in watching)
        self.agents[address] = MadeHookAgent(replace(spec, watches=hook.watches, hooks=hooks), choice, of)

    def check_existing(self, known: Sequence[str], faults: Problems) -> None:
        """Report hooks that name an unknown agent of the plan."""
        for one in {each.key: each for each in self.made.values()}.values():
            if one.existing and one.existing not in known:
                hint = did_you_mean(one.existing, known)
                faults.add("P0203", f"unknown agent `{one.existing}`", hint, to=(*one.to, "agent", "as"))


def _once(carried: Sequence[InheritedHook]) -> list[InheritedHook]:
    known: dict[str, InheritedHook] = {}
    for one in carried:
        known.setdefault(one.hook.key, one)
    return list(known.values())


def _free(name: str, taken: set[str]) -> str:
    number, free = 2, name
    while free in taken:
        number, free = number + 1, f"{name}-{number}"
    return free
