"""Check agents, their scripts, models and tool servers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from planloop.compiler.check.containers import check_containers
from planloop.compiler.check.tasks import TaskTree, check_command, check_exactly_one, check_rights_line
from planloop.compiler.graph import Sources
from planloop.compiler.names import did_you_mean, leaves_folder, nearest_name
from planloop.compiler.problems import Pointer, Problems
from planloop.compiler.resolve.agents import DECIDERS, is_mcp_client
from planloop.schemas import address as addresses
from planloop.schemas import json_pointer, limits
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.objects.agent import ADDRESS
from planloop.schemas.objects.model import PROVIDERS, ModelTable, model_table, parse_model_name, with_provider
from planloop.schemas.secret import REFERENCES
from planloop.schemas.spec.agent import STEP_VERBS

# What must hold for agents, their scripts, containers, hooks and servers. See `planloop.compiler.check.tasks` for the
# tree of tasks.

_WHOM: Final = ("parent", "children", "siblings", "all", "*")
_BESIDE: Final = {"with": ("call", "TOOL"), "to": ("say", "TEXT"), "reason": ("patch", "")}
"""Fields of a step that say more of its verb, and what the verb then holds."""
_TARGET: Final = re.compile(r"[^:]+\.py:[A-Za-z_]\w*|lib:[a-z]\w*")


def check_parts(document: JsonObject, tree: TaskTree, faults: Problems) -> None:
    """Report contradictions in agents, models, hooks and containers."""
    for agent, to in written_agents(document, tree):
        check_agent(agent, to, faults)
        if "topology" in agent:
            _check_topology(agent["topology"].get("talk-to", ()), (*to, "topology", "talk-to"), tree, faults)
    for name, server in document.get("mcp", {}).items():
        check_exactly_one("mcp", server, ("mcp", name), faults)
        check_command(server, "command", ("mcp", name), faults)
        _check_world(server, ("mcp", name), faults)
        if "headers" in server and "command" in server:
            hint = "`headers` are for a server at a `url`; use `env` for a program"
            faults.on_key("P0211", "`headers` for a server that is a program", hint, to=("mcp", name, "headers"))
        if "env" in server and "url" in server:
            hint = "`env` is for a server that `command` starts; use `headers` for one at a `url`"
            faults.on_key("P0211", "`env` for a server that planloop does not start", hint, to=("mcp", name, "env"))
    check_containers(document.get("containers", {}), tree, faults)


def _check_world(server: JsonObject, to: Pointer, faults: Problems) -> None:
    """What is simulated is not started: it has nothing to be told, and lies in the plan's folder."""
    if "world" not in server:
        return
    if leaves_folder(server["world"]) or not server["world"].strip():
        hint = "use a path in the plan's folder"
        faults.add("P0218", f"`{server['world']}` is not a file in the plan's folder", hint, to=(*to, "world"))
    for name in ("env", "headers", "share", "timeout", "writes"):
        if name in server and not ("command" in server or "url" in server):
            hint = "delete it: a world is not a process, and each agent has its own"
            faults.on_key("P0211", f"`{name}` for a simulated world", hint, to=(*to, name))


def warn_missing_worlds(document: JsonObject, sources: Sources, faults: Problems) -> None:
    """Warns of simulated servers whose file is not there: it may come, but a slip of the pen is likelier."""
    for name, server in document.get("mcp", {}).items():
        file = server.get("world", "")
        if file and not faults.is_at(("mcp", name)) and not sources.has_file(file):
            hint = "create the file that simulates the server, or correct its name"
            faults.warn("P0214", f"file `{file}` not found", hint, to=("mcp", name, "world"))


