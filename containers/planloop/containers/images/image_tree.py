"""The files of an image before it is written: a tree that accepts only valid entries, also read from a folder."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import IO, Final, Literal, TypeAlias

from planloop.schemas.frozen import frozen, remade

# What can be wrong with an image that we make.


class ImageFailed(Exception):
    """`str()` is a sentence for people; `hint` says what to do about it, with a command where one does."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


# The files of an image before it is written: a tree that holds only what may stand in one.
#
# An entry says where its bytes are, never holds them. What is dropped on purpose: names of owners (numbers stay), times
# of access, and extended attributes with file capabilities, which mean nothing where nobody may gain privileges.

EntryKind: TypeAlias = Literal["folder", "file", "symlink"]
WHITEOUT: Final = ".wh."
NAME_BYTES_MAX: Final = 255  # These two are Linux': an engine would fail on more in the middle of loading.
PATH_BYTES_MAX: Final = 4_095


@frozen
class ImageEntry:
    """`path` is relative, with `/` and without `.` and `..`. Times in whole seconds since 1970.

    `content` opens the `size_bytes` of a file. Files of one `inode` that is not empty are hard links of each other.
    """

    path: str
    kind: EntryKind
    mode: int
    uid: int = 0
    gid: int = 0
    mtime: int = 0
    size_bytes: int = 0
    target: str = ""
    inode: str = ""
    content: Callable[[], IO[bytes]] | None = None


class ImageTree:
    """Entries by path. A later one takes the place of an earlier one, as in a tar; parents are added where missing."""

    def __init__(self) -> None:
        self._entries: dict[str, ImageEntry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, path: str) -> bool:
        return path in self._entries

    def __getitem__(self, path: str) -> ImageEntry:
        return self._entries[path]

    def __iter__(self) -> Iterator[ImageEntry]:
        """By the bytes of their paths, which is how they are written: a folder comes before what it holds."""
        return (self._entries[path] for path in sorted(self._entries, key=_bytes))

    def get(self, path: str) -> ImageEntry | None:
        return self._entries.get(path)

    def add(self, entry: ImageEntry) -> None:
        """Raises ImageFailed for a path that an engine would not write where it says."""
        self._allow(entry.path)
        self._add_parents(entry.path)
        there = self._entries.get(entry.path)
        if there is not None and there.kind == "folder" and entry.kind != "folder":
            raise ImageFailed(f"`{printable_path(entry.path)}` is a folder and a {entry.kind} at once")
        self._entries[entry.path] = entry

    def link(self, path: str, to: str) -> None:
        """A hard link at `path` to what stands at `to` now. Raises ImageFailed when that is no file."""
        there = self._entries.get(to)
        if there is None or there.kind == "folder":
            raise ImageFailed(
                f"`{printable_path(path)}` is a hard link to `{printable_path(to)}`, which is no file of it"
            )
        if there.kind == "file" and not there.inode:
            there = self._entries[to] = remade(there, inode=to)
        self.add(remade(there, path=path))

    def _allow(self, path: str) -> None:
        if len(_bytes(path)) > PATH_BYTES_MAX:
            raise ImageFailed(f"`{printable_path(path)}`: a path is longer than {PATH_BYTES_MAX} bytes")
        for part in path.split("/"):
            if part in ("", ".", "..") or "\0" in part:
                raise ImageFailed(f"`{printable_path(path)}` is no path inside an image")
            if part.startswith(WHITEOUT):
                raise ImageFailed(
                    f"`{printable_path(path)}`: names that begin with {WHITEOUT} stand for deletions in an image"
                )
            if len(_bytes(part)) > NAME_BYTES_MAX:
                raise ImageFailed(f"`{printable_path(path)}`: a name is longer than {NAME_BYTES_MAX} bytes")

    def _add_parents(self, path: str) -> None:
        missing: list[str] = []
        parent = path.rpartition("/")[0]
        while parent and parent not in self._entries:
            missing.append(parent)
            parent = parent.rpartition("/")[0]
        if parent and (kind := self._entries[parent].kind) != "folder":
            raise ImageFailed(f"`{printable_path(path)}` lies behind `{printable_path(parent)}`, which is a {kind}")
        self._entries |= {each: ImageEntry(each, "folder", 0o755) for each in missing}


def folder_entry(path: str, *, mode: int = 0o755, owner: int = 0) -> ImageEntry:
    """A folder of `owner` and the group of the same number."""
    return ImageEntry(path, "folder", mode, owner, owner)


def text_entry(path: str, content: str, *, mode: int = 0o644) -> ImageEntry:
    """A file of root with this content."""
    return data_entry(path, content.encode(), mode=mode)


def data_entry(path: str, content: bytes, *, mode: int = 0o644) -> ImageEntry:
    """A file of root with this content."""
    return ImageEntry(path, "file", mode, size_bytes=len(content), content=lambda: BytesIO(content))


def symlink_entry(path: str, target: str) -> ImageEntry:
    """A symlink of root."""
    return ImageEntry(path, "symlink", 0o777, target=target)


def printable_path(path: str) -> str:
    """`path` as an error may print it: short, and on one line."""
    text = path.encode("utf-8", "backslashreplace").decode()
    text = "".join(each if each.isprintable() else f"\\x{ord(each):02x}" for each in text)
    return text if len(text) <= 120 else f"{text[:80]}…{text[-30:]}"


def _bytes(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


# A folder of this machine as the tree of an image; all belongs to root and is of 1970, so that copies are equal.


def read_folder_tree(root: Path) -> ImageTree:
    """What `root` holds. Raises OSError, and ImageFailed for what is neither file, folder nor symlink."""
    tree = ImageTree()
    for path in sorted(root.rglob("*")):
        tree.add(_folder_file(path, path.relative_to(root).as_posix()))
    return tree


def _folder_file(path: Path, name: str) -> ImageEntry:
    found = path.lstat()
    mode = stat.S_IMODE(found.st_mode)
    if stat.S_ISDIR(found.st_mode):
        return ImageEntry(name, "folder", mode)
    if stat.S_ISLNK(found.st_mode):
        return ImageEntry(name, "symlink", 0o777, target=str(path.readlink()))
    if stat.S_ISREG(found.st_mode):
        inode = f"{found.st_dev}:{found.st_ino}" if found.st_nlink > 1 else ""
        return ImageEntry(name, "file", mode, size_bytes=found.st_size, inode=inode, content=partial(_open_file, path))
    raise ImageFailed(f"`{printable_path(str(path))}` is neither file, folder nor symlink, and cannot be in an image")


def _open_file(path: Path) -> IO[bytes]:
    return path.open("rb")
