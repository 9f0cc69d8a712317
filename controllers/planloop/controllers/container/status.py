"""The status of a container as typed values."""

from __future__ import annotations

from dataclasses import asdict

from planloop.containers.engine.engine import ContainerLimits, FoundContainer, RunState
from planloop.containers.engine.names import ContainerTag, tag_from_labels
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen


@frozen
class SeenContainer:
    """A container as the engine was last seen to have it. Times in seconds since 1970, 0 for never.

    `addresses` are pairs of network and address, `ports` of the port inside and that of this machine: lists, because a
    merge replaces these whole.
    """

    id: str
    run: RunState
    uid: str
    incarnation: int
    of: str
    image: str = ""
    exit_code: int = 0
    is_out_of_memory: bool = False
    error: str = ""
    started_at: float = 0.0
    ended_at: float = 0.0
    addresses: tuple[tuple[str, str], ...] = ()
    ports: tuple[tuple[int, int], ...] = ()
    cpu: float | None = None
    memory_bytes: int | None = None
    pids: int | None = None
    workdir: str = "/"

    @property
    def bound(self) -> ContainerLimits:
        return ContainerLimits(self.cpu, self.memory_bytes, self.pids)

    @property
    def is_up(self) -> bool:
        return self.run in ("running", "paused", "restarting")

    @property
    def has_ended(self) -> bool:
        """Whether it ran, or could not, and does not now."""
        return self.run in ("exited", "dead")

    @property
    def end(self) -> float:
        """What tells this end from others."""
        return self.ended_at or self.started_at

    def to_json(self) -> JsonObject:
        pairs = {"addresses": [list(each) for each in self.addresses], "ports": [list(each) for each in self.ports]}
        return asdict(self) | pairs


def seen_container(found: FoundContainer) -> SeenContainer:
    """What is kept of what an engine says."""
    tag = tag_from_labels(found.labels) or ContainerTag("", "", 0, "")
    return SeenContainer(
        id=found.id,
        run=found.state,
        uid=tag.uid,
        incarnation=tag.incarnation,
        of=tag.of,
        image=found.image,
        exit_code=found.last_run.exit_code,
        is_out_of_memory=found.last_run.is_out_of_memory,
        error=found.last_run.error,
        started_at=found.last_run.started_at,
        ended_at=found.last_run.ended_at,
        addresses=tuple(sorted(found.addresses.items())),
        ports=tuple(sorted(found.ports.items())),
        cpu=found.bound.cpu,
        memory_bytes=found.bound.memory_bytes,
        pids=found.bound.pids,
        workdir=found.defaults.workdir,
    )


@frozen
class ProbeResult:
    """Its health in the run that began at `started_at`: None while nobody knows. `said` is what the last probe said."""

    started_at: float = 0.0
    is_well: bool | None = None
    said: str = ""

    def is_well_in(self, started_at: float) -> bool:
        """Whether it is well in that run."""
        return self.is_well is True and self.started_at == started_at


@frozen
class EngineTrouble:
    """What the engine would not do, `failures` times in a row, and why; it is asked again at `retry_at`."""

    failures: int = 0
    reason: str = ""
    why: str = ""
    hint: str = ""
    retry_at: float = 0.0

    def to_json(self) -> JsonObject:
        return asdict(self)


@frozen
class ContainerStatus:
    """What is known of a container. Runs are named by their `started_at`, what runs by its digest.

    `looked` says which owner last looked at the engine (`ContainerContext.look_token`); `seen` is None when there is no
    container. `doing` is what a job is at, `why` then how far it is; `starts` are those of this `incarnation`.
    `failures` are runs in a row that failed, the last of `failed_of`, for `reason` with the words `why`; `tries` are
    calls in a row that the engine could not do, and `losses` running containers in a row that somebody else removed:
    neither says anything of the program. It is tried again at `retry_at`; None for not before something changes:
    another digest is wanted, or, where the engine refused it, another owner than `failed_by` asks.
    `stopping` is the run that we have begun to end: the container goes, and how it ends says nothing. `counted` is the
    run whose end was taken into account, `logged` that whose output is kept whole in the blob `log`.
    `done_of` is not run again, because it ended well, or `is_expired`. `is_spent`: it was not wanted any more; when it
    is wanted again, that is a new beginning.
    `stuck` is why what is to go does not, `engine` why nobody knows what there is. `bound_of` is the digest of limits
    that it cannot have, because of `bound_why`.
    """

    looked: str = ""
    incarnation: int = 0
    starts: int = 0
    seen: SeenContainer | None = None
    doing: str = ""
    failures: int = 0
    tries: int = 0
    losses: int = 0
    failed_of: str = ""
    failed_by: str = ""
    reason: str = ""
    why: str = ""
    hint: str = ""
    retry_at: float | None = None
    probed: ProbeResult = ProbeResult()
    stopping: float = -1.0
    counted: float = -1.0
    logged: float = 0.0
    log: str = ""
    last: str = ""
    done_of: str = ""
    is_expired: bool = False
    is_spent: bool = False
    stuck: EngineTrouble | None = None
    engine: EngineTrouble | None = None
    bound_of: str = ""
    bound_why: str = ""


def read_container_status(raw: JsonObject) -> ContainerStatus:
    """The typed form of a container's `status`."""
    own = {name: raw[name] for name in ContainerStatus.__match_args__ if raw.get(name) is not None}
    if "seen" in own:
        seen = own["seen"]
        pairs = {name: tuple((a, b) for a, b in seen[name]) for name in ("addresses", "ports")}
        own["seen"] = SeenContainer(**{**seen, **pairs})
    if "probed" in own:
        own["probed"] = ProbeResult(**own["probed"])
    own |= {name: EngineTrouble(**own[name]) for name in ("stuck", "engine") if name in own}
    return ContainerStatus(**own)
