"""What all containers of a plan share: the engine, their names in it, and the folders that paths start from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

import anyio

from planloop.containers.engine.engine import ContainerEngine, FoundContainer
from planloop.containers.engine.names import ADDRESS, ContainerNames, is_plan_container, tag_from_labels
from planloop.controllers.container.status import read_container_status
from planloop.reconciler.clock import Clock
from planloop.reconciler.effects.rolling_file import RollingFile
from planloop.reconciler.engine.work_pools import WorkPlane
from planloop.reconciler.store.store import Store
from planloop.schemas.frozen import frozen
from planloop.schemas.resource import Resource


@frozen
class ContainerContext:
    """`folder` is the plan's, `run_folder` where output is kept; both absolute. `environment` is the owner's.

    `first_look` is set when the engine has said once what there is, and what is nobody's has gone: of what is wanted
    from then on for the first time there is nothing. `looking` has a lock for each address, which is held from asking
    the engine about a container to writing what it says: what was seen later is written later.
    """

    store: Store
    clock: Clock
    work: WorkPlane
    engine: ContainerEngine
    names: ContainerNames
    epoch: int
    folder: Path
    run_folder: Path
    environment: Mapping[str, str]
    looking: defaultdict[str, anyio.Lock] = field(default_factory=lambda: defaultdict(anyio.Lock))
    first_look: anyio.Event = field(default_factory=anyio.Event)

    @property
    def look_token(self) -> str:
        """Whose look at the engine it is: this owner's of this plan. That of a fork's origin is another."""
        return f"{self.names.label}@{self.epoch}"

    def whose(self, found: FoundContainer) -> Resource | None:
        """The object that it is the container of; None for one of ours of nobody, and for one that is not ours."""
        tag = tag_from_labels(found.labels)
        resource = None if tag is None else self.store.view.get(tag.address)
        is_its = tag is not None and resource is not None and resource.uid == tag.uid
        return resource if is_its and self.is_ours(found) else None

    def is_ours(self, found: FoundContainer) -> bool:
        """See `names.is_plan_container`; what the status of a container says that the engine has is known."""
        resource = self.store.view.get(found.labels.get(ADDRESS, ""))
        seen = None if resource is None else read_container_status(resource.status).seen
        return is_plan_container(found, self.names, () if seen is None else (seen.id,))

    async def containers(self, address: str = "") -> tuple[FoundContainer, ...]:
        """Ours, of one address or of all. Raises EngineFailed, as the next two."""
        only = {ADDRESS: address} if address else {}
        return tuple(one for one in await self.engine.containers({**self.names.ours, **only}) if self.is_ours(one))

    async def networks(self) -> tuple[str, ...]:
        """The names of ours."""
        return self.names.networks(await self.engine.networks(self.names.ours))

    async def volumes(self) -> tuple[str, ...]:
        """The names of ours."""
        return self.names.volumes(await self.engine.volumes(self.names.ours))

    def output(self, address: str, bytes_max: int) -> RollingFile:
        """The file with what a container writes."""
        return RollingFile(container_log_path(self.run_folder, address), bytes_max)


def container_log_path(run_folder: Path, address: str) -> Path:
    """The file that `plan logs container/<name>` shows."""
    return run_folder / f"{address.replace('/', '-')}.out"
