"""Lower a container as written to the spec that its controller reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from planloop.compiler.check.containers import is_port
from planloop.compiler.lower.agents import command_argv
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.limits import CONTAINER_PIDS_DEFAULT
from planloop.schemas.objects.container import ContainerSpec, Health, Mount, Port, Readiness, default_capabilities

_AS_WRITTEN: Final = ("image", "build", "rootfs", "workdir", "restart", "keep", "task", "again")
_LISTS: Final = ("networks", "cap-drop", "cap-add")
_HEALTH: Final = {
    "http": "http",
    "tcp": "tcp",
    "interval": "interval_s",
    "timeout": "timeout_s",
    "retries": "retries",
    "start-period": "start_period_s",
}
_LIMITS: Final = {"cpu": "cpu", "memory": "memory_bytes", "pids": "pids"}


def lower_container(written: JsonObject, containers: Mapping[str, JsonObject]) -> ContainerSpec:
    """The spec of the container `written`, one of `containers`; what its image says stays unsaid."""
    spec: dict[str, Any] = {name: written[name] for name in _AS_WRITTEN if name in written}
    spec |= {name.replace("-", "_"): tuple(written[name]) for name in _LISTS if name in written}
    spec |= {name: _argv(written[name]) for name in ("cmd", "entrypoint") if name in written}
    spec |= {name: _texts(written[name]) for name in ("env", "labels") if name in written}
    limits = {"pids": CONTAINER_PIDS_DEFAULT, **written.get("limits", {})}
    spec |= {lowered: limits[name] for name, lowered in _LIMITS.items() if name in limits}
    mounts = _mounts(written.get("mounts", ()))
    if not ("cap-add" in written or "cap-drop" in written):
        spec["cap_add"] = default_capabilities(mounts)
    if "user" in written:
        spec["user"] = str(written["user"])
    if "health" in written:
        spec["health"] = _health(written["health"])
    if "max" in written.get("logs", {}):
        spec["logs_bytes"] = written["logs"]["max"]
    if "ttl" in written:
        spec["ttl_s"] = written["ttl"]
    return ContainerSpec(
        **spec,
        is_read_only=written.get("read-only", False),
        mounts=mounts,
        ports=_ports(written.get("ports", ())),
        needs=_needs(written.get("needs", ()), containers),
    )


def _argv(command: str | list[Json]) -> tuple[str, ...]:
    return tuple(str(word) for word in command_argv(command))


def _texts(values: JsonObject) -> dict[str, str]:
    return {name: str(value) for name, value in values.items()}


def _health(written: JsonObject) -> Health:
    known = {lowered: written[name] for name, lowered in _HEALTH.items() if name in written}
    return Health(cmd=_argv(written["cmd"]) if "cmd" in written else (), **known)


def _mounts(written: Json) -> tuple[Mount, ...]:
    if isinstance(written, Mapping):
        return tuple(Mount(target, host=host) for host, target in written.items())
    return tuple(
        Mount(each.get("container", ""), each.get("host", ""), each.get("volume", ""), each.get("read-only", False))
        for each in written
    )


def _ports(written: Json) -> tuple[Port, ...]:
    if isinstance(written, Mapping):
        return tuple(Port(inside, int(host)) for host, inside in written.items() if is_port(host))
    return tuple(Port(each.get("container", 0), each.get("host", 0)) for each in written)


def _needs(written: Json, containers: Mapping[str, JsonObject]) -> dict[str, Readiness]:
    if isinstance(written, Mapping):
        return dict(written)
    return {name: "healthy" if "health" in containers.get(name, {}) else "started" for name in written}
