"""What checks saw, kept by content below the run's folder: `blobs/<sha-256>`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from planloop.schemas.encoding import digest

FOLDER: Final = "blobs"


class Blobs:
    """The blobs of the run in a folder. What was found kept once is taken to be kept: nobody of ours takes any away."""

    def __init__(self, run: Path) -> None:
        self._folder = run / FOLDER
        self._known: set[str] = set()

    def kept(self, contents: Mapping[str, bytes]) -> dict[str, str] | None:
        """The digests by name where all of it is kept already; None where there may be something to write."""
        found = {name: digest(content) for name, content in sorted(contents.items())}
        return found if self._known.issuperset(found.values()) else None

    def keep(self, contents: Mapping[str, bytes]) -> dict[str, str]:
        """Writes each content once and durably; returns the digests by name. Raises OSError. Blocks: for a thread."""
        self._folder.mkdir(exist_ok=True)
        found = {name: _keep(self._folder, content) for name, content in sorted(contents.items())}
        self._known.update(found.values())
        return found


def _keep(folder: Path, content: bytes) -> str:
    name = digest(content)
    path = folder / name
    if not path.exists():
        # Several attempts may have seen the same at the same time.
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".", delete=False) as half:
            half.write(content)
            half.flush()
            os.fsync(half.fileno())
        Path(half.name).rename(path)
    return name
