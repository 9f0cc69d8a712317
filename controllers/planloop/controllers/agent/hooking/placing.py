"""Tools whose calls are about the files that they lead to: a hook on `write(src/**)` is not passed by `./src/a`.

The rights look at a path where it is used; a hook is asked before, so here a path is followed through `..` and links.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from planloop.controllers.agent.calling.calls import Tools
from planloop.controllers.agent.calling.workspaces import workspace_of
from planloop.controllers.agent.observing import Observed
from planloop.controllers.agent.ports import World
from planloop.controllers.agent.tools.faults import ToolFault
from planloop.controllers.agent.tools.tool import Subjects, Tool
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import remade
from planloop.schemas.tools import PATH_TOOLS


class Looks:
    """Tools with their paths followed, as they were at the last look at an agent: one step asks for them often."""

    def __init__(self) -> None:
        self._last: tuple[Observed, Tools] | None = None

    def of(self, seen: Observed, world: World, tools: Tools) -> Tools:
        """`tools` as the agent of `seen` has them; unchanged where its folder cannot be entered."""
        if self._last is None or self._last[0] is not seen:
            try:
                space = workspace_of(world, seen)
            except ToolFault:
                return tools
            self._last = seen, Placed(tools, space.folder, space.root)
        return self._last[1]


class Placed(Mapping[str, Tool]):
    """`tools` with wider subjects for those that take a path: as it was given, and where it leads below `folder`.

    A path that is not absolute is below `root`. Each is followed once: this is for one look at an agent.
    """

    def __init__(self, tools: Tools, folder: Path, root: Path) -> None:
        self._tools = tools
        self._folder = folder
        self._root = root
        self._followed: dict[str, tuple[str, ...]] = {}

    def __getitem__(self, name: str) -> Tool:
        tool = self._tools[name]
        if name not in PATH_TOOLS:
            return tool
        return remade(tool, subjects=partial(self._subjects, tool.subjects))

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    def _subjects(self, given: Subjects, arguments: JsonObject) -> tuple[str, ...]:
        path = str(arguments.get("path", "."))
        if path not in self._followed:
            self._followed[path] = self._places(path)
        return tuple(dict.fromkeys((*given(arguments), *self._followed[path])))

    def _places(self, path: str) -> tuple[str, ...]:
        real = _real(self._root, path)
        return (os.path.normpath(path), *(os.path.relpath(real, base) for base in (self._folder, self._root)))


def places(root: Path, path: str) -> tuple[str, ...]:
    """Where `path` leads, relative to `root`: as it is written, without steps back, and after links."""
    return tuple(os.path.relpath(each, root) for each in (os.path.normpath(root / path), _real(root, path)))


def _real(root: Path, path: str) -> str:
    try:
        return os.path.realpath(root / path)
    except ValueError:  # A null byte: no file has such a name.
        return path
