"""Which containers an agent may create: for its own task or descendants, with no more access than it has. Pure.

A container runs commands with the rights of the engine. So it may mount only folders of the workspace, it has the
network only if the agent has that right, and it gets no capabilities, secrets or ports of this machine. The plan
language cannot express the engine's socket, privileged mode, or the networks and processes of the machine. Agents
cannot change containers that people wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from posixpath import normpath
from typing import Final
from urllib.parse import urlsplit

from planloop.reconciler.admission import field_ownership
from planloop.reconciler.admission.hook_policy import AgentPatch
from planloop.reconciler.current_plan import CurrentPlan
from planloop.schemas import address as addresses
from planloop.schemas import json_pointer, limits, patterns
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.log.patch import PatchProblem
from planloop.schemas.objects.container import (
    CONTAINER_KIND,
    INTERNAL,
    NO_NETWORK,
    OWN_HOSTS,
    Mount,
    default_capabilities,
)
from planloop.schemas.resource import Resource, WantedObject
from planloop.schemas.rights import Rights, covers_path, is_covered, rights_from_json
from planloop.schemas.secret import REFERENCES
from planloop.schemas.tools import WRITING_TOOLS

CONTAINERS: Final = "containers"
TOOL: Final = "container"
_ASK: Final = "ask with `request`"
_OURS: Final = "planloop."
_REPOSITORIES: Final = frozenset({".git", ".hg", ".jj"})
ContainerPathTokens = tuple[str, ...]


@frozen
class _Author:
    """An agent that creates containers: the path of its task, its rights, the limits of its commands, its workspace,
    and the name of its plan file."""

    path: ContainerPathTokens
    rights: Rights
    bounds: JsonObject
    workspace: PurePosixPath
    plan_file: str


def container_faults(patch: AgentPatch, rights: Rights, own: JsonObject, workspace: str) -> Iterator[PatchProblem]:
    """Yield problems of containers that the author of `patch` may not create, change or remove."""
    sandbox = own.get("sandbox")
    path = () if patch.author.name == "." else tuple(patch.author.name.split("/"))
    bounds = sandbox if isinstance(sandbox, dict) else {}
    plan_file = PurePosixPath(str(patch.present.file.get("path", ""))).name
    author = _Author(path, rights, bounds, PurePosixPath(workspace), plan_file)
    live, wanted = _containers(patch.live), _containers(patch.wanted)
    for name in {**live, **wanted}:
        old, want = live.get(name), wanted.get(name)
        if old == want:
            continue
        if old is not None and (why := _not_its_own(patch.present, name, old, author)):
            yield PatchProblem("rights", f"{CONTAINER_KIND}/{name} {why}", (CONTAINERS, name), _ASK)
        elif want is not None:
            yield from (PatchProblem("rights", what, (CONTAINERS, name), hint) for what, hint in _faults(want, author))
            yield from _shared(name, want, patch, author)
    yield from _count_faults(patch, live, wanted)


def without_orphan_containers(present: CurrentPlan, document: JsonObject) -> JsonObject:
    """Return `document` without containers that agents created for tasks which no longer exist."""
    gone = [
        name
        for name, one in (document.get(CONTAINERS) or {}).items()
        if isinstance(one, dict)
        and one.get("task")
        and is_made_by_agent(present, name)
        and not json_pointer.has_value(document, json_pointer.task_pointer(str(one["task"]).split("/")))
    ]
    if not gone:
        return document
    kept = {name: one for name, one in document[CONTAINERS].items() if name not in gone}
    rest = {key: value for key, value in document.items() if key != CONTAINERS}
    return rest | ({CONTAINERS: kept} if kept else {})


def is_made_by_agent(present: CurrentPlan, name: str) -> bool:
    """Whether an agent created the container, and no person has changed it or added it to the file since."""
    return container_maker(present, name) is not None


def container_maker(present: CurrentPlan, name: str) -> str | None:
    """The path of the agent that last changed the container, `.` for the root agent; None for a person."""
    if name in (present.filed.get(CONTAINERS) or {}):
        return None
    stamp = field_ownership.last_change(present.stamps, (CONTAINERS, name))
    return None if stamp is None or stamp.author.is_human else stamp.author.name


def _containers(objects: Mapping[str, Resource] | Mapping[str, WantedObject]) -> dict[str, JsonObject]:
    found = (
        (addresses.parse_address(address), one.spec)
        for address, one in objects.items()
        if address.startswith(f"{CONTAINER_KIND}/")
    )
    return {at.path[0]: spec for at, spec in found}


def _not_its_own(present: CurrentPlan, name: str, old: JsonObject, author: _Author) -> str:
    if not is_made_by_agent(present, name):
        return "was set by a person, so only people may change it"
    return "" if _is_within(old, author.path) else "belongs to a task outside your subtree"


def _is_within(spec: JsonObject, path: ContainerPathTokens) -> bool:
    return _task(spec)[: len(path)] == path


def _is_made_within(present: CurrentPlan, name: str, path: ContainerPathTokens) -> bool:
    maker = container_maker(present, name)
    steps = () if maker in (None, ".") else tuple(str(maker).split("/"))
    return maker is not None and steps[: len(path)] == path


def _task(spec: JsonObject) -> ContainerPathTokens:
    return tuple(spec["task"].split("/")) if spec["task"] else ()


def _faults(want: JsonObject, author: _Author) -> Iterator[tuple[str, str]]:
    """Yield problems of a container that the author creates or changes, each with a hint."""
    rights = author.rights
    if not _is_within(want, author.path):
        yield "it would outlive your task", f"set `task: {'/'.join(author.path)}`, or one of its descendants"
    what = (str(want["image"]),)
    if not any(patterns.is_allowed_by(given, TOOL, what) for given in (rights.tools, rights.grant_tools)):
        yield f"your rights do not allow the tool `{TOOL}` for `{want['image']}`", _ASK
    elif denial := patterns.find_denial(rights.deny, TOOL, what):
        yield f"`{denial}` denies it", _ASK
    yield from _power_faults(want, author)
    yield from _network_faults(want, rights)
    for mount in want["mounts"]:
        yield from _mount_faults(mount, author)
    yield from _nesting_faults(want["mounts"])
    for folder in filter(None, (want["build"].get("folder"), want["rootfs"])):
        if not _is_inside(str(folder), author.workspace):
            yield f"`{folder}` is outside your workspace `{author.workspace}`", "use a folder in your workspace"
    for variable, value in want["env"].items():
        if value.startswith(REFERENCES):
            yield f"it would receive `{value}` as `{variable}`; only people may pass on values of the owner", _ASK


def _power_faults(want: JsonObject, author: _Author) -> Iterator[tuple[str, str]]:
    usual = default_capabilities(Mount(**each) for each in want["mounts"])
    if not set(want["cap_add"]) <= set(usual) or "ALL" not in want["cap_drop"]:
        yield "it would change its capabilities; only people may do that", "remove `cap-add` and `cap-drop`"
    if want["keep"] != "never":
        yield "it would be kept after its task", "remove `keep`"
    if any(label.startswith(_OURS) for label in want["labels"]):
        yield f"labels that begin with `{_OURS}` are reserved", "use another name"
    # A fork bomb would use up the process ids of the machine, and so stop the engine.
    for field, bound, rest in (("memory_bytes", "memory", None), ("pids", "processes", limits.SANDBOX_PROCESSES)):
        most = author.bounds.get(bound, rest)
        if most is not None and (want[field] is None or want[field] > most):
            yield f"its `{bound}` must not exceed yours, {most}", "set it under `limits` of the container"


def _network_faults(want: JsonObject, rights: Rights) -> Iterator[tuple[str, str]]:
    for port in want["ports"]:
        if port["host"] and port["host"] not in rights.ports:
            allowed = f"`rights: {{ports: [{port['host']}]}}`"
            yield (
                f"your rights do not allow port {port['host']} of this machine",
                f"remove `host` to use any port, or ask for {allowed}",
            )
    http = (want["health"] or {}).get("http", "")
    if http and not _asks_itself(http):
        yield f"its health check would connect to `{http}`, which is not the container", "write it as `:port/path`"
    if rights.network:
        return
    if want["networks"] not in ([INTERNAL], [NO_NETWORK]):
        hint = f"set `networks: [{INTERNAL}]` or `[{NO_NETWORK}]`"
        yield "it would have network access, but you may not use the network", hint
    if want["build"]:
        yield "the build would use the network, but you may not use it", "use an existing image"


def _asks_itself(url: str) -> bool:
    """Whether a health check at `url`, which the owner requests, reaches only the container."""
    try:
        return urlsplit(f"http://{OWN_HOSTS[0]}{url}" if url.startswith(":") else url).hostname in OWN_HOSTS
    except ValueError:
        return False


def _mount_faults(mount: JsonObject, author: _Author) -> Iterator[tuple[str, str]]:
    host = str(mount["host"])
    if not host:
        return
    if not _is_inside(host, author.workspace):
        yield f"`{host}` is outside your workspace `{author.workspace}`", "mount a folder of your workspace"
        return
    path = normpath(host)
    tree = "**" if path == "." else f"{path}/**"
    rights = author.rights
    if rights.read is not None and not is_covered(rights.read, tree, covers_path):
        yield f"it would read `{tree}`, but you may read only {', '.join(rights.read)}", "mount only those paths"
    if mount["is_read_only"]:
        return
    if why := _steers(path, author):
        yield f"it would write `{path}`, {why}", "set `read-only: true`"
    if rights.write is not None and not is_covered(rights.write, tree, covers_path):
        yield (
            f"it would write `{tree}`, but you may write only {', '.join(rights.write)}",
            "mount only those paths, or set `read-only: true`",
        )


def _nesting_faults(mounts: list[JsonObject]) -> Iterator[tuple[str, str]]:
    """Yield problems of mounts inside a volume: other containers of the volume could redirect them with links."""
    volumes = [mount for mount in mounts if mount["volume"]]
    for mount in mounts:
        at = PurePosixPath(normpath(mount["target"]))
        over = next((one for one in volumes if at.is_relative_to(normpath(one["target"])) and mount["host"]), None)
        if over is not None:
            what = f"`{mount['host']}` would be mounted inside the volume `{over['volume']}`, at `{mount['target']}`"
            yield what, "mount it outside the volume"


def _steers(path: str, author: _Author) -> str:
    """Why only people may write `path`, which is mounted under its own name; empty if agents may."""
    if _REPOSITORIES.intersection(PurePosixPath(path).parts):
        return "and git runs programs from there"
    if path == author.plan_file:
        return "which contains the plan"
    denial = patterns.find_denial((*author.rights.deny, *author.rights.guarded), WRITING_TOOLS[0], (path,))
    return f"which is denied by `{denial}`" if denial else ""


def _is_inside(path: str, folder: PurePosixPath) -> bool:
    """Whether `path`, relative to the plan's folder, is in `folder`; links are followed when it is mounted."""
    found = PurePosixPath(normpath(path))
    return not path.startswith(("/", "~")) and ".." not in found.parts and found.is_relative_to(folder)


