"""A file that holds the end of what somebody writes: what is shown to people, and lost without harm."""

from __future__ import annotations

import os
from pathlib import Path


class RollingFile:
    """At most `bytes_max` of the newest output, in whole lines. A full disk loses words and nothing else."""

    def __init__(self, path: Path, bytes_max: int) -> None:
        self._path = path
        self._bytes_max = bytes_max

    def add(self, text: bytes) -> None:
        """Adds `text` at the end; the older half goes when it is too much."""
        try:
            with self._path.open("ab") as file:
                file.write(text)
                is_full = file.tell() > self._bytes_max
            if is_full:
                kept = self.end(self._bytes_max // 2)
                at = kept.find(b"\n") + 1
                beside = self._path.with_suffix(".new")
                beside.write_bytes(memoryview(kept)[at if at < len(kept) else 0 :])
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
                file.seek(max(0, file.seek(0, os.SEEK_END) - bytes_max))
                return file.read()
        except OSError:
            return b""
