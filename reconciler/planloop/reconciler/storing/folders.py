"""Create the folders and files of a plan's state: durable, and private to their user under any umask.

A file is found again after a power cut only if every folder above it was flushed too. What agents say, what commands
print and what people answer is in these files, so other users of the machine may not read them.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600
OTHERS: Final = 0o077


def make(folder: Path) -> None:
    """Makes `folder` and what is missing above it, durably. Raises OSError."""
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for new in reversed(missing):
        new.mkdir(FOLDER_MODE, exist_ok=True)
        sync(new.parent)


def opener(path: str, flags: int) -> int:
    """For `open`: creates a file that other users cannot read."""
    return os.open(path, flags, FILE_MODE)


def write(path: Path, content: bytes) -> None:
    """Puts `content` into the file at `path`. Raises OSError."""
    with open(path, "wb", opener=opener) as file:
        file.write(content)


def close_to_others(path: Path) -> None:
    """Remove other users' rights to the file or folder at `path`, which an older version may have created."""
    with suppress(OSError):  # It belongs to another user, or does not exist.
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & OTHERS:
            path.chmod(mode & ~OTHERS)


def sync(folder: Path) -> None:
    """Flushes the names in `folder`. Raises OSError."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
