"""The job that brings a container up: its image, networks and volumes, its creation and its start.

Each step finds what an earlier try has left, so the job may be cut off anywhere and begun again.
"""

from __future__ import annotations

from pathlib import Path

from containers.engine import Bound, Build, Creation, EngineFailed, ImageFacts, Placed, Published, Reason
from containers.images import stock
from containers.images.rootfs import rootfs_image
from containers.naming import DEFAULT_NETWORK, Tag
from controllers.container import writing
from controllers.container.status import read, seen_of
from controllers.container.yard import Yard
from reconciler.effects import secrets
from schemas.container import INTERNAL, ContainerSpec, Mount, container_from_json, what_runs
from schemas.encoding import JsonObject
from schemas.frozen import frozen
from schemas.resource import Resource

_SECRET = "secret:"
_POINTERS = ("env:", "file:")


@frozen
class Raising:
    """Brings up the container at `address`."""

    yard: Yard
    address: str
    uid: str

    async def __call__(self) -> None:
        """Returns when it runs, or when the status says why it does not."""
        resource = self.yard.store.view.get(self.address)
        if resource is None or resource.uid != self.uid:
            return
        spec = container_from_json(resource.spec)
        of = what_runs(spec)
        try:
            await self._raise(resource, spec, of)
        except EngineFailed as fault:
            await self._failed(of, fault)
        except secrets.NotThere as missing:
            await self._failed(of, EngineFailed(Reason.REFUSED, str(missing), "set it, and apply again"))

    async def _failed(self, of: str, fault: EngineFailed) -> None:
        merge = writing.failing(of, fault, self.yard.clock.now())
        await self._write(lambda status: merge(status) | {"doing": None})

    async def _raise(self, resource: Resource, spec: ContainerSpec, of: str) -> None:
        engine, found = self.yard.engine, read(resource.status).seen
        if found is None:
            await self._write(lambda _: {"doing": "image", "why": None})
            image = await self._image(spec)
            incarnation = read(resource.status).incarnation + 1
            await self._write(lambda _: {"doing": "start", "incarnation": incarnation})
            tag = Tag(self.address, self.uid, incarnation, of)
            ref = await engine.create(await self._creation(spec, image, tag))
        else:
            await self._write(lambda _: {"doing": "start"})
            ref = found.id
        try:
            await engine.start(ref)
        finally:
            made = await engine.container(ref)
            seen = None if made is None else seen_of(made)
            await self._write(lambda _: writing.seen_merge(seen) | {"doing": None, "retry_at": None})

    async def _write(self, merge: writing.Merge) -> None:
        await writing.write(self.yard.store, self.address, self.uid, merge)

    async def _image(self, spec: ContainerSpec) -> ImageFacts:
        if spec.build:
            return await self.yard.engine.build(self._build(spec.build), lambda _: None)
        if spec.rootfs:
            tar = self.yard.folder / spec.rootfs
            return await rootfs_image(tar, self.yard.engine, self.yard.run_folder / "images", lambda _: None)
        found = await self.yard.engine.image(spec.image)
        if found is None and (fault := stock.missing(spec.image)) is not None:
            raise fault
        return found or await self.yard.engine.pull(spec.image, lambda _: None)

    def _build(self, written: JsonObject) -> Build:
        args = {name: str(value) for name, value in written.get("args", {}).items()}
        folder = self.yard.folder / written["folder"]
        return Build(folder, written.get("file", ""), written.get("target", ""), args, self.yard.names.ours)

    async def _creation(self, spec: ContainerSpec, image: ImageFacts, tag: Tag) -> Creation:
        names, engine = self.yard.names, self.yard.engine
        networks = spec.networks or (DEFAULT_NETWORK,)
        for network in networks:
            await engine.make_network(names.network(network), names.ours, is_internal=network == INTERNAL)
        for mount in spec.mounts:
            if mount.volume:
                await engine.make_volume(names.volume(mount.volume), names.ours)
        name = self.address.partition("/")[2]
        return Creation(
            name=names.container(name),
            image=image.id,
            labels={**spec.labels, **tag.labels(names, self.yard.epoch)},
            cmd=spec.cmd,
            entrypoint=spec.entrypoint,
            env={key: self._value(value) for key, value in spec.env.items()},
            workdir=spec.workdir,
            user=spec.user,
            mounts=tuple(self._placed(mount) for mount in spec.mounts),
            ports=tuple(Published(port.inside, port.host) for port in spec.ports),
            networks=tuple(names.network(network) for network in networks),
            aliases=(name,),
            bound=Bound(spec.cpu, spec.memory_bytes, spec.pids),
            is_read_only=spec.is_read_only,
            cap_drop=spec.cap_drop,
            cap_add=spec.cap_add,
            logs_bytes=spec.logs_bytes,
        )

    def _placed(self, mount: Mount) -> Placed:
        host = str(self.yard.folder / Path(mount.host).expanduser()) if mount.host else ""
        volume = self.yard.names.volume(mount.volume) if mount.volume else ""
        return Placed(mount.target, host, volume, mount.is_read_only)

    def _value(self, value: str) -> str:
        """Raises secrets.NotThere."""
        if value.startswith(_SECRET):
            return secrets.secret(f"env:{value.removeprefix(_SECRET)}", self.yard.environment, self.yard.folder)
        if value.startswith(_POINTERS):
            return secrets.secret(value, self.yard.environment, self.yard.folder)
        return value
