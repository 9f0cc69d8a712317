"""Check containers: texts that an engine would reject, mounts, ports, references, cycles."""

from __future__ import annotations

import re
from collections.abc import Iterator
from posixpath import normpath
from typing import Final

from planloop.compiler.check.tasks import TaskTree, check_command, check_exactly_one, check_health
from planloop.compiler.names import did_you_mean, leaves_folder
from planloop.compiler.problems import Pointer, Problems
from planloop.compiler.resolve.needs import TaskPath, find_cycles
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.json_pointer import task_pointer
from planloop.schemas.objects.container import INTERNAL, NO_NETWORK
from planloop.schemas.secret import REFERENCES, SECRET, is_secret_name

# The texts of a container: report what an engine would reject or misread, before the engine is called.

CAPABILITIES: Final = (
    "ALL AUDIT_CONTROL AUDIT_READ AUDIT_WRITE BLOCK_SUSPEND BPF CHECKPOINT_RESTORE CHOWN DAC_OVERRIDE DAC_READ_SEARCH "
    "FOWNER FSETID IPC_LOCK IPC_OWNER KILL LEASE LINUX_IMMUTABLE MAC_ADMIN MAC_OVERRIDE MKNOD NET_ADMIN "
    "NET_BIND_SERVICE NET_BROADCAST NET_RAW PERFMON SETFCAP SETGID SETPCAP SETUID SYSLOG SYS_ADMIN SYS_BOOT "
    "SYS_CHROOT SYS_MODULE SYS_NICE SYS_PACCT SYS_PTRACE SYS_RAWIO SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG WAKE_ALARM"
).split()
OWN_LABELS: Final = "planloop."

_IMAGE_CHARS_MAX: Final = 4 * 64  # Of a name without tag and digest: no registry takes more.
_HOST: Final = r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?(?::\d+)?/)?"
_PART: Final = r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*"
_IMAGE: Final = re.compile(
    rf"(?P<name>{_HOST}{_PART}(?:/{_PART})*)(?::[\w][\w.-]{{0,127}})?(?:@[a-z0-9]+:[0-9a-f]{{32,}})?", re.ASCII
)
_IMAGE_ID: Final = re.compile(r"sha256:[0-9a-f]{64}")
_PORT_DIGITS: Final = 6
_ENGINE_NAME: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]*")
_USER: Final = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9_.-]*\$?(?::[a-zA-Z0-9_][a-zA-Z0-9_.-]*\$?)?")
_URL: Final = re.compile(r"https?://[^\s/?#]+(?:[/?#]\S*)?|:\d{1,5}(?:[/?]\S*)?")

_NO_NETWORKS: Final = {
    "host": "containers cannot share the network of this machine: publish ports with `ports`",
    "bridge": "delete `networks` to use the network that all containers of the plan share",
}


def check_container_texts(name: str, container: JsonObject, to: Pointer, faults: Problems) -> None:
    """Report texts of the container `name` that an engine would reject."""
    if not _ENGINE_NAME.fullmatch(name):
        hint = "use letters from a to z, digits, `-`, `_` and `.`, starting with a letter or digit"
        faults.on_key("P0207", f"invalid container name `{name}`", hint, to=to)
    if "image" in container and not is_image_name(container["image"]):
        _tell_image(container["image"], (*to, "image"), faults)
    if container.get("rootfs") == "":
        faults.add("P0210", "`rootfs` does not name a file", "name a tar file", to=(*to, "rootfs"))
    if not _USER.fullmatch(container.get("user", "root")):
        hint = "use a name or number, optionally with a group: `node`, `1000`, `1000:1000`"
        faults.add("P0223", f"invalid user `{container['user']}`", hint, to=(*to, "user"))
    _check_environment(container.get("env", {}), (*to, "env"), faults)
    _check_labels(container.get("labels", {}), (*to, "labels"), faults)
    for field in ("cap-drop", "cap-add"):
        _check_capabilities(container.get(field, ()), (*to, field), faults)
    _check_networks(container.get("networks", ()), (*to, "networks"), faults)
    _check_reach(name, container, (*to, "health"), faults)
    url = container.get("health", {}).get("http", ":80")
    if not _URL.fullmatch(url):
        hint = "write it as `http://localhost:8080/health` or `:8080/health`"
        faults.add("P0223", f"invalid URL `{url}`", hint, to=(*to, "health", "http"))


def _check_reach(name: str, container: JsonObject, to: Pointer, faults: Problems) -> None:
    """Report a health check from outside of a container without a network."""
    if list(container.get("networks", ())) != [NO_NETWORK]:
        return
    for how in ("http", "tcp"):
        if how in container.get("health", {}):
            hint = "run the check in the container: `health: {cmd: [...]}`"
            faults.on_key("P0211", f"the check cannot reach `{name}`, which has no network", hint, to=(*to, how))