def written_agents(document: JsonObject, tree: TaskTree) -> Iterator[tuple[JsonObject, Pointer]]:
    """Every agent that is written out, with its place."""
    for name, agent in document.get("agents", {}).items():
        yield agent, ("agents", name)
    for path, task in tree:
        if isinstance(task.get("agent"), dict):
            yield task["agent"], (*json_pointer.task_pointer(path), "agent")
        for name, hook in task.get("hooks", {}).items():
            if isinstance(hook.get("agent"), dict):
                yield hook["agent"], (*json_pointer.task_pointer(path), "hooks", name, "agent")


def _check_topology(names: list[str], to: Pointer, tree: TaskTree, faults: Problems) -> None:
    """Warns of names that are no task yet: agents may add it, but a slip of the pen is likelier."""
    paths = {"/".join(path) or "." for path, _ in tree}
    for index, name in enumerate(names):
        if name not in _WHOM and name.removeprefix("agent/").removeprefix("task/") not in paths:
            own = "/".join(json_pointer.pointer_owner(to)[0].path)
            hint = did_you_mean(name, [*_WHOM, *sorted(paths - {own})])
            faults.warn("P0204", f"unknown task `{name}` to talk to", hint, to=(*to, str(index)))


def check_agent(agent: JsonObject, to: Pointer, faults: Problems) -> None:
    """One agent as written at `to`."""
    minds = [name for name in DECIDERS if name in agent]
    if len(minds) > 1:
        said = " and ".join(f"`{name}`" for name in minds)
        faults.on_key(
            "P0211", f"{said} exclude each other", "an agent has one decider: keep one of them", to=(*to, minds[1])
        )
    check_command(agent, "run", to, faults)
    _check_outside(agent, to, faults)
    check_steps(agent.get("script", ()), (*to, "script"), faults)
    if "python" in agent:
        check_target(agent["python"], (*to, "python"), faults)
    if "rights" in agent:
        check_rights_line(agent["rights"], (*to, "rights"), faults)
    if any(part.startswith("~") for part in str(agent.get("from", "")).split("/")):
        # The memory of an agent behind a hook is private.
        faults.add(
            "P0203",
            f"agent `{agent['from']}` cannot be copied",
            "name an agent of a task: agents of hooks cannot be copied",
            to=(*to, "from"),
        )


def check_sources(sources: Mapping[str, str], faults: Problems) -> None:
    """Report agents that copy an unknown agent; `sources` maps each address to its source."""
    for address, source in sources.items():
        if not source.startswith(ADDRESS) or (source in sources and source != address):
            continue
        path = addresses.parse_address(address).path
        to = (*json_pointer.task_pointer(path), "agent", "from")
        if source == address:
            faults.add("P0203", f"`{source}` cannot copy itself", "name another agent, or delete it", to=to)
        elif not faults.is_at(to):
            above = ADDRESS + "".join(f"{part}/" for part in path[:-1])
            hint = _copy_meant(source, above, [each for each in sources if each != address])
            faults.add("P0203", f"unknown agent `{source}` in `from`", hint, to=to)


def _copy_meant(source: str, above: str, known: Sequence[str]) -> str:
    """What may have been meant: an agent below `above` by its name, else one elsewhere by its address."""
    near = [each.removeprefix(above) for each in known if each.startswith(above)]
    named = source.removeprefix(above)
    last = named.rpartition("/")[2]
    elsewhere = [each for each in known if each.rpartition("/")[2] == last]
    if nearest_name(named, near) is None and elsewhere:
        return f"did you mean `{elsewhere[0].removeprefix(above)}`?"
    return did_you_mean(named, near or known)


