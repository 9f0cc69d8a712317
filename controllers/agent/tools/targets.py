"""The file that a call of a file tool is about: of this machine, or in the agent's container. One port for both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from controllers.agent.tools import inner_files
from controllers.agent.tools.faults import ToolFailed
from controllers.agent.tools.inner_files import Content
from controllers.agent.tools.placing import Within, admit, placed
from controllers.agent.tools.tool import Context
from controllers.agent.tools.workspace import Mode, Spot, digest_at, read_file, replace_file
from schemas.encoding import digest
from schemas.frozen import frozen


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

    async def digest(self) -> str | None:
        """That of what is there; None when there is no file."""
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

    async def digest(self) -> str | None:
        return digest_at(self.spot)

    async def replace(self, content: bytes, expected: str | None) -> bool:
        return replace_file(self.spot, content, expected, self.context.spec.op)


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

    async def digest(self) -> str | None:
        try:
            return (await inner_files.read(self.context, self.within)).digest
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
