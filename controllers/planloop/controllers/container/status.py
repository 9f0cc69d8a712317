"""Status of a container as typed values. In the log it is one flat map, which `read_container_status` groups."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, TypeVar

from planloop.containers.engine.engine import ContainerLimits, FoundContainer, RunState
from planloop.containers.engine.names import ContainerTag, tag_from_labels
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen

T = TypeVar("T")


@frozen
class SeenTag:
    """The labels of a container: the object it belongs to, which of its incarnations it is, and what runs."""

    uid: str
    incarnation: int
    digest: str


@frozen
class ContainerExit:
    """How the last run of a container ended. `error`: its command could not be started."""

    code: int = 0
    is_out_of_memory: bool = False
    error: str = ""


@frozen
class SeenContainer:
    """A container as the engine last reported it. Times are in seconds since 1970, 0 for never.

    `addresses` are pairs of network and address, `ports` of the port inside and that of this machine. They are lists,
    because a merge replaces lists as a whole.
    """

    id: str
    run: RunState
    tag: SeenTag
    image: str = ""
    exit: ContainerExit = ContainerExit()
    started_at: float = 0.0
    ended_at: float = 0.0
    addresses: tuple[tuple[str, str], ...] = ()
    ports: tuple[tuple[int, int], ...] = ()
    bound: ContainerLimits = ContainerLimits()
    workdir: str = "/"

    @property
    def is_up(self) -> bool:
        return self.run in ("running", "paused", "restarting")

    @property
    def has_ended(self) -> bool:
        """Whether it ran, or could not be started, and is not running now."""
        return self.run in ("exited", "dead")

    @property
    def end(self) -> float:
        """Identifies the end of this run."""
        return self.ended_at or self.started_at

    def to_json(self) -> JsonObject:
        return {
            "id": self.id,
            "run": self.run,
            "uid": self.tag.uid,
            "incarnation": self.tag.incarnation,
            "of": self.tag.digest,
            "image": self.image,
            "exit_code": self.exit.code,
            "is_out_of_memory": self.exit.is_out_of_memory,
            "error": self.exit.error,
            "started_at": self.started_at,
            "ended_at": self.ended_at,
            "addresses": [list(each) for each in self.addresses],
            "ports": [list(each) for each in self.ports],
            **asdict(self.bound),
            "workdir": self.workdir,
        }


def seen_from_json(raw: JsonObject) -> SeenContainer:
    """Inverse of `SeenContainer.to_json`."""
    return SeenContainer(
        id=raw["id"],
        run=raw["run"],
        tag=SeenTag(raw["uid"], raw["incarnation"], raw["of"]),
        image=raw["image"],
        exit=ContainerExit(raw["exit_code"], raw["is_out_of_memory"], raw["error"]),
        started_at=raw["started_at"],
        ended_at=raw["ended_at"],
        addresses=tuple((network, address) for network, address in raw["addresses"]),
        ports=tuple((inside, host) for inside, host in raw["ports"]),
        bound=ContainerLimits(raw.get("cpu"), raw.get("memory_bytes"), raw.get("pids")),
        workdir=raw.get("workdir", "/"),
    )


def seen_container(found: FoundContainer) -> SeenContainer:
    """The part of an engine's report that the status keeps."""
    tag = tag_from_labels(found.labels) or ContainerTag("", "", 0, "")
    return SeenContainer(
        id=found.id,
        run=found.state,
        tag=SeenTag(tag.uid, tag.incarnation, tag.of),
        image=found.image,
        exit=ContainerExit(found.last_run.exit_code, found.last_run.is_out_of_memory, found.last_run.error),
        started_at=found.last_run.started_at,
        ended_at=found.last_run.ended_at,
        addresses=tuple(sorted(found.addresses.items())),
        ports=tuple(sorted(found.ports.items())),
        bound=found.bound,
        workdir=found.defaults.workdir,
    )


@frozen
class ProbeResult:
    """Health in the run that began at `started_at`; None while unknown. `said` is the output of the last probe."""

    started_at: float = 0.0
    is_well: bool | None = None
    said: str = ""

    def is_well_in(self, started_at: float) -> bool:
        """Whether the container is healthy in that run."""
        return self.is_well is True and self.started_at == started_at


