"""Where the files of a container are: in it alone, or on this machine too, where a folder of it is mounted. Pure."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from posixpath import join, normpath

from planloop.controllers.inside.grounding import ground_of
from planloop.controllers.inside.standing import standing
from planloop.reconciler.storing.store import View
from planloop.schemas.container import KIND, container_from_json
from planloop.schemas.frozen import frozen


@frozen
class Mounted:
    """What stands at `target`: the folder or file `host` of this machine, absolute, the plan's `volume`, or memory."""

    target: str
    host: str = ""
    is_read_only: bool = False
    volume: str = ""


@frozen
class Here:
    """A path of this machine that a path inside is as well. `is_alone`: no folder around it is mounted."""

    path: str
    is_read_only: bool
    is_alone: bool


@frozen
class Place:
    """The container `name` as somebody finds it who works in its `folder`."""

    name: str
    folder: str
    mounts: tuple[Mounted, ...] = ()

    def at(self, path: str) -> str:
        """`path` from the root, without `.` and `..`, which are taken as text: links are looked at inside."""
        return "/" + normpath(join(self.folder, path)).lstrip("/")

    def here(self, inside: str) -> Here | None:
        """The path of this machine that `inside` is, by the nearest mount around it; None for what is not."""
        nearest = self._around(inside)
        if nearest is None or not nearest.host:
            return None
        rest = str(PurePosixPath(inside).relative_to(nearest.target))
        path = nearest.host if rest == "." else join(nearest.host, rest)
        return Here(path, nearest.is_read_only, is_alone=rest == ".")

    def shared(self, inside: str) -> str:
        """The name that `inside` has in every container: that of a file in a volume says which; else empty."""
        nearest = self._around(inside)
        if nearest is None or not nearest.volume:
            return ""
        return f"volume/{nearest.volume}:{normpath(join('/', PurePosixPath(inside).relative_to(nearest.target)))}"

    def _around(self, inside: str) -> Mounted | None:
        """The nearest mount that `inside` is in."""
        around = [each for each in self.mounts if PurePosixPath(inside).is_relative_to(each.target)]
        return max(around, key=lambda each: len(each.target), default=None)

    def inside(self, path: str) -> str:
        """Where the absolute `path` of this machine is inside, by the nearest folder that is mounted; else empty."""
        at = PurePosixPath(path)
        around = [each for each in self.mounts if each.host and at.is_relative_to(each.host)]
        nearest = max(around, key=lambda each: len(each.host), default=None)
        return "" if nearest is None else normpath(join(nearest.target, str(at.relative_to(nearest.host))))


def place_of(view: View, name: str, root: Path, cwd: str) -> Place:
    """The container `name` of the plan in `root`, for who works in the folder `cwd` of this machine, absolute both.

    It begins where that is mounted, else in the container's own folder, as commands inside do.
    """
    found = view.get(f"{KIND}/{name}")
    if found is None:
        return Place(name, "/")
    spec = container_from_json(found.spec)
    ground = ground_of(view, spec, root)
    mounts = tuple(
        Mounted(
            normpath(each.target),
            str(ground.at(each.host).resolve()) if each.host else "",
            each.is_read_only,
            each.volume,
        )
        for each in spec.mounts
    )
    place = Place(name, spec.workdir or standing(found).workdir, mounts)
    return Place(name, place.inside(cwd) or place.folder, mounts)
