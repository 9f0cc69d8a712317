"""The mounts of a container. If one includes the plan's folder, the files that control the plan are protected.

The plan's state is hidden, and what `planloop.containers.sandbox.write_guard` names can be read and not written, unless
the plan lays it in by name. A folder of the plan that is a link is refused: what it leads to is for the plan to name.
So is a plan's folder that holds the owner's home.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from posixpath import normpath

from planloop.containers.engine.engine import ContainerMount, EngineErrorReason, EngineFailed
from planloop.containers.engine.names import ContainerNames
from planloop.containers.sandbox import write_guard
from planloop.controllers.shared.container_exec import MountRoots
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.container import ContainerSpec, is_outside_plan


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