def is_image_name(name: str) -> bool:
    """Whether `name` is that of an image, with or without host, tag and digest, or the id of one."""
    if name.startswith("sha256:"):
        return _IMAGE_ID.fullmatch(name) is not None
    found = _IMAGE.fullmatch(name) if len(name) <= 2 * _IMAGE_CHARS_MAX else None
    return found is not None and len(found["name"]) < _IMAGE_CHARS_MAX


def is_volume_name(name: str) -> bool:
    """Whether a volume can have this name."""
    return _ENGINE_NAME.fullmatch(name) is not None


def _tell_image(name: str, to: Pointer, faults: Problems) -> None:
    hint = "write it as `redis:7`, `ghcr.io/team/app:1.2` or `app@sha256:…`"
    if is_image_name(name.lower()):
        hint = f"image names must be lower case: `{name.lower()}`"
    faults.add("P0223", f"invalid image name `{name}`" if name else "the image has no name", hint, to=to)


def _check_environment(env: JsonObject, to: Pointer, faults: Problems) -> None:
    for name, value in env.items():
        if not name or "=" in name:
            faults.on_key(
                "P0223", f"invalid variable name `{name}`", "a name must not be empty or contain `=`", to=(*to, name)
            )
        if value.startswith(SECRET) and not is_secret_name(value.removeprefix(SECRET)):
            hint = "write `secret:TOKEN` for the variable TOKEN of `plan apply` or the file .plan/secrets/TOKEN"
            faults.add("P0223", f"`{value}` does not name a secret", hint, to=(*to, name))
        elif value in REFERENCES:
            hint = "name a variable or a file: `env:NAME`, `file:path`"
            faults.add("P0223", f"incomplete reference `{value}`", hint, to=(*to, name))


def _check_labels(labels: JsonObject, to: Pointer, faults: Problems) -> None:
    for name in labels:
        if not name or name.startswith(OWN_LABELS):
            hint = f"choose another name: planloop reserves labels that begin with `{OWN_LABELS}`"
            faults.on_key("P0223", f"reserved label `{name}`", hint, to=(*to, name))


def _check_capabilities(names: Json, to: Pointer, faults: Problems) -> None:
    for index, name in enumerate(names):
        plain = name.upper().removeprefix("CAP_")
        if plain not in CAPABILITIES:
            hint = did_you_mean(plain, CAPABILITIES)
            faults.add("P0213", f"unknown capability `{name}`", hint, to=(*to, str(index)))


def _check_networks(names: Json, to: Pointer, faults: Problems) -> None:
    if NO_NETWORK in names and len(names) > 1:
        hint = "remove it, or the other networks"
        faults.add("P0211", f"`{NO_NETWORK}` cannot be combined with other networks", hint, to=to)
    for index, name in enumerate(names):
        place = (*to, str(index))
        word = name.partition(":")[0]
        if name != NO_NETWORK and name.lower() == NO_NETWORK:
            faults.add("P0213", f"unknown network `{name}`", f"did you mean `{NO_NETWORK}`?", to=place)
        elif word in _NO_NETWORKS or word == "container":
            faults.add("P0213", f"unknown network `{name}`", _NO_NETWORKS.get(word, _NO_NETWORKS["host"]), to=place)
        elif not _ENGINE_NAME.fullmatch(name):
            hint = f"use letters, digits, `-`, `_` and `.`; `{INTERNAL}` has no outside access"
            faults.add("P0223", f"invalid network name `{name}`", hint, to=place)


def is_port(text: str) -> bool:
    """Whether `text` is a number as short as those of ports; which of them there are is another question."""
    return text.isascii() and text.isdecimal() and len(text) <= _PORT_DIGITS


def port_pairs(ports: Json, to: Pointer) -> Iterator[tuple[Json, Json, Pointer]]:
    """Port of this machine (0: any), port inside and place of each; of a map as it is written."""
    if isinstance(ports, dict):
        yield from ((int(host) if is_port(host) else host, inside, (*to, host)) for host, inside in ports.items())
        return
    for index, each in enumerate(ports):
        yield each.get("host", 0), each.get("container", 0), (*to, str(index))


# What is laid into a container: where it stands inside, and what of this machine it gives away.

_ENGINE_SOCKETS: Final = ("docker.sock", "podman.sock", "containerd.sock")
_CLOSED: Final = ".plan"
_GUARDED: Final = ".git"


@frozen
class _Mount:
    target: str | None
    host: str
    is_read_only: bool
    place: Pointer


