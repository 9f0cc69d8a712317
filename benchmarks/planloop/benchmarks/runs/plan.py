"""Build the plan of a run: a task with agent, container and tools for each entry. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from planloop.benchmarks.runs.run_compiler import (
    CompiledRun,
    RunEntry,
    fill_for_entry,
    rank_name,
    world_file,
    world_servers,
)
from planloop.schemas.canonical_json import Json, JsonObject, canonical_bytes
from planloop.schemas.limits import CHILDREN_MAX, PLAN_NODES_MAX, SUITE_BYTES_MAX
from planloop.schemas.objects.container import NO_NETWORK

# The same values for all containers of a run, so that equal runs do not differ.

WORK_FOLDER: Final = "/work"
"""Path of the workspace in containers."""
CONTAINER_HOME: Final = "/tmp"
"""Writable tmpfs. Besides it, only the workspace is writable, no folder of the image."""
CONTAINER_ENV: Final[Mapping[str, str]] = {"TZ": "UTC", "LANG": "C.UTF-8", "HOME": CONTAINER_HOME}


WORK: Final = "work"
PLAN: Final = "run"
ALONE: Final[JsonObject] = {"alone": True}
"""Sandbox of agents that may start programs on this machine: the answers of others are next to their workspace."""

BOUND: Final[JsonObject] = {"memory": "2GiB", "pids": 512}
"""Limits of an attempt on this machine. Compilers need more than the programs that they build."""

FILE_TOOLS: Final = frozenset({"read", "list", "search", "write", "edit", "lock", "release", "done", "fail"})
"""Built-in tools that cannot leave the workspace. Tools of servers do not know the workspace."""


def plan_document(compiled: CompiledRun, attempts: Mapping[str, int], *, parallel: int) -> JsonObject:
    """Return the plan document that runs the entries in `attempts`, a map from names to attempt numbers.

    `parallel` is the number of entries that run at the same time.
    """
    entries = {name: compiled.entries[name] for name in attempts}
    document: JsonObject = {"plan": PLAN, "limits": {"tasks": parallel}}
    agents: JsonObject = {}
    containers: JsonObject = {}
    tasks: JsonObject = {}
    for name, entry in entries.items():
        case, at = compiled.cases[entry.case], task_name(name, attempts[name])
        agents |= case["agents"]
        tasks[at] = _task(compiled, entry, attempts[name])
        if case["image"]:
            containers[_inside(at)] = _container(compiled, entry, attempts[name])
    decoys = (tool for case in compiled.cases.values() for tool in (*case["near"], *case["far"]))
    servers = {server: {"world": world_file(world)} for server, world in world_servers(compiled.worlds, decoys).items()}
    parts = {"agents": agents, "mcp": servers, "containers": containers, "tasks": tasks}
    return document | {name: part for name, part in parts.items() if part}


def entries_max(document: JsonObject) -> int:
    """How many entries fit in one plan, which holds a whole run, if they have the average size of those in
    `document`."""
    count = len(document["tasks"])
    shares = (PLAN_NODES_MAX / _values_in(document), SUITE_BYTES_MAX / len(canonical_bytes(document)))
    return min(CHILDREN_MAX, *(int(count * share) for share in shares))


def _values_in(value: Json) -> int:
    below = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return 1 + sum(map(_values_in, below))


def task_name(entry: str, attempt: int) -> str:
    """The id of an entry's task. Each attempt is a separate task, so earlier attempts do not change."""
    return entry if attempt == 1 else f"{entry}--{attempt}"


def entry_workspace(entry: str, attempt: int) -> str:
    """The workspace of an entry, relative to the run's folder."""
    return f"{WORK}/{task_name(entry, attempt)}"


def _task(compiled: CompiledRun, entry: RunEntry, attempt: int) -> JsonObject:
    case, at = compiled.cases[entry.case], task_name(entry.name, attempt)
    own: JsonObject = {
        "goal": case["prompts"][entry.variant],
        "cwd": entry_workspace(entry.name, attempt),
        "agent": _agent(compiled.settings.seed, case, entry, at),
    }
    if case["budget"]:
        own["budget"] = case["budget"]
    task: JsonObject = case["task"] | own
    filled: JsonObject = fill_for_entry(compiled, entry, task)
    own = {"key": entry.key, "entry": entry.name, "attempt": attempt, "within": case["within_s"]}
    return filled | {"case": own}


def _agent(seed: int, case: JsonObject, entry: RunEntry, at: str) -> JsonObject:
    """The agent of an entry. Its tools are ordered by rank, so that the order does not reveal the decoys."""
    own: JsonObject = {}
    if case["image"]:
        own["sandbox"] = {"container": _inside(at)}
    elif _may_start_programs(case["tools"]):
        own["sandbox"] = ALONE
    if case["tools"] is not None:
        own["tools"] = sorted(offered_tools(case), key=lambda tool: rank_name(seed, entry.case, tool))
    return own | entry.agent


def _may_start_programs(tools: Sequence[str] | None) -> bool:
    """Whether an agent with `tools` can run commands, which could search for answers next to its workspace."""
    return tools is None or any("." not in tool and tool not in FILE_TOOLS for tool in _names(tools))


def _names(tools: Sequence[str]) -> Iterator[str]:
    """The names without restrictions, such as in `shell(./check *)`."""
    return (tool.partition("(")[0] for tool in tools)


def offered_tools(case: JsonObject) -> frozenset[str]:
    """The names of the tools that the agent of `case` is shown, except those that end its work."""
    return frozenset((*(case["tools"] or ()), *case["near"], *case["far"]))


def _inside(task: str) -> str:
    return f"c-{task}"


def _container(compiled: CompiledRun, entry: RunEntry, attempt: int) -> JsonObject:
    image = compiled.cases[entry.case]["image"]
    return {
        "image": compiled.images.get(image, image),
        "task": task_name(entry.name, attempt),
        "cmd": ["sleep", "infinity"],
        "mounts": [
            {"host": f"./{entry_workspace(entry.name, attempt)}", "container": WORK_FOLDER},
            {"tmpfs": True, "container": CONTAINER_HOME},
        ],
        "networks": [NO_NETWORK],
        "workdir": WORK_FOLDER,
        "read-only": True,
        "limits": BOUND,
        "env": dict(CONTAINER_ENV),
    }
