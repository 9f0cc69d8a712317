"""What must hold for containers: each can be made, what it names is there, and none takes another's place.

The texts in them are looked at in `container_forms.py`, what is laid into them in `checking_mounts.py`.
"""

from __future__ import annotations

from typing import Final

from planloop.compiler.checking import Tree, check_command, check_exactly_one, check_health
from planloop.compiler.checking_mounts import check_mounts, check_workdir
from planloop.compiler.container_forms import check_forms, port_pairs
from planloop.compiler.faults import Faults, Pointer
from planloop.compiler.naming import leads_out
from planloop.compiler.needs import TaskPath, rings
from planloop.compiler.suggesting import did_you_mean
from planloop.schemas.container import INTERNAL, NO_NETWORK
from planloop.schemas.encoding import Json, JsonObject
from planloop.schemas.pointer import of_task

_PORT_MAX: Final = 65_535
_INTEGER_MAX: Final = 2**63 - 1
"""No engine counts further."""
_SHUT: Final = {(INTERNAL,): f"is on `{INTERNAL}` alone", (NO_NETWORK,): "has no network"}
"""Networks on which no port is opened, with how one says that a container is on them."""
_PARTS: Final = {"health": "health", "build": "container-build"}
_LISTS: Final = {"mounts": "mount", "ports": "port-map"}


def check_containers(containers: JsonObject, tree: Tree, faults: Faults) -> None:
    """Tells of whatever is wrong with the containers of a plan."""
    for name, container in containers.items():
        to = ("containers", name)
        _check_parts(container, to, faults)
        check_forms(name, container, to, faults)
        check_workdir(container, to, faults)
        check_mounts(container.get("mounts", ()), (*to, "mounts"), faults)
        _check_needs(name, containers, faults)
        _check_task(container.get("task"), (*to, "task"), tree, faults)
    _check_ports(containers, faults)
    _check_rings(containers, faults)
    _check_waiting_tasks(containers, tree, faults)


def _check_parts(container: JsonObject, to: Pointer, faults: Faults) -> None:
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
    check_command(container.get("health", {}), "cmd", (*to, "health"), faults)
    _check_port(container.get("health", {}).get("tcp", 1), (*to, "health", "tcp"), faults)
    _check_build(container.get("build", {}).get("folder"), (*to, "build", "folder"), faults)
    for path in (("limits", "memory"), ("logs", "max")):
        if container.get(path[0], {}).get(path[1], 0) > _INTEGER_MAX:
            faults.add("P0212", f"`{path[1]}` is more than there is", "as in 512MB or 2GiB", to=(*to, *path))


def _check_build(folder: str | None, to: Pointer, faults: Faults) -> None:
    if folder == "":
        faults.add("P0210", "`build` names no folder", "`.` is that of the plan", to=to)
    elif folder is not None and leads_out(folder):
        hint = "all of it is sent to the engine"
        faults.warn("P0218", f"`{folder}` is outside the plan's folder", hint, to=to)


def _check_ports(containers: JsonObject, faults: Faults) -> None:
    """Tells of ports that there are not, and of two at one port of this machine."""
    taken: dict[int, str] = {}
    for name, container in containers.items():
        to = ("containers", name, "ports")
        for host, inside, place in port_pairs(container.get("ports", ()), to):
            _check_port(inside, place, faults)
            if not isinstance(host, int):
                hint = "the port of this machine comes first, then the one inside: `{6379: 6379}`"
                faults.on_key("P0223", f"`{host}` is no port", hint, to=place)
                continue
            if host == 0 and isinstance(container["ports"], dict):
                hint = "for any free port leave `host` out of a list: `[{container: 6379}]`"
                faults.on_key("P0212", "a port cannot be 0", hint, to=place)
            _check_port(host, place, faults, is_key=isinstance(container["ports"], dict))
            if host and (other := taken.setdefault(host, f"{name}:{inside}")) != f"{name}:{inside}":
                hint = "give one of them another port, or leave `host` out for any free one"
                faults.add("P0208", f"port {host} is given to `{other}` and to `{name}:{inside}`", hint, to=place)
        if container.get("ports") and (shut := _SHUT.get(tuple(container.get("networks", ())))):
            hint = "put it on another network, or take its `ports` away"
            faults.warn_on_key("P0211", f"ports of `{name}`, which {shut}, are not opened", hint, to=to)


def _check_port(number: Json, to: Pointer, faults: Faults, *, is_key: bool = False) -> None:
    if number > _PORT_MAX:
        tell = faults.on_key if is_key else faults.add
        tell("P0212", f"`{number}` is no port", f"they end at {_PORT_MAX}", to=to)


def _check_needs(name: str, containers: JsonObject, faults: Faults) -> None:
    needs = containers[name].get("needs", ())
    for index, need in enumerate(needs):
        to = ("containers", name, "needs", need if isinstance(needs, dict) else str(index))
        if need not in containers:
            faults.add("P0213", f"unknown container `{need}`", did_you_mean(need, containers), to=to)
            continue
        how = needs[need] if isinstance(needs, dict) else ""
        if how == "healthy":
            check_health(need, to, containers, faults)
        elif how == "completed" and containers[need].get("restart") == "always":
            hint = f"`restart: on-failure` for `{need}`, or wait for `healthy`"
            faults.add("P0211", f"`{need}` restarts always: it is never completed", hint, to=to)
        _check_is_there(need, containers[name].get("task"), to, containers, faults)


def _check_task(task: str | None, to: Pointer, tree: Tree, faults: Faults) -> None:
    paths = {"/".join(path) for path, _ in tree if path}
    if task in ("", "."):
        faults.add("P0204", "no task is named", "leave `task` out: it is for the whole plan then", to=to)
    elif task is not None and task not in paths:
        faults.add("P0204", f"there is no task `{task}`", did_you_mean(task, sorted(paths)), to=to)


def _check_waiting_tasks(containers: JsonObject, tree: Tree, faults: Faults) -> None:
    """Tells of tasks that would wait for a container which is only there for another one."""
    for path, task in tree:
        for index, name in enumerate(task.get("containers", ()) if path else ()):
            if name in containers:
                to = (*of_task(path), "containers", str(index))
                _check_is_there(name, "/".join(path), to, containers, faults)


def _check_is_there(name: str, waiting: str | None, to: Pointer, containers: JsonObject, faults: Faults) -> None:
    """Whether what is for the task `waiting` (None: for the plan) finds `name` up: it may be for another task."""
    task = containers[name].get("task")
    if task and waiting != task and not str(waiting or "").startswith(f"{task}/"):
        hint = f"take `task: {task}` away from `{name}`: it is up for the whole plan then"
        faults.add("P0211", f"container `{name}` is only there for task `{task}`", hint, to=to)


def _check_rings(containers: JsonObject, faults: Faults) -> None:
    needs: dict[TaskPath, list[TaskPath]] = {
        (name,): [(need,) for need in one["needs"]] for name, one in containers.items() if one.get("needs")
    }
    for ring in rings(needs, []):
        names = [name for (name,) in ring]
        way = " → ".join([*names, names[0]])
        to = ("containers", names[0], "needs")
        faults.add("P0222", f"containers wait for each other: {way}", "take one need away", to=to)
