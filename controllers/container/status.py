"""What the container controller keeps in `status`, read into typed records."""

from __future__ import annotations

from dataclasses import asdict

from containers.engine import Bound, Found, RunState
from containers.naming import Tag, tag_of
from schemas.encoding import JsonObject
from schemas.frozen import frozen


@frozen
class Seen:
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

    @property
    def bound(self) -> Bound:
        return Bound(self.cpu, self.memory_bytes, self.pids)

    @property
    def is_up(self) -> bool:
        return self.run in ("running", "paused")

    def to_json(self) -> JsonObject:
        pairs = {"addresses": [list(each) for each in self.addresses], "ports": [list(each) for each in self.ports]}
        return asdict(self) | pairs


def seen_of(found: Found) -> Seen:
    """What is kept of what an engine says."""
    tag = tag_of(found.labels) or Tag("", "", 0, "")
    return Seen(
        id=found.id,
        run=found.state,
        uid=tag.uid,
        incarnation=tag.incarnation,
        of=tag.of,
        image=found.image,
        exit_code=found.exit_code,
        is_out_of_memory=found.is_out_of_memory,
        error=found.error,
        started_at=found.started_at,
        ended_at=found.ended_at,
        addresses=tuple(sorted(found.addresses.items())),
        ports=tuple(sorted(found.ports.items())),
        cpu=found.bound.cpu,
        memory_bytes=found.bound.memory_bytes,
        pids=found.bound.pids,
    )


@frozen
class Probed:
    """Its health in the run that began at `started_at`: None while nobody knows. `said` is what the last probe said."""

    started_at: float = 0.0
    is_well: bool | None = None
    said: str = ""


@frozen
class ContainerStatus:
    """`epoch` is that of the owner who last looked at the engine. `seen` is None when there is no container.

    `doing` is what a job is at. `failures` are starts and runs in a row that failed, the last of them for `reason` with
    the words `why`; it is tried again at `retry_at`, None for not before something changes (`failed_of`, the digest of
    what failed, is another one). `logged` is the run (its `started_at`) whose output is kept whole in the blob `log`,
    with its `last` lines. `done_of` is the digest of what has ended well and is not run again.
    """

    epoch: int = 0
    incarnation: int = 0
    seen: Seen | None = None
    doing: str = ""
    failures: int = 0
    failed_of: str = ""
    reason: str = ""
    why: str = ""
    hint: str = ""
    retry_at: float | None = None
    probed: Probed = Probed()
    counted: float = 0.0
    logged: float = 0.0
    log: str = ""
    last: str = ""
    done_of: str = ""


def read(raw: JsonObject) -> ContainerStatus:
    """The typed form of a container's `status`."""
    own = {name: raw[name] for name in ContainerStatus.__match_args__ if raw.get(name) is not None}
    if "seen" in own:
        seen = own["seen"]
        pairs = {name: tuple((a, b) for a, b in seen[name]) for name in ("addresses", "ports")}
        own["seen"] = Seen(**{**seen, **pairs})
    if "probed" in own:
        own["probed"] = Probed(**own["probed"])
    return ContainerStatus(**own)
