"""Lower a canonical document to wanted objects: tasks, agents, hooks, containers, servers.

One walk over the tree in document order. What a task inherits (rights, environment, workspace, agent, pause) is
carried down in a `LoweringContext`. Equal values are shared, not copied, because specs are immutable.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from posixpath import normpath
from typing import TYPE_CHECKING, Final

from planloop.compiler.check.agents import check_sources
from planloop.compiler.graph import Graph
from planloop.compiler.lower.agents import AgentChoice, AgentSpecBuilder, command_argv, guarded_patterns, program_files
from planloop.compiler.lower.containers import lower_container
from planloop.compiler.resolve.needs import TaskPath
from planloop.schemas import json_pointer, limits
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.checks.kinds import CHECK_KINDS, DeclaredCheck, kinds_in
from planloop.schemas.frozen import frozen, mutable, remade
from planloop.schemas.objects.agent import ADDRESS, AgentSpec, copied_agent_path
from planloop.schemas.objects.case import CASE_S, CaseSpec
from planloop.schemas.objects.fork import FORK_KIND, ForkSpec, lock_prefix
from planloop.schemas.objects.lock import LockMode
from planloop.schemas.objects.mcp import McpSpec, may_use_server
from planloop.schemas.objects.sandbox import sandbox_request
from planloop.schemas.objects.task import AgentWork, CheckSpec, GroupWork, RunWork, TaskSpec, Work
from planloop.schemas.resource import WantedObject
from planloop.schemas.rights import Rights, union_patterns
from planloop.schemas.tools import WRITING_TOOLS

if TYPE_CHECKING:
    from planloop.compiler.lower.hook_bindings import HookBindings, InheritedHook, MadeHookAgent
    from planloop.compiler.lower.hooks import ResolvedHook

_INHERITED: Final = frozenset(("cwd", "env", "pause", "cancel", "priority", "fork"))


@frozen
class LoweringContext:
    """What the task at `path` has from above."""

    path: TaskPath
    rights: Rights
    choice: AgentChoice
    cwd: str = "."
    env: JsonObject = field(default_factory=dict)
    agent_above: str | None = None
    pause: bool = False
    cancel: bool = False
    priority: int = 0
    fork: str = ""
    hooks: tuple[InheritedHook, ...] = ()


@mutable
class Lowering:
    """Gathers the objects of one document."""

    document: JsonObject
    making: AgentSpecBuilder
    needs: Mapping[TaskPath, tuple[TaskPath, ...]]
    objects: dict[str, WantedObject] = field(default_factory=dict)
    agents: dict[str, tuple[AgentSpec, list[str]]] = field(default_factory=dict)
    choices: dict[str, AgentChoice] = field(default_factory=dict)
    locks: dict[str, list[str]] = field(default_factory=dict)
    forks: dict[str, list[str]] = field(default_factory=dict)
    _bindings: HookBindings | None = None

    @property
    def hooks(self) -> Mapping[str, ResolvedHook]:
        """What each hook object was made from, by its address."""
        return {} if self._bindings is None else self._bindings.made

    @property
    def watching(self) -> HookBindings:
        """What binds hooks to agents, made for the first hook."""
        if self._bindings is None:
            from planloop.compiler.lower.hook_bindings import HookBindings  # noqa: PLC0415 - most plans have no hooks

            self._bindings = HookBindings.of(self.making)
        return self._bindings

    def _hook_agent(self, address: str) -> MadeHookAgent | None:
        return None if self._bindings is None else self._bindings.agents.get(address)

    def graph(self) -> Graph:
        """Return the whole graph. Each step reports its problems to its own list."""
        name = self.document["plan"]
        self._containers_of(name)
        self._task(self.document, LoweringContext((), self.making.rights.root(self.document), self.making.default))
        for path, tasks in self.locks.items():
            self.objects[f"lock/{path}"] = WantedObject(f"lock/{path}", {"path": path}, tuple(tasks), f"plan/{name}")
        users, steering = self._servers(), self._steering()
        for address, (made, below) in self.agents.items():
            spec = remade(made, rights=_guarding(made.rights, steering))
            refs = (*self._near(address, spec), *below, *spec.hooks, *users.get(address, ()))
            refs = tuple(dict.fromkeys((*refs, *self._purses(spec.task))))
            watcher = self._hook_agent(address)
            owner = spec.task if watcher is None else watcher.hook
            self.objects[address] = WantedObject(address, spec.to_json(), refs, owner, ("agent",))
        for address, concerned in self.forks.items():
            # They wake it: it is made, and goes, when none of them is in the middle of something.
            self.objects[address] = remade(self.objects[address], refs=tuple(concerned))
        agents = tuple(address for address in self.agents if self._hook_agent(address) is None)
        if self._bindings is not None:
            self._bindings.check_existing(agents, self.making.faults)
        check_sources({address: self.agents[address][0].source for address in agents}, self.making.faults)
        return Graph(name, self.objects, Provenance(self.choices, self.hooks))

    def _steering(self) -> tuple[str, ...]:
        """Files that no agent writes, whose else they are: those that the plan is made from, and that servers run."""
        servers = (command_argv(written.get("command", [])) for written in self.document.get("mcp", {}).values())
        run = (file for argv in servers for file in program_files(argv, ".", with_data=False))
        worlds = (written["world"] for written in self.document.get("mcp", {}).values() if "world" in written)
        return guarded_patterns(iter((*self.making.agents.shelves.files, *run, *worlds)))

    def _near(self, address: str, spec: AgentSpec) -> tuple[str, ...]:
        """What an agent hears of beside its hooks and servers: its task, who is above it, its children, containers."""
        made = self._hook_agent(address)
        if made is not None:
            return (spec.task, made.hook)
        # Its child tasks too: a command task has no agent that would signal its end.
        task = self.objects[spec.task].spec
        fork, parent = task.get("fork"), spec.parent
        near = (spec.task, *((parent,) if parent else ()), *task["children"], *((fork,) if fork else ()))
        return (*near, *task["containers"])

    def _containers_of(self, plan: str) -> None:
        """Puts the containers. One wakes those that need it, and those that it needs: they go after it."""
        containers = self.document.get("containers", {})
        specs = {name: lower_container(written, containers) for name, written in containers.items()}
        near = {name: [f"container/{each}" for each in spec.needs] for name, spec in specs.items()}
        for name, spec in specs.items():
            for each in spec.needs:
                near.get(each, []).append(f"container/{name}")
        for name, spec in specs.items():
            refs = (*near[name], "task/.", *((f"task/{spec.task}",) if spec.task else ()))
            address = f"container/{name}"
            self.objects[address] = WantedObject(address, spec.to_json(), refs, f"plan/{plan}", ("container",))

    def _servers(self) -> dict[str, list[str]]:
        """Puts the tool servers; returns those that each agent may use.

        Agents and servers wake each other: what a server offers is in its users' prompts, and it runs while one of
        their tasks does.
        """
        users: dict[str, list[str]] = {}
        for name, written in self.document.get("mcp", {}).items():
            address = f"mcp/{name}"
            using = [agent for agent, (spec, _) in self.agents.items() if _may_use(spec, name)]
            for agent in using:
                users.setdefault(agent, []).append(address)
            asked = (prompt for agent in using for prompt in self.agents[agent][0].served_prompts)
            prompts = tuple(
                dict.fromkeys(prompt.partition("/")[2] for prompt in asked if prompt.startswith(f"{name}/"))
            )
            # A simulated world does not depend on the tasks that use it.
            users_of = () if "world" in written else ("task/.", *(self.agents[agent][0].task for agent in using))
            tasks = dict.fromkeys(users_of)
            wanted = _server(written, prompts).to_json()
            self.objects[address] = WantedObject(
                address, wanted, tuple(tasks), f"plan/{self.document['plan']}", ("mcp",)
            )
        return users

    def _task(self, task: JsonObject, place: LoweringContext) -> None:
        path = place.path
        suffix = "/".join(path) or "."
        address = f"task/{suffix}"
        made, rights, choice = self._made(task, place)
        agent = f"agent/{suffix}" if made is not None else None
        outer = place.fork
        place = _within(place, task)
        spec = self._spec(task, place, agent, choice)
        if "case" in task:
            self._keep_case(task["case"], address, agent)
        if place.fork == _fork_of(path):
            self._keep_fork(task["fork"], address, place, outer)
        # What is set here comes with the rights of its place, whatever else is set there.
        is_free = rights.guarded == place.rights.guarded
        free = rights if is_free else remade(rights, guarded=place.rights.guarded)
        hooks, carried = self._watched(task, place, free, choice if made is not None else None)
        who = (agent, *(each.address for each in hooks)) if agent else ()
        self._put(address, spec, who)
        if made is not None and agent is not None:
            own = tuple(each.address for each in hooks if each.spec["watches"] == agent) if hooks else ()
            full = remade(made, task=address, parent=place.agent_above, source=_source(task, path), hooks=own)
            self._keep_agent(agent, full, choice)
            self._keep_hooks(hooks, address)
        above = agent or place.agent_above
        for name, child in task.get("tasks", {}).items():
            self._task(
                child,
                LoweringContext(
                    (*path, name),
                    rights,
                    choice,
                    place.cwd,
                    place.env,
                    above,
                    place.pause,
                    place.cancel,
                    place.priority,
                    place.fork,
                    carried,
                ),
            )

    def _spec(self, task: JsonObject, place: LoweringContext, agent: str | None, choice: AgentChoice) -> TaskSpec:
        """The spec of the task at `place`, which `agent` does if there is one."""
        path = place.path
        prefix = f"task/{'/'.join(path)}/" if path else "task/"
        bounds = self.making.bounds(task, path, choice if agent is not None else None, self.document)
        cap = self.making.rights.cap(len(path))
        return TaskSpec(
            goal=_goal(task, path, self.document["plan"]),
            work=_work(task, agent, cap.budget.time_s),
            notes=task.get("notes", ""),
            parent=_parent_of(path),
            children=tuple(prefix + name for name in task.get("tasks", ())),
            needs=tuple("task/" + ("/".join(need) or ".") for need in self.needs.get(path, ())),
            cwd=place.cwd,
            env=place.env,
            acceptance=tuple(_checks(task)),
            when=task.get("when", "after"),
            heal=task.get("heal", False) is not False,
            heal_every_s=_heal_every(task),
            locks=_locks(task, place.fork),
            containers=self._containers(task, path, choice.sandbox if agent is not None or "run" in task else None),
            budget=bounds.budget,
            agent_bounds=bounds.of_agent,
            retries=_fewer(task.get("retries", limits.RETRIES_DEFAULT), cap.budget.retries),
            again=task.get("again", 0),
            on_change=task.get("on-change", "message"),
            pause=place.pause,
            cancel=place.cancel,
            protect=task.get("protect", False),
            priority=place.priority,
            fork=place.fork,
            rulings=_rulings(task),
        )

    def _made(self, task: JsonObject, place: LoweringContext) -> tuple[AgentSpec | None, Rights, AgentChoice]:
        """The agent of a task, if it has one, and its rights: without writing what answers for hooks set here."""
        rights, to, cwd = place.rights, json_pointer.task_pointer(place.path), str(task.get("cwd", place.cwd))
        if "hooks" in task:
            rights = _keeping_off(rights, self.watching.hooks.declared(task["hooks"], to), cwd)
        made, rights, choice = self.making.of_task(task, place.path, rights, place.choice)
        if made is None or not (made.mixins or "hooks" in choice.resolved.fields):
            return made, rights, choice
        written = list(choice.resolved.fields.get("hooks", ()))
        if written:
            named = self.watching.hooks.named(written, choice.resolved.at or choice.to)
            rights = _keeping_off(rights, named, cwd)
        rights = _guarding(rights, guarded_patterns(_of_steps(made, cwd)))
        return remade(made, rights=remade(made.rights, guarded=rights.guarded)), rights, choice

    def _watched(
        self, task: JsonObject, place: LoweringContext, rights: Rights, chosen: AgentChoice | None
    ) -> tuple[list[WantedObject], tuple[InheritedHook, ...]]:
        """The hooks of a task's agent, which made the choice `chosen`, and what those below it are watched by."""
        if not place.hooks and "hooks" not in task and (chosen is None or "hooks" not in chosen.resolved.fields):
            return [], ()  # So it is in most plans.
        home = self.watching.scope(place.path, rights, chosen or place.choice, has_agent=chosen is not None)
        carried = self.watching.inherited(place.hooks, task, home)
        if chosen is None:
            return [], carried
        path = "/".join(place.path) or "."
        return self.watching.watch(f"agent/{path}", f"task/{path}", carried)

    def _keep_hooks(self, hooks: list[WantedObject], task: str) -> None:
        """Keep the hooks of an agent and their agents."""
        for each in hooks:
            address = str(each.spec["mind"].get("address", ""))
            made = self.watching.agents.get(address)
            if made is not None and made.hook == each.address:
                self.agents[address] = (remade(made.spec, task=task), [])
                self.objects[address] = WantedObject(address, {})  # Like every agent's place.
                self.choices[address] = made.choice
            self.objects[each.address] = each

    def _keep_fork(self, written: Json, task: str, place: LoweringContext, outer: str) -> None:
        branch = str(written.get("branch", "")) if isinstance(written, dict) else ""
        spec = ForkSpec(task, branch, outer or None)
        self.forks[place.fork] = [outer] if outer else []
        self.objects[place.fork] = WantedObject(place.fork, spec.to_json(), (), task, (FORK_KIND,))

    def _keep_case(self, written: JsonObject, task: str, agent: str | None) -> None:
        """An entry of a benchmark: its task wakes it, and its task's agent and container, which must have gone."""
        path = task.partition("/")[2]
        spec = CaseSpec(
            task,
            written.get("entry", path),
            str(written.get("key", "")),
            written.get("attempt", 1),
            float(written.get("within", CASE_S)),
        )
        inside = [
            f"container/{name}" for name, one in self.document.get("containers", {}).items() if one.get("task") == path
        ]
        refs = (task, *((agent,) if agent else ()), *inside)
        self.objects[f"case/{path}"] = WantedObject(
            f"case/{path}", spec.to_json(), refs, f"plan/{self.document['plan']}"
        )

    def _containers(self, task: JsonObject, path: TaskPath, sandbox: Json) -> tuple[str, ...]:
        """Those that it waits for, that of its sandbox too. A plan with nothing but containers is their run."""
        names = task.get("containers", ())
        if not path:
            is_their_run = not any(name in task for name in ("tasks", "agent", "run"))
            names = [name for name, one in names.items() if "task" not in one] if is_their_run and names else ()
        inside = sandbox_request(sandbox).container
        names = dict.fromkeys((*names, inside) if inside in self.document.get("containers", ()) else names)
        return tuple(f"container/{name}" for name in names)

    def _put(self, address: str, spec: TaskSpec, who: tuple[str, ...]) -> None:
        """Puts a task. `who` are its agent and that one's hooks."""
        own = (spec.parent,) if spec.parent else ()
        for path in spec.locks:
            self.locks.setdefault(path, []).append(address)
        purses = self._purses(spec.parent)
        refs = (*own, *spec.children, *spec.needs, *who, *spec.containers)
        refs = tuple(dict.fromkeys((*refs, *purses))) if purses else refs
        if spec.fork:
            refs = (*refs, spec.fork)
            self.forks[spec.fork] += [address, *who[:1]]
        owner = spec.parent or f"plan/{self.document['plan']}"
        self.objects[address] = WantedObject(address, spec.to_json(), refs, owner, ("task",))

    def _purses(self, address: str | None) -> tuple[str, ...]:
        """Return the task at `address` and its ancestors that have a budget. Tasks that wait for budget watch them."""
        found: list[str] = []
        while address is not None:
            spec = self.objects[address].spec
            if spec["budget"]:
                found.append(address)
            address = spec["parent"]
        return tuple(found)

    def _keep_agent(self, address: str, spec: AgentSpec, choice: AgentChoice) -> None:
        self.agents[address] = (spec, [])
        self.objects[address] = WantedObject(
            address, {}
        )  # Holds its place in document order until its children are known.
        self.choices[address] = choice
        if spec.parent is not None:
            self.agents[spec.parent][1].append(address)


