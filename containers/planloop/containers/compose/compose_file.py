"""Export a plan's containers as a Compose file that Compose 1.29 and 2 read.

It has no `version`, so both follow the Compose specification. The file omits what Compose cannot express;
`unsupported_in_compose` lists it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.objects.container import INTERNAL, NO_NETWORK, ContainerSpec, Health, Mount, Port
from planloop.schemas.secret import REFERENCES, SECRET

_CONDITIONS: Final = {
    "started": "service_started",
    "healthy": "service_healthy",
    "completed": "service_completed_successfully",
}
_VARIABLES: Final = ("env:", SECRET)
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")  # The form that Compose accepts.
_DEFAULT: Final = "default"


def compose_file(specs: Mapping[str, ContainerSpec]) -> JsonObject:
    """Return the Compose file for containers by name."""
    networks = {name: {"internal": True} if name == INTERNAL else {} for name in _named(specs, _networks)}
    volumes: JsonObject = {name: {} for name in _named(specs, _volumes)}
    parts: JsonObject = {"services": {name: _looked_up(_service(name, spec), spec) for name, spec in specs.items()}}
    return parts | ({"networks": networks} if networks else {}) | ({"volumes": volumes} if volumes else {})


def unsupported_in_compose(specs: Mapping[str, ContainerSpec]) -> list[str]:
    """List what a Compose file cannot express about the containers, one sentence each."""
    found = []
    for name, spec in specs.items():
        if spec.rootfs:
            found.append(
                f"`{name}`: Compose builds no image from `{spec.rootfs}`. Load one as `{service_image(name, spec)}`"
            )
        if spec.keep != "never":
            found.append(f"`{name}`: Compose has no `keep`; it keeps all containers until `down`")
        if spec.ttl_s is not None:
            found.append(f"`{name}`: Compose has no `ttl`")
        for key, value in spec.env.items():
            if value.startswith(REFERENCES) and not _variable(value):
                found.append(f"`{name}`: Compose cannot read `{value}`. Set `{key}` another way")
        if any(mount.host == "." and not mount.is_read_only for mount in spec.mounts):
            found.append(f"`{name}`: Compose does not protect the plan file and `.git` in `.`, and shows `.plan`")
        if spec.task:
            found.append(f"`{name}`: Compose has no tasks, so it starts the container immediately")
    return found


def service_image(name: str, spec: ContainerSpec) -> str:
    """The image name of a service."""
    return spec.image or f"{name}:rootfs"


def _named(specs: Mapping[str, ContainerSpec], of: Callable[[ContainerSpec], Iterable[str]]) -> list[str]:
    """The names without duplicates, in the order of the plan."""
    return list(dict.fromkeys(each for spec in specs.values() for each in of(spec)))


def _networks(spec: ContainerSpec) -> list[str]:
    return [name for name in spec.networks if name not in (_DEFAULT, NO_NETWORK)]


def _volumes(spec: ContainerSpec) -> list[str]:
    return [mount.volume for mount in spec.mounts if mount.volume]


def _looked_up(service: JsonObject, spec: ContainerSpec) -> JsonObject:
    """Add the variables to the service. Only in them may Compose replace anything."""
    env = {key: shown for key, value in spec.env.items() if (shown := _value(value)) is not None}
    out: JsonObject = {key: _escaped(part) for key, part in service.items()}
    return out | ({"environment": env} if env else {})


def _service(name: str, spec: ContainerSpec) -> JsonObject:
    parts: dict[str, Json] = {
        "image": None if spec.build else service_image(name, spec),
        "build": _build(spec.build),
        "command": None if spec.cmd is None else list(spec.cmd),
        "entrypoint": None if spec.entrypoint is None else list(spec.entrypoint),
        "working_dir": spec.workdir,
        "user": spec.user,
        "volumes": [_volume(mount) for mount in spec.mounts],
        "ports": [_port(port) for port in spec.ports],
        "networks": [] if spec.is_cut_off else list(spec.networks),
        "network_mode": "none" if spec.is_cut_off else None,
        "depends_on": {need: {"condition": _CONDITIONS[how]} for need, how in spec.needs.items()},
        "healthcheck": None if spec.health is None else _healthcheck(spec.health),
        "cpus": spec.cpu,
        "mem_limit": spec.memory_bytes,
        "pids_limit": spec.pids,
        "read_only": spec.is_read_only or None,
        "cap_drop": list(spec.cap_drop),
        "cap_add": list(spec.cap_add),
        "security_opt": ["no-new-privileges"],
        "init": True,
        "restart": spec.restart,
        "logging": {"driver": "json-file", "options": {"max-size": str(spec.logs_bytes)}},
        "labels": dict(spec.labels),
    }
    return {key: value for key, value in parts.items() if value not in (None, "", [], {})}


def _build(build: JsonObject) -> JsonObject:
    names = {"folder": "context", "file": "dockerfile", "target": "target", "args": "args"}
    return {names[key]: _path(value) if key == "folder" else value for key, value in build.items()}


def _volume(mount: Mount) -> JsonObject:
    kind = "bind" if mount.host else "volume" if mount.volume else "tmpfs"
    source = {"source": _path(mount.host) if mount.host else mount.volume} if kind != "tmpfs" else {}
    return {"type": kind, **source, "target": mount.target} | ({"read_only": True} if mount.is_read_only else {})


def _path(path: str) -> str:
    """A host path for Compose, which must look like a path, not like the name of a volume."""
    return path if path.startswith(("/", "./", "../", "~")) or path in (".", "..") else f"./{path}"


def _port(port: Port) -> str:
    return f"127.0.0.1:{port.host or ''}:{port.inside}"


def _healthcheck(health: Health) -> JsonObject:
    return {
        "test": _test(health),
        "interval": _seconds(health.interval_s),
        "timeout": _seconds(health.timeout_s),
        "retries": health.retries,
        "start_period": _seconds(health.start_period_s),
    }


def _test(health: Health) -> list[str]:
    """The health command for Compose. The programs in the image are unknown, so it tries several."""
    if health.cmd:
        return ["CMD", *health.cmd]
    if health.http:
        url = shlex.quote(health.http if "://" in health.http else f"http://127.0.0.1{health.http}")
        return ["CMD-SHELL", f"wget -q -O /dev/null {url} || curl -fsS -o /dev/null {url}"]
    return ["CMD-SHELL", f"nc -z 127.0.0.1 {health.tcp} || bash -c '</dev/tcp/127.0.0.1/{health.tcp}'"]


def _seconds(seconds: float) -> str:
    return f"{round(seconds * 1000)}ms"


def _value(value: str) -> str | None:
    """The value of a variable; None if Compose cannot look it up.

    A secret is read from the environment of the Compose command, which must define it.
    """
    if not value.startswith(REFERENCES):
        return str(_escaped(value))
    name = _variable(value)
    return f"${{{name}:?}}" if name else None


def _variable(reference: str) -> str:
    """The variable that a secret reference names; empty if it names none."""
    name = reference.partition(":")[2]
    return name if reference.startswith(_VARIABLES) and _VARIABLE.fullmatch(name) else ""


def _escaped(part: Json) -> Json:
    """Escape `$` as `$$` in all texts, so that Compose replaces nothing in them."""
    match part:
        case str():
            return part.replace("$", "$$")
        case list():
            return [_escaped(one) for one in part]
        case dict():
            return {key: _escaped(one) for key, one in part.items()}
    return part