def check_workdir(container: JsonObject, to: Pointer, faults: Problems) -> None:
    """The working directory is a path inside."""
    if "workdir" in container:
        _check_inside(container["workdir"], (*to, "workdir"), faults)


def check_mounts(mounts: Json, to: Pointer, faults: Problems) -> None:
    """Report invalid mount targets, two mounts at one target, and sources that must stay private."""
    if isinstance(mounts, list):
        for index, each in enumerate(mounts):
            _check_source(each, (*to, str(index)), faults)
    targets: set[str] = set()
    for mount in _mounts(mounts, to):
        _check_host(mount, faults)
        if mount.target is None:
            continue
        at = normpath(mount.target)
        if at in ("/", "//"):
            hint = "mount at a folder such as `/work`"
            faults.add("P0223", "a mount cannot replace the root of a container", hint, to=mount.place)
        elif _check_inside(mount.target, mount.place, faults) and at in targets:
            faults.add("P0208", f"two mounts have the target `{at}`", "give each mount its own target", to=mount.place)
        targets.add(at)


def _mounts(mounts: Json, to: Pointer) -> Iterator[_Mount]:
    if isinstance(mounts, dict):
        yield from (_Mount(target, host, is_read_only=False, place=(*to, host)) for host, target in mounts.items())
        return
    for index, each in enumerate(mounts):
        yield _Mount(each.get("container"), each.get("host", ""), each.get("read-only", False), (*to, str(index)))


def _check_inside(path: str, to: Pointer, faults: Problems) -> bool:
    if path.startswith("/") and ".." not in path.split("/"):
        return True
    hint = f"use an absolute path: `{normpath('/' + path.lstrip('/'))}`"
    faults.add("P0223", f"`{path}` is not an absolute path in a container", hint, to=to)
    return False


def _check_source(mount: JsonObject, to: Pointer, faults: Problems) -> None:
    """Check the source of a mount in a list."""
    volume = mount.get("volume")
    if volume is not None and not is_volume_name(volume):
        hint = f"for a folder of this machine write `host: {volume}`" if "/" in volume else "use a name such as `cache`"
        faults.add("P0223", f"invalid volume name `{volume}`", hint, to=(*to, "volume"))
    if mount.get("host") == "":
        faults.add("P0210", "the mount names no folder", "name one; `.` is the plan's folder", to=(*to, "host"))
    if mount.get("tmpfs") is False:
        faults.add("P0210", "the mount has no source", "name a `host` or a `volume`", to=(*to, "tmpfs"))


def _check_host(mount: _Mount, faults: Problems) -> None:
    names = normpath(mount.host).split("/") if mount.host else []
    if _CLOSED in names:
        faults.add("P0218", f"`{mount.host}` contains the state of the plan", "mount another folder", to=mount.place)
    elif names and names[-1] in _ENGINE_SOCKETS:
        hint = "remove the mount if possible: the container can control the engine, and so this machine"
        faults.warn("P0218", f"`{mount.host}` is the socket of a container engine", hint, to=mount.place)
    elif _GUARDED in names and not mount.is_read_only:
        hint = "set `read-only: true` to protect the history and the hooks of the repository"
        faults.warn("P0218", f"the container can write to `{mount.host}`", hint, to=mount.place)
    elif leaves_folder(mount.host):
        hint = "the plan runs only on machines with this folder; `read-only: true` protects it"
        if mount.is_read_only:
            hint = "the plan runs only on machines with this folder"
        faults.warn("P0218", f"`{mount.host}` is outside the plan's folder", hint, to=mount.place)


# What must hold for containers: each can be made, what it names is there, and none takes another's place.

_PORT_MAX: Final = 65_535
_INTEGER_MAX: Final = 2**63 - 1
"""No engine counts further."""
_SHUT: Final = {(INTERNAL,): f"is only on `{INTERNAL}`", (NO_NETWORK,): "has no network"}
"""Networks on which no port is opened, with how one says that a container is on them."""
_PARTS: Final = {"health": "health", "build": "container-build"}
_LISTS: Final = {"mounts": "mount", "ports": "port-map"}


def check_containers(containers: JsonObject, tree: TaskTree, faults: Problems) -> None:
    """Report problems of the containers of a plan."""
    for name, container in containers.items():
        to = ("containers", name)
        _check_parts(container, to, faults)
        check_container_texts(name, container, to, faults)
        check_workdir(container, to, faults)
        check_mounts(container.get("mounts", ()), (*to, "mounts"), faults)
        _check_needs(name, containers, faults)
        _check_task(container.get("task"), (*to, "task"), tree, faults)
    _check_ports(containers, faults)
    _check_rings(containers, faults)
    _check_waiting_tasks(containers, tree, faults)


