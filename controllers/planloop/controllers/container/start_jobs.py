"""The job that starts a container: its image, networks, volumes, mounts, variables, creation and start."""

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
    """`files` are those that the plan names, `mounted` folders that containers mount: both relative to its folder."""

    files: tuple[str, ...]
    mounted: tuple[str, ...]


def container_mounts(
    spec: ContainerSpec, names: ContainerNames, ground: MountRoots, steering: SteeringFiles
) -> tuple[ContainerMount, ...]:
    """The mounts of the container, and what is laid over them. Raises EngineFailed REFUSED. FollowedTools at files.

    That somebody is let in who could make a repository is noted.
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
    """The user and group, as `1000:1000`, to whom all belongs that the container mounts of this machine and may write.

    Empty if that is root, or not one user. Looks at files.
    """
    owners = set()
    for written in spec.written:
        with suppress(OSError, EngineFailed):
            about = resolve_mount_source(written, ground.start(written)).stat()
            owners.add((about.st_uid, about.st_gid))
    users = {user for user, _ in owners}
    return "{}:{}".format(*min(owners)) if len(users) == 1 and users != {0} else ""


def resolve_mount_source(written: str, folder: Path) -> Path:
    """Where a path of the plan in `folder` is on this machine. Raises EngineFailed REFUSED. FollowedTools at files."""
    path = folder / Path(written).expanduser()
    if is_outside_plan(written):
        return path
    found, own = _real(path), _real(folder)
    if _real(Path.home()).is_relative_to(own):
        hint = f"{write_guard.ELSEWHERE}; or name `{found}` itself, if that is meant"
        raise EngineFailed(EngineErrorReason.REFUSED, write_guard.HOLDS_HOME.format(own), hint)
    if found != own / normpath(written):
        why = f"`{written}` is a link, and leads to {found}"
        raise EngineFailed(EngineErrorReason.REFUSED, why, f"name `{found}` itself, if that is meant")
    return found


def _guards(mount: ContainerMount, folder: Path, steering: SteeringFiles) -> Iterator[ContainerMount]:
    """What is laid over a mount that takes in the plan's folder, or some of it. Raises EngineFailed REFUSED."""
    own, host = _real(folder), _real(Path(mount.host))
    takes_in_all = own.is_relative_to(host)
    if not takes_in_all and not host.is_relative_to(own):
        return
    state = own / write_guard.STATE
    if takes_in_all and state.is_dir() and not state.is_symlink():
        yield ContainerMount(normpath(mount.target / state.relative_to(host)), is_read_only=True)
    if mount.is_read_only:
        return
    if takes_in_all:
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
    """Unlike `resolve`, this bears links that lead in a ring."""
    return Path(os.path.realpath(path))


def container_variables(spec: ContainerSpec, yard: ContainerContext, *, has_home: bool = True) -> dict[str, str]:
    """Each variable with its value, looked up now and kept nowhere. Raises EngineFailed when a secret is not there.

    Without `has_home`, for a user that the image may not know, HOME is a folder that everybody may write.
    """
    try:
        return ({} if has_home else {"HOME": "/tmp"}) | {
            name: secrets.resolve_value(value, yard.environment, yard.folder) for name, value in spec.env.items()
        }
    except secrets.SecretMissing as missing:
        hint = "put it there, or set the variable and run plan apply with it; nothing else need change"
        raise EngineFailed(EngineErrorReason.NO_SECRET, str(missing), hint) from None


# Volumes. They are created if missing, and stay, with the name of their maker, when the container goes.
#
# A person may use any volume of the plan. An agent may use those that it or agents below it made: it may not read what
# others left, even if no container of the plan uses it any more.


async def create_volumes(yard: ContainerContext, name: str, spec: ContainerSpec) -> None:
    """Returns when all volumes of the container `name` are there. Raises EngineFailed."""
    wanted = [mount.volume for mount in spec.mounts if mount.volume]
    labels = yard.names.of_volume(_maker(yard, name)) if wanted else {}
    for volume in wanted:
        try:
            await yard.engine.make_volume(yard.names.volume(volume), labels)
        except EngineFailed as fault:
            if (
                fault.reason is not EngineErrorReason.NAME_TAKEN
                or yard.names.volume(volume) not in await yard.volumes()
            ):
                raise
            why = f"the volume `{volume}` holds what others have left in it"
            raise EngineFailed(EngineErrorReason.NAME_TAKEN, why, "give it another name under `mounts`") from None


