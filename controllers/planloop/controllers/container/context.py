"""Services that all containers of a plan share, and which containers of the engine belong to which object.

The services are the engine, the store, names, folders and the clock. `ContainerContext.object_of` finds the object of a
container by its labels.
"""

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
    """`folder` is the plan's folder, `run_folder` the folder for output; both absolute. `environment` is the owner's.

    `first_look` is set when the engine was listed once and containers without an object are gone: a container that is
    wanted for the first time after that does not exist yet. `looking` has a lock for each address, held from the
    request to the engine until its answer is written, so that answers are written in order.
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
        """Identifies the looks of this owner at the engine. An owner of a forked plan has another token."""
        return f"{self.names.label}@{self.epoch}"

    def object_of(self, found: FoundContainer) -> Resource | None:
        """Return the object whose container it is; None if it has none, or is not a container of this plan."""
        tag = tag_from_labels(found.labels)
        resource = None if tag is None else self.store.view.get(tag.address)
        is_its = tag is not None and resource is not None and resource.uid == tag.uid
        return resource if is_its and self.is_ours(found) else None

    def is_ours(self, found: FoundContainer) -> bool:
        """Whether it is a container of this plan (`names.is_plan_container`), by its labels or the id in a status."""
        resource = self.store.view.get(found.labels.get(ADDRESS, ""))
        seen = None if resource is None else read_container_status(resource.status).seen
        return is_plan_container(found, self.names, () if seen is None else (seen.id,))

    async def containers(self, address: str = "") -> tuple[FoundContainer, ...]:
        """Return the containers of this plan, or of one address. Raises EngineFailed, like the next two methods."""
        only = {ADDRESS: address} if address else {}
        return tuple(one for one in await self.engine.containers({**self.names.ours, **only}) if self.is_ours(one))

    async def networks(self) -> tuple[str, ...]:
        """Return the names of this plan's networks."""
        return self.names.networks(await self.engine.networks(self.names.ours))

    async def volumes(self) -> tuple[str, ...]:
        """Return the names of this plan's volumes."""
        return self.names.volumes(await self.engine.volumes(self.names.ours))

    def output(self, address: str, bytes_max: int) -> RollingFile:
        """Return the file that holds the output of a container."""
        return RollingFile(container_log_path(self.run_folder, address), bytes_max)


def container_log_path(run_folder: Path, address: str) -> Path:
    """Return the file that `plan logs container/<name>` shows."""
    return run_folder / f"{address.replace('/', '-')}.out"
