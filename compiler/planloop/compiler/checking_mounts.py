"""What is laid into a container: where it stands inside, and what of this machine it gives away."""

from __future__ import annotations

from collections.abc import Iterator
from posixpath import normpath
from typing import Final

from planloop.compiler.container_forms import is_volume
from planloop.compiler.faults import Faults, Pointer
from planloop.compiler.naming import leads_out
from planloop.schemas.encoding import Json, JsonObject
from planloop.schemas.frozen import frozen

_ENGINE_SOCKETS: Final = ("docker.sock", "podman.sock", "containerd.sock")
_CLOSED: Final = ".plan"
_GUARDED: Final = ".git"


@frozen
class _Mount:
    target: str | None
    host: str
    is_read_only: bool
    place: Pointer


def check_workdir(container: JsonObject, to: Pointer, faults: Faults) -> None:
    """The working directory is a path inside."""
    if "workdir" in container:
        _check_inside(container["workdir"], (*to, "workdir"), faults)


def check_mounts(mounts: Json, to: Pointer, faults: Faults) -> None:
    """Tells of places that there are not, of two mounts at one, and of what should not be given away."""
    if isinstance(mounts, list):
        for index, each in enumerate(mounts):
            _check_source(each, (*to, str(index)), faults)
    targets: set[str] = set()
    for mount in _mounts(mounts, to):
        _check_host(mount, faults)
        if mount.target is None:
            continue
        at = normpath(mount.target)
        if at in ("/", "//"):
            hint = "name a folder in it, as in `/work`"
            faults.add("P0223", "nothing can be laid over all of a container", hint, to=mount.place)
        elif _check_inside(mount.target, mount.place, faults) and at in targets:
            faults.add("P0208", f"two mounts at `{at}`", "each needs a place of its own", to=mount.place)
        targets.add(at)


def _mounts(mounts: Json, to: Pointer) -> Iterator[_Mount]:
    if isinstance(mounts, dict):
        yield from (_Mount(target, host, is_read_only=False, place=(*to, host)) for host, target in mounts.items())
        return
    for index, each in enumerate(mounts):
        yield _Mount(each.get("container"), each.get("host", ""), each.get("read-only", False), (*to, str(index)))


def _check_inside(path: str, to: Pointer, faults: Faults) -> bool:
    if path.startswith("/") and ".." not in path.split("/"):
        return True
    hint = f"begin it at the root: `{normpath('/' + path.lstrip('/'))}`"
    faults.add("P0223", f"`{path}` is no path inside a container", hint, to=to)
    return False


def _check_source(mount: JsonObject, to: Pointer, faults: Faults) -> None:
    """Of a mount in a list, what it is of."""
    volume = mount.get("volume")
    if volume is not None and not is_volume(volume):
        hint = f"a folder of this machine is a `host`: `host: {volume}`" if "/" in volume else "as in `cache`"
        faults.add("P0223", f"`{volume}` is no name of a volume", hint, to=(*to, "volume"))
    if mount.get("host") == "":
        faults.add("P0210", "a mount of no folder", "`.` is that of the plan", to=(*to, "host"))
    if mount.get("tmpfs") is False:
        faults.add("P0210", "a mount of nothing", "name a `host` or a `volume`", to=(*to, "tmpfs"))


def _check_host(mount: _Mount, faults: Faults) -> None:
    names = normpath(mount.host).split("/") if mount.host else []
    if _CLOSED in names:
        faults.add("P0218", f"`{mount.host}` holds the state of the plan", "mount another folder", to=mount.place)
    elif names and names[-1] in _ENGINE_SOCKETS:
        hint = "what runs in it can do all that the engine can, and so have this machine"
        faults.warn("P0218", f"`{mount.host}` is the socket of a container engine", hint, to=mount.place)
    elif _GUARDED in names and not mount.is_read_only:
        hint = "`read-only: true` keeps what runs in it from the history and the hooks of the repository"
        faults.warn("P0218", f"`{mount.host}` can be written from inside", hint, to=mount.place)
    elif leads_out(mount.host):
        hint = "the plan runs only where that is; `read-only: true` would keep it as it is"
        if mount.is_read_only:
            hint = "the plan runs only where that is"
        faults.warn("P0218", f"`{mount.host}` is outside the plan's folder", hint, to=mount.place)
