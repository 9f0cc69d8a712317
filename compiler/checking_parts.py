"""What must hold for agents, their scripts, containers, hooks and servers. See `checking.py` for the tree of tasks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from compiler.checking import Tree, check_command, check_health, check_rights_line
from compiler.faults import Faults, Pointer
from compiler.needs import TaskPath, rings
from compiler.resolving import MINDS
from compiler.suggesting import did_you_mean
from schemas import pointer
from schemas.encoding import JsonObject
from schemas.fields_agent import STEP_VERBS
from schemas.fields_all import TABLES

_WHOM: Final = ("parent", "children", "siblings", "all", "*")
_TARGET: Final = re.compile(r"[^:]+\.py:[A-Za-z_]\w*|lib:[a-z]\w*")


def check_parts(document: JsonObject, tree: Tree, faults: Faults) -> None:
    """Tells of whatever in the parts beside the tree contradicts itself."""
    for agent, to in agents_of(document, tree):
        check_agent(agent, to, faults)
        if "topology" in agent:
            _check_topology(agent["topology"].get("talk-to", ()), (*to, "topology", "talk-to"), tree, faults)
    for name, server in document.get("mcp", {}).items():
        _check_exactly_one("mcp", server, ("mcp", name), faults)
        check_command(server, "command", ("mcp", name), faults)
        if "headers" in server and "command" in server:
            hint = "headers are for a server at a `url`; what a program is to know stands in its `env`"
            faults.on_key("P0211", "`headers` for a server that is a program", hint, to=("mcp", name, "headers"))
    _check_containers(document.get("containers", {}), faults)


def agents_of(document: JsonObject, tree: Tree) -> Iterator[tuple[JsonObject, Pointer]]:
    """Every agent that is written out, with its place."""
    for name, agent in document.get("agents", {}).items():
        yield agent, ("agents", name)
    for path, task in tree:
        if isinstance(task.get("agent"), dict):
            yield task["agent"], (*pointer.of_task(path), "agent")
        for name, hook in task.get("hooks", {}).items():
            if isinstance(hook.get("agent"), dict):
                yield hook["agent"], (*pointer.of_task(path), "hooks", name, "agent")


def _check_topology(names: list[str], to: Pointer, tree: Tree, faults: Faults) -> None:
    """Warns of names that are no task yet: agents may add it, but a slip of the pen is likelier."""
    paths = {"/".join(path) or "." for path, _ in tree}
    for index, name in enumerate(names):
        if name not in _WHOM and name.removeprefix("agent/").removeprefix("task/") not in paths:
            own = "/".join(pointer.owner_of(to)[0].path)
            hint = did_you_mean(name, [*_WHOM, *sorted(paths - {own})])
            faults.warn("P0204", f"there is no task `{name}` to talk to", hint, to=(*to, str(index)))


def check_agent(agent: JsonObject, to: Pointer, faults: Faults) -> None:
    """One agent as written at `to`."""
    minds = [name for name in MINDS if name in agent]
    if len(minds) > 1:
        said = " and ".join(f"`{name}`" for name in minds)
        faults.on_key("P0211", f"{said} together", "an agent has one mind: keep one of them", to=(*to, minds[1]))
    check_command(agent, "run", to, faults)
    if "outside" in agent:
        _check_exactly_one("outside", agent["outside"], (*to, "outside"), faults)
        check_command(agent["outside"], "run", (*to, "outside"), faults)
    for index, step in enumerate(agent.get("script", ())):
        _check_step(step, (*to, "script", str(index)), faults)
    if "python" in agent:
        check_target(agent["python"], (*to, "python"), faults)
    if "rights" in agent:
        check_rights_line(agent["rights"], (*to, "rights"), faults)
    if any(part.startswith("~") for part in str(agent.get("from", "")).split("/")):
        # What an agent behind a hook has learnt is nobody's to look into.
        faults.add("P0203", f"`{agent['from']}` is no child to copy", "agents behind hooks are not", to=(*to, "from"))


def check_target(target: str, to: Pointer, faults: Faults) -> None:
    """A Python function must be named by its file and name."""
    if not _TARGET.fullmatch(target):
        faults.add("P0223", f"`{target}` does not name a function", "write it as `file.py:name`", to=to)


def _check_step(step: JsonObject, to: Pointer, faults: Faults) -> None:
    verbs = [name for name in STEP_VERBS if name in step]
    if len(verbs) > 1:
        said = " and ".join(f"`{name}`" for name in verbs)
        faults.add("P0211", f"a step does one thing, this has {said}", "make them two steps", to=to)
    elif not verbs and not faults.is_at(to):
        faults.add("P0210", "a step without a verb", "one of " + ", ".join(STEP_VERBS), to=to)


def _check_exactly_one(table: str, value: JsonObject, to: Pointer, faults: Faults) -> None:
    """Tells where a map of `table` lacks a member that it must have, or has several that exclude each other."""
    for group in TABLES[table].one_of:
        given = [name for name in group if name in value]
        wanted = " or ".join(f"`{name}`" for name in group)
        if not given and not faults.is_at(to):
            faults.on_key("P0210", f"`{to[-1]}` lacks {wanted}", "add it", to=to)
        if len(given) > 1:
            said = " and ".join(f"`{name}`" for name in given)
            faults.on_key("P0211", f"`{to[-1]}` has {said}", f"keep one of {wanted}", to=(*to, given[1]))


def _check_containers(containers: JsonObject, faults: Faults) -> None:
    for name, container in containers.items():
        to = ("containers", name)
        _check_exactly_one("container", container, to, faults)
        needs = container.get("needs", ())
        for index, need in enumerate(needs):
            place = (*to, "needs", need if isinstance(needs, dict) else str(index))
            if need not in containers:
                faults.add("P0213", f"unknown container `{need}`", did_you_mean(need, containers), to=place)
            elif isinstance(needs, dict) and needs[need] == "healthy":
                check_health(need, place, containers, faults)
    _check_container_rings(containers, faults)


def _check_container_rings(containers: JsonObject, faults: Faults) -> None:
    needs: dict[TaskPath, list[TaskPath]] = {
        (name,): [(need,) for need in one["needs"]] for name, one in containers.items() if one.get("needs")
    }
    for ring in rings(needs, []):
        names = [name for (name,) in ring]
        way = " → ".join([*names, names[0]])
        to = ("containers", names[0], "needs")
        faults.add("P0222", f"containers wait for each other: {way}", "take one need away", to=to)
