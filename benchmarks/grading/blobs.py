"""What checks saw, kept by content below the run's folder: `blobs/<sha-256>`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from schemas.encoding import digest

FOLDER: Final = "blobs"


def kept(run: Path, contents: Mapping[str, bytes]) -> dict[str, str] | None:
    """The digests by name where all of it is kept already; None where there is something to write."""
    found = {name: digest(content) for name, content in sorted(contents.items())}
    folder = str(run / FOLDER)
    return found if all(os.path.exists(f"{folder}/{name}") for name in found.values()) else None  # noqa: PTH110 - often


def keep(run: Path, contents: Mapping[str, bytes]) -> dict[str, str]:
    """Writes each content once and durably; returns the digests by name. Raises OSError. Blocks: for a thread."""
    folder = run / FOLDER
    folder.mkdir(exist_ok=True)
    return {name: _keep(folder, content) for name, content in sorted(contents.items())}


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
