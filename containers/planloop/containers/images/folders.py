"""A folder of this machine as the tree of an image; all belongs to root and is of 1970, so that copies are equal."""

from __future__ import annotations

import stat
from functools import partial
from pathlib import Path
from typing import IO

from planloop.containers.images.entries import Entry, Tree, shown
from planloop.containers.images.errors import ImageFailed


def folder_tree(root: Path) -> Tree:
    """What `root` holds. Raises OSError, and ImageFailed for what is neither file, folder nor symlink."""
    tree = Tree()
    for path in sorted(root.rglob("*")):
        tree.add(_entry(path, path.relative_to(root).as_posix()))
    return tree


def _entry(path: Path, name: str) -> Entry:
    found = path.lstat()
    mode = stat.S_IMODE(found.st_mode)
    if stat.S_ISDIR(found.st_mode):
        return Entry(name, "folder", mode)
    if stat.S_ISLNK(found.st_mode):
        return Entry(name, "symlink", 0o777, target=str(path.readlink()))
    if stat.S_ISREG(found.st_mode):
        inode = f"{found.st_dev}:{found.st_ino}" if found.st_nlink > 1 else ""
        return Entry(name, "file", mode, size_bytes=found.st_size, inode=inode, content=partial(_opened, path))
    raise ImageFailed(f"`{shown(str(path))}` is neither file, folder nor symlink, and cannot be in an image")


def _opened(path: Path) -> IO[bytes]:
    return path.open("rb")
