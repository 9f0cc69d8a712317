"""Commands inside a plan's containers: state of a container, paths of its files, and running a command in it."""

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

# The files of this machine that a container mounts. Pure, except for the home of `~`.


@frozen
class MountRoots:
    """`folder` is the plan's folder, `tree` what a container mounts of it: the same, or the working tree of a fork."""

    folder: Path
    tree: Path

    def start(self, written: str) -> Path:
        """Return the folder that a host path of a mount starts from. Paths outside the plan are in no fork."""
        return self.folder if is_outside_plan(written) else self.tree

    def at(self, written: str) -> Path:
        """Return the host path of `written`; links are not resolved."""
        return self.start(written) / Path(written).expanduser()


def mount_roots(view: View, spec: ContainerSpec, folder: Path) -> MountRoots:
    """Return the folders that the mounts of a container start from, in the plan of `folder`.

    A container of a task that works in a fork mounts the fork's working tree.
    """
    task = view.get(f"task/{spec.task}") if spec.task else None
    fork = view.get(str(task.spec["fork"])) if task is not None and task.spec.get("fork") else None
    return MountRoots(folder, folder if fork is None else folder / working_tree_path(fork.status))


# State of a container, read from its status, which only its controller writes.

_ON_ITS_WAY = frozenset(
    {"", ContainerState.WAITING, ContainerState.PREPARING, ContainerState.STARTING, ContainerState.RESTARTING}
)

UNHEALTHY: Final = "ill"
ENDED: Final = "over"
"""Values of `ContainerProgress.run` for an unhealthy container, and for one that has ended and does not restart."""

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
    """Reason, message and `unblocks` of the `Ready` condition of a container."""

    reason: str = ""
    why: str = ""
    unblocks: tuple[str, ...] = ()


@frozen
class ContainerProgress:
    """State of a container. `id` is the engine's id, empty before it is created.

    `exit_code` is None while it runs or if it never ran. `log` is the blob of its output before it ended, `ports` maps
    ports inside to ports of this machine, `workdir` is the folder in which commands start. `is_stale`: the other values
    are of an older version of the spec. `run` identifies a run that is up, or is `UNHEALTHY` or `ENDED`; it is empty
    while the container starts or stops.
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
        """Whether it is healthy, or running if it has no health check."""
        return self.state == self.wanted

    @property
    def is_up(self) -> bool:
        """Whether a command can be run inside."""
        return self.state in (*UP, ContainerState.UNHEALTHY) and bool(self.id)

    @property
    def is_fine(self) -> bool:
        """Whether it has no problem: it is up, is starting, or has completed."""
        return self.is_well or self.is_on_its_way or self.state in _FINE

    @property
    def is_on_its_way(self) -> bool:
        """Whether it may be up soon by itself."""
        return self.is_stale or (self.state in _ON_ITS_WAY and self.ready.reason != AWAITING_TASK)

    @property
    def words(self) -> str:
        why = f": {self.ready.why}" if self.ready.why else ""
        return f"`{self.name}` is {self.state or 'new'}{why}"

    def since(self, before: str) -> str:
        """Return what happened to it since its `run` was `before`, for an agent that works with it."""
        if self.run in (UNHEALTHY, ENDED):
            return self.ready.why
        if before in (UNHEALTHY, ENDED):
            return (
                "it is healthy again"
                if before == UNHEALTHY
                else "it is running again: earlier processes in it have ended"
            )
        if self.run.partition(".")[0] == before.partition(".")[0]:
            return "it was restarted: earlier processes in it have ended"
        return "it was replaced by a new container: its earlier processes and files are gone"


def container_progress(container: Resource) -> ContainerProgress:
    """Return the state of `container`."""
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


# Masks of the secrets of a container, for all of its output.


async def container_masks(engine: ContainerEngine, ref: str) -> SecretMasks:
    """Return the masks of the container `ref`.

    Raises:
        EngineFailed: NOT_FOUND, it is gone, and its secrets are unknown: do not show its output.
    """
    found = await engine.container(ref)
    if found is None:
        raise EngineFailed(EngineErrorReason.NOT_FOUND, f"the container {ref[:12]} is gone", "")
    return masks_from_labels(found.labels, found.defaults.env)


# Paths of the files of a container: inside only, or also on this machine if a folder is mounted. Pure.


@frozen
class MountedPath:
    """A mount at `target`: the absolute path `host` of this machine, the plan's `volume`, or memory."""

    target: str
    host: str = ""
    is_read_only: bool = False
    volume: str = ""


@frozen
class HostPath:
    """The path of this machine for a path inside. `is_alone`: it is a mount itself, not below one."""

    path: str
    is_read_only: bool
    is_alone: bool


