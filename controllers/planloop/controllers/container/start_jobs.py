"""Job that starts a container: get its image, create networks and volumes, check mounts, create it, start it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from posixpath import normpath

import anyio
import anyio.to_thread

from planloop.containers.engine.engine import (
    ContainerCreation,
    ContainerEngine,
    ContainerLimits,
    ContainerMount,
    ContainerNetwork,
    ContainerRights,
    EngineErrorReason,
    EngineFailed,
    ImageBuild,
    ImageFacts,
    PublishedPort,
)
from planloop.containers.engine.names import HOST_CUT_OFF, ContainerNames, ContainerTag, container_networks
from planloop.containers.engine.secret_env import SECRETS, secrets_label
from planloop.containers.images import stock
from planloop.containers.images.rootfs import ensure_rootfs_image
from planloop.containers.sandbox import write_guard
from planloop.controllers.container import records
from planloop.controllers.container.context import ContainerContext
from planloop.controllers.container.records import ContainerStatusWriter
from planloop.controllers.container.status import ContainerStatus, read_container_status
from planloop.controllers.shared.container_exec import MountRoots, mount_roots
from planloop.controllers.shared.sandbox import mounted_folders, steering_files
from planloop.reconciler.admission.container_policy import container_maker
from planloop.reconciler.current_plan import CurrentPlanReader
from planloop.reconciler.effects import secrets
from planloop.schemas import limits
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.container import (
    INTERNAL,
    ContainerSpec,
    container_from_json,
    is_outside_plan,
    running_digest,
)
from planloop.schemas.objects.plan import plan_file_name

# Mounts. If a mount includes the plan's folder, the files that control the plan are protected: the plan's state is
# hidden, and the files that `planloop.containers.sandbox.write_guard` lists are read-only, unless the plan mounts them
# by name. A mounted folder of the plan must not be a link: the plan must name the target itself. The plan's folder must
# not contain the owner's home.


@frozen
class SteeringFiles:
    """`files` control the plan, `mounted` are folders that containers mount: both relative to the plan's folder."""

    files: tuple[str, ...]
    mounted: tuple[str, ...]


def container_mounts(
    spec: ContainerSpec, names: ContainerNames, ground: MountRoots, steering: SteeringFiles
) -> tuple[ContainerMount, ...]:
    """Return the mounts of the container, and the mounts that protect files below them. Reads the disk.

    Notes a mount through which the container could create a git repository (`write_guard.note_outside_access`).

    Raises:
        EngineFailed: REFUSED, a mount is not allowed.
    """
    out: list[ContainerMount] = []
    over: list[ContainerMount] = []
    for mount in spec.mounts:
        volume = names.volume(mount.volume) if mount.volume else ""
        start = ground.start(mount.host)
        host = str(resolve_mount_source(mount.host, start)) if mount.host else ""
        out.append(ContainerMount(mount.target, host, volume, mount.is_read_only))
        over += _guards(out[-1], start, steering) if host else ()
    known = {normpath(each.target) for each in out}
    return (*out, *(guard for guard in over if guard.target not in known))


def mount_owner(spec: ContainerSpec, ground: MountRoots) -> str:
    """Return the user and group, such as `1000:1000`, that own all folders of this machine that the container may
    write.

    Empty if the owner is root, or there are several. Reads the disk.
    """
    owners = set()
    for written in spec.written:
        with suppress(OSError, EngineFailed):
            about = resolve_mount_source(written, ground.start(written)).stat()
            owners.add((about.st_uid, about.st_gid))
    users = {user for user, _ in owners}
    return "{}:{}".format(*min(owners)) if len(users) == 1 and users != {0} else ""


def resolve_mount_source(written: str, folder: Path) -> Path:
    """Return the path on this machine of a path that a plan in `folder` names. Reads the disk.

    Raises:
        EngineFailed: REFUSED, the path is a link, or the plan's folder holds the user's home.
    """
    path = folder / Path(written).expanduser()
    if is_outside_plan(written):
        return path
    found, own = _real(path), _real(folder)
    if _real(Path.home()).is_relative_to(own):
        hint = f"{write_guard.ELSEWHERE}; or mount `{found}` by its full path"
        raise EngineFailed(EngineErrorReason.REFUSED, write_guard.HOLDS_HOME.format(own), hint)
    if found != own / normpath(written):
        why = f"`{written}` is a link to {found}"
        raise EngineFailed(EngineErrorReason.REFUSED, why, f"if you want to mount `{found}`, write that path")
    return found