def _keeping_off(rights: Rights, hooks: Iterable[ResolvedHook], cwd: str) -> Rights:
    """`rights` without writing what answers for `hooks` that are set in `cwd`."""
    return _guarding(rights, [file for hook in hooks for file in hook.files(cwd)])


def _of_steps(agent: AgentSpec, cwd: str) -> Iterator[str]:
    """The files that the steps of an agent's mixins run: what denies its calls it does not write."""
    for step in (step for mixin in agent.mixins for step in mixin.get("steps", ())):
        match step.get("do"):
            case "run":
                yield from program_files(command_argv(step["with"]), cwd)
            case "python" if not str(step["with"]).startswith("lib:"):
                yield str(step["with"]).rpartition(":")[0]


def _guarding(rights: Rights, files: Iterable[str]) -> Rights:
    denied = [f"{tool}({file})" for file in files for tool in WRITING_TOOLS]
    return remade(rights, guarded=union_patterns(rights.guarded, denied)) if denied else rights


def _fork_of(path: TaskPath) -> str:
    return "fork/" + ("/".join(path) or ".")


def _source(task: JsonObject, path: TaskPath) -> str:
    """What a task's own agent begins as a copy of: an address, or the `dump:` that it names."""
    written = task.get("agent")
    name = str(written.get("from", "")) if isinstance(written, dict) else ""
    copied = copied_agent_path(name, path[:-1])
    return name if copied is None else ADDRESS + ("/".join(copied) or ".")