def _check_parts(container: JsonObject, to: Pointer, faults: Problems) -> None:
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
            faults.add(
                "P0212",
                f"`{path[1]}` is more than any machine has",
                "write a size such as 512MB or 2GiB",
                to=(*to, *path),
            )


def _check_build(folder: str | None, to: Pointer, faults: Problems) -> None:
    if folder == "":
        faults.add("P0210", "`build` does not name a folder", "name one; `.` is the plan's folder", to=to)
    elif folder is not None and leaves_folder(folder):
        hint = "move it into the plan's folder if possible: planloop sends the whole folder to the engine"
        faults.warn("P0218", f"`{folder}` is outside the plan's folder", hint, to=to)


def _check_ports(containers: JsonObject, faults: Problems) -> None:
    """Report invalid ports, and two containers on one port of this machine."""
    taken: dict[int, str] = {}
    for name, container in containers.items():
        to = ("containers", name, "ports")
        for host, inside, place in port_pairs(container.get("ports", ()), to):
            _check_port(inside, place, faults)
            if not isinstance(host, int):
                hint = "write the port of this machine, then the container's: `{6379: 6379}`"
                faults.on_key("P0223", f"invalid port `{host}`", hint, to=place)
                continue
            if host == 0 and isinstance(container["ports"], dict):
                hint = "to use any free port, write a list without `host`: `[{container: 6379}]`"
                faults.on_key("P0212", "port 0 is invalid", hint, to=place)
            _check_port(host, place, faults, is_key=isinstance(container["ports"], dict))
            if host and (other := taken.setdefault(host, f"{name}:{inside}")) != f"{name}:{inside}":
                hint = "change one of them, or delete `host` to use any free port"
                faults.add("P0208", f"both `{other}` and `{name}:{inside}` use port {host}", hint, to=place)
        if container.get("ports") and (shut := _SHUT.get(tuple(container.get("networks", ())))):
            hint = "use another network, or remove `ports`"
            faults.warn_on_key("P0211", f"the ports of `{name}` are not published: it {shut}", hint, to=to)


def _check_port(number: Json, to: Pointer, faults: Problems, *, is_key: bool = False) -> None:
    if number > _PORT_MAX:
        tell = faults.on_key if is_key else faults.add
        tell("P0212", f"invalid port `{number}`", f"use a port up to {_PORT_MAX}", to=to)


def _check_needs(name: str, containers: JsonObject, faults: Problems) -> None:
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
            hint = f"set `restart: on-failure` for `{need}`, or wait for `healthy`"
            faults.add("P0211", f"container `{need}` never completes: it has `restart: always`", hint, to=to)
        _check_is_there(need, containers[name].get("task"), to, containers, faults)


def _check_task(task: str | None, to: Pointer, tree: TaskTree, faults: Problems) -> None:
    paths = {"/".join(path) for path, _ in tree if path}
    if task in ("", "."):
        faults.add(
            "P0204", "`task` does not name a task", "delete `task`: the container then serves the whole plan", to=to
        )
    elif task is not None and task not in paths:
        faults.add("P0204", f"unknown task `{task}`", did_you_mean(task, sorted(paths)), to=to)


def _check_waiting_tasks(containers: JsonObject, tree: TaskTree, faults: Problems) -> None:
    """Report tasks that would wait for a container that only another task starts."""
    for path, task in tree:
        for index, name in enumerate(task.get("containers", ()) if path else ()):
            if name in containers:
                to = (*task_pointer(path), "containers", str(index))
                _check_is_there(name, "/".join(path), to, containers, faults)


def _check_is_there(name: str, waiting: str | None, to: Pointer, containers: JsonObject, faults: Problems) -> None:
    """Whether what is for the task `waiting` (None: for the plan) finds `name` up: it may be for another task."""
    task = containers[name].get("task")
    if task and waiting != task and not str(waiting or "").startswith(f"{task}/"):
        hint = f"remove `task: {task}` from `{name}`: it then serves the whole plan"
        faults.add("P0211", f"container `{name}` runs only for task `{task}`", hint, to=to)


def _check_rings(containers: JsonObject, faults: Problems) -> None:
    needs: dict[TaskPath, list[TaskPath]] = {
        (name,): [(need,) for need in one["needs"]] for name, one in containers.items() if one.get("needs")
    }
    for ring in find_cycles(needs, []):
        names = [name for (name,) in ring]
        way = " → ".join([*names, names[0]])
        to = ("containers", names[0], "needs")
        faults.add("P0222", f"dependency cycle of containers: {way}", "remove one of these `needs`", to=to)
