"""Commands inside a plan's containers: how far a container is, where its files are, and running a command in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path, PurePosixPath
from posixpath import join, normpath
from typing import Final, Protocol

import anyio

from planloop.containers.engine.engine import ContainerEngine, EngineErrorReason, EngineFailed, ExecCommand, ExecEnd
from planloop.containers.engine.secret_env import masks_from_labels
from planloop.containers.sandbox.container_sandbox import SandboxContainer
from planloop.reconciler.effects.processes import ExitCause
from planloop.reconciler.effects.secret_masks import SecretMasks
from planloop.reconciler.store.store import Store, View
from planloop.schemas import limits, resource
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.container import (
    AWAITING_TASK,
    CONTAINER_KIND,
    UP,
    ContainerSpec,
    ContainerState,
    container_from_json,
    has_health,
    is_outside_plan,
)
from planloop.schemas.objects.fork import working_tree_path
from planloop.schemas.resource import Resource

# Which files of this machine the mounts of a container are. Pure, but for the home that `~` stands for.


@frozen
class MountRoots:
    """`folder` is the plan's, `tree` what a container mounts of it: the same, or the working tree of a fork of it."""

    folder: Path
    tree: Path

    def start(self, written: str) -> Path:
        """The folder that `written`, the host's side of a mount, begins in. What leads out is in no fork."""
        return self.folder if is_outside_plan(written) else self.tree

    def at(self, written: str) -> Path:
        """The path that `written` is, with the links on its way."""
        return self.start(written) / Path(written).expanduser()


def mount_roots(view: View, spec: ContainerSpec, folder: Path) -> MountRoots:
    """What the container of `spec` finds in the plan of `folder`.

    One that is for a task sees what the task sees: where that works in a fork, the fork's working tree.
    """
    task = view.get(f"task/{spec.task}") if spec.task else None
    fork = view.get(str(task.spec["fork"])) if task is not None and task.spec.get("fork") else None
    return MountRoots(folder, folder if fork is None else folder / working_tree_path(fork.status))


# How far a container is, read from its status, which its controller writes and nobody else.

_ON_ITS_WAY = frozenset(
    {"", ContainerState.WAITING, ContainerState.PREPARING, ContainerState.STARTING, ContainerState.RESTARTING}
)

UNHEALTHY: Final = "ill"
ENDED: Final = "over"
"""What `ContainerProgress.run` says of one that is unhealthy, and of one that has ended and is not started again."""

_NO_RUNS: Final[dict[str, str]] = {
    ContainerState.UNHEALTHY: UNHEALTHY,
    ContainerState.COMPLETED: ENDED,
    ContainerState.FAILED: ENDED,
}
_STOPPING = str(ContainerState.STOPPING)
_ENDED = frozenset({"exited", "dead"})
_FINE = frozenset({ContainerState.WAITING, ContainerState.COMPLETED, ContainerState.STOPPING, ContainerState.REMOVED})


@frozen
class ReadyReason:
    """The `Ready` condition of a container: its reason, why it is not further, and what would help."""

    reason: str = ""
    why: str = ""
    unblocks: tuple[str, ...] = ()


@frozen
class ContainerProgress:
    """How far a container is. `id` is the engine's, empty while it has none.

    `exit_code` is None while it runs or never has. `log` is the blob of what it wrote before it ended, and `ports` are
    those of this machine by the port inside; `workdir` is the folder in which commands start. `is_stale`: the rest is
    of what the plan wanted before. `run` tells one run that is up from another, and those from `UNHEALTHY` and `ENDED`;
    empty while it is coming up or going.
    """

    name: str
    state: str
    wanted: str
    id: str = ""
    ready: ReadyReason = ReadyReason()
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
        return self.is_stale or (self.state in _ON_ITS_WAY and self.ready.reason != AWAITING_TASK)

    @property
    def words(self) -> str:
        why = f": {self.ready.why}" if self.ready.why else ""
        return f"`{self.name}` is {self.state or 'new'}{why}"

    def since(self, before: str) -> str:
        """What has become of it since its `run` was `before`, for who works with it."""
        if self.run in (UNHEALTHY, ENDED):
            return self.ready.why
        if before in (UNHEALTHY, ENDED):
            return "it is well again" if before == UNHEALTHY else "it runs again: what ran in it before has ended"
        if self.run.partition(".")[0] == before.partition(".")[0]:
            return "it was started again: what ran in it has ended"
        return "another one is in its place: what ran and what was written in it is gone"


