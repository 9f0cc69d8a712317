"""What is laid into a container. Where a mount takes in the plan's folder, what steers the plan is kept from it.

The plan's state is hidden, and its file and the repository can be read and not written, unless the plan lays them in by
name. A folder of the plan that is a link is refused: what it leads to is for the plan to name.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from posixpath import normpath
from typing import Final

from containers.engine import EngineFailed, Placed, Reason
from containers.naming import Names
from schemas.container import ContainerSpec, Mount
from schemas.frozen import frozen

_STATE: Final = ".plan"
_REPOSITORY: Final = ".git"


@frozen
class Ground:
    """`folder` is the plan's, absolute; `plan_file` the name of the file in it that was applied last, if one was."""

    folder: Path
    plan_file: str
    names: Names


def placed(spec: ContainerSpec, ground: Ground) -> tuple[Placed, ...]:
    """The mounts of the container, and what is laid over them. Raises EngineFailed REFUSED. Looks at files."""
    out = [_placed(mount, ground) for mount in spec.mounts]
    known = {normpath(each.target) for each in out}
    over = [guard for each in out if each.host for guard in _guards(each, ground)]
    return (*out, *(guard for guard in over if guard.target not in known))


def _placed(mount: Mount, ground: Ground) -> Placed:
    volume = ground.names.volume(mount.volume) if mount.volume else ""
    host = str(place(mount.host, ground.folder)) if mount.host else ""
    return Placed(mount.target, host, volume, mount.is_read_only)


def place(written: str, folder: Path) -> Path:
    """Where a path of the plan in `folder` is on this machine. Raises EngineFailed REFUSED. Looks at files."""
    path = folder / Path(written).expanduser()
    if written.startswith(("/", "~")) or normpath(written).startswith(".."):
        return path
    found = _real(path)
    if found != _real(folder) / normpath(written):
        why = f"`{written}` is a link, and leads to {found}"
        raise EngineFailed(Reason.REFUSED, why, f"name `{found}` itself, if that is meant")
    return found


def _guards(mount: Placed, ground: Ground) -> Iterator[Placed]:
    """What is laid over a mount that takes in the plan's folder."""
    own, host = _real(ground.folder), _real(Path(mount.host))
    if not own.is_relative_to(host):
        return
    inside = Path(mount.target) / own.relative_to(host)
    for name in filter(None, (_STATE, _REPOSITORY, ground.plan_file)):
        path = own / name
        if path.is_symlink() or not path.exists():
            continue
        if name == _STATE:
            yield Placed(normpath(inside / name), is_read_only=True)
        elif not mount.is_read_only:
            yield Placed(normpath(inside / name), str(path), is_read_only=True)


def _real(path: Path) -> Path:
    """Unlike `resolve`, this bears links that lead in a ring."""
    return Path(os.path.realpath(path))
