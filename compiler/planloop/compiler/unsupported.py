"""Warn about parts of a plan that this version reads but does not run.

All are warnings, because a preview is still worth having; `codes.STOPS_APPLY` names those that a run must not start
with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planloop.compiler.check.tasks import TaskTree
from planloop.compiler.graph import Graph
from planloop.compiler.lower.document import Provenance
from planloop.compiler.problems import Pointer, Problems
from planloop.compiler.resolve.agents import ResolvedAgent, is_mcp_client
from planloop.compiler.suggest import did_you_mean
from planloop.schemas import json_pointer
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.checks.kinds import CHECK_KINDS, kinds_in
from planloop.schemas.objects.container import is_outside_plan
from planloop.schemas.objects.sandbox import BUBBLEWRAP, CONTAINER, sandbox_request


def warn_unsupported(document: JsonObject, tree: TaskTree, graph: Graph, faults: Problems) -> None:
    """Tells of every part of the plan that this version reads and does not run."""
    for to, line in _rights_lines(document, tree):
        if line.get("network") == "none" and not _is_enclosed(graph, json_pointer.pointer_owner(to)[0].path):
            hint = "tools and checks are; `sandbox: 2` of the agent keeps its commands from it too, or deny the shell"
            faults.warn("P0411", "commands are not kept from the network without a sandbox", hint, to=(*to, "network"))
    for path, task in tree:
        for index, check in enumerate(task.get("acceptance", ())):
            if "sh" not in check:
                _tell_check(check, (*json_pointer.task_pointer(path), "acceptance", str(index)), faults)
    _tell_agents(graph, faults)
    _tell_forked(graph, faults)


def _tell(faults: Problems, code: str, summary: str, to: Pointer, hint: str = "") -> None:
    faults.warn_on_key(code, summary, hint or "the plan can be previewed, not applied", to=to)


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
            _tell(faults, "P0407", f"checks of kind `{kind}` are not run by this version", (*to, kind))


def _tell_agents(graph: Graph, faults: Problems) -> None:
    provenance = graph.provenance
    assert isinstance(provenance, Provenance), "lowering made the graph"
    users: dict[int, list[str]] = {}
    for address, choice in provenance.choices.items():
        users.setdefault(id(choice.resolved), []).append(address)
    boxes = [address.partition("/")[2] for address in graph.objects if address.startswith("container/")]
    for addresses in users.values():
        # One agent may do thousands of tasks: what it lacks is said once, with their number.
        choice = provenance.choices[addresses[0]]
        to = choice.resolved.at or choice.to or json_pointer.task_pointer(_path_of(addresses[0]))
        without = [address for address in addresses if graph.objects[address].spec["mind"].get("model") == ""]
        if without:
            who = _who(choice.resolved, without)
            hint = "give it a `model:`, or an agent above it; or all of them one: `plan apply --model provider/name`"
            _tell(faults, "P0225", f"{who} has no model to think with", to, hint)
        _tell_agent(choice.resolved, boxes, to, faults)


def _tell_agent(resolved: ResolvedAgent, boxes: Sequence[str], to: Pointer, faults: Problems) -> None:
    """`boxes` are the containers of the plan."""
    fields = resolved.fields
    wish = sandbox_request(fields.get("sandbox"))
    if wish.tier > CONTAINER:
        _tell(faults, "P0408", f"there is no sandbox of tier {wish.tier}", to, "the strongest is 3, a container")
    elif wish.tier == CONTAINER and not wish.container:
        hint = "name one of the plan's: `sandbox: {container: name}`"
        _tell(faults, "P0408", "sandbox tier 3 needs a container to be in", to, hint)
    elif wish.container and wish.container not in boxes:
        hint = did_you_mean(wish.container, boxes) if boxes else "declare it under `containers:`"
        _tell(faults, "P0408", f"the plan has no container `{wish.container}` for a sandbox", to, hint)
    if "outside" in fields and not is_mcp_client(fields["outside"]) and fields.get("lock", "off") != "off":
        summary = "another program writes files without the tools that lock them"
        faults.warn_on_key("P0412", summary, "name the paths under `locks` of the task", to=(*to, "lock"))
    for mixin in resolved.mixins:
        steps = resolved.steps.get(mixin["name"])
        unread = set(mixin["settings"]) - (steps.settings if steps is not None else set())
        if unread:
            names = ", ".join(f"`{name}`" for name in sorted(unread))
            what = "mixin" if steps is not None else "mixin (which it does not have)"
            hint = (
                did_you_mean(min(unread), sorted(steps.settings)) if steps is not None else "they are kept in the plan"
            )
            faults.warn_on_key("P0406", f"nothing reads {names} of {what} `{mixin['name']}`", hint, to=(*to, "mixins"))


def _tell_forked(graph: Graph, faults: Problems) -> None:
    """Tells of sandboxes that show another folder than their task works in."""
    for address, agent in graph.objects.items():
        name = sandbox_request(agent.spec.get("sandbox")).container if address.startswith("agent/") else ""
        box = graph.objects.get(f"container/{name}") if name else None
        if box is None or not any(one["host"] and not is_outside_plan(one["host"]) for one in box.spec["mounts"]):
            continue
        fork, shown = (_fork_of(graph, task) for task in (agent.spec["task"], f"task/{box.spec['task']}"))
        if fork and fork != shown:
            what = f"`{name}` mounts the plan's folder, and {agent.spec['task']} works in {fork}"
            hint = f"a container of its own mounts the fork: `task: {fork.partition('/')[2]}`"
            _tell(faults, "P0408", what, (*json_pointer.task_pointer(_path_of(address)), "agent"), hint)


def _fork_of(graph: Graph, task: str) -> str:
    found = graph.objects.get(task)
    return "" if found is None else str(found.spec.get("fork") or "")


def _who(resolved: ResolvedAgent, addresses: list[str]) -> str:
    path, _, hook = addresses[0].partition("~")
    task = f"the agent of hook `{hook}`" if hook else path.replace("agent/", "task/", 1)
    count = f" and {len(addresses) - 1:,} more" if len(addresses) > 1 else ""
    return f"{task}{count}" if not resolved.name else f"`{resolved.name}`, for {task}{count},"


def _path_of(address: str) -> tuple[str, ...]:
    rest = address.partition("/")[2]
    return () if rest == "." else tuple(rest.split("/"))
