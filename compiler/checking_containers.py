"""What must hold for containers: each can be made, what it names is there, and none takes another's place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from compiler.checking import Tree, check_command, check_exactly_one, check_health
from compiler.faults import Faults, Pointer
from compiler.needs import TaskPath, rings
from compiler.suggesting import did_you_mean
from schemas.encoding import Json, JsonObject

_PORT_MAX: Final = 65_535
_ENGINE_SOCKETS: Final = ("docker.sock", "podman.sock", "containerd.sock")
_CLOSED: Final = ".plan"
_PARTS: Final = {"health": "health", "build": "container-build"}
_LISTS: Final = {"mounts": "mount", "ports": "port-map"}


def check_containers(containers: JsonObject, tree: Tree, faults: Faults) -> None:
    """Tells of whatever is wrong with the containers of a plan."""
    for name, container in containers.items():
        _check_container(container, ("containers", name), containers, tree, faults)
    _check_ports_of_all(containers, faults)
    _check_rings(containers, faults)


def _check_container(container: JsonObject, to: Pointer, containers: JsonObject, tree: Tree, faults: Faults) -> None:
    check_exactly_one("container", container, to, faults)
    for field in ("cmd", "entrypoint"):
        check_command(container, field, to, faults)
    for field, table in _PARTS.items():
        if field in container:
            check_exactly_one(table, container[field], (*to, field), faults)
    for field, table in _LISTS.items():
        if isinstance(container.get(field), list):
            for index, each in enumerate(container[field]):
                check_exactly_one(table, each, (*to, field, str(index)), faults)
    if not _is_absolute(container.get("workdir", "/")):
        _not_absolute(container["workdir"], (*to, "workdir"), faults)
    _check_mounts(container.get("mounts", ()), (*to, "mounts"), faults)
    _check_needs(container.get("needs", ()), (*to, "needs"), containers, faults)
    _check_task(container.get("task"), (*to, "task"), tree, faults)


def _check_mounts(mounts: Json, to: Pointer, faults: Faults) -> None:
    targets: set[str] = set()
    for target, host, place in _mounts(mounts, to):
        if not _is_absolute(target):
            _not_absolute(target, place, faults)
        if target in targets:
            faults.add("P0208", f"two mounts at `{target}`", "each needs a place of its own", to=place)
        targets.add(target)
        names = host.rstrip("/").split("/")
        if names[-1] in _ENGINE_SOCKETS:
            hint = "whoever has the engine's socket has this machine: give the container what it needs by other means"
            faults.add("P0218", f"`{host}` is the socket of a container engine", hint, to=place)
        elif _CLOSED in names:
            faults.add("P0218", f"`{host}` holds the state of the plan", "mount another folder", to=place)


def _mounts(mounts: Json, to: Pointer) -> Iterator[tuple[str, str, Pointer]]:
    """Target, host path and place of each mount whose target can be read."""
    if isinstance(mounts, dict):
        yield from ((target, host, (*to, host)) for host, target in mounts.items())
        return
    for index, each in enumerate(mounts):
        if "container" in each:
            yield each["container"], each.get("host", ""), (*to, str(index))


def _is_absolute(path: str) -> bool:
    return path.startswith("/")


def _not_absolute(path: str, to: Pointer, faults: Faults) -> None:
    faults.add("P0223", f"`{path}` is no path inside a container", f"begin it at the root: `/{path}`", to=to)


def _check_ports_of_all(containers: JsonObject, faults: Faults) -> None:
    """Tells of ports that there are not, and of two containers at one port of this machine."""
    taken: dict[int, str] = {}
    for name, container in containers.items():
        for host, inside, place in _ports(container.get("ports", ()), ("containers", name, "ports")):
            for number in (host, inside):
                if number > _PORT_MAX:
                    faults.add("P0212", f"`{number}` is no port", f"they end at {_PORT_MAX}", to=place)
            if host and taken.setdefault(host, name) != name:
                hint = "give one of them another port, or leave `host` out for any free one"
                faults.add("P0208", f"port {host} is given to `{taken[host]}` and to `{name}`", hint, to=place)


def _ports(ports: Json, to: Pointer) -> Iterator[tuple[int, int, Pointer]]:
    """Host port (0: any), port inside and place of each."""
    if isinstance(ports, dict):
        yield from ((int(host), inside, (*to, host)) for host, inside in ports.items() if host.isdigit())
        return
    for index, each in enumerate(ports):
        yield each.get("host", 0), each.get("container", 0), (*to, str(index))


def _check_needs(needs: Json, to: Pointer, containers: JsonObject, faults: Faults) -> None:
    for index, need in enumerate(needs):
        place = (*to, need if isinstance(needs, dict) else str(index))
        if need not in containers:
            faults.add("P0213", f"unknown container `{need}`", did_you_mean(need, containers), to=place)
        elif isinstance(needs, dict) and needs[need] == "healthy":
            check_health(need, place, containers, faults)


def _check_task(task: str | None, to: Pointer, tree: Tree, faults: Faults) -> None:
    paths = {"/".join(path) for path, _ in tree if path}
    if task is not None and task not in paths:
        faults.add("P0204", f"there is no task `{task}`", did_you_mean(task, sorted(paths)), to=to)


def _check_rings(containers: JsonObject, faults: Faults) -> None:
    needs: dict[TaskPath, list[TaskPath]] = {
        (name,): [(need,) for need in one["needs"]] for name, one in containers.items() if one.get("needs")
    }
    for ring in rings(needs, []):
        names = [name for (name,) in ring]
        way = " → ".join([*names, names[0]])
        to = ("containers", names[0], "needs")
        faults.add("P0222", f"containers wait for each other: {way}", "take one need away", to=to)
