"""Convert values of the engine port to and from the JSON of the Docker Engine API (1.41 and later, and Podman's).
Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final, get_args

from planloop.containers.engine.engine import (
    ContainerCreation,
    ContainerLimits,
    ContainerMount,
    ContainerRun,
    EngineEvent,
    EngineFacts,
    ExecDefaults,
    FoundContainer,
    ImageFacts,
    RunState,
)
from planloop.containers.engine.secret_env import env_from_engine

CPU_PERIOD_US: Final = 100_000
UNBOUND: Final = -1
MEMORY_UNBOUND: Final = (
    1 << 62
)  # Bytes, more than any machine has. Unlike for other limits, the API refuses -1 for no limit.

_STATES: Final = frozenset(get_args(RunState))
_PODMAN_STATES: Final[Mapping[str, RunState]] = {
    "configured": "created",
    "initialized": "created",
    "stopping": "running",
    "stopped": "exited",
}


def creation_json(creation: ContainerCreation, *, is_podman: bool = False) -> dict[str, Any]:
    """The body of `POST /containers/create`. It has the first network; others are connected afterwards."""
    first = creation.network.names[:1]
    return {
        "Image": creation.image,
        "Cmd": None if creation.cmd is None else list(creation.cmd),
        "Entrypoint": None if creation.entrypoint is None else list(creation.entrypoint),
        "Env": [f"{name}={value}" for name, value in creation.env.items()],
        "WorkingDir": creation.workdir,
        "Hostname": creation.network.host_name,
        "User": creation.rights.user,
        "Labels": dict(creation.labels),
        "ExposedPorts": {f"{port.inside}/tcp": {} for port in creation.network.ports},
        "HostConfig": _host_config(creation, is_podman=is_podman),
        "NetworkingConfig": {"EndpointsConfig": {name: endpoint_json(creation) for name in first}},
    }


def endpoint_json(creation: ContainerCreation) -> dict[str, Any]:
    """The settings of the container in each of its networks."""
    return {"Aliases": list(creation.network.aliases)}


def _host_config(creation: ContainerCreation, *, is_podman: bool) -> dict[str, Any]:
    # Podman copies the covered files to the tmpfs, unless an option that Docker refuses is set.
    own = [each for each in creation.mounts if is_podman and is_tmpfs(each)]
    return {
        "NetworkMode": next(iter(creation.network.names), "none"),
        "Mounts": [_mount(each) for each in creation.mounts if each not in own],
        "Tmpfs": {each.target: "notmpcopyup,ro" if each.is_read_only else "notmpcopyup" for each in own},
        "PortBindings": {
            f"{port.inside}/tcp": [{"HostIp": port.address, "HostPort": str(port.host) if port.host else ""}]
            for port in creation.network.ports
        },
        "Init": True,
        "ReadonlyRootfs": creation.rights.is_read_only,
        "CapDrop": list(creation.rights.cap_drop),
        "CapAdd": list(creation.rights.cap_add),
        "SecurityOpt": ["no-new-privileges"],
        "RestartPolicy": {"Name": "no"},
        # Docker's defaults, set for Podman: port 80 needs no capability, and only the plan sets limits.
        "Sysctls": {"net.ipv4.ip_unprivileged_port_start": "0"},
        "PidsLimit": UNBOUND,
        # Two files: when the second is full, the engine deletes the first. With one file, it would delete everything.
        "LogConfig": {"Type": "json-file", "Config": {"max-size": str(creation.logs_bytes // 2), "max-file": "2"}},
        **({} if creation.bound == ContainerLimits() else limits_json(creation.bound)),
    }


def limits_json(bound: ContainerLimits) -> dict[str, int]:
    """Limits for creation and for update, where 0 means unchanged, so that no limit is a very high limit.

    Uses quotas and not NanoCpus, which cannot be removed. Swap counts as memory; otherwise a container at its memory
    limit would use swap and only become slow.
    """
    memory = MEMORY_UNBOUND if bound.memory_bytes is None else bound.memory_bytes
    return {
        "CpuPeriod": CPU_PERIOD_US,
        "CpuQuota": UNBOUND if bound.cpu is None else round(bound.cpu * CPU_PERIOD_US),
        "Memory": memory,
        "MemorySwap": memory,
        "PidsLimit": UNBOUND if bound.pids is None else bound.pids,
    }


def is_tmpfs(placed: ContainerMount) -> bool:
    """Whether the mount is memory: neither a host path nor a volume."""
    return not placed.host and not placed.volume


def _mount(placed: ContainerMount) -> dict[str, Any]:
    # `Mounts` and not `Binds`, which create missing folders as root.
    kind = "bind" if placed.host else "volume" if placed.volume else "tmpfs"
    source = placed.host or placed.volume
    out: dict[str, Any] = {"Type": kind, "Target": placed.target, "ReadOnly": placed.is_read_only}
    return {**out, "Source": source} if source else out


def container_from_json(raw: Mapping[str, Any]) -> FoundContainer:
    """Parse the response of `GET /containers/{id}/json`."""
    state, network = raw["State"], raw.get("NetworkSettings") or {}
    return FoundContainer(
        id=raw["Id"],
        name=raw["Name"].lstrip("/"),
        image=raw["Image"],
        state=_state(state["Status"]),
        labels=raw["Config"].get("Labels") or {},
        created_at=_time(raw.get("Created")),
        last_run=ContainerRun(
            exit_code=state.get("ExitCode") or 0,
            is_out_of_memory=bool(state.get("OOMKilled")),
            error=state.get("Error") or "",
            started_at=_time(state.get("StartedAt")),
            ended_at=_time(state.get("FinishedAt")),
        ),
        addresses={
            name: one["IPAddress"] for name, one in (network.get("Networks") or {}).items() if one.get("IPAddress")
        },
        ports=dict(_ports(network.get("Ports") or {})),
        bound=_bound(raw.get("HostConfig") or {}),
        defaults=ExecDefaults(env_from_engine(raw["Config"].get("Env")), raw["Config"].get("WorkingDir") or "/"),
    )


def program_from_json(raw: Mapping[str, Any]) -> str:
    """The first word of the command, from the response of `GET /containers/{id}/json`."""
    words = [*(raw["Config"].get("Entrypoint") or ()), *(raw["Config"].get("Cmd") or ())]
    return words[0] if words else ""


def listed_container_from_json(raw: Mapping[str, Any]) -> FoundContainer:
    """Parse an item of `GET /containers/json`, which has less information."""
    return FoundContainer(
        id=raw["Id"],
        # A container that others link to also has names such as `/other/alias`.
        name=min(raw.get("Names") or [raw["Id"]], key=lambda name: name.count("/")).lstrip("/"),
        image=raw.get("ImageID") or "",
        state=_state(raw["State"]),
        labels=raw.get("Labels") or {},
        created_at=float(raw.get("Created") or 0),
        is_whole=False,
    )


def _state(status: str) -> RunState:
    if status in _STATES:
        return status  # type: ignore[return-value]  # just looked
    return _PODMAN_STATES.get(status, "dead")


def _ports(raw: Mapping[str, Any]) -> Iterator[tuple[int, int]]:
    for inside, places in raw.items():
        for place in places or ():
            if place.get("HostPort"):
                yield int(inside.partition("/")[0]), int(place["HostPort"])


def _bound(raw: Mapping[str, Any]) -> ContainerLimits:
    quota, nano = raw.get("CpuQuota") or 0, raw.get("NanoCpus") or 0
    memory, pids = raw.get("Memory") or 0, raw.get("PidsLimit") or 0
    cpu = quota / (raw.get("CpuPeriod") or CPU_PERIOD_US) if quota > 0 else nano / 1e9
    return ContainerLimits(
        cpu=cpu if cpu > 0 else None,
        memory_bytes=memory if 0 < memory < MEMORY_UNBOUND else None,
        pids=pids if pids > 0 else None,
    )


def _time(text: str | None) -> float:
    """Parse a time to seconds since 1970; 0 for never, which engines write as the year 1."""
    if not text or text.startswith("0001-"):
        return 0.0
    return datetime.fromisoformat(text).timestamp()


def image_from_json(raw: Mapping[str, Any]) -> ImageFacts:
    """Parse the response of `GET /images/{name}/json`; Podman omits the kind of digest."""
    identity = raw["Id"]
    user = str((raw.get("Config") or {}).get("User") or "")
    is_root = user.partition(":")[0] in ("", "0", "root")
    return ImageFacts(
        identity if ":" in identity else f"sha256:{identity}", raw.get("Size") or 0, "" if is_root else user
    )


_MAPPED: Final = ("name=rootless", "name=userns")


def engine_facts_from_json(info: Mapping[str, Any], version: Mapping[str, Any], address: str) -> EngineFacts:
    """Combine the responses of `GET /info` and `GET /version`."""
    bounds = {"cpu": "CpuCfsQuota", "memory": "MemoryLimit", "pids": "PidsLimit"}
    return EngineFacts(
        name="podman" if is_podman(version) else "docker",
        version=str(version.get("Version", "")),
        address=address,
        bounds=frozenset(name for name, key in bounds.items() if info.get(key)),
        maps_users=any(str(one).startswith(_MAPPED) for one in info.get("SecurityOptions") or ()),
    )


def is_podman(version: Mapping[str, Any]) -> bool:
    """Whether the response of `GET /version` is Podman's."""
    return any("podman" in str(part.get("Name", "")).lower() for part in version.get("Components") or ())


def event_from_json(raw: Mapping[str, Any]) -> EngineEvent:
    """Parse one line of `GET /events`. Drops details of actions, such as `: sh` in `exec_create: sh`."""
    actor = raw.get("Actor") or {}
    action = str(raw.get("Action") or raw.get("status") or "").partition(":")[0]
    return EngineEvent(actor.get("ID") or raw.get("id") or "", action, actor.get("Attributes") or {})


def label_filters(labels: Mapping[str, str]) -> list[str]:
    """The values of the filter `label`; all are required."""
    return [f"{name}={value}" for name, value in labels.items()]