def _guards(mount: ContainerMount, folder: Path, steering: SteeringFiles) -> Iterator[ContainerMount]:
    """Yield the mounts that protect files below a mount of the plan's folder or a part of it. Raises EngineFailed."""
    own, host = _real(folder), _real(Path(mount.host))
    includes_all = own.is_relative_to(host)
    if not includes_all and not host.is_relative_to(own):
        return
    state = own / write_guard.STATE
    if includes_all and state.is_dir() and not state.is_symlink():
        yield ContainerMount(normpath(mount.target / state.relative_to(host)), is_read_only=True)
    if mount.is_read_only:
        return
    if includes_all:
        write_guard.note_outside_access(str(own))
    try:
        files, held = ([str(own / name) for name in names] for names in (steering.files, steering.mounted))
        found = list(write_guard.write_guards([str(host)], str(own), files, held))
    except write_guard.SandboxUnfit as unfit:
        raise EngineFailed(EngineErrorReason.REFUSED, str(unfit), "or mount it with `read-only: true`") from unfit
    for guard in found:
        inside = Path(guard.path).relative_to(host)
        yield ContainerMount(normpath(mount.target / inside), guard.path, is_read_only=guard.is_read_only)


def _real(path: Path) -> Path:
    """Return the path without links. Unlike `resolve`, it does not fail on a loop of links."""
    return Path(os.path.realpath(path))


def container_variables(spec: ContainerSpec, context: ContainerContext, *, has_home: bool = True) -> dict[str, str]:
    """Return the variables with their values. Secrets are looked up now and stored nowhere.

    Without `has_home`, the image may not know the user, so HOME is a folder that every user may write.

    Raises:
        EngineFailed: NO_SECRET, a secret is missing.
    """
    try:
        return ({} if has_home else {"HOME": "/tmp"}) | {
            name: secrets.resolve_value(value, context.environment, context.folder) for name, value in spec.env.items()
        }
    except secrets.SecretMissing as missing:
        hint = "create it, or set the variable and run plan apply again"
        raise EngineFailed(EngineErrorReason.NO_SECRET, str(missing), hint) from None


# Volumes. They are created if missing, and stay, with the name of their maker, when the container goes.
#
# A person may use any volume of the plan. An agent may use the volumes that it or its descendants made: it may not read
# what others left, even if no container of the plan uses it now.


async def create_volumes(context: ContainerContext, name: str, spec: ContainerSpec) -> None:
    """Create the missing volumes of the container `name`.

    Raises:
        EngineFailed: NAME_TAKEN, another agent made a volume of this name; or as the engine says.
    """
    wanted = [mount.volume for mount in spec.mounts if mount.volume]
    labels = context.names.of_volume(_maker(context, name)) if wanted else {}
    for volume in wanted:
        try:
            await context.engine.make_volume(context.names.volume(volume), labels)
        except EngineFailed as fault:
            if (
                fault.reason is not EngineErrorReason.NAME_TAKEN
                or context.names.volume(volume) not in await context.volumes()
            ):
                raise
            why = f"the volume `{volume}` holds data of another agent"
            raise EngineFailed(EngineErrorReason.NAME_TAKEN, why, "use another name under `mounts`") from None


def _maker(context: ContainerContext, name: str) -> str | None:
    plan = next(iter(context.store.view.list("plan")), None)
    return None if plan is None else container_maker(CurrentPlanReader(context.store, plan.address).read(), name)


class StartProgress:
    """Writes the progress of a pull or build into the status, at intervals, because each write is a record."""

    def __init__(self, writer: ContainerStatusWriter) -> None:
        self._writer = writer
        self._newest = ""

    def say(self, words: str) -> None:
        """Set the newest progress. May be called from any thread."""
        self._newest = words

    async def run(self) -> None:
        """Write the progress when it has changed, until cancelled; nothing before the first interval."""
        written = ""
        while True:
            await self._writer.context.clock.sleep(limits.CONTAINER_PROGRESS_S)
            if self._newest != written:
                written = self._newest
                await self._writer.write(lambda _: {"why": written})  # noqa: B023 - awaited here


# The engine, as root, finds mounted folders by name at each start. Commands of the plan cannot move a folder that a
# container mounts (`planloop.containers.sandbox.write_guard`). For other processes, the folders are compared before and
# after the start, and a container that may have started with another folder is removed.


