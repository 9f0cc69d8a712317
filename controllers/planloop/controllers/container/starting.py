"""A container starts with the folders that were looked at, not with what somebody put in their place meanwhile.

The engine finds them by their names each time that one starts, as root. Commands of the plan cannot move a folder that
a container mounts (`planloop.containers.sandboxing.guarding`); for who can, what is there is looked at before and
after, and a container that may have started with something else is removed at once.
"""

from __future__ import annotations

import anyio
import anyio.to_thread

from planloop.containers.engine import Engine, EngineFailed, Reason
from planloop.controllers.container.mounting import place
from planloop.controllers.inside import Ground
from planloop.schemas.container import ContainerSpec


async def start(engine: Engine, ref: str, spec: ContainerSpec, ground: Ground) -> None:
    """Starts the container `ref` of `spec`, whose mounts are on `ground`. Raises EngineFailed."""
    before = await _sources(spec, ground)
    with anyio.CancelScope(shield=True):
        await engine.start(ref)
        try:
            moved = before != await _sources(spec, ground)
        except EngineFailed:
            await engine.remove(ref)
            raise
        if moved:
            await engine.remove(ref)
            why = "a folder that it mounts was put out of its place while it started"
            raise EngineFailed(Reason.REFUSED, why, "leave it where it is; `plan apply` tries it again")


async def _sources(spec: ContainerSpec, ground: Ground) -> tuple[tuple[str, int, int], ...]:
    """The folders and files of this machine that it mounts, by what tells them from all others."""
    if not any(mount.host for mount in spec.mounts):
        return ()
    return await anyio.to_thread.run_sync(_looked_at, spec, ground)


def _looked_at(spec: ContainerSpec, ground: Ground) -> tuple[tuple[str, int, int], ...]:
    found = []
    hosts = [mount.host for mount in spec.mounts if mount.host]
    for path in (place(host, ground.start(host)) for host in hosts):
        try:
            seen = path.stat()
        except OSError:  # The engine has the words for that.
            continue
        found.append((str(path), seen.st_dev, seen.st_ino))
    return tuple(found)
