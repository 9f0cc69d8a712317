"""The files of an image before it is written: a tree that holds only what may stand in one.

An entry says where its bytes are, never holds them. What is dropped on purpose: names of owners (numbers stay), times
of access, and extended attributes with file capabilities, which mean nothing where nobody may gain privileges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from io import BytesIO
from typing import IO, Final, Literal, TypeAlias

from planloop.containers.images.errors import ImageFailed
from planloop.schemas.frozen import frozen, remade

Kind: TypeAlias = Literal["folder", "file", "symlink"]
WHITEOUT: Final = ".wh."
NAME_BYTES_MAX: Final = 255  # These two are Linux': an engine would fail on more in the middle of loading.
PATH_BYTES_MAX: Final = 4_095


@frozen
class Entry:
    """`path` is relative, with `/` and without `.` and `..`. Times in whole seconds since 1970.

    `content` opens the `size_bytes` of a file. Files of one `inode` that is not empty are hard links of each other.
    """

    path: str
    kind: Kind
    mode: int
    uid: int = 0
    gid: int = 0
    mtime: int = 0
    size_bytes: int = 0
    target: str = ""
    inode: str = ""
    content: Callable[[], IO[bytes]] | None = None


class Tree:
    """Entries by path. A later one takes the place of an earlier one, as in a tar; parents are added where missing."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, path: str) -> bool:
        return path in self._entries

    def __getitem__(self, path: str) -> Entry:
        return self._entries[path]

    def __iter__(self) -> Iterator[Entry]:
        """By the bytes of their paths, which is how they are written: a folder comes before what it holds."""
        return (self._entries[path] for path in sorted(self._entries, key=_bytes))

    def get(self, path: str) -> Entry | None:
        return self._entries.get(path)

    def add(self, entry: Entry) -> None:
        """Raises ImageFailed for a path that an engine would not write where it says."""
        self._allow(entry.path)
        self._add_parents(entry.path)
        there = self._entries.get(entry.path)
        if there is not None and there.kind == "folder" and entry.kind != "folder":
            raise ImageFailed(f"`{shown(entry.path)}` is a folder and a {entry.kind} at once")
        self._entries[entry.path] = entry

    def link(self, path: str, to: str) -> None:
        """A hard link at `path` to what stands at `to` now. Raises ImageFailed when that is no file."""
        there = self._entries.get(to)
        if there is None or there.kind == "folder":
            raise ImageFailed(f"`{shown(path)}` is a hard link to `{shown(to)}`, which is no file of it")
        if there.kind == "file" and not there.inode:
            there = self._entries[to] = remade(there, inode=to)
        self.add(remade(there, path=path))

    def _allow(self, path: str) -> None:
        if len(_bytes(path)) > PATH_BYTES_MAX:
            raise ImageFailed(f"`{shown(path)}`: a path is longer than {PATH_BYTES_MAX} bytes")
        for part in path.split("/"):
            if part in ("", ".", "..") or "\0" in part:
                raise ImageFailed(f"`{shown(path)}` is no path inside an image")
            if part.startswith(WHITEOUT):
                raise ImageFailed(f"`{shown(path)}`: names that begin with {WHITEOUT} stand for deletions in an image")
            if len(_bytes(part)) > NAME_BYTES_MAX:
                raise ImageFailed(f"`{shown(path)}`: a name is longer than {NAME_BYTES_MAX} bytes")

    def _add_parents(self, path: str) -> None:
        missing: list[str] = []
        parent = path.rpartition("/")[0]
        while parent and parent not in self._entries:
            missing.append(parent)
            parent = parent.rpartition("/")[0]
        if parent and (kind := self._entries[parent].kind) != "folder":
            raise ImageFailed(f"`{shown(path)}` lies behind `{shown(parent)}`, which is a {kind}")
        self._entries |= {each: Entry(each, "folder", 0o755) for each in missing}


def folder(path: str, *, mode: int = 0o755, owner: int = 0) -> Entry:
    """A folder of `owner` and the group of the same number."""
    return Entry(path, "folder", mode, owner, owner)


def text(path: str, content: str, *, mode: int = 0o644) -> Entry:
    """A file of root with this content."""
    return data(path, content.encode(), mode=mode)


def data(path: str, content: bytes, *, mode: int = 0o644) -> Entry:
    """A file of root with this content."""
    return Entry(path, "file", mode, size_bytes=len(content), content=lambda: BytesIO(content))


def symlink(path: str, target: str) -> Entry:
    """A symlink of root."""
    return Entry(path, "symlink", 0o777, target=target)


def shown(path: str) -> str:
    """`path` as an error may print it: short, and on one line."""
    text = path.encode("utf-8", "backslashreplace").decode()
    text = "".join(each if each.isprintable() else f"\\x{ord(each):02x}" for each in text)
    return text if len(text) <= 120 else f"{text[:80]}…{text[-30:]}"


def _bytes(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")
