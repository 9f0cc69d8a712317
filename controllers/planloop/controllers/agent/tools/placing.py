"""Where a path of a file tool is: on this machine, or only in the container that is the agent's sandbox.

A path is read as the agent's commands would read it. What is a file of the plan's folder as well, because that is
mounted, is one of this machine, with its rights, links and locks; of anything else the name says which container.
"""

from __future__ import annotations

import os

from planloop.controllers.agent.calling import workspaces
from planloop.controllers.agent.tools.faults import ToolDenied, ToolFailed
from planloop.controllers.agent.tools.tool import Context
from planloop.controllers.agent.tools.workspace import Mode
from planloop.controllers.inside import Place
from planloop.schemas import patterns
from planloop.schemas.frozen import frozen


@frozen
class Within:
    """A path in the container of `place` that is no file of the plan; `path` is absolute, links are not followed."""

    place: Place
    path: str

    @property
    def name(self) -> str:
        """What it is called where files of several places meet: in rights and what an agent has read."""
        return f"container/{self.place.name}:{self.path}"

    @property
    def lock(self) -> str:
        """What locks name it: several containers may have the volume that it is in."""
        return self.place.shared(self.path) or self.name


def placed(context: Context, path: str, mode: Mode = "read") -> str | Within:
    """What `path` names for the agent: a path for its workspace, or one within its container.

    Raises ToolDenied and ToolFailed.
    """
    place = workspaces.place(context.world, context.seen)
    if place is None or "\0" in path or not path.strip():
        return path
    at = place.at(path)
    here = place.here(at)
    space = context.workspace
    if here is None or not _is_own(context, here.path):
        return Within(place, at)
    if mode == "write" and here.is_read_only:
        raise ToolDenied(f"`{at}` is mounted read-only in the container `{place.name}`")
    if mode == "write" and here.is_alone:
        raise ToolDenied(
            f"`{at}` is mounted by itself in the container `{place.name}`: only its folder can be, for this"
        )
    found = str(space.folder / space.leads_to(here.path))
    again = place.here(place.inside(found))
    if again is None or again.path != found:
        raise ToolFailed("BadPath", f"`{path}` leads to `{found}`, in whose place `{place.name}` has something else")
    return here.path


def targets(context: Context, place: Place) -> tuple[str, ...]:
    """Where folders and files of the plan are mounted in the container of `place`."""
    return tuple(each.target for each in place.mounts if each.host and _is_own(context, each.host))


def _is_own(context: Context, path: str) -> bool:
    """Whether the absolute `path` of this machine is in the plan's folder, or in the agent's fork."""
    own = (str(context.workspace.folder), os.path.realpath(context.world.folder))
    return any(path == each or path.startswith(f"{each}/") for each in own)


def locked(context: Context, path: str, mode: Mode = "write") -> str:
    """`path` as locks name it. Raises ToolDenied and ToolFailed."""
    found = placed(context, path, mode)
    space = context.workspace
    return found.lock if isinstance(found, Within) else space.locked(space.leads_to(found))


def admit(context: Context, within: Within, mode: Mode, tool: str) -> None:
    """Raises ToolDenied unless rights let the agent do that to a path in its container.

    They name it as locks do, `container/sut:/etc/hosts`; denials of the plain path count as well.
    """
    space = context.workspace
    globs = space.read if mode == "read" else space.write
    if not patterns.any_path(globs, within.name):
        verb = "read" if mode == "read" else "written"
        raise ToolDenied(f"`{within.name}` may not be {verb}: rights allow {globs}")
    if denial := patterns.denied_by(space.deny, tool, _names(within)):
        raise ToolDenied(f"`{within.name}` is denied by `{denial}`")
    if not space.allows(tool, within.name):
        raise ToolDenied(f"`{within.name}`: rights allow `{tool}` on other paths only")


def shows(context: Context, within: Within, path: str, tool: str) -> bool:
    """Whether `tool` may tell of the file at `path` in the container; one that is the plan's too has that name."""
    space, here = context.workspace, within.place.here(path)
    if here is not None and here.path.startswith(f"{space.folder}/"):
        return space.shows(tool, here.path.removeprefix(f"{space.folder}/"))
    one = Within(within.place, path)
    return space.shows(tool, one.name) and not patterns.denied_by(space.deny, tool, _names(one))


def _names(within: Within) -> tuple[str, ...]:
    """All that a denial may call it."""
    return (within.name, within.path, within.path.lstrip("/"))
