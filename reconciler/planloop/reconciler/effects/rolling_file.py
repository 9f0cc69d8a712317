"""A file that keeps the newest lines of an output, within a size limit."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from planloop.reconciler.store import state_files


class RollingFile:
    """At most `bytes_max` of the newest output, in whole lines. If the disk is full, new output is dropped."""

    def __init__(self, path: Path, bytes_max: int) -> None:
        self._path = path
        self._bytes_max = bytes_max

    def add(self, text: bytes) -> None:
        """Append `text`; over the limit, drop the older half."""
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
        """Remove the file."""
        self._path.unlink(missing_ok=True)

    def read(self) -> bytes:
        """The whole content; empty if the file does not exist."""
        try:
            return self._path.read_bytes()
        except OSError:
            return b""

    def end(self, bytes_max: int = 4096) -> bytes:
        """The last `bytes_max` bytes; empty if the file does not exist."""
        try:
            with self._path.open("rb") as file:
                return _end(file, bytes_max)
        except OSError:
            return b""


def newest_lines(file: BinaryIO, bytes_max: int) -> bytes:
    """The lines of `file` that are kept when it exceeds `bytes_max`. Followers of the file use it to find new lines."""
    half = _end(file, bytes_max // 2)
    at = half.find(b"\n") + 1
    return half[at:] if at < len(half) else half


def _end(file: BinaryIO, bytes_max: int) -> bytes:
    file.seek(max(0, file.seek(0, os.SEEK_END) - bytes_max))
    return file.read()