def container_progress(container: Resource) -> ContainerProgress:
    """How far `container` is."""
    ready = resource.conditions_of_status(container.status).get("Ready")
    seen = container.status.get("seen") or {}
    is_replaced = ready is None or ready.observed_generation != container.generation or container.state == _STOPPING
    return ContainerProgress(
        name=container.address.partition("/")[2],
        state=_STOPPING if container.deleting else container.state,
        wanted=str(ContainerState.HEALTHY if has_health(container.spec) else ContainerState.RUNNING),
        id=str(seen.get("id", "")),
        ready=ReadyReason() if ready is None else ReadyReason(ready.reason, ready.message, ready.unblocks),
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


# What stands in the way of the secrets of a container, in whatever comes out of it.


async def container_masks(engine: ContainerEngine, ref: str) -> SecretMasks:
    """The masks of the container `ref`. Raises EngineFailed: NOT_FOUND where there is none.

    Of one that is gone, nobody knows the secrets any more: what it has said is then not to be told.
    """
    found = await engine.container(ref)
    if found is None:
        raise EngineFailed(EngineErrorReason.NOT_FOUND, f"there is no container {ref[:12]} any more", "")
    return masks_from_labels(found.labels, found.defaults.env)


# Where the files of a container are: in it alone, or on this machine too, where a folder of it is mounted. Pure.


@frozen
class MountedPath:
    """What stands at `target`: the folder or file `host` of this machine, absolute, the plan's `volume`, or memory."""

    target: str
    host: str = ""
    is_read_only: bool = False
    volume: str = ""


@frozen
class HostPath:
    """A path of this machine that a path inside is as well. `is_alone`: no folder around it is mounted."""

    path: str
    is_read_only: bool
    is_alone: bool


@frozen
class ContainerFiles:
    """The container `name` as somebody finds it who works in its `folder`."""

    name: str
    folder: str
    mounts: tuple[MountedPath, ...] = ()

    def at(self, path: str) -> str:
        """`path` from the root, without `.` and `..`, which are taken as text: links are looked at inside."""
        return "/" + normpath(join(self.folder, path)).lstrip("/")

    def here(self, inside: str) -> HostPath | None:
        """The path of this machine that `inside` is, by the nearest mount around it; None for what is not."""
        nearest = self._around(inside)
        if nearest is None or not nearest.host:
            return None
        rest = str(PurePosixPath(inside).relative_to(nearest.target))
        path = nearest.host if rest == "." else join(nearest.host, rest)
        return HostPath(path, nearest.is_read_only, is_alone=rest == ".")

    def shared(self, inside: str) -> str:
        """The name that `inside` has in every container: that of a file in a volume says which; else empty."""
        nearest = self._around(inside)
        if nearest is None or not nearest.volume:
            return ""
        return f"volume/{nearest.volume}:{normpath(join('/', PurePosixPath(inside).relative_to(nearest.target)))}"

    def _around(self, inside: str) -> MountedPath | None:
        """The nearest mount that `inside` is in."""
        around = [each for each in self.mounts if PurePosixPath(inside).is_relative_to(each.target)]
        return max(around, key=lambda each: len(each.target), default=None)

    def inside(self, path: str) -> str:
        """Where the absolute `path` of this machine is inside, by the nearest folder that is mounted; else empty."""
        at = PurePosixPath(path)
        around = [each for each in self.mounts if each.host and at.is_relative_to(each.host)]
        nearest = max(around, key=lambda each: len(each.host), default=None)
        return "" if nearest is None else normpath(join(nearest.target, str(at.relative_to(nearest.host))))


def container_files(view: View, name: str, root: Path, cwd: str) -> ContainerFiles:
    """The container `name` of the plan in `root`, for who works in the folder `cwd` of this machine, absolute both.

    It begins where that is mounted, else in the container's own folder, as commands inside do.
    """
    found = view.get(f"{CONTAINER_KIND}/{name}")
    if found is None:
        return ContainerFiles(name, "/")
    spec = container_from_json(found.spec)
    ground = mount_roots(view, spec, root)
    mounts = tuple(
        MountedPath(
            normpath(each.target),
            str(ground.at(each.host).resolve()) if each.host else "",
            each.is_read_only,
            each.volume,
        )
        for each in spec.mounts
    )
    place = ContainerFiles(name, spec.workdir or container_progress(found).workdir, mounts)
    return ContainerFiles(name, place.inside(cwd) or place.folder, mounts)


# How an agent is told of the containers that it works with: those of its task, and those that its task waits for.


def containers_summary(view: View, task: str, awaited: tuple[str, ...]) -> str:
    """Their states in a line, for the end of a prompt; empty when there are none.

    `task` is the task's address, `awaited` are the addresses of containers.
    """
    path = task.partition("/")[2]
    found = [one for one in view.list(CONTAINER_KIND) if one.spec["task"] == path or one.address in awaited]
    said = "; ".join(container_progress(one).words for one in found[: limits.CONTAINERS_TOLD_MAX])
    rest = f" and {len(found) - limits.CONTAINERS_TOLD_MAX} more" if len(found) > limits.CONTAINERS_TOLD_MAX else ""
    return f"[your containers: {said}{rest}]" if said else ""


def sandbox_container(view: View, name: str, folder: Path) -> SandboxContainer | str:
    """The container `name` of the plan in `folder`, or why no command can run in it."""
    found = view.get(f"{CONTAINER_KIND}/{name}")
    if found is None:
        return f"the plan has no container `{name}`"
    now = container_progress(found)
    if not now.is_up:
        return now.words
    spec = container_from_json(found.spec)
    ground = mount_roots(view, spec, folder)
    return SandboxContainer(now.id, {str(ground.at(one.host).resolve()): one.target for one in spec.mounts if one.host})


# Commands inside the containers of a plan. Which container that is, the store says; it runs in the engine.


class ContainerCommands(Protocol):
    """What a check or a tool needs of the containers of its plan."""

    def find(self, name: str) -> ContainerProgress | None:
        """The container as it stands now; None when the plan has no such."""
        ...

    async def settled(self, name: str, within_s: float) -> ContainerProgress | None:
        """The same, once it is up or not on its way to that, `within_s` from now at the latest."""
        ...

    async def gone(self, name: str, within_s: float) -> ContainerProgress | None:
        """How it stood last before there was no such container any more; None when it is still there after that."""
        ...

    async def output(self, found: ContainerProgress) -> bytes:
        """All that is kept of what it wrote, its secrets masked. Raises EngineFailed."""
        ...

    async def run(self, ref: str, inside: ExecCommand) -> ExecEnd:
        """Runs a command to its end, after ending what an earlier owner may have left of it. Raises EngineFailed.

        The container's secrets are masked in what it says.
        """
        ...

    async def end(self, ref: str, mark: str) -> None:
        """Ends what runs under `mark`. Raises EngineFailed."""
        ...


class _InEngine:
    """Commands inside. The engine is made when it is first asked for something."""

    def __init__(self, engine: Callable[[], ContainerEngine]) -> None:
        self._engine = engine

    async def run(self, ref: str, inside: ExecCommand) -> ExecEnd:
        await self._engine().end(ref, inside.mark)
        quiet = await container_masks(self._engine(), ref)
        ended = await self._engine().run(ref, inside)
        is_cut = ended.ending is ExitCause.TOO_MUCH_OUTPUT  # Then half a secret may be at its end.
        return replace(ended, output=quiet.split(ended.output)[0] if is_cut else quiet.mask(ended.output))

    async def end(self, ref: str, mark: str) -> None:
        await self._engine().end(ref, mark)


class PlanContainers(_InEngine):
    """The containers of the plan in `store`, which is being run."""

    def __init__(self, store: Store, engine: Callable[[], ContainerEngine]) -> None:
        super().__init__(engine)
        self._store = store

    def find(self, name: str) -> ContainerProgress | None:
        found = self._store.view.get(f"{CONTAINER_KIND}/{name}")
        return None if found is None else container_progress(found)

    async def settled(self, name: str, within_s: float) -> ContainerProgress | None:
        with anyio.move_on_after(within_s):
            records = self._store.watch(self._store.view.rev)
            while (found := self.find(name)) is not None and found.is_on_its_way:
                await anext(records)
        return self.find(name)

    async def gone(self, name: str, within_s: float) -> ContainerProgress | None:
        last = self.find(name)
        with anyio.move_on_after(within_s):
            records = self._store.watch(self._store.view.rev)
            while (found := self.find(name)) is not None:
                last = found
                await anext(records)
            return last
        return None

    async def output(self, found: ContainerProgress) -> bytes:
        if found.log and not found.is_up:
            return self._store.get_blob(found.log) or b""
        if not found.id:
            return b""
        try:
            quiet = await container_masks(self._engine(), found.id)
            async with aclosing(self._engine().logs(found.id, is_following=False)) as pieces:
                return quiet.mask(b"".join([piece async for piece in pieces]))
        except EngineFailed as failed:
            if failed.reason is EngineErrorReason.NOT_FOUND:
                return b""
            raise


class SeenContainers(_InEngine):
    """The containers `names` of a plan as they stood when it was looked at: whoever asks is kept waiting for none.

    `known` are those that there are. One that is not up would be started by `plan apply`.
    """

    def __init__(self, names: Iterable[str], known: Iterable[Resource], engine: Callable[[], ContainerEngine]) -> None:
        super().__init__(engine)
        self._known = {
            name: ContainerProgress(name, "not up", "", ready=ReadyReason(why="plan apply starts it")) for name in names
        }
        self._known |= {one.name: one for each in known if (one := container_progress(each)).is_up}

    def find(self, name: str) -> ContainerProgress | None:
        return self._known.get(name)

    async def settled(self, name: str, within_s: float) -> ContainerProgress | None:
        del within_s
        return self.find(name)

    async def gone(self, name: str, within_s: float) -> ContainerProgress | None:
        del within_s
        return self.find(name)

    async def output(self, found: ContainerProgress) -> bytes:
        del found
        return b""
