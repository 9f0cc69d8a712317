"""What must hold for agents, their scripts, containers, hooks and servers. See `checking.py` for the tree of tasks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from planloop.compiler.checking import Tree, check_command, check_exactly_one, check_rights_line
from planloop.compiler.checking_containers import check_containers
from planloop.compiler.faults import Faults, Pointer
from planloop.compiler.graph import Sources
from planloop.compiler.naming import leads_out
from planloop.compiler.resolving import MINDS, is_guest
from planloop.compiler.suggesting import did_you_mean, nearest
from planloop.schemas import address as addresses
from planloop.schemas import limits, pointer
from planloop.schemas.agent import ADDRESS
from planloop.schemas.encoding import JsonObject
from planloop.schemas.fields_agent import STEP_VERBS

_WHOM: Final = ("parent", "children", "siblings", "all", "*")
_BESIDE: Final = {"with": ("call", "TOOL"), "to": ("say", "TEXT"), "reason": ("patch", "")}
"""Fields of a step that say more of its verb, and what the verb then holds."""
_TARGET: Final = re.compile(r"[^:]+\.py:[A-Za-z_]\w*|lib:[a-z]\w*")


def check_parts(document: JsonObject, tree: Tree, faults: Faults) -> None:
    """Tells of whatever in the parts beside the tree contradicts itself."""
    for agent, to in agents_of(document, tree):
        check_agent(agent, to, faults)
        if "topology" in agent:
            _check_topology(agent["topology"].get("talk-to", ()), (*to, "topology", "talk-to"), tree, faults)
    for name, server in document.get("mcp", {}).items():
        check_exactly_one("mcp", server, ("mcp", name), faults)
        check_command(server, "command", ("mcp", name), faults)
        _check_world(server, ("mcp", name), faults)
        if "headers" in server and "command" in server:
            hint = "headers are for a server at a `url`; what a program is to know stands in its `env`"
            faults.on_key("P0211", "`headers` for a server that is a program", hint, to=("mcp", name, "headers"))
        if "env" in server and "url" in server:
            hint = "variables are for a server that `command` starts; what one at a `url` is told stands in `headers`"
            faults.on_key("P0211", "`env` for a server that is not started", hint, to=("mcp", name, "env"))
    check_containers(document.get("containers", {}), tree, faults)


def _check_world(server: JsonObject, to: Pointer, faults: Faults) -> None:
    """What is simulated is not started: it has nothing to be told, and lies in the plan's folder."""
    if "world" not in server:
        return
    if leads_out(server["world"]) or not server["world"].strip():
        hint = "write a path within the plan's folder"
        faults.add("P0218", f"`{server['world']}` is no file of the plan", hint, to=(*to, "world"))
    for name in ("env", "headers", "share", "timeout", "writes"):
        if name in server and not ("command" in server or "url" in server):
            hint = "a world is no process, and each agent has its own: leave it out"
            faults.on_key("P0211", f"`{name}` for a simulated world", hint, to=(*to, name))


def tell_missing_worlds(document: JsonObject, sources: Sources, faults: Faults) -> None:
    """Warns of simulated servers whose file is not there: it may come, but a slip of the pen is likelier."""
    for name, server in document.get("mcp", {}).items():
        file = server.get("world", "")
        if file and not faults.is_at(("mcp", name)) and not sources.has_file(file):
            hint = "write the file that simulates it, or correct its name"
            faults.warn("P0214", f"there is no file `{file}`", hint, to=("mcp", name, "world"))


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
    _check_outside(agent, to, faults)
    check_steps(agent.get("script", ()), (*to, "script"), faults)
    if "python" in agent:
        check_target(agent["python"], (*to, "python"), faults)
    if "rights" in agent:
        check_rights_line(agent["rights"], (*to, "rights"), faults)
    if any(part.startswith("~") for part in str(agent.get("from", "")).split("/")):
        # What an agent behind a hook has learnt is nobody's to look into.
        faults.add("P0203", f"`{agent['from']}` is no child to copy", "agents behind hooks are not", to=(*to, "from"))


