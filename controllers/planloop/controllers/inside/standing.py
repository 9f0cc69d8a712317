"""How far a container is, read from its status, which its controller writes and nobody else."""

from __future__ import annotations

from typing import Final

from planloop.schemas import condition
from planloop.schemas.container import AWAITING_TASK, UP, ContainerState, has_health
from planloop.schemas.frozen import frozen
from planloop.schemas.resource import Resource

_ON_ITS_WAY = frozenset(
    {"", ContainerState.WAITING, ContainerState.PREPARING, ContainerState.STARTING, ContainerState.RESTARTING}
)

ILL: Final = "ill"
OVER: Final = "over"
"""What `Standing.run` says of one that is unhealthy, and of one that has ended and is not started again."""

_NO_RUNS: Final[dict[str, str]] = {
    ContainerState.UNHEALTHY: ILL,
    ContainerState.COMPLETED: OVER,
    ContainerState.FAILED: OVER,
}
_STOPPING = str(ContainerState.STOPPING)
_ENDED = frozenset({"exited", "dead"})
_FINE = frozenset({ContainerState.WAITING, ContainerState.COMPLETED, ContainerState.STOPPING, ContainerState.REMOVED})


@frozen
class Standing:
    """`id` is the engine's, empty while it has none; `why` says why it is not further, `unblocks` what would help.

    `exit_code` is None while it runs or never has. `log` is the blob of what it wrote before it ended, and `ports` are
    those of this machine by the port inside; `workdir` is the folder in which commands start. `is_stale`: the rest is
    of what the plan wanted before. `run` tells one run that is up from another, and those from `ILL` and `OVER`; empty
    while it is coming up or going.
    """

    name: str
    state: str
    wanted: str
    id: str = ""
    reason: str = ""
    why: str = ""
    unblocks: tuple[str, ...] = ()
    exit_code: int | None = None
    log: str = ""
    addresses: tuple[str, ...] = ()
    ports: tuple[tuple[int, int], ...] = ()
    workdir: str = "/"
    is_stale: bool = False
    run: str = ""

    @property
    def is_well(self) -> bool:
        """Whether it is as far as it can be: healthy where it has a health check, else running."""
        return self.state == self.wanted

    @property
    def is_up(self) -> bool:
        """Whether a command can be run inside."""
        return self.state in (*UP, ContainerState.UNHEALTHY) and bool(self.id)

    @property
    def is_fine(self) -> bool:
        """Whether nothing is wrong with it: it is up, is coming up, or has done what it was to do."""
        return self.is_well or self.is_on_its_way or self.state in _FINE

    @property
    def is_on_its_way(self) -> bool:
        """Whether it may be up soon without anybody doing anything."""
        return self.is_stale or (self.state in _ON_ITS_WAY and self.reason != AWAITING_TASK)

    @property
    def words(self) -> str:
        why = f": {self.why}" if self.why else ""
        return f"`{self.name}` is {self.state or 'new'}{why}"

    def since(self, before: str) -> str:
        """What has become of it since its `run` was `before`, for who works with it."""
        if self.run in (ILL, OVER):
            return self.why
        if before in (ILL, OVER):
            return "it is well again" if before == ILL else "it runs again: what ran in it before has ended"
        if self.run.partition(".")[0] == before.partition(".")[0]:
            return "it was started again: what ran in it has ended"
        return "another one is in its place: what ran and what was written in it is gone"


def standing(container: Resource) -> Standing:
    """How far `container` is."""
    ready = condition.of_status(container.status).get("Ready")
    seen = container.status.get("seen") or {}
    is_replaced = ready is None or ready.observed_generation != container.generation or container.state == _STOPPING
    return Standing(
        name=container.address.partition("/")[2],
        state=_STOPPING if container.deleting else container.state,
        wanted=str(ContainerState.HEALTHY if has_health(container.spec) else ContainerState.RUNNING),
        id=str(seen.get("id", "")),
        reason=ready.reason if ready is not None else "",
        why=ready.message if ready is not None else "",
        unblocks=ready.unblocks if ready is not None else (),
        exit_code=seen.get("exit_code") if seen.get("run") in _ENDED else None,
        workdir=str(seen.get("workdir") or "/"),
        log=str(container.status.get("log") or ""),
        is_stale=is_replaced and not container.deleting,
        addresses=tuple(address for _, address in seen.get("addresses", ()) if address),
        ports=tuple((inside, host) for inside, host in seen.get("ports", ())),
        run=_run(container),
    )


def _run(container: Resource) -> str:
    if container.state in UP:
        return f"{container.status.get('incarnation', 0)}.{container.status.get('starts', 0)}"
    return _NO_RUNS.get(container.state, "")