def _check_outside(agent: JsonObject, to: Pointer, faults: Problems) -> None:
    how = agent.get("outside")
    if "outside" in agent and "hooks" in to and is_mcp_client(how):
        faults.add("P0202", "an MCP client cannot play the agent of a hook", "add a `run:`", to=(*to, "outside"))
    if how is False:
        faults.add("P0202", "`outside` must be true or a map, not false", "delete the line", to=(*to, "outside"))
    if not isinstance(how, dict):
        return
    check_exactly_one("outside", how, (*to, "outside"), faults)
    check_command(how, "run", (*to, "outside"), faults)
    if how.get("lease", limits.MCP_CLIENT_LEASE_MIN_S) < limits.MCP_CLIENT_LEASE_MIN_S:
        least = f"use at least {limits.MCP_CLIENT_LEASE_MIN_S:g} s"
        faults.add(
            "P0202", "the lease is too short: it would expire between two calls", least, to=(*to, "outside", "lease")
        )
    for name in ("field", "session", "continue"):
        if name in how and how.get("output", "text") == "text":
            hint = "add `output: json` or `output: json-lines`: text output has no separate answer and session"
            faults.on_key("P0211", f"`{name}` with text output", hint, to=(*to, "outside", name))


def check_target(target: str, to: Pointer, faults: Problems) -> None:
    """A Python function must be named by its file and name."""
    if not _TARGET.fullmatch(target):
        faults.add("P0223", f"`{target}` is not a function reference", "write it as `file.py:name`", to=to)


def check_steps(steps: Iterable[JsonObject], to: Pointer, faults: Problems) -> None:
    """The steps of a script, written at `to`: each does one thing."""
    for index, step in enumerate(steps):
        _check_step(step, (*to, str(index)), faults)


def _check_step(step: JsonObject, to: Pointer, faults: Problems) -> None:
    verbs = [name for name in STEP_VERBS if name in step]
    if len(verbs) > 1:
        said = " and ".join(f"`{name}`" for name in verbs)
        faults.add("P0211", f"a step has one verb, this one has {said}", "split it into two steps", to=to)
    elif not verbs and not faults.is_at(to):
        faults.add("P0210", "a step without a verb", "add one of " + ", ".join(STEP_VERBS), to=to)
    if len(verbs) == 1:
        _check_beside(step, to, faults)


def _check_beside(step: JsonObject, to: Pointer, faults: Problems) -> None:
    for name, (verb, wanted) in _BESIDE.items():
        if name not in step:
            continue
        if verb not in step:
            faults.on_key("P0211", f"`{name}` without `{verb}`", f"delete it, or add `{verb}`", to=(*to, name))
        elif wanted and isinstance(step[verb], dict | list):
            said = f"`{name}` with a `{verb}` that is a map or a list"
            faults.on_key("P0211", said, f"put everything into `{verb}`, or write `{verb}: {wanted}`", to=(*to, name))


# What must hold in the `models:` table and wherever a model is named: no keys in the plan, URLs that are URLs, names
# that are no slips of the pen, tapes inside the plan's folder. Headers for tool servers hold no keys either.

_SECRET: Final = re.compile(r"auth|key|token|secret|cookie", re.IGNORECASE)
_SECRETS: Final = frozenset({"api_key", "key", "authorization", "extra_headers", "headers"})
_SECRET_HINT: Final = "many people and agents read plans: write `env:NAME` for a variable, or `file:path` for a file"


def check_models(document: JsonObject, tree: TaskTree, faults: Problems) -> None:
    """Report problems of the models table and of model names."""
    table: JsonObject = document.get("models", {})
    for name, row in table.items():
        _check_row(row, ("models", name), faults)
    for name, server in document.get("mcp", {}).items():
        _check_headers(server, ("mcp", name), faults)
    known = [*PROVIDERS, *(name.partition("/")[0] for name in table)]
    models = model_table(document)
    for text, to in _named(document, tree):
        _check_name(text, to, known, faults)
        _check_provider(text, to, models, faults)
    for agent, to in written_agents(document, tree):
        if "model" in agent.get("escalate", {}):
            own = parse_model_name(str(agent.get("model", ""))).provider
            place = (*to, "escalate", "model")
            _check_escalation(str(agent["escalate"]["model"]), place, [*known, *([own] if own else [])], faults)
        for name in _SECRETS.intersection(agent.get("options", ())):
            hint = "put it under `models:`, as `key: env:NAME`"
            faults.add("P0226", "the plan contains a key", hint, to=(*to, "options", name))


