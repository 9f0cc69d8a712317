"""Tools whose calls are about the files that they lead to: a hook on `write(src/**)` is not passed by `./src/a`.

The rights look at a path where it is used; a hook is asked before, so here a path is followed through `..` and links.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from controllers.agent.calling.calls import Tools
from controllers.agent.tools.tool import Subjects, Tool
from schemas.encoding import JsonObject
from schemas.frozen import remade
from schemas.tools import PATH_TOOLS


class Placed(Mapping[str, Tool]):
    """`tools` with wider subjects for those that take a path: as it was given, and where it leads below `folder`.

    A path that is not absolute is below `root`.
    """

    def __init__(self, tools: Tools, folder: Path, root: Path) -> None:
        self._tools = tools
        self._folder = folder
        self._root = root

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
        try:
            real = os.path.realpath(self._root / path)
        except ValueError:  # A null byte: no file has such a name.
            real = path
        places = (os.path.relpath(real, base) for base in (self._folder, self._root))
        return tuple(dict.fromkeys((*given(arguments), os.path.normpath(path), *places)))
