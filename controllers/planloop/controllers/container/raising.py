"""The job that brings a container up: its image, networks and volumes, its creation and its start.

Each step finds what an earlier try has left, so the job may be cut off anywhere and begun again.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.to_thread

from planloop.containers.engine import Bound, Build, Creation, EngineFailed, ImageFacts, Placed, Published, Reason
from planloop.containers.hiding import SECRETS, secrets_label
from planloop.containers.images import stock
from planloop.containers.images.rootfs import rootfs_image
from planloop.containers.naming import HOST_CUT_OFF, Tag, networks_of
from planloop.controllers.container import mounting, starting, volumes, writing
from planloop.controllers.container.environment import environment
from planloop.controllers.container.progress import Progress
from planloop.controllers.container.status import ContainerStatus, read
from planloop.controllers.container.writing import Page
from planloop.controllers.container.yard import Yard
from planloop.controllers.inside import Ground, ground_of
from planloop.controllers.sandboxes import mounted_folders, steering_files
from planloop.schemas import limits
from planloop.schemas.container import INTERNAL, ContainerSpec, container_from_json, what_runs
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.plan import file_name


@frozen
class Raising:
    """Brings up the container at `address`."""

    yard: Yard
    address: str
    uid: str

    async def __call__(self) -> None:
        """Returns when it runs, or when the status says why it does not."""
        page = Page(self.yard, self.address, self.uid)
        resource = page.resource
        if resource is None:
            return
        spec = container_from_json(resource.spec)
        of = what_runs(spec)
        try:
            await self._raise(page, spec, of, read(resource.status))
        except EngineFailed as fault:
            await self._failed(page, of, fault)

    async def _failed(self, page: Page, of: str, fault: EngineFailed) -> None:
        merge = writing.failing(of, fault, self.yard.look_token, self.yard.clock.now())
        await page.write(lambda status: merge(status) | {"doing": None})

    async def _raise(self, page: Page, spec: ContainerSpec, of: str, status: ContainerStatus) -> None:
        found = status.seen
        if found is not None and found.run != "created":
            await page.write(lambda _: {**writing.WELL, "doing": "start"})
            await self._start(page, found.id, spec, status.starts + (found.run != "paused"))
            return
        if found is None:
            await page.write(lambda _: {**writing.WELL, "doing": "image"})
            image, incarnation = (await self._image(page, spec)).id, status.incarnation + 1
        else:  # Created again: who made it may have died before it was in all of its networks.
            image, incarnation = found.image, found.incarnation
        tag = Tag(self.address, self.uid, incarnation, of)
        await page.write(lambda _: {**writing.WELL, "doing": "start", "incarnation": incarnation, "starts": 0})
        creation = await self._creation(spec, image, tag)
        # What the engine was asked for happens, also when nobody waits any more: nothing begins after this has ended.
        with anyio.CancelScope(shield=True):
            ref = await self._created(creation)
        await self._start(page, ref, spec, 1)

    async def _start(self, page: Page, ref: str, spec: ContainerSpec, starts: int) -> None:
        """It has begun for the time `starts`. A start that the engine could not do is none."""
        is_begun: JsonObject = {}
        try:
            await starting.start(self.yard.engine, ref, spec, self._ground(spec))
            is_begun = {"starts": starts, "tries": None}
        finally:
            await page.look(ref, {"doing": None, "bound_of": None, "bound_why": None, **is_begun})

    async def _created(self, creation: Creation) -> str:
        """Makes it, in place of what an earlier try may have left under its name."""
        engine = self.yard.engine
        try:
            return await engine.create(creation)
        except EngineFailed as fault:
            left = await engine.container(creation.name) if fault.reason is Reason.NAME_TAKEN else None
            if left is None or not self.yard.is_ours(left):
                raise
        await engine.remove(left.id)
        return await engine.create(creation)

    async def _image(self, page: Page, spec: ContainerSpec) -> ImageFacts:
        """The image, made or fetched if need be; how far that is stands in the status."""
        progress = Progress(page)
        made: ImageFacts | EngineFailed
        async with anyio.create_task_group() as group:
            group.start_soon(progress.run)
            try:
                made = await self._imaged(spec, progress.say)
            except EngineFailed as fault:
                made = fault
            group.cancel_scope.cancel()
        if isinstance(made, EngineFailed):
            raise made
        return made

    async def _imaged(self, spec: ContainerSpec, say: Callable[[str], None]) -> ImageFacts:
        engine = self.yard.engine
        if spec.build:
            return await engine.build(await self._build(spec.build), say)
        if spec.rootfs:
            tar = await self._place(spec.rootfs)
            return await rootfs_image(tar, engine, self.yard.run_folder / "images", say)
        found = await engine.image(spec.image)
        if found is None and (fault := stock.missing(spec.image)) is not None:
            raise fault
        return found or await engine.pull(spec.image, say)

    async def _build(self, written: JsonObject) -> Build:
        # Not labelled as ours: what others run of the image would be taken for a container of the plan.
        args = {name: str(value) for name, value in written.get("args", {}).items()}
        folder = await self._place(written["folder"])
        return Build(folder, written.get("file", ""), written.get("target", ""), args)

    async def _place(self, written: str) -> Path:
        return await anyio.to_thread.run_sync(mounting.place, written, self.yard.folder)

    async def _creation(self, spec: ContainerSpec, image: str, tag: Tag) -> Creation:
        names, engine = self.yard.names, self.yard.engine
        networks = networks_of(spec)
        for network in networks:
            await engine.make_network(names.network(network), names.ours, is_internal=network == INTERNAL)
        name, user = self.address.partition("/")[2], spec.user or await self._owner(spec, image)
        await volumes.make(self.yard, name, spec)
        return Creation(
            name=names.container(name),
            image=image,
            labels={**spec.labels, **tag.labels(names, self.yard.epoch), SECRETS: secrets_label(spec.env)},
            cmd=spec.cmd,
            entrypoint=spec.entrypoint,
            env=environment(spec, self.yard, has_home=user == spec.user),
            workdir=spec.workdir,
            # Its first alias; the engine's own would be another each time.
            host_name=name[: limits.HOST_NAME_CHARS_MAX] if networks else HOST_CUT_OFF,
            user=user,
            mounts=await self._mounts(spec) if spec.mounts else (),
            ports=tuple(Published(port.inside, port.host) for port in spec.ports) if networks else (),
            networks=tuple(names.network(network) for network in networks),
            aliases=(name,),
            bound=Bound(spec.cpu, spec.memory_bytes, spec.pids),
            is_read_only=spec.is_read_only,
            cap_drop=spec.cap_drop,
            cap_add=spec.cap_add,
            logs_bytes=spec.logs_bytes,
        )

    async def _owner(self, spec: ContainerSpec, image: str) -> str:
        """The user that the container is to run as where plan and image name none; empty for root.

        Without capabilities root may not write what belongs to an ordinary user, and what it makes belongs to root.
        """
        engine = self.yard.engine
        if spec.cap_add or not spec.written or (await engine.facts()).maps_users:
            return ""
        found = await engine.image(image)
        if found is None or found.user:
            return ""
        return await anyio.to_thread.run_sync(mounting.owner, spec, self._ground(spec))

    async def _mounts(self, spec: ContainerSpec) -> tuple[Placed, ...]:
        ground, steering = self._ground(spec), self._steering()
        return await anyio.to_thread.run_sync(mounting.placed, spec, self.yard.names, ground, steering)

    def _ground(self, spec: ContainerSpec) -> Ground:
        return ground_of(self.yard.store.view, spec, self.yard.folder)

    def _steering(self) -> mounting.Steering:
        view = self.yard.store.view
        # Whoever's commands will run in it: what steers anybody is nobody's to write.
        guarded = (pattern for agent in view.list("agent") for pattern in agent.spec["rights"].get("guarded", ()))
        files = steering_files(file_name(next(iter(view.list("plan")), None)), guarded)
        return mounting.Steering(files, mounted_folders(view))