def _may_use(spec: AgentSpec, server: str) -> bool:
    is_asked = any(prompt.startswith(f"{server}/") for prompt in spec.served_prompts)
    return is_asked or (may_use_server(spec.tools, server) and may_use_server(spec.rights.tools, server))


def _server(written: JsonObject, prompts: tuple[str, ...]) -> McpSpec:
    return McpSpec(
        command=command_argv(written.get("command", [])),
        url=written.get("url", ""),
        env=written.get("env", {}),
        tools=tuple(written["tools"]) if "tools" in written else None,
        effects=written.get("effects", {}),
        share=written.get("share", "plan"),
        timeout_s=written.get("timeout"),
        prompts=prompts,
        headers={name: str(value) for name, value in written.get("headers", {}).items()},
        writes=written.get("writes", {}),
        world=written.get("world", ""),
    )


def _locks(task: JsonObject, fork: str) -> dict[str, LockMode]:
    """The paths that the task must hold, where it works; one that is named twice, in the stricter mode."""
    found: dict[str, LockMode] = {}
    for written in task.get("locks", ()):
        lock: JsonObject = {"path": written} if isinstance(written, str) else written
        path, mode = str(lock.get("path", "")), lock.get("mode", "write")
        name = normpath(path).strip("/")
        name = "**" if name == "." else name
        name = f"{lock_prefix(fork)}/{name}" if fork else name
        found[name] = "write" if "write" in (found.get(name), mode) else "read"
    return found


