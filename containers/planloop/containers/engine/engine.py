"""The port to a container engine: its address, what it takes and returns, and why it can fail.

The port knows no plans. What we create carries labels; a method that lists or removes takes the labels to select by.
Every method may be called again after a crash: it finds and returns what exists, and what is already gone is no error.
No method blocks the event loop; each has a deadline (`limits.ENGINE_CALL_S` unless it says otherwise) and raises
EngineFailed.
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
    """Why the engine did not do what was asked."""

    ENGINE_DOWN = "EngineDown"  # No engine listens, or it stopped answering. Heals.
    NO_ACCESS = "NoAccess"  # Its socket may not be opened.
    TIMED_OUT = "TimedOut"  # Heals.
    NO_IMAGE = "NoImage"
    NO_REGISTRY = "NoRegistry"  # It is not here, and where it might be had does not answer now. Heals.
    BUILD_FAILED = "BuildFailed"
    PORT_TAKEN = "PortTaken"  # Heals.
    NAME_TAKEN = "NameTaken"  # By a container without our labels.
    NO_SECRET = "NoSecret"  # What its environment points at is not there. Never said by an engine. Heals.
    NO_COMMAND = "NoCommand"  # The program is not in the image, or cannot be run.
    DISK_FULL = "DiskFull"  # Heals.
    NOT_FOUND = "NotFound"  # No container, network or volume of that name.
    NOT_RUNNING = "NotRunning"
    REFUSED = "Refused"  # Anything else that it says no to, in its own words.


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
"""Reasons for which a retry may help although the plan does not change."""


class EngineFailed(Exception):
    """`str()` is a sentence for users; `hint` says what to do about it, with a command if one helps."""

    def __init__(self, reason: EngineErrorReason, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.reason = reason
        self.hint = hint

    @property
    def words(self) -> str:
        """Both in one line."""
        return f"{self}; {self.hint}" if self.hint else str(self)


@frozen
class EngineFacts:
    """`bounds` are those limits that the engine's kernel really holds: of `cpu`, `memory` and `pids`.

    `maps_users`: root of a container is another user of this machine, as with a rootless engine.
    """

    name: str
    version: str
    address: str
    bounds: frozenset[str] = frozenset()
    maps_users: bool = False


@frozen
class ImageFacts:
    """`id` is the digest of its configuration, `sha256:…`: the same content has the same one.

    `user` is empty for root.
    """

    id: str
    size_bytes: int
    user: str = ""


@frozen
class ImageBuild:
    """`file` is relative to the folder; empty for `Dockerfile`. `target` empty for the last stage."""

    folder: Path
    file: str = ""
    target: str = ""
    args: Mapping[str, str] = field(default_factory=dict)


@frozen
class ContainerLimits:
    """Limits of a container; None for no bound. `cpu` in processors."""

    cpu: float | None = None
    memory_bytes: int | None = None
    pids: int | None = None


@frozen
class ContainerMount:
    """Mounted at `target`: exactly one of an absolute `host` path, a `volume`, and memory (if neither is given)."""

    target: str
    host: str = ""
    volume: str = ""
    is_read_only: bool = False


@frozen
class PublishedPort:
    """`inside` is reached at `host` of `address`; `host` 0 is any free port."""

    inside: int
    host: int = 0
    address: str = "127.0.0.1"


@frozen
class ContainerNetwork:
    """How a container is reached. Without `names` of networks it has the loopback device and nothing else.

    `aliases` are its names in the networks. `host_name` is its own name; if empty, the engine chooses a new one for
    each container.
    """

    names: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    ports: tuple[PublishedPort, ...] = ()
    host_name: str = ""


@frozen
class ContainerRights:
    """What the first process of a container may do. `user` is empty for the image's own."""

    user: str = ""
    is_read_only: bool = False
    cap_drop: tuple[str, ...] = ("ALL",)
    cap_add: tuple[str, ...] = ()


