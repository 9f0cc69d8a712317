"""The port to a container engine: its address, arguments and results of its methods, and reasons of failures.

The port knows nothing about plans. planloop labels all objects that it creates; methods that list objects select them
by labels. Every method may be called again after a crash: it returns existing objects, and it is not an error if an
object to remove does not exist. No method blocks the event loop. Each has a deadline (`limits.ENGINE_CALL_S` unless
documented otherwise) and raises EngineFailed.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from dataclasses import field
from enum import StrEnum
from pathlib import Path
from typing import Final, Literal, Protocol, TypeAlias

from planloop.reconciler.effects.processes import ExitCause
from planloop.schemas.frozen import frozen


class EngineErrorReason(StrEnum):
    """Why a call of the engine failed. Transient reasons may disappear without a change of the plan."""

    ENGINE_DOWN = "EngineDown"  # No engine listens, or it stopped responding. Transient.
    NO_ACCESS = "NoAccess"  # No permission to open its socket.
    TIMED_OUT = "TimedOut"  # Transient.
    NO_IMAGE = "NoImage"
    NO_REGISTRY = "NoRegistry"  # The image is not local, and its registry does not respond. Transient.
    BUILD_FAILED = "BuildFailed"
    PORT_TAKEN = "PortTaken"  # Transient.
    NAME_TAKEN = "NameTaken"  # By an object without the labels of the plan.
    NO_SECRET = "NoSecret"  # A secret in its environment does not exist. Not from an engine. Transient.
    NO_COMMAND = "NoCommand"  # The program is not in the image, or cannot be executed.
    DISK_FULL = "DiskFull"  # Transient.
    NOT_FOUND = "NotFound"  # No container, network or volume with that name.
    NOT_RUNNING = "NotRunning"
    REFUSED = "Refused"  # Any other refusal, with the engine's message.


HEALS = frozenset(
    (
        EngineErrorReason.ENGINE_DOWN,
        EngineErrorReason.TIMED_OUT,
        EngineErrorReason.NO_REGISTRY,
        EngineErrorReason.PORT_TAKEN,
        EngineErrorReason.NO_SECRET,
        EngineErrorReason.DISK_FULL,
    )
)
"""Transient reasons: a retry may help although the plan does not change."""


class EngineFailed(Exception):
    """A call of the engine failed. `str()` is a sentence for users; `hint` is the fix, with a command if one helps."""

    def __init__(self, reason: EngineErrorReason, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.reason = reason
        self.hint = hint

    @property
    def words(self) -> str:
        """Message and hint in one line."""
        return f"{self}; {self.hint}" if self.hint else str(self)


@frozen
class EngineFacts:
    """Properties of an engine. `bounds` are the limits that its kernel enforces, of `cpu`, `memory` and `pids`.

    `maps_users`: root in a container is another user on this machine, as with a rootless engine.
    """

    name: str
    version: str
    address: str
    bounds: frozenset[str] = frozenset()
    maps_users: bool = False


@frozen
class ImageFacts:
    """A local image. `id` is the digest of its configuration, `sha256:…`: equal for equal content.

    `user` is empty for root.
    """

    id: str
    size_bytes: int
    user: str = ""


@frozen
class ImageBuild:
    """How to build an image. `file` is relative to the folder, empty for `Dockerfile`.

    `target`: empty for the last stage.
    """

    folder: Path
    file: str = ""
    target: str = ""
    args: Mapping[str, str] = field(default_factory=dict)


@frozen
class ContainerLimits:
    """Limits of a container; None for no limit. `cpu` in processors."""

    cpu: float | None = None
    memory_bytes: int | None = None
    pids: int | None = None


@frozen
class ContainerMount:
    """A mount at `target`: an absolute `host` path, a `volume`, or memory if both are empty."""

    target: str
    host: str = ""
    volume: str = ""
    is_read_only: bool = False


@frozen
class PublishedPort:
    """Publishes the port `inside` as port `host` of `address`; `host` 0 is any free port."""

    inside: int
    host: int = 0
    address: str = "127.0.0.1"


@frozen
class ContainerNetwork:
    """The networks of a container. Without `names` it has only the loopback device.

    `aliases` are its names in the networks. `host_name` is its host name; if empty, the engine chooses one for each
    container.
    """

    names: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    ports: tuple[PublishedPort, ...] = ()
    host_name: str = ""


@frozen
class ContainerRights:
    """Rights of the first process of a container. `user` is empty for the user of the image."""

    user: str = ""
    is_read_only: bool = False
    cap_drop: tuple[str, ...] = ("ALL",)
    cap_add: tuple[str, ...] = ()


@frozen
class ContainerCreation:
    """A container to create from `image`, the id or name of a local image.

    It has an init process that reaps orphans, and its processes cannot gain privileges.
    """

    name: str
    image: str
    labels: Mapping[str, str]
    cmd: tuple[str, ...] | None = None
    entrypoint: tuple[str, ...] | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    workdir: str = ""
    mounts: tuple[ContainerMount, ...] = ()
    network: ContainerNetwork = ContainerNetwork()
    bound: ContainerLimits = ContainerLimits()
    rights: ContainerRights = ContainerRights()
    logs_bytes: int = 10_000_000


RunState: TypeAlias = Literal["created", "running", "paused", "restarting", "removing", "exited", "dead"]
"""States of a container in an engine."""


@frozen
class ContainerRun:
    """The last run of a container. Times in seconds since 1970, 0 for never. `error` is why it could not start."""

    exit_code: int = 0
    is_out_of_memory: bool = False
    error: str = ""
    started_at: float = 0.0
    ended_at: float = 0.0


@frozen
class ExecDefaults:
    """Defaults of a command inside a container. `workdir` is the image's unless the container has one.

    `env` has all variables of the container, including secrets: never store or show it.
    """

    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    workdir: str = "/"


@frozen
class FoundContainer:
    """An existing container. `created_at` in seconds since 1970.

    `addresses` are its addresses by network, `ports` the host ports by the port inside. If not `is_whole`, the engine
    listed the container but did not describe it: its state may be outdated, and only its `labels` are certain.
    """

    id: str
    name: str
    image: str
    state: RunState
    labels: Mapping[str, str]
    created_at: float = 0.0
    last_run: ContainerRun = ContainerRun()
    addresses: Mapping[str, str] = field(default_factory=dict)
    ports: Mapping[int, int] = field(default_factory=dict)
    bound: ContainerLimits = ContainerLimits()
    defaults: ExecDefaults = ExecDefaults()
    is_whole: bool = True


@frozen
class ExecCommand:
    """A command to run in a container. `env` is added to the container's variables. `mark` identifies it (see `run`).

    `output_bytes_max` None is `limits.OUTPUT_KEPT_BYTES_MAX`. A mark consists of letters, digits and `_.-`.
    """

    argv: tuple[str, ...]
    mark: str
    env: Mapping[str, str] = field(default_factory=dict)
    workdir: str = ""
    user: str = ""
    stdin: bytes = b""
    timeout_s: float | None = None
    output_bytes_max: int | None = None


@frozen
class ExecEnd:
    """The end of a command. `code` is None unless EXITED; 128 + n for signal n. `output` is stdout and stderr mixed."""

    ending: ExitCause
    code: int | None
    output: bytes


@frozen
class EngineEvent:
    """An event of the container `id`. `action` is the engine's name (`start`, `die`, `oom`, `destroy` …).

    The first event is LISTENING: no later event is missed, so a caller that lists containers after it misses nothing.
    """

    id: str
    action: str
    labels: Mapping[str, str]


LISTENING = EngineEvent("", "listening", {})


class ContainerEngine(Protocol):
    """A container engine. A selection requires all its `labels`; the empty map selects nothing.

    `ref` is the id or name of a container. Callers must close generators that they do not exhaust (`aclosing`).
    """

    async def facts(self) -> EngineFacts: ...

    async def image(self, name: str) -> ImageFacts | None:
        """Return the local image with that name, digest or id; None if missing."""
        ...

    async def pull(self, name: str, on_progress: Callable[[str], None]) -> ImageFacts:
        """Pull an image, for at most `limits.ENGINE_PULL_S`. `on_progress` gets the progress as text.

        Raises EngineFailed NO_IMAGE if the image does not exist, NO_REGISTRY if its registry does not respond.
        """
        ...

    async def load(self, archive: Path) -> ImageFacts:
        """Load the image of an archive in the format of `docker save`, for at most `limits.ENGINE_BUILD_S`."""
        ...

    async def build(self, build: ImageBuild, on_line: Callable[[str], None]) -> ImageFacts:
        """Build an image, for at most `limits.ENGINE_BUILD_S`. Raises EngineFailed BUILD_FAILED with the last lines."""
        ...

    async def networks(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        """The names of those with the labels."""
        ...

    async def make_network(self, name: str, labels: Mapping[str, str], *, is_internal: bool) -> None:
        """Create a network. An internal one has no access to other networks.

        If it exists with the same labels, nothing changes; with others, raises EngineFailed NAME_TAKEN.
        """
        ...

    async def remove_network(self, name: str) -> None:
        """Remove a network. Raises EngineFailed REFUSED while a running container uses it."""
        ...

    async def volumes(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        """The names of those with the labels."""
        ...

    async def make_volume(self, name: str, labels: Mapping[str, str]) -> None:
        """Create a volume. If it exists with the same labels, it is kept; with others, raises EngineFailed
        NAME_TAKEN."""
        ...

    async def remove_volume(self, name: str) -> None:
        """Remove a volume. Raises EngineFailed REFUSED while a container uses it, running or not."""
        ...

    async def containers(self, labels: Mapping[str, str]) -> tuple[FoundContainer, ...]:
        """Return the containers with the labels in any state, including those never started.

        A container that cannot be inspected within `limits.ENGINE_LOOK_S` is returned as listed, not `is_whole`.
        """
        ...

    async def container(self, ref: str) -> FoundContainer | None: ...

    async def create(self, creation: ContainerCreation) -> str:
        """Create a container and return its id. If it exists with the same labels, return that id.

        Raises EngineFailed NAME_TAKEN, NO_IMAGE, NO_COMMAND ….
        """
        ...

    async def start(self, ref: str) -> None:
        """Start a container. A running one is left, a paused one is resumed. Raises PORT_TAKEN, NO_COMMAND ….

        An invalid command may show only after this has returned: then the container is `exited` with an `error`.
        """
        ...

    async def stop(self, ref: str, grace_s: float) -> None:
        """Send TERM, and KILL after `grace_s`, also to a paused container. Return when it has ended."""
        ...

    async def remove(self, ref: str) -> None:
        """Kill the container if it runs, and remove it with its unnamed volumes."""
        ...

    async def update(self, ref: str, bound: ContainerLimits) -> None:
        """Change the limits of a container, also while it runs; None removes a limit."""
        ...

    async def run(self, ref: str, inside: ExecCommand) -> ExecEnd:
        """Run a command inside to its end. If it exceeds a limit or is cancelled, all its processes are killed first.

        Children inherit the mark in the environment, so none escapes by changing its group. Processes that the command
        leaves running after a normal end continue; `end` kills them, too.
        """
        ...

    async def end(self, ref: str, mark: str) -> None:
        """Kill all processes with `mark`, started by this or an earlier owner; return when none is left.

        The empty mark means all processes that `run` started.
        """
        ...

    def logs(self, ref: str, *, after: float = 0.0, is_following: bool = True) -> AsyncGenerator[bytes, None]:
        """Yield the container's output since `after`, stdout and stderr mixed, until the container ends."""
        ...

    def events(self, labels: Mapping[str, str]) -> AsyncGenerator[EngineEvent, None]:
        """Yield future events of containers with the labels. Raises EngineFailed if the connection breaks."""
        ...