def _parent_of(path: TaskPath) -> str | None:
    return ("task/" + ("/".join(path[:-1]) or ".")) if path else None


def _within(place: LoweringContext, task: JsonObject) -> LoweringContext:
    """What the task itself has, from above and from its own lines."""
    if _INHERITED.isdisjoint(task):
        return place
    env = task.get("env")
    return LoweringContext(
        path=place.path,
        rights=place.rights,
        choice=place.choice,
        cwd=task.get("cwd", place.cwd),
        env={**place.env, **env} if env else place.env,
        agent_above=place.agent_above,
        pause=place.pause or task.get("pause", False),
        cancel=place.cancel or task.get("cancel", False),
        priority=task.get("priority", place.priority),
        fork=place.fork if task.get("fork", False) is False else _fork_of(place.path),
        hooks=place.hooks,
    )


def _goal(task: JsonObject, path: TaskPath, name: str) -> str:
    goal = task.get("goal")
    if goal is not None:
        return str(goal)
    run = task.get("run")
    if run is not None and "tasks" not in task:
        return run if isinstance(run, str) else " ".join(run)
    return path[-1] if path else name


def _fewer(count: int, cap: int | None) -> int:
    return count if cap is None else min(count, cap)


def _work(task: JsonObject, agent: str | None, time_s: float | None) -> Work:
    if agent is not None:
        return AgentWork(agent)
    run = task.get("run")
    if run is None:
        return GroupWork()
    shell, argv = (run, ()) if isinstance(run, str) else ("", tuple(run))
    bounds = [bound for bound in (task.get("timeout"), time_s) if bound is not None]
    return RunWork(shell, argv, task.get("effect", "once"), min(bounds) if bounds else None)