@frozen
class EngineTrouble:
    """A request that the engine refused `failures` times in a row, and why; the next try is at `retry_at`."""

    failures: int = 0
    reason: str = ""
    why: str = ""
    hint: str = ""
    retry_at: float = 0.0

    def to_json(self) -> JsonObject:
        return asdict(self)


@frozen
class ContainerFailure:
    """The last failure: of the digest `of`, for `reason`, explained by `why`, seen by the owner `by`.

    The next try is at `retry_at`. If None, it is tried again only after a change: another digest is wanted, or, if the
    engine refused it, another owner than `by` tries.
    """

    of: str = ""
    by: str = ""
    reason: str = ""
    why: str = ""
    hint: str = ""
    retry_at: float | None = None


@frozen
class FailureCounts:
    """Failures in a row: `failures` of runs, `tries` of requests to the engine, and `losses` of running containers that
    something else removed. Only `failures` say anything about the program.
    """

    failures: int = 0
    tries: int = 0
    losses: int = 0


@frozen
class RunEnd:
    """How far the end of a run was handled. Runs are identified by their `started_at`.

    `stopping` is the run that the controller began to stop: its exit code is ignored. `counted` is the run whose end
    was counted, `logged` the run whose output is completely in the blob `log`; `last` is the end of that output. The
    digest `done_of` does not run again, because it ended with exit code 0 or `is_expired`. `is_spent`: it was no longer
    wanted; if it is wanted again, it starts from the beginning.
    """

    stopping: float = -1.0
    counted: float = -1.0
    logged: float = 0.0
    log: str = ""
    last: str = ""
    done_of: str = ""
    is_expired: bool = False
    is_spent: bool = False


@frozen
class RefusedLimits:
    """The digest of limits that the container cannot have, and why."""

    of: str = ""
    why: str = ""


@frozen
class ContainerStatus:
    """What is known of a container. Versions of its spec are identified by `running_digest`.

    `looked` is the owner that last looked at the engine (`ContainerContext.look_token`); `seen` is None if there is no
    container. `doing` is the step of the start job; meanwhile `failure.why` is its progress. `starts` counts the starts
    of this `incarnation`. `stuck` is why the container cannot be removed, `engine` why the engine's state is unknown.
    """

    looked: str = ""
    incarnation: int = 0
    starts: int = 0
    seen: SeenContainer | None = None
    doing: str = ""
    failure: ContainerFailure = ContainerFailure()
    counts: FailureCounts = FailureCounts()
    ended: RunEnd = RunEnd()
    probed: ProbeResult = ProbeResult()
    stuck: EngineTrouble | None = None
    engine: EngineTrouble | None = None
    refused: RefusedLimits = RefusedLimits()


_IN_LOG = {
    ContainerFailure: {"of": "failed_of", "by": "failed_by"},
    RefusedLimits: {"of": "bound_of", "why": "bound_why"},
}
"""Names of members in the log that differ from the names of the fields."""


def read_container_status(raw: JsonObject) -> ContainerStatus:
    """Return the typed form of a container's `status`."""
    own: dict[str, Any] = {
        name: raw[name] for name in ("looked", "incarnation", "starts", "doing") if raw.get(name) is not None
    }
    if raw.get("seen") is not None:
        own["seen"] = seen_from_json(raw["seen"])
    if raw.get("probed") is not None:
        own["probed"] = ProbeResult(**raw["probed"])
    own |= {name: EngineTrouble(**raw[name]) for name in ("stuck", "engine") if raw.get(name) is not None}
    return ContainerStatus(
        **own,
        failure=_part(ContainerFailure, raw),
        counts=_part(FailureCounts, raw),
        ended=_part(RunEnd, raw),
        refused=_part(RefusedLimits, raw),
    )


def _part(kind: type[T], raw: JsonObject) -> T:
    """Return the fields of `kind` that the flat map has."""
    names = _IN_LOG.get(kind, {})
    fields: tuple[str, ...] = getattr(kind, "__match_args__")  # noqa: B009 - not in the type of a class
    return kind(**{name: value for name in fields if (value := raw.get(names.get(name, name))) is not None})
