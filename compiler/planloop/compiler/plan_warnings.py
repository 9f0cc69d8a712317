"""Warn about parts of a plan that this version does not run, and about hooks that guard nothing.

All are warnings, because a preview is still useful; `error_codes.STOPS_APPLY` names those that prevent a run. A hook's
agent or file may be added later, by the plan's own tasks too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from planloop.compiler.check.tasks import TaskTree
from planloop.compiler.graph import Graph, Sources
from planloop.compiler.lower.agents import program_words
from planloop.compiler.lower.document import Provenance
from planloop.compiler.names import did_you_mean
from planloop.compiler.problems import Pointer, Problems
from planloop.compiler.resolve.agents import ResolvedAgent, is_mcp_client
from planloop.compiler.resolve.needs import TaskPath
from planloop.schemas import address as addresses
from planloop.schemas import json_pointer
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.checks.kinds import CHECK_KINDS, kinds_in
from planloop.schemas.objects.container import is_outside_plan
from planloop.schemas.objects.hook import HookFunction, HookProgram
from planloop.schemas.objects.sandbox import BUBBLEWRAP, CONTAINER, sandbox_request
from planloop.schemas.resource import WantedObject

if TYPE_CHECKING:
    from planloop.compiler.lower.hooks import ResolvedHook


def warn_unsupported(document: JsonObject, tree: TaskTree, graph: Graph, faults: Problems) -> None:
    """Report every part of the plan that this version reads but does not run."""
    for to, line in _rights_lines(document, tree):
        if line.get("network") == "none" and not _is_enclosed(graph, json_pointer.pointer_owner(to)[0].path):
            hint = (
                "`network` covers only tools and checks; for commands, set `sandbox: 2` of the agent, or deny the shell"
            )
            faults.warn("P0411", "without a sandbox, commands can use the network", hint, to=(*to, "network"))
    for path, task in tree:
        for index, check in enumerate(task.get("acceptance", ())):
            if "sh" not in check:
                _tell_check(check, (*json_pointer.task_pointer(path), "acceptance", str(index)), faults)
    _tell_agents(graph, faults)
    _tell_forked(graph, faults)


def _tell(faults: Problems, code: str, summary: str, to: Pointer, hint: str = "") -> None:
    faults.warn_on_key(code, summary, hint or "you can preview this plan, but not apply it", to=to)


def _rights_lines(document: JsonObject, tree: TaskTree) -> Iterator[tuple[Pointer, JsonObject]]:
    for path, task in tree:
        if "rights" in task:
            yield (*json_pointer.task_pointer(path), "rights"), task["rights"]
        agent = task.get("agent")
        if isinstance(agent, dict) and "rights" in agent:
            yield (*json_pointer.task_pointer(path), "agent", "rights"), agent["rights"]
    for index, tier in enumerate(document.get("rights", {}).get("tiers", ())):
        yield ("rights", "tiers", str(index)), tier
    for name, agent in document.get("agents", {}).items():
        if "rights" in agent:
            yield ("agents", name, "rights"), agent["rights"]


def _is_enclosed(graph: Graph, path: tuple[str, ...]) -> bool:
    """Whether all tasks at and below `path` run their commands in a sandbox that closes the network."""
    start = "/".join(path)
    tasks = (address.partition("/")[2] for address in graph.objects if address.startswith("task/"))
    below = [task for task in tasks if not path or task == start or task.startswith(f"{start}/")]
    return all(_tier_at(graph, task) >= BUBBLEWRAP for task in below)


def _tier_at(graph: Graph, task: str) -> int:
    names = [] if task == "." else task.split("/")
    for depth in range(len(names), -1, -1):
        agent = graph.objects.get("agent/" + ("/".join(names[:depth]) or "."))
        if agent is not None:
            return sandbox_request(agent.spec.get("sandbox")).tier
    return 0


def _tell_check(check: JsonObject, to: Pointer, faults: Problems) -> None:
    for kind in kinds_in(check):
        if not CHECK_KINDS[kind].runner:
            _tell(faults, "P0407", f"this version does not run checks of kind `{kind}`", (*to, kind))


def _tell_agents(graph: Graph, faults: Problems) -> None:
    provenance = graph.provenance
    assert isinstance(provenance, Provenance), "lowering made the graph"
    users: dict[int, list[str]] = {}
    for address, choice in provenance.choices.items():
        users.setdefault(id(choice.resolved), []).append(address)
    boxes = [address.partition("/")[2] for address in graph.objects if address.startswith("container/")]
    for agents in users.values():
        # One agent may do thousands of tasks: it gets one warning, with their number.
        choice = provenance.choices[agents[0]]
        to = choice.resolved.at or choice.to or json_pointer.task_pointer(_path_of(agents[0]))
        without = [address for address in agents if graph.objects[address].spec["mind"].get("model") == ""]
        if without:
            who = _who(choice.resolved, without)
            hint = "set `model:` for it or an ancestor, or set one for all agents: `plan apply --model provider/name`"
            _tell(faults, "P0225", f"{who} has no model", to, hint)
        _tell_agent(choice.resolved, boxes, to, faults)


def _tell_agent(resolved: ResolvedAgent, boxes: Sequence[str], to: Pointer, faults: Problems) -> None:
    """`boxes` are the containers of the plan."""
    fields = resolved.fields
    wanted = sandbox_request(fields.get("sandbox"))
    if wanted.tier > CONTAINER:
        _tell(faults, "P0408", f"unknown sandbox tier {wanted.tier}", to, "the highest tier is 3, a container")
    elif wanted.tier == CONTAINER and not wanted.container:
        hint = "name a container of the plan: `sandbox: {container: name}`"
        _tell(faults, "P0408", "sandbox tier 3 needs a container", to, hint)
    elif wanted.container and wanted.container not in boxes:
        hint = did_you_mean(wanted.container, boxes) if boxes else "declare it under `containers:`"
        _tell(faults, "P0408", f"unknown container `{wanted.container}` for a sandbox", to, hint)
    if "outside" in fields and not is_mcp_client(fields["outside"]) and fields.get("lock", "off") != "off":
        summary = "`lock` has no effect on a program that writes files itself"
        faults.warn_on_key("P0412", summary, "list the paths under `locks` of the task", to=(*to, "lock"))
    for mixin in resolved.mixins:
        steps = resolved.steps.get(mixin["name"])
        unread = set(mixin["settings"]) - (steps.settings if steps is not None else set())
        if unread:
            names = ", ".join(f"`{name}`" for name in sorted(unread))
            what = "mixin" if steps is not None else "the missing mixin"
            hint = (
                did_you_mean(min(unread), sorted(steps.settings))
                if steps is not None
                else "the plan keeps them, but they have no effect"
            )
            faults.warn_on_key("P0406", f"unused setting {names} of {what} `{mixin['name']}`", hint, to=(*to, "mixins"))


def _tell_forked(graph: Graph, faults: Problems) -> None:
    """Report sandboxes that show a folder other than the workspace of their task."""
    for address, agent in graph.objects.items():
        name = sandbox_request(agent.spec.get("sandbox")).container if address.startswith("agent/") else ""
        box = graph.objects.get(f"container/{name}") if name else None
        if box is None or not any(one["host"] and not is_outside_plan(one["host"]) for one in box.spec["mounts"]):
            continue
        fork, shown = (_fork_of(graph, task) for task in (agent.spec["task"], f"task/{box.spec['task']}"))
        if fork and fork != shown:
            what = f"`{name}` mounts the plan's folder, but {agent.spec['task']} works in {fork}"
            hint = f"add a container that mounts the fork: `task: {fork.partition('/')[2]}`"
            _tell(faults, "P0408", what, (*json_pointer.task_pointer(_path_of(address)), "agent"), hint)


def _fork_of(graph: Graph, task: str) -> str:
    found = graph.objects.get(task)
    return "" if found is None else str(found.spec.get("fork") or "")


def _who(resolved: ResolvedAgent, agents: list[str]) -> str:
    path, _, hook = agents[0].partition("~")
    task = f"the agent of hook `{hook}`" if hook else path.replace("agent/", "task/", 1)
    count = f" and {len(agents) - 1:,} more" if len(agents) > 1 else ""
    return f"{task}{count}" if not resolved.name else f"`{resolved.name}`, for {task}{count},"


def _path_of(address: str) -> tuple[str, ...]:
    rest = address.partition("/")[2]
    return () if rest == "." else tuple(rest.split("/"))


def warn_idle_hooks(
    tree: TaskTree,
    objects: Mapping[str, WantedObject],
    made: Mapping[str, ResolvedHook],
    sources: Sources,
    faults: Problems,
) -> None:
    """Report each hook in `tree` that watches no agent of `objects`, and each of `made` that cannot run."""
    _tell_unwatching(tree, objects, faults)
    told: set[Pointer] = set()
    for at, hook in made.items():
        if hook.to not in told:
            told.add(hook.to)
            _tell_program(hook, _cwd(objects, str(objects[at].spec["set_at"])), sources, faults)


def _tell_unwatching(tree: TaskTree, objects: Mapping[str, WantedObject], faults: Problems) -> None:
    watchable: set[TaskPath] = set()
    for path, task in tree:
        if task.get("hooks") and not watchable:
            watchable = _with_agents(objects)
        for name in task.get("hooks", ()) if path not in watchable else ():
            why = "`run` is a command" if "run" in task else "no task here has an agent"
            hint = "hooks watch agents: set the hook at a task with an agent, or above one"
            to = (*json_pointer.task_pointer(path), "hooks", name)
            faults.warn_on_key("P0228", f"hook `{name}` watches no agent: {why}", hint, to=to)


def _with_agents(objects: Mapping[str, WantedObject]) -> set[TaskPath]:
    """The tasks that have an agent, or one below them."""
    paths = {addresses.parse_address(address).path for address in objects if address.startswith("agent/")}
    return {path[:depth] for path in paths for depth in range(len(path) + 1)}


def _cwd(objects: Mapping[str, WantedObject], set_at: str) -> str:
    task = objects.get(f"task/{set_at.partition('/')[2]}")
    return str(task.spec.get("cwd") or ".") if task is not None else "."


def _tell_program(hook: ResolvedHook, cwd: str, sources: Sources, faults: Problems) -> None:
    match hook.mind:
        case HookProgram(argv=argv):
            program, script = program_words(argv)
            if program and not sources.has_program(program, cwd):
                _warn_not_asked(hook, *_not_run(program, cwd, sources), faults)
            elif script and not sources.has_file(f"{cwd}/{script}"):
                _warn_not_asked(hook, f"file `{script}` not found", _looked_for(cwd), faults)
        case HookFunction(target=target) if not target.startswith("lib:"):
            file = target.rpartition(":")[0]
            if not sources.has_file(file):
                _warn_not_asked(hook, f"file `{file}` not found", _looked_for("."), faults)
        case _:
            pass


def _not_run(program: str, cwd: str, sources: Sources) -> tuple[str, str]:
    if "/" not in program:
        return f"program `{program}` not found", "install it, or add its folder to PATH"
    if sources.has_file(f"{cwd}/{program}"):
        return f"the file `{program}` is not executable", f"run: chmod +x {program.removeprefix('./')}"
    return f"file `{program}` not found", _looked_for(cwd)


def _looked_for(cwd: str) -> str:
    where = "in the folder of the plan file" if cwd in ("", ".") else f"in `{cwd}`, where the hook is set"
    return f"planloop looks for it {where}"


def _warn_not_asked(hook: ResolvedHook, summary: str, hint: str, faults: Problems) -> None:
    to = (*hook.to, "run" if isinstance(hook.mind, HookProgram) else "python")
    faults.warn("P0229", f"hook `{hook.name}` cannot run: {summary}", hint, to=to)
