"""How far a container is, read from its status, which its controller writes and nobody else."""

from __future__ import annotations

from schemas import condition
from schemas.container import UP, ContainerState, has_health
from schemas.frozen import frozen
from schemas.resource import Resource

_ON_ITS_WAY = frozenset({"", ContainerState.PREPARING, ContainerState.STARTING, ContainerState.RESTARTING})


@frozen
class Standing:
    """`id` is the engine's, empty while it has none; `why` says why it is not further, `unblocks` what would help."""

    name: str
    state: str
    wanted: str
    id: str = ""
    why: str = ""
    unblocks: tuple[str, ...] = ()

    @property
    def is_well(self) -> bool:
        """Whether it is as far as it can be: healthy where it has a health check, else running."""
        return self.state == self.wanted

    @property
    def is_up(self) -> bool:
        """Whether a command can be run inside."""
        return self.state in (*UP, ContainerState.UNHEALTHY) and bool(self.id)

    @property
    def is_on_its_way(self) -> bool:
        """Whether it may be up soon without anybody doing anything."""
        return self.state in _ON_ITS_WAY

    @property
    def words(self) -> str:
        why = f": {self.why}" if self.why else ""
        return f"`{self.name}` is {self.state or 'new'}{why}"


def standing(container: Resource) -> Standing:
    """How far `container` is."""
    ready = condition.of_status(container.status).get("Ready")
    seen = container.status.get("seen") or {}
    return Standing(
        name=container.address.partition("/")[2],
        state="stopping" if container.deleting else container.state,
        wanted=str(ContainerState.HEALTHY if has_health(container.spec) else ContainerState.RUNNING),
        id=str(seen.get("id", "")),
        why=ready.message if ready is not None else "",
        unblocks=ready.unblocks if ready is not None else (),
    )
