"""Folders whose names survive a power cut: a file is found again only if every folder above it was flushed too."""

from __future__ import annotations

import os
from pathlib import Path


def make(folder: Path) -> None:
    """Makes `folder` and what is missing above it, durably. Raises OSError."""
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for new in reversed(missing):
        new.mkdir(exist_ok=True)
        sync(new.parent)


def sync(folder: Path) -> None:
    """Flushes the names in `folder`. Raises OSError."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
