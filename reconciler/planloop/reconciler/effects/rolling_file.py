"""A file that keeps the newest lines of an output, within a size limit."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from planloop.reconciler.store import state_files


class RollingFile:
    """At most `bytes_max` of the newest output, in whole lines. A full disk loses words and nothing else."""

    def __init__(self, path: Path, bytes_max: int) -> None:
        self._path = path
        self._bytes_max = bytes_max

    def add(self, text: bytes) -> None:
        """Adds `text` at the end; the older half goes when it is too much."""
        try:
            with open(self._path, "ab", opener=state_files.private_opener) as file:
                file.write(text)
                is_full = file.tell() > self._bytes_max
            if is_full:
                with self._path.open("rb") as file:
                    kept = newest_lines(file, self._bytes_max)
                beside = self._path.with_suffix(".new")
                state_files.write_private_file(beside, kept)
                beside.replace(self._path)
        except OSError:
            return

    def clear(self) -> None:
        """Begins anew."""
        self._path.unlink(missing_ok=True)

    def read(self) -> bytes:
        """All of it; empty when there is none."""
        try:
            return self._path.read_bytes()
        except OSError:
            return b""

    def end(self, bytes_max: int = 4096) -> bytes:
        """The last bytes of it; empty when there is none."""
        try:
            with self._path.open("rb") as file:
                return _end(file, bytes_max)
        except OSError:
            return b""


def newest_lines(file: BinaryIO, bytes_max: int) -> bytes:
    """The lines of `file` that stay when it got longer than `bytes_max`; who follows it knows by this what is new."""
    half = _end(file, bytes_max // 2)
    at = half.find(b"\n") + 1
    return half[at:] if at < len(half) else half


def _end(file: BinaryIO, bytes_max: int) -> bytes:
    file.seek(max(0, file.seek(0, os.SEEK_END) - bytes_max))
    return file.read()
