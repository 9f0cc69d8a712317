"""The file that a call of a file tool is about: of this machine, or in the agent's container. One port for both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from planloop.controllers.agent.calling import holding
from planloop.controllers.agent.tools import inner_files
from planloop.controllers.agent.tools.faults import ToolFailed
from planloop.controllers.agent.tools.inner_files import Content
from planloop.controllers.agent.tools.placing import Within, admit, placed
from planloop.controllers.agent.tools.tool import Context
from planloop.controllers.agent.tools.workspace import Mode, Spot, read_file, replace_file
from planloop.schemas.encoding import digest
from planloop.schemas.frozen import frozen


class Target(Protocol):
    """Of a file of this machine nothing here yields to others: what was looked at is so when it is replaced."""

    @property
    def path(self) -> str:
        """What the agent's knowledge of it is named by."""
        ...

    @property
    def lock(self) -> str:
        """What locks name it."""
        ...

    async def read(self) -> Content:
        """Raises ToolFailed: NotFound, NotAFile, TooLarge …."""
        ...

    async def look(self) -> Content | None:
        """What is there; None when there is no file. What is masked in it has the digest of the real content."""
        ...

    async def replace(self, content: bytes, expected: str | None) -> bool:
        """Puts `content` there if it still has the digest `expected`; whether it did. Raises ToolFailed, OSError."""
        ...


@frozen
class Hosted:
    """A file of this machine."""

    context: Context
    spot: Spot

    @property
    def path(self) -> str:
        return self.spot.path

    @property
    def lock(self) -> str:
        return self.context.workspace.locked(self.spot.path)

    async def read(self) -> Content:
        content = read_file(self.spot)
        return Content(content, digest(content))

    async def look(self) -> Content | None:
        try:
            return await self.read()
        except ToolFailed as failed:
            if failed.reason == "NotFound":
                return None
            raise

    async def replace(self, content: bytes, expected: str | None) -> bool:
        return replace_file(self.spot, content, expected, self.context.spec.op, self._may_write)

    def _may_write(self, path: str) -> bool:
        """Whether another name of the file, relative to the plan's folder, may change with it."""
        context = self.context
        lock = context.workspace.locked(path)
        is_free = not holding.blockers_of(context.seen, context.world.store.view, {lock: "write"})
        return is_free and context.workspace.may_write(path, context.spec.tool)


@frozen
class Contained:
    """A file that is only in a container."""

    context: Context
    within: Within

    @property
    def path(self) -> str:
        return self.within.name

    @property
    def lock(self) -> str:
        return self.within.lock

    async def read(self) -> Content:
        found = await inner_files.read(self.context, self.within)
        if digest(found.content) != found.digest:
            why = "holds a secret of its container, or changes all the time"
            raise ToolFailed("NotReadable", f"`{self.path}` {why}: look at it with a command, and change it with one")
        return found

    async def look(self) -> Content | None:
        try:
            return await inner_files.read(self.context, self.within)
        except ToolFailed as failed:
            if failed.reason == "NotFound":
                return None
            raise

    async def replace(self, content: bytes, expected: str | None) -> bool:
        return await inner_files.replace(self.context, self.within, content, expected)


@contextmanager
def target(context: Context, path: str, mode: Mode, tool: str, *, makes_folders: bool = False) -> Iterator[Target]:
    """What `path` leads to, if `tool` may do that to it. Raises ToolDenied and ToolFailed."""
    at = placed(context, path, mode)
    if isinstance(at, Within):
        admit(context, at, mode, tool)
        yield Contained(context, at)
        return
    with context.workspace.spot(at, mode, tool, makes_folders=makes_folders) as spot:
        yield Hosted(context, spot)