def _maker(yard: ContainerContext, name: str) -> str | None:
    plan = next(iter(yard.store.view.list("plan")), None)
    return None if plan is None else container_maker(CurrentPlanReader(yard.store, plan.address).read(), name)


# Progress of a pull or a build. It is written only now and then, because each write is a record.


class StartProgress:
    """What was said last. `say` may be called from any thread."""

    def __init__(self, page: ContainerStatusWriter) -> None:
        self._page = page
        self._said = ""

    def say(self, words: str) -> None:
        """Notes how far it is."""
        self._said = words

    async def run(self) -> None:
        """Writes it when it has changed, until cancelled. What is quick says nothing."""
        told = ""
        while True:
            await self._page.yard.clock.sleep(limits.CONTAINER_PROGRESS_S)
            if self._said != told:
                told = self._said
                await self._page.write(lambda _: {"why": told})  # noqa: B023 - awaited here


# The engine, as root, finds mounted folders by name at each start. Commands of the plan cannot move a folder that a
# container mounts (`planloop.containers.sandbox.write_guard`). For other processes, the folders are compared before and
# after the start, and a container that may have started with another folder is removed.


async def start_with_checked_mounts(engine: ContainerEngine, ref: str, spec: ContainerSpec, ground: MountRoots) -> None:
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
            raise EngineFailed(EngineErrorReason.REFUSED, why, "leave it where it is; `plan apply` tries it again")


async def _sources(spec: ContainerSpec, ground: MountRoots) -> tuple[tuple[str, int, int], ...]:
    """The folders and files of this machine that it mounts, by what tells them from all others."""
    if not any(mount.host for mount in spec.mounts):
        return ()
    return await anyio.to_thread.run_sync(_looked_at, spec, ground)


def _looked_at(spec: ContainerSpec, ground: MountRoots) -> tuple[tuple[str, int, int], ...]:
    found = []
    hosts = [mount.host for mount in spec.mounts if mount.host]
    for path in (resolve_mount_source(host, ground.start(host)) for host in hosts):
        try:
            seen = path.stat()
        except OSError:  # The engine has the words for that.
            continue
        found.append((str(path), seen.st_dev, seen.st_ino))
    return tuple(found)


# Each step finds what an earlier try has left, so the job may be interrupted anywhere and repeated.


