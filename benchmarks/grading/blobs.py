"""What checks saw, kept by content below the run's folder: `blobs/<sha-256>`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from schemas.encoding import digest

FOLDER: Final = "blobs"


def keep(run: Path, contents: Mapping[str, bytes]) -> dict[str, str]:
    """Writes each content once and durably; returns the digests by name. Raises OSError. Blocks: for a thread."""
    folder = run / FOLDER
    folder.mkdir(exist_ok=True)
    return {name: _keep(folder, content) for name, content in sorted(contents.items())}


def _keep(folder: Path, content: bytes) -> str:
    name = digest(content)
    path = folder / name
    if not path.exists():
        half = folder / f".{name}-{os.getpid()}"
        with half.open("wb") as file:
            file.write(content)
            os.fsync(file.fileno())
        half.rename(path)
    return name