@frozen
class ContainerFiles:
    """Files of the container `name`, for an agent that works in its `folder`."""

    name: str
    folder: str
    mounts: tuple[MountedPath, ...] = ()

    def at(self, path: str) -> str:
        """Return the absolute form of `path`, without `.` and `..`; links are not resolved."""
        return "/" + normpath(join(self.folder, path)).lstrip("/")

    def here(self, inside: str) -> HostPath | None:
        """Return the path of this machine for the path `inside`, by its nearest mount; None if it has none."""
        nearest = self._around(inside)
        if nearest is None or not nearest.host:
            return None
        rest = str(PurePosixPath(inside).relative_to(nearest.target))
        path = nearest.host if rest == "." else join(nearest.host, rest)
        return HostPath(path, nearest.is_read_only, is_alone=rest == ".")

    def shared(self, inside: str) -> str:
        """Return the name of a file in a volume, which is the same in all containers; empty for other files."""
        nearest = self._around(inside)
        if nearest is None or not nearest.volume:
            return ""
        return f"volume/{nearest.volume}:{normpath(join('/', PurePosixPath(inside).relative_to(nearest.target)))}"

    def _around(self, inside: str) -> MountedPath | None:
        """Return the nearest mount that contains `inside`."""
        around = [each for each in self.mounts if PurePosixPath(inside).is_relative_to(each.target)]
        return max(around, key=lambda each: len(each.target), default=None)

    def inside(self, path: str) -> str:
        """Return the path inside for the absolute `path` of this machine; empty if no mount has it."""
        at = PurePosixPath(path)
        around = [each for each in self.mounts if each.host and at.is_relative_to(each.host)]
        nearest = max(around, key=lambda each: len(each.host), default=None)
        return "" if nearest is None else normpath(join(nearest.target, str(at.relative_to(nearest.host))))


def container_files(view: View, name: str, root: Path, cwd: str) -> ContainerFiles:
    """Return the files of the container `name` of the plan in `root`, for an agent that works in the folder `cwd`.

    Both are absolute paths of this machine. The agent's folder inside is where `cwd` is mounted, else the folder in
    which commands start.
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


# The containers of an agent for its prompt: those of its task, and those that its task waits for.


def containers_summary(view: View, task: str, awaited: tuple[str, ...]) -> str:
    """Return the states of an agent's containers in one line, for the end of a prompt; empty if it has none.

    `task` is the task's address, `awaited` are the addresses of containers.
    """
    path = task.partition("/")[2]
    found = [one for one in view.list(CONTAINER_KIND) if one.spec["task"] == path or one.address in awaited]
    said = "; ".join(container_progress(one).words for one in found[: limits.CONTAINERS_TOLD_MAX])
    rest = f" and {len(found) - limits.CONTAINERS_TOLD_MAX} more" if len(found) > limits.CONTAINERS_TOLD_MAX else ""
    return f"[your containers: {said}{rest}]" if said else ""


def sandbox_container(view: View, name: str, folder: Path) -> SandboxContainer | str:
    """Return the container `name` of the plan in `folder`, or why no command can run in it."""
    found = view.get(f"{CONTAINER_KIND}/{name}")
    if found is None:
        return f"the plan has no container `{name}`"
    now = container_progress(found)
    if not now.is_up:
        return now.words
    spec = container_from_json(found.spec)
    ground = mount_roots(view, spec, folder)
    return SandboxContainer(now.id, {str(ground.at(one.host).resolve()): one.target for one in spec.mounts if one.host})


# Commands inside the containers of a plan: the store knows the container, and the engine runs the command.


class ContainerCommands(Protocol):
    """Access of checks and tools to the containers of a plan."""

    def find(self, name: str) -> ContainerProgress | None:
        """Return the container as it is now; None if the plan has none of this name."""
        ...

    async def settled(self, name: str, within_s: float) -> ContainerProgress | None:
        """Wait until the container is up or not starting any more, at most `within_s`; return it."""
        ...

    async def gone(self, name: str, within_s: float) -> ContainerProgress | None:
        """Wait at most `within_s` until the container is removed; return its last state, None if it still exists."""
        ...

    async def output(self, found: ContainerProgress) -> bytes:
        """Return the output that is kept of it, with secrets masked. Raises EngineFailed."""
        ...

    async def run(self, ref: str, inside: ExecCommand) -> ExecEnd:
        """Run a command to its end, after ending the same command of an earlier owner. Raises EngineFailed.

        The container's secrets are masked in the output.
        """
        ...

    async def end(self, ref: str, mark: str) -> None:
        """End the processes with the mark `mark`. Raises EngineFailed."""
        ...


class _InEngine:
    """Commands inside containers. The engine is created at the first use."""

    def __init__(self, engine: Callable[[], ContainerEngine]) -> None:
        self._engine = engine

    async def run(self, ref: str, inside: ExecCommand) -> ExecEnd:
        await self._engine().end(ref, inside.mark)
        masks = await container_masks(self._engine(), ref)
        ended = await self._engine().run(ref, inside)
        is_cut = ended.ending is ExitCause.TOO_MUCH_OUTPUT  # The output may then end with half a secret.
        return replace(ended, output=masks.split(ended.output)[0] if is_cut else masks.mask(ended.output))

    async def end(self, ref: str, mark: str) -> None:
        await self._engine().end(ref, mark)


class PlanContainers(_InEngine):
    """The containers of a running plan."""

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
            masks = await container_masks(self._engine(), found.id)
            async with aclosing(self._engine().logs(found.id, is_following=False)) as pieces:
                return masks.mask(b"".join([piece async for piece in pieces]))
        except EngineFailed as failed:
            if failed.reason is EngineErrorReason.NOT_FOUND:
                return b""
            raise


class SeenContainers(_InEngine):
    """The containers `names` of a plan that is not running, as they were when it was read; callers never wait.

    `known` are the existing ones. `plan apply` would start a container that is not up.
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
