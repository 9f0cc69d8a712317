"""What is laid into a container. Where a mount takes in the plan's folder, what steers the plan is kept from it.

The plan's state is hidden, and what `planloop.containers.sandboxing.guarding` names can be read and not written, unless
the plan lays it in by name. A folder of the plan that is a link is refused: what it leads to is for the plan to name.
So is a plan's folder that holds the owner's home.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from posixpath import normpath

from planloop.containers.engine import EngineFailed, Placed, Reason
from planloop.containers.naming import Names
from planloop.containers.sandboxing import guarding
from planloop.controllers.inside import Ground
from planloop.schemas.container import ContainerSpec, is_outside_plan
from planloop.schemas.frozen import frozen


@frozen
class Steering:
    """`files` are those that the plan names, `mounted` folders that containers mount: both relative to its folder."""

    files: tuple[str, ...]
    mounted: tuple[str, ...]


def placed(spec: ContainerSpec, names: Names, ground: Ground, steering: Steering) -> tuple[Placed, ...]:
    """The mounts of the container, and what is laid over them. Raises EngineFailed REFUSED. Looks at files.

    That somebody is let in who could make a repository is noted.
    """
    out: list[Placed] = []
    over: list[Placed] = []
    for mount in spec.mounts:
        volume = names.volume(mount.volume) if mount.volume else ""
        start = ground.start(mount.host)
        host = str(place(mount.host, start)) if mount.host else ""
        out.append(Placed(mount.target, host, volume, mount.is_read_only))
        over += _guards(out[-1], start, steering) if host else ()
    known = {normpath(each.target) for each in out}
    return (*out, *(guard for guard in over if guard.target not in known))


def owner(spec: ContainerSpec, ground: Ground) -> str:
    """The user and group, as `1000:1000`, to whom all belongs that the container mounts of this machine and may write.

    Empty if that is root, or not one user. Looks at files.
    """
    owners = set()
    for written in spec.written:
        with suppress(OSError, EngineFailed):
            about = place(written, ground.start(written)).stat()
            owners.add((about.st_uid, about.st_gid))
    users = {user for user, _ in owners}
    return "{}:{}".format(*min(owners)) if len(users) == 1 and users != {0} else ""


def place(written: str, folder: Path) -> Path:
    """Where a path of the plan in `folder` is on this machine. Raises EngineFailed REFUSED. Looks at files."""
    path = folder / Path(written).expanduser()
    if is_outside_plan(written):
        return path
    found, own = _real(path), _real(folder)
    if _real(Path.home()).is_relative_to(own):
        hint = f"{guarding.ELSEWHERE}; or name `{found}` itself, if that is meant"
        raise EngineFailed(Reason.REFUSED, guarding.HOLDS_HOME.format(own), hint)
    if found != own / normpath(written):
        why = f"`{written}` is a link, and leads to {found}"
        raise EngineFailed(Reason.REFUSED, why, f"name `{found}` itself, if that is meant")
    return found


def _guards(mount: Placed, folder: Path, steering: Steering) -> Iterator[Placed]:
    """What is laid over a mount that takes in the plan's folder, or some of it. Raises EngineFailed REFUSED."""
    own, host = _real(folder), _real(Path(mount.host))
    takes_in_all = own.is_relative_to(host)
    if not takes_in_all and not host.is_relative_to(own):
        return
    state = own / guarding.STATE
    if takes_in_all and state.is_dir() and not state.is_symlink():
        yield Placed(normpath(mount.target / state.relative_to(host)), is_read_only=True)
    if mount.is_read_only:
        return
    if takes_in_all:
        guarding.let_in(str(own))
    try:
        files, held = ([str(own / name) for name in names] for names in (steering.files, steering.mounted))
        found = list(guarding.guards([str(host)], str(own), files, held))
    except guarding.Unfit as unfit:
        raise EngineFailed(Reason.REFUSED, str(unfit), "or mount it with `read-only: true`") from unfit
    for guard in found:
        inside = Path(guard.path).relative_to(host)
        yield Placed(normpath(mount.target / inside), guard.path, is_read_only=guard.is_read_only)


def _real(path: Path) -> Path:
    """Unlike `resolve`, this bears links that lead in a ring."""
    return Path(os.path.realpath(path))