@frozen
class StartJob:
    """Brings up the container at `address`."""

    yard: ContainerContext
    address: str
    uid: str

    async def __call__(self) -> None:
        """Returns when it runs, or when the status says why it does not."""
        page = ContainerStatusWriter(self.yard, self.address, self.uid)
        resource = page.resource
        if resource is None:
            return
        spec = container_from_json(resource.spec)
        of = running_digest(spec)
        try:
            await self._raise(page, spec, of, read_container_status(resource.status))
        except EngineFailed as fault:
            await self._failed(page, of, fault)

    async def _failed(self, page: ContainerStatusWriter, of: str, fault: EngineFailed) -> None:
        merge = records.engine_error_merge(of, fault, self.yard.look_token, self.yard.clock.now())
        await page.write(lambda status: merge(status) | {"doing": None})

    async def _raise(self, page: ContainerStatusWriter, spec: ContainerSpec, of: str, status: ContainerStatus) -> None:
        found = status.seen
        if found is not None and found.run != "created":
            await page.write(lambda _: {**records.HEALTHY_MERGE, "doing": "start"})
            await self._start(page, found.id, spec, status.starts + (found.run != "paused"))
            return
        if found is None:
            await page.write(lambda _: {**records.HEALTHY_MERGE, "doing": "image"})
            image, incarnation = (await self._image(page, spec)).id, status.incarnation + 1
        else:  # Created again: who made it may have died before it was in all of its networks.
            image, incarnation = found.image, found.tag.incarnation
        tag = ContainerTag(self.address, self.uid, incarnation, of)
        await page.write(lambda _: {**records.HEALTHY_MERGE, "doing": "start", "incarnation": incarnation, "starts": 0})
        creation = await self._creation(spec, image, tag)
        # What the engine was asked for happens, also when nobody waits any more: nothing begins after this has ended.
        with anyio.CancelScope(shield=True):
            ref = await self._created(creation)
        await self._start(page, ref, spec, 1)

    async def _start(self, page: ContainerStatusWriter, ref: str, spec: ContainerSpec, starts: int) -> None:
        """It has begun for the time `starts`. A start that the engine could not do is none."""
        is_begun: JsonObject = {}
        try:
            await start_with_checked_mounts(self.yard.engine, ref, spec, self._ground(spec))
            is_begun = {"starts": starts, "tries": None}
        finally:
            await page.look(ref, {"doing": None, "bound_of": None, "bound_why": None, **is_begun})

    async def _created(self, creation: ContainerCreation) -> str:
        """Makes it, in place of what an earlier try may have left under its name."""
        engine = self.yard.engine
        try:
            return await engine.create(creation)
        except EngineFailed as fault:
            left = await engine.container(creation.name) if fault.reason is EngineErrorReason.NAME_TAKEN else None
            if left is None or not self.yard.is_ours(left):
                raise
        await engine.remove(left.id)
        return await engine.create(creation)

    async def _image(self, page: ContainerStatusWriter, spec: ContainerSpec) -> ImageFacts:
        """The image, made or fetched if need be; how far that is stands in the status."""
        progress = StartProgress(page)
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
            return await ensure_rootfs_image(tar, engine, self.yard.run_folder / "images", say)
        found = await engine.image(spec.image)
        if found is None and (fault := stock.missing_image_error(spec.image)) is not None:
            raise fault
        return found or await engine.pull(spec.image, say)

    async def _build(self, written: JsonObject) -> ImageBuild:
        # Not labelled as ours: what others run of the image would be taken for a container of the plan.
        args = {name: str(value) for name, value in written.get("args", {}).items()}
        folder = await self._place(written["folder"])
        return ImageBuild(folder, written.get("file", ""), written.get("target", ""), args)

    async def _place(self, written: str) -> Path:
        return await anyio.to_thread.run_sync(resolve_mount_source, written, self.yard.folder)

    async def _creation(self, spec: ContainerSpec, image: str, tag: ContainerTag) -> ContainerCreation:
        names, engine = self.yard.names, self.yard.engine
        networks = container_networks(spec)
        for network in networks:
            await engine.make_network(names.network(network), names.ours, is_internal=network == INTERNAL)
        name, user = self.address.partition("/")[2], spec.user or await self._owner(spec, image)
        await create_volumes(self.yard, name, spec)
        return ContainerCreation(
            name=names.container(name),
            image=image,
            labels={**spec.labels, **tag.labels(names, self.yard.epoch), SECRETS: secrets_label(spec.env)},
            cmd=spec.cmd,
            entrypoint=spec.entrypoint,
            env=container_variables(spec, self.yard, has_home=user == spec.user),
            workdir=spec.workdir,
            mounts=await self._mounts(spec) if spec.mounts else (),
            network=ContainerNetwork(
                names=tuple(names.network(network) for network in networks),
                aliases=(name,),
                ports=tuple(PublishedPort(port.inside, port.host) for port in spec.ports) if networks else (),
                # Its first alias; the engine would choose a new name for each container.
                host_name=name[: limits.HOST_NAME_CHARS_MAX] if networks else HOST_CUT_OFF,
            ),
            bound=ContainerLimits(spec.cpu, spec.memory_bytes, spec.pids),
            rights=ContainerRights(user, spec.is_read_only, spec.cap_drop, spec.cap_add),
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
        return await anyio.to_thread.run_sync(mount_owner, spec, self._ground(spec))

    async def _mounts(self, spec: ContainerSpec) -> tuple[ContainerMount, ...]:
        ground, steering = self._ground(spec), self._steering()
        return await anyio.to_thread.run_sync(container_mounts, spec, self.yard.names, ground, steering)

    def _ground(self, spec: ContainerSpec) -> MountRoots:
        return mount_roots(self.yard.store.view, spec, self.yard.folder)

    def _steering(self) -> SteeringFiles:
        view = self.yard.store.view
        # Whoever's commands will run in it: what steers anybody is nobody's to write.
        guarded = (pattern for agent in view.list("agent") for pattern in agent.spec["rights"].get("guarded", ()))
        files = steering_files(plan_file_name(next(iter(view.list("plan")), None)), guarded)
        return SteeringFiles(files, mounted_folders(view))