HOST: Final = "DOCKER_HOST"
DEFAULT: Final = "/var/run/docker.sock"


def engine_address(
    env: Mapping[str, str],
    is_there: Callable[[str], bool] = lambda path: Path(path).exists(),
    is_open: Callable[[str], bool] = lambda path: os.access(path, os.R_OK | os.W_OK),
) -> str:
    """Return the engine's URL: `unix:///…`, `tcp://…` or `ssh://…`; the default socket if none exists.

    If no existing socket can be used, returns the first one: connecting to it reports the reason.
    """
    if env.get(HOST):
        return env[HOST]
    there = [path for path in _sockets(env) if is_there(path)]
    return f"unix://{next(filter(is_open, there), next(iter(there), DEFAULT))}"


def _sockets(env: Mapping[str, str]) -> Iterable[str]:
    """Sockets of the system's Docker, the user's Docker (rootless, then Docker Desktop), and Podman in the same
    order."""
    yield DEFAULT
    if "XDG_RUNTIME_DIR" in env:
        yield f"{env['XDG_RUNTIME_DIR']}/docker.sock"
    if "HOME" in env:
        yield f"{env['HOME']}/.docker/run/docker.sock"
    if "XDG_RUNTIME_DIR" in env:
        yield f"{env['XDG_RUNTIME_DIR']}/podman/podman.sock"
    yield "/run/podman/podman.sock"