@frozen
class ContainerCreation:
    """A container to create from `image`, the id or name of a local image.

    It gets an init process that reaps orphans, and may not gain privileges.
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
"""What engines say of a container."""


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
    """What a command inside a container gets by default. `workdir` is the image's unless the container has one.

    `env` has all variables of the container, with secrets: never store or show it.
    """

    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    workdir: str = "/"


@frozen
class FoundContainer:
    """A container as the engine has it. `created_at` in seconds since 1970.

    `addresses` are its own by network, `ports` the host ports by the port inside. If not `is_whole`, the engine listed
    the container but did not describe it: its state may be old, and only its `labels` are certain.
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
    """A command in a running container. `env` is added to the container's own. `mark` names it there (see `run`).

    `output_bytes_max` None is `limits.OUTPUT_KEPT_BYTES_MAX`. A mark has letters, digits and any of `_.-`.
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
    """`code` is None unless EXITED; 128 + n for signal n. `output` is stdout and stderr mixed."""

    ending: ExitCause
    code: int | None
    output: bytes


@frozen
class EngineEvent:
    """Something happened to the container `id`: `action` as engines name it (`start`, `die`, `oom`, `destroy` …).

    The first one is LISTENING: from there on none is missed, so who lists after it knows everything.
    """

    id: str
    action: str
    labels: Mapping[str, str]


LISTENING = EngineEvent("", "listening", {})


class ContainerEngine(Protocol):
    """A container engine. All `labels` of a selection are required; the empty map selects nothing.

    `ref` is the id or the name of a container. A caller that leaves a generator before its end closes it (`aclosing`).
    """

    async def facts(self) -> EngineFacts: ...

    async def image(self, name: str) -> ImageFacts | None:
        """The image of that name, digest or id, if it is there."""
        ...

    async def pull(self, name: str, on_progress: Callable[[str], None]) -> ImageFacts:
        """Fetch it, for `limits.ENGINE_PULL_S` at most. `on_progress` gets the progress in words.

        Raises EngineFailed NO_IMAGE if the image does not exist, NO_REGISTRY if no registry answers.
        """
        ...

    async def load(self, archive: Path) -> ImageFacts:
        """Takes the one image of an archive as `docker save` writes them, within `limits.ENGINE_BUILD_S`."""
        ...

    async def build(self, build: ImageBuild, on_line: Callable[[str], None]) -> ImageFacts:
        """Builds it, for `limits.ENGINE_BUILD_S` at most. Raises EngineFailed BUILD_FAILED with its last lines."""
        ...

    async def networks(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        """The names of those with the labels."""
        ...

    async def make_network(self, name: str, labels: Mapping[str, str], *, is_internal: bool) -> None:
        """An internal one has no way out. One with the same labels is left; another is EngineFailed NAME_TAKEN."""
        ...

    async def remove_network(self, name: str) -> None:
        """Raises EngineFailed REFUSED while a container runs in it."""
        ...

    async def volumes(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        """The names of those with the labels."""
        ...

    async def make_volume(self, name: str, labels: Mapping[str, str]) -> None:
        """Create a volume. One with the same labels stays, with its content; another is EngineFailed NAME_TAKEN."""
        ...

    async def remove_volume(self, name: str) -> None:
        """Raises EngineFailed REFUSED while a container has it, running or not."""
        ...

    async def containers(self, labels: Mapping[str, str]) -> tuple[FoundContainer, ...]:
        """The containers with the labels in any state, also those that were never started.

        One that does not answer within `limits.ENGINE_LOOK_S` is returned as listed and is not `is_whole`.
        """
        ...

    async def container(self, ref: str) -> FoundContainer | None: ...

    async def create(self, creation: ContainerCreation) -> str:
        """Create it and return its id. An existing one of that name with the same labels is returned as it is.

        Raises EngineFailed NAME_TAKEN, NO_IMAGE, NO_COMMAND ….
        """
        ...

    async def start(self, ref: str) -> None:
        """Start it. A running one stays, a paused one is resumed. Raises PORT_TAKEN, NO_COMMAND ….

        An invalid command may show only after this has returned: then the container is `exited` with an `error`.
        """
        ...

    async def stop(self, ref: str, grace_s: float) -> None:
        """TERM, and KILL after `grace_s`; a paused one too. Returns when it has ended."""
        ...

    async def remove(self, ref: str) -> None:
        """Kills it if it runs, and removes it with its unnamed volumes."""
        ...

    async def update(self, ref: str, bound: ContainerLimits) -> None:
        """Change its limits immediately, also while it runs; None removes one."""
        ...

    async def run(self, ref: str, inside: ExecCommand) -> ExecEnd:
        """Run a command inside to its end; past a bound, or cancelled, all that it started is killed first.

        Its children inherit its mark in the environment, so none escapes by changing its group. Processes that it
        leaves running after a normal end continue; `end` ends those too.
        """
        ...

    async def end(self, ref: str, mark: str) -> None:
        """Kill all that was started inside under `mark`, by this or an earlier process; return when nothing is left.

        The empty mark means everything that `run` started.
        """
        ...

    def logs(self, ref: str, *, after: float = 0.0, is_following: bool = True) -> AsyncGenerator[bytes, None]:
        """Its output since `after`, in pieces, stdout and stderr mixed; ends when the container does."""
        ...

    def events(self, labels: Mapping[str, str]) -> AsyncGenerator[EngineEvent, None]:
        """What happens from now on to containers with the labels. Raises EngineFailed when it breaks off."""
        ...


HOST: Final = "DOCKER_HOST"
DEFAULT: Final = "/var/run/docker.sock"


def engine_address(
    env: Mapping[str, str],
    is_there: Callable[[str], bool] = lambda path: Path(path).exists(),
    is_open: Callable[[str], bool] = lambda path: os.access(path, os.R_OK | os.W_OK),
) -> str:
    """The engine's URL: `unix:///…`, `tcp://…` or `ssh://…`. The default socket if there is none.

    If no existing socket may be used, the first one: connecting to it gives the reason.
    """
    if env.get(HOST):
        return env[HOST]
    there = [path for path in _sockets(env) if is_there(path)]
    return f"unix://{next(filter(is_open, there), next(iter(there), DEFAULT))}"


def _sockets(env: Mapping[str, str]) -> Iterable[str]:
    """The system's Docker, a person's own one (rootless, then Docker Desktop's), and Podman in the same order."""
    yield DEFAULT
    if "XDG_RUNTIME_DIR" in env:
        yield f"{env['XDG_RUNTIME_DIR']}/docker.sock"
    if "HOME" in env:
        yield f"{env['HOME']}/.docker/run/docker.sock"
    if "XDG_RUNTIME_DIR" in env:
        yield f"{env['XDG_RUNTIME_DIR']}/podman/podman.sock"
    yield "/run/podman/podman.sock"