async def start_with_checked_mounts(engine: ContainerEngine, ref: str, spec: ContainerSpec, ground: MountRoots) -> None:
    """Start the container `ref` of `spec`, whose mounts begin at `ground`.

    Raises:
        EngineFailed: it does not start, or a mounted folder was moved meanwhile (REFUSED).
    """
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
            why = "a folder that it mounts was moved while it was starting"
            raise EngineFailed(EngineErrorReason.REFUSED, why, "keep the folder in its place and run plan apply again")


async def _sources(spec: ContainerSpec, ground: MountRoots) -> tuple[tuple[str, int, int], ...]:
    """Return the mounted folders and files of this machine with their device and inode numbers."""
    if not any(mount.host for mount in spec.mounts):
        return ()
    return await anyio.to_thread.run_sync(_looked_at, spec, ground)


def _looked_at(spec: ContainerSpec, ground: MountRoots) -> tuple[tuple[str, int, int], ...]:
    found = []
    hosts = [mount.host for mount in spec.mounts if mount.host]
    for path in (resolve_mount_source(host, ground.start(host)) for host in hosts):
        try:
            seen = path.stat()
        except OSError:  # The engine reports this.
            continue
        found.append((str(path), seen.st_dev, seen.st_ino))
    return tuple(found)


@frozen
class StartJob:
    """Starts the container at `address`.

    Each step finds what an earlier try has left, so the job may be interrupted anywhere and repeated.
    """

    context: ContainerContext
    address: str
    uid: str

    async def __call__(self) -> None:
        """Return when the container runs, or when its status says why it does not."""
        writer = ContainerStatusWriter(self.context, self.address, self.uid)
        resource = writer.resource
        if resource is None:
            return
        spec = container_from_json(resource.spec)
        of = running_digest(spec)
        try:
            await self._bring_up(writer, spec, of, read_container_status(resource.status))
        except EngineFailed as fault:
            await self._failed(writer, of, fault)

    async def _failed(self, writer: ContainerStatusWriter, of: str, fault: EngineFailed) -> None:
        merge = records.engine_error_merge(of, fault, self.context.look_token, self.context.clock.now())
        await writer.write(lambda status: merge(status) | {"doing": None})

    async def _bring_up(
        self, writer: ContainerStatusWriter, spec: ContainerSpec, of: str, status: ContainerStatus
    ) -> None:
        found = status.seen
        if found is not None and found.run != "created":
            await writer.write(lambda _: {**records.HEALTHY_MERGE, "doing": "start"})
            await self._start(writer, found.id, spec, status.starts + (found.run != "paused"))
            return
        if found is None:
            await writer.write(lambda _: {**records.HEALTHY_MERGE, "doing": "image"})
            image, incarnation = (await self._image(writer, spec)).id, status.incarnation + 1
        else:  # Created again: the owner may have crashed before it had joined all of its networks.
            image, incarnation = found.image, found.tag.incarnation
        tag = ContainerTag(self.address, self.uid, incarnation, of)
        await writer.write(
            lambda _: {**records.HEALTHY_MERGE, "doing": "start", "incarnation": incarnation, "starts": 0}
        )
        creation = await self._creation(spec, image, tag)
        # The engine finishes a request even if the job is cancelled, so wait: nothing may begin after the job has
        # ended.
        with anyio.CancelScope(shield=True):
            ref = await self._created(creation)
        await self._start(writer, ref, spec, 1)

    async def _start(self, writer: ContainerStatusWriter, ref: str, spec: ContainerSpec, starts: int) -> None:
        """Start the container for the time `starts`. A failed start does not count."""
        is_begun: JsonObject = {}
        try:
            await start_with_checked_mounts(self.context.engine, ref, spec, self._ground(spec))
            is_begun = {"starts": starts, "tries": None}
        finally:
            await writer.look(ref, {"doing": None, "bound_of": None, "bound_why": None, **is_begun})

    async def _created(self, creation: ContainerCreation) -> str:
        """Create the container; replace one that an earlier try left under its name."""
        engine = self.context.engine
        try:
            return await engine.create(creation)
        except EngineFailed as fault:
            left = await engine.container(creation.name) if fault.reason is EngineErrorReason.NAME_TAKEN else None
            if left is None or not self.context.is_ours(left):
                raise
        await engine.remove(left.id)
        return await engine.create(creation)

    async def _image(self, writer: ContainerStatusWriter, spec: ContainerSpec) -> ImageFacts:
        """Return the image; build or pull it if needed, with progress in the status."""
        progress = StartProgress(writer)
        image: ImageFacts | EngineFailed
        async with anyio.create_task_group() as group:
            group.start_soon(progress.run)
            try:
                image = await self._get_image(spec, progress.say)
            except EngineFailed as fault:
                image = fault
            group.cancel_scope.cancel()
        if isinstance(image, EngineFailed):
            raise image
        return image

    async def _get_image(self, spec: ContainerSpec, say: Callable[[str], None]) -> ImageFacts:
        engine = self.context.engine
        if spec.build:
            return await engine.build(await self._build(spec.build), say)
        if spec.rootfs:
            tar = await self._place(spec.rootfs)
            return await ensure_rootfs_image(tar, engine, self.context.run_folder / "images", say)
        found = await engine.image(spec.image)
        if found is None and (fault := stock.missing_image_error(spec.image)) is not None:
            raise fault
        return found or await engine.pull(spec.image, say)

    async def _build(self, written: JsonObject) -> ImageBuild:
        # Without the plan's labels: a container that others run from the image would inherit them.
        args = {name: str(value) for name, value in written.get("args", {}).items()}
        folder = await self._place(written["folder"])
        return ImageBuild(folder, written.get("file", ""), written.get("target", ""), args)

    async def _place(self, written: str) -> Path:
        return await anyio.to_thread.run_sync(resolve_mount_source, written, self.context.folder)

    async def _creation(self, spec: ContainerSpec, image: str, tag: ContainerTag) -> ContainerCreation:
        names, engine = self.context.names, self.context.engine
        networks = container_networks(spec)
        for network in networks:
            await engine.make_network(names.network(network), names.ours, is_internal=network == INTERNAL)
        name, user = self.address.partition("/")[2], spec.user or await self._owner(spec, image)
        await create_volumes(self.context, name, spec)
        return ContainerCreation(
            name=names.container(name),
            image=image,
            labels={**spec.labels, **tag.labels(names, self.context.epoch), SECRETS: secrets_label(spec.env)},
            cmd=spec.cmd,
            entrypoint=spec.entrypoint,
            env=container_variables(spec, self.context, has_home=user == spec.user),
            workdir=spec.workdir,
            mounts=await self._mounts(spec) if spec.mounts else (),
            network=ContainerNetwork(
                names=tuple(names.network(network) for network in networks),
                aliases=(name,),
                ports=tuple(PublishedPort(port.inside, port.host) for port in spec.ports) if networks else (),
                # The same as its first alias; by default the engine chooses another name for each container.
                host_name=name[: limits.HOST_NAME_CHARS_MAX] if networks else HOST_CUT_OFF,
            ),
            bound=ContainerLimits(spec.cpu, spec.memory_bytes, spec.pids),
            rights=ContainerRights(user, spec.is_read_only, spec.cap_drop, spec.cap_add),
            logs_bytes=spec.logs_bytes,
        )

    async def _owner(self, spec: ContainerSpec, image: str) -> str:
        """Return the user to run the container as if plan and image name none; empty for root.

        Without capabilities, root may not write files of an ordinary user, and its new files belong to root.
        """
        engine = self.context.engine
        if spec.cap_add or not spec.written or (await engine.facts()).maps_users:
            return ""
        found = await engine.image(image)
        if found is None or found.user:
            return ""
        return await anyio.to_thread.run_sync(mount_owner, spec, self._ground(spec))

    async def _mounts(self, spec: ContainerSpec) -> tuple[ContainerMount, ...]:
        ground, steering = self._ground(spec), self._steering()
        return await anyio.to_thread.run_sync(container_mounts, spec, self.context.names, ground, steering)

    def _ground(self, spec: ContainerSpec) -> MountRoots:
        return mount_roots(self.context.store.view, spec, self.context.folder)

    def _steering(self) -> SteeringFiles:
        view = self.context.store.view
        # The files that control any agent are protected in every container, whichever agents run commands in it.
        guarded = (pattern for agent in view.list("agent") for pattern in agent.spec["rights"].get("guarded", ()))
        files = steering_files(plan_file_name(next(iter(view.list("plan")), None)), guarded)
        return SteeringFiles(files, mounted_folders(view))
