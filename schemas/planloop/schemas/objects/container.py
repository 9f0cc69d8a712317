"""A container at `container/<name>`: its lowered spec and its states.

The engine is the truth about what runs. The controller writes what it saw of it into the status, and everybody else
(tasks that wait, checks, agents, people) reads that and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import StrEnum
from posixpath import normpath
from typing import Final, Literal, TypeAlias

from planloop.schemas import codec
from planloop.schemas.canonical_json import JsonObject, sha256_of_value
from planloop.schemas.frozen import frozen

CONTAINER_KIND: Final = "container"
INTERNAL: Final = "internal"
"""The network without a way out."""
NO_NETWORK: Final = "none"
"""Instead of networks: the container reaches only itself and cannot be reached."""

OWN_HOSTS: Final = ("localhost", "127.0.0.1", "::1")
"""What the address of a health check names the container itself by."""

AWAITING_CONTAINERS: Final = "AwaitingContainers"
"""The reason of a task that begins when its containers are up."""
AWAITING_TASK: Final = "AwaitingTask"
"""The reason of a container that comes up when its task begins."""
NEED_FAILED: Final = "NeedFailed"
"""The reason of a container that failed because one that it needs did."""
VANISHED: Final = "Vanished"
"""The reason of a container that was removed from outside while it ran. planloop recreates it."""

Readiness: TypeAlias = Literal["started", "healthy", "completed"]
"""The state that a dependent waits for. `completed`: the container exited with code 0."""

Restart: TypeAlias = Literal["no", "always", "on-failure"]
Keep: TypeAlias = Literal["never", "on-failure", "always"]


class ContainerState(StrEnum):
    """`status.state` of a container."""

    WAITING = "waiting"  # For what it needs, for the task that it is for, or for the engine; `conditions` say which.
    PREPARING = "preparing"  # Its image is pulled, built or loaded.
    STARTING = "starting"  # It is being created and started, or its health is not known yet.
    RUNNING = "running"  # It has no health check.
    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"
    COMPLETED = "completed"  # It exited with code 0 and is not restarted.
    RESTARTING = "restarting"  # It exited and will be restarted.
    FAILED = "failed"  # Nothing is tried any more until something changes.
    STOPPING = "stopping"
    REMOVED = "removed"  # It is not wanted and does not exist.
    KEPT = "kept"  # It exited, no task needs it, and it is kept for inspection.


UP: Final = frozenset({ContainerState.RUNNING, ContainerState.HEALTHY})
"""States in which it can be worked in."""

OVER: Final = frozenset({ContainerState.COMPLETED, ContainerState.FAILED, ContainerState.REMOVED, ContainerState.KEPT})
"""States out of which it comes only when something changes."""


ENTRYPOINT_CAPABILITIES: Final = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID")
"""What the entrypoint of an official image needs to hand its files to another user and become that one, and what its
init needs to pass signals on to it. With `no-new-privileges` they are of use inside the container alone, so a container
has them if it can write nothing of this machine."""

PASSES_MODES: Final = "DAC_OVERRIDE"
"""The one of them with which a container reads files of any user, also in what it mounts of this machine."""


@frozen
class Mount:
    """What stands at `target` inside: a `host` path (relative to the plan's folder), a named `volume`, or memory."""

    target: str
    host: str = ""
    volume: str = ""
    is_read_only: bool = False


@frozen
class Port:
    """`inside` is reached at `host` on the loopback address; `host` 0 is any free port."""

    inside: int
    host: int = 0


@frozen
class Health:
    """One of `cmd` (argv inside, exit code 0), `http` (a URL seen from inside, or `:port/path`) and `tcp` (a port)."""

    cmd: tuple[str, ...] = ()
    http: str = ""
    tcp: int = 0
    interval_s: float = 1.0
    timeout_s: float = 5.0
    retries: int = 3
    start_period_s: float = 0.0


@frozen
class ContainerSpec:
    """Exactly one of `image` (a name or digest), `build` and `rootfs` (a tar) is given; paths as the plan says them.

    `build` has `folder`, and maybe `file`, `target` and `args`. `cmd` and `entrypoint` are None for the image's own.
    A value `secret:NAME` of `env` is looked up when it is created. `needs` are names of other containers. `task` is the
    path of the task that it is for: up while that is at work, gone when it has ended; empty: for the whole plan.
    `memory_bytes`, `cpu` (processors) and `pids` are None for no bound.
    """

    image: str = ""
    build: JsonObject = field(default_factory=dict)
    rootfs: str = ""
    cmd: tuple[str, ...] | None = None
    entrypoint: tuple[str, ...] | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    workdir: str = ""
    user: str = ""
    mounts: tuple[Mount, ...] = ()
    ports: tuple[Port, ...] = ()
    networks: tuple[str, ...] = ()
    needs: Mapping[str, Readiness] = field(default_factory=dict)
    health: Health | None = None
    cpu: float | None = None
    memory_bytes: int | None = None
    pids: int | None = None
    is_read_only: bool = False
    cap_drop: tuple[str, ...] = ("ALL",)
    cap_add: tuple[str, ...] = ()
    restart: Restart = "no"
    logs_bytes: int = 10_000_000
    keep: Keep = "never"
    ttl_s: float | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    task: str = ""
    again: int = 0

    @property
    def written(self) -> tuple[str, ...]:
        """Return the host paths that it mounts writable, as written in the plan."""
        return tuple(each.host for each in self.mounts if each.host and not each.is_read_only)

    @property
    def is_cut_off(self) -> bool:
        """Whether it is on no network at all."""
        return self.networks == (NO_NETWORK,)

    def to_json(self) -> JsonObject:
        return codec.to_json(self)


def default_capabilities(mounts: Iterable[Mount]) -> tuple[str, ...]:
    """The capabilities of a container with these mounts if the plan states none."""
    of_host = [each for each in mounts if each.host]
    if any(not each.is_read_only for each in of_host):
        return ()
    return tuple(each for each in ENTRYPOINT_CAPABILITIES if not (of_host and each == PASSES_MODES))


def missing_capabilities_line(address: str, spec: ContainerSpec) -> str:
    """The line of the plan that gives the container what entrypoints of official images need; empty if it has that."""
    has_all = {*ENTRYPOINT_CAPABILITIES} - {PASSES_MODES} <= {*spec.cap_add}
    if spec.user or "ALL" not in spec.cap_drop or has_all:
        return ""
    line = f"`cap-add: [{', '.join(ENTRYPOINT_CAPABILITIES)}]`"
    return f"if its entrypoint changes owners or its user, write {line} under containers.{address.partition('/')[2]}"


def is_outside_plan(written: str) -> bool:
    """Whether a path of the plan is in any case outside the plan's folder. A name such as `..data` leads nowhere."""
    return written.startswith(("/", "~")) or normpath(written).partition("/")[0] == ".."


def is_kept_for_inspection(state: str, status: JsonObject) -> bool:
    """Whether a stopped one was left for inspection: also of one that failed, which stands as failed."""
    return state == ContainerState.KEPT or bool(status.get("is_spent") and status.get("seen"))


def has_health(spec: JsonObject) -> bool:
    """Whether the lowered `spec` of a container has a health check."""
    return spec.get("health") is not None


def container_from_json(raw: JsonObject) -> ContainerSpec:
    """Inverse of `ContainerSpec.to_json`."""
    return codec.from_json(ContainerSpec, raw)


_HOT: Final = frozenset({"cpu", "memory_bytes", "pids"})
_OURS: Final = frozenset({"needs", "health", "restart", "logs_bytes", "keep", "ttl_s", "labels", "task"})


def running_digest(spec: ContainerSpec) -> str:
    """The digest of what a running container cannot change: another one means another container.

    Limits change while it runs; what only we look at (needs, health, restarts, logs, keeping) counts at once; labels
    are of the next one.
    """
    fixed = {name: value for name, value in spec.to_json().items() if name not in _HOT | _OURS}
    return sha256_of_value(fixed)[:16]