def check_sources(sources: Mapping[str, str], faults: Faults) -> None:
    """Tells of agents that are to be copies of agents that there are not; `sources` has each agent's by its address."""
    for address, source in sources.items():
        if not source.startswith(ADDRESS) or (source in sources and source != address):
            continue
        path = addresses.parse(address).path
        to = (*pointer.of_task(path), "agent", "from")
        if source == address:
            faults.add("P0203", f"`{source}` cannot be a copy of itself", "name another agent, or delete it", to=to)
        elif not faults.is_at(to):
            above = ADDRESS + "".join(f"{part}/" for part in path[:-1])
            hint = _copy_meant(source, above, [each for each in sources if each != address])
            faults.add("P0203", f"there is no `{source}` to copy", hint, to=to)


def _copy_meant(source: str, above: str, known: Sequence[str]) -> str:
    """What may have been meant: an agent below `above` by its name, else one elsewhere by its address."""
    near = [each.removeprefix(above) for each in known if each.startswith(above)]
    named = source.removeprefix(above)
    last = named.rpartition("/")[2]
    elsewhere = [each for each in known if each.rpartition("/")[2] == last]
    if nearest(named, near) is None and elsewhere:
        return f"did you mean `{elsewhere[0].removeprefix(above)}`?"
    return did_you_mean(named, near or known)


def _check_outside(agent: JsonObject, to: Pointer, faults: Faults) -> None:
    how = agent.get("outside")
    if "outside" in agent and "hooks" in to and is_guest(how):
        faults.add("P0202", "nobody from outside takes a hook", "give it a `run:`", to=(*to, "outside"))
    if how is False:
        faults.add("P0202", "`outside` is true or a map, not false", "leave it out", to=(*to, "outside"))
    if not isinstance(how, dict):
        return
    check_exactly_one("outside", how, (*to, "outside"), faults)
    check_command(how, "run", (*to, "outside"), faults)
    if how.get("lease", limits.GUEST_LEASE_MIN_S) < limits.GUEST_LEASE_MIN_S:
        least = f"at least {limits.GUEST_LEASE_MIN_S:g} s"
        faults.add("P0202", "a lease that lapses between two calls", least, to=(*to, "outside", "lease"))
    for name in ("field", "session", "continue"):
        if name in how and how.get("output", "text") == "text":
            hint = "answer and session are told apart in JSON alone: add `output: json` or `output: json-lines`"
            faults.on_key("P0211", f"`{name}` for output that is text", hint, to=(*to, "outside", name))


def check_target(target: str, to: Pointer, faults: Faults) -> None:
    """A Python function must be named by its file and name."""
    if not _TARGET.fullmatch(target):
        faults.add("P0223", f"`{target}` does not name a function", "write it as `file.py:name`", to=to)


def check_steps(steps: Iterable[JsonObject], to: Pointer, faults: Faults) -> None:
    """The steps of a script, written at `to`: each does one thing."""
    for index, step in enumerate(steps):
        _check_step(step, (*to, str(index)), faults)


def _check_step(step: JsonObject, to: Pointer, faults: Faults) -> None:
    verbs = [name for name in STEP_VERBS if name in step]
    if len(verbs) > 1:
        said = " and ".join(f"`{name}`" for name in verbs)
        faults.add("P0211", f"a step does one thing, this has {said}", "make them two steps", to=to)
    elif not verbs and not faults.is_at(to):
        faults.add("P0210", "a step without a verb", "one of " + ", ".join(STEP_VERBS), to=to)
    if len(verbs) == 1:
        _check_beside(step, to, faults)


def _check_beside(step: JsonObject, to: Pointer, faults: Faults) -> None:
    for name, (verb, wanted) in _BESIDE.items():
        if name not in step:
            continue
        if verb not in step:
            faults.on_key("P0211", f"`{name}` without `{verb}`", f"it says more of a `{verb}`", to=(*to, name))
        elif wanted and isinstance(step[verb], dict | list):
            said = f"`{name}` beside a `{verb}` that is a map or a list"
            faults.on_key("P0211", said, f"say all of it in `{verb}`, or write `{verb}: {wanted}`", to=(*to, name))