def _check_row(row: JsonObject, to: Pointer, faults: Problems) -> None:
    if "key" in row and not _is_reference(row["key"]):
        faults.add("P0226", "the plan contains a key", _SECRET_HINT, to=(*to, "key"))
    _check_headers(row, to, faults)
    if "url" in row and not str(row["url"]).startswith(("http://", "https://")):
        hint = "write a URL such as `http://localhost:11434/v1`"
        faults.add("P0223", f"invalid URL `{row['url']}`", hint, to=(*to, "url"))


def _check_headers(row: JsonObject, to: Pointer, faults: Problems) -> None:
    for name, value in row.get("headers", {}).items():
        if _SECRET.search(name) and not _is_reference(str(value)):
            faults.add(
                "P0226", f"the plan contains the value of header `{name}`", _SECRET_HINT, to=(*to, "headers", name)
            )


def _is_reference(text: str) -> bool:
    return any(text.startswith(kind) and len(text) > len(kind) for kind in REFERENCES)


def _named(document: JsonObject, tree: TaskTree) -> Iterator[tuple[str, Pointer]]:
    """Every place where a model is named, but for lines of rights, which are patterns."""
    for agent, to in written_agents(document, tree):
        yield from _of_agent(agent, to)
    for path, task in tree:
        if "model" in task.get("granted", {}):
            yield task["granted"]["model"], (*json_pointer.task_pointer(path), "granted", "model")
    for name, row in document.get("models", {}).items():
        if "as" in row:
            yield row["as"], ("models", name, "as")


def _of_agent(agent: JsonObject, to: Pointer) -> Iterator[tuple[str, Pointer]]:
    if "model" in agent:
        yield agent["model"], (*to, "model")
    for part in ("compact", "escalate"):
        if "model" in agent.get(part, {}):
            yield agent[part]["model"], (*to, part, "model")


def _check_name(text: str, to: Pointer, known: list[str], faults: Problems) -> None:
    name = parse_model_name(text)
    if name.tape and leaves_folder(name.file):
        _tell_outside(name.file, to, faults)
    if name.tape == "record" and not name.real and to[0] != "models":
        hint = f"write `record/{name.file}@provider/name`"
        faults.add("P0223", f"`{text}` does not name the model to record", hint, to=to)
    if not text.strip() or "*" in text:
        faults.add("P0223", f"`{text}` does not name a single model", "write it as `provider/name`", to=to)
    if name.provider and name.provider not in known and not faults.are_many:
        near = nearest_name(name.provider, known)
        if near is not None:
            faults.warn("P0213", f"unknown provider `{name.provider}`", f"did you mean `{near}`?", to=to)


def _check_provider(text: str, to: Pointer, models: ModelTable, faults: Problems) -> None:
    """Warn of a name without a provider, unless the table of models says where it is."""
    name = parse_model_name(text)
    meant = with_provider(name.real)
    if not meant or name.tape == "replay" or faults.are_many:
        return
    row = models.config(name.real)
    if not (row.url or row.api or models.asked(name.real) != name.real):
        faults.warn("P0213", f"`{name.real}` names no provider", f"did you mean `{meant}`?", to=to)


def _check_escalation(text: str, to: Pointer, known: list[str], faults: Problems) -> None:
    """Warn of an unknown provider, which would otherwise be found only when the agent is stuck."""
    provider = parse_model_name(text).provider
    if provider and provider not in known and nearest_name(provider, known) is None and not faults.are_many:
        hint = f"use one of {', '.join(PROVIDERS[:4])} …, or declare it: models: {{{provider}: {{url: …}}}}"
        faults.warn("P0213", f"unknown provider `{provider}`", hint, to=to)


def _tell_outside(path: str, to: Pointer, faults: Problems) -> None:
    hint = "put recordings into the plan file's folder"
    faults.add("P0218", f"`{path}` is outside the plan's folder", hint, to=to)