def _rulings(task: JsonObject) -> tuple[str, ...]:
    """The newest rulings about the task: older ones are history, which the plan keeps."""
    written = task.get("rulings") or {}
    return tuple(f"{name}: {text}" for name, text in list(written.items())[-limits.RULINGS_TOLD :])


def _heal_every(task: JsonObject) -> float:
    heal = task.get("heal")
    return float(heal.get("every", 60)) if isinstance(heal, dict) else 60.0


def _checks(task: JsonObject) -> Iterator[CheckSpec]:
    checks = task.get("acceptance", ())
    others = [(check["id"], check) for check in checks if "id" in check]
    for index, check in enumerate(checks):
        for kind in kinds_in(check)[:1]:  # `planloop.compiler.check` has reported a check without a kind.
            written = DeclaredCheck(kind, check, float(check.get("timeout", limits.CHECK_TIMEOUT_S)), others)
            arguments = CHECK_KINDS[kind].arguments(written)
            yield CheckSpec(check.get("id", str(index)), kind, arguments, written.timeout_s)


class Provenance(Mapping[str, str]):
    """Where each lowered field of each agent and hook is from, by `agent/path#field`; made when asked for."""

    def __init__(self, choices: Mapping[str, AgentChoice], hooks: Mapping[str, ResolvedHook]) -> None:
        self.choices = choices
        self.hooks = hooks

    def __getitem__(self, key: str) -> str:
        address, _, name = key.partition("#")
        return self._of(address)[name]

    def _of(self, address: str) -> Mapping[str, str]:
        hook = self.hooks.get(address)
        return self.choices[address].resolved.provenance if hook is None else hook.provenance

    def __iter__(self) -> Iterator[str]:
        for address in (*self.choices, *self.hooks):
            for name in self._of(address):
                yield f"{address}#{name}"

    def __len__(self) -> int:
        return sum(len(self._of(address)) for address in (*self.choices, *self.hooks))