def _shared(name: str, want: JsonObject, patch: AgentPatch, author: _Author) -> Iterator[PatchProblem]:
    """Yield problems of volumes that belong to containers outside of the author's subtree.

    Labels protect the volumes of removed containers (`planloop.controllers.container.start_jobs`).
    """
    mine, live = {mount["volume"] for mount in want["mounts"]} - {""}, _containers(patch.live)
    for other, spec in _containers(patch.wanted).items():
        theirs = mine & {mount["volume"] for mount in spec["mounts"]}
        if other != name and theirs and other in live and not _is_made_within(patch.present, other, author.path):
            what = f"the volume `{min(theirs)}` belongs to {CONTAINER_KIND}/{other}, which is outside your subtree"
            yield PatchProblem("rights", what, (CONTAINERS, name), "use another name")


def _count_faults(
    patch: AgentPatch, live: Mapping[str, JsonObject], wanted: Mapping[str, JsonObject]
) -> Iterator[PatchProblem]:
    """Yield problems if the author or an ancestor would exceed its maximal number of containers."""
    made = [spec for name, spec in wanted.items() if name not in live or is_made_by_agent(patch.present, name)]
    if not wanted.keys() - live.keys():
        return
    path = () if patch.author.name == "." else tuple(patch.author.name.split("/"))
    for depth in range(len(path) + 1):
        agent = patch.live.get(str(addresses.agent_address(*path[:depth])))
        if agent is None:
            continue
        bound = rights_from_json(agent.spec["rights"]).containers
        most = limits.CONTAINERS_OF_AGENTS if bound is None else bound
        count = sum(_is_within(spec, path[:depth]) for spec in made)
        if count > most:
            what = f"{agent.address} would have {count} containers added by agents; its rights allow {most}"
            yield PatchProblem("rights", what, (CONTAINERS,), "stop one with `container_stop`, or `request` more")
            return
