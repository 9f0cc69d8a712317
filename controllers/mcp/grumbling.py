"""What a server prints about itself, in a file of bounded size: the newest half stays when it is full."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from schemas import limits

HEAD: Final = "--- "
"""How a line of ours begins: each run has one before its words."""


class Grumbles:
    """A file that `plan logs mcp/<name>` shows. A disk that takes nothing more loses the words, not the server."""

    def __init__(self, path: Path, bytes_max: int = limits.SERVER_LOG_BYTES_MAX) -> None:
        self._path = path
        self._bytes_max = bytes_max

    def heard(self, text: bytes) -> None:
        """Adds `text` at the end."""
        try:
            with self._path.open("ab") as file:
                file.write(text)
                is_full = file.tell() > self._bytes_max
            if is_full:
                kept = self._path.read_bytes()[-self._bytes_max // 2 :]
                beside = self._path.with_suffix(".new")
                beside.write_bytes(kept.partition(b"\n")[2] or kept)
                beside.replace(self._path)
        except OSError:
            return

    def last(self) -> str:
        """The last line of the newest run, for telling why a server ended; empty when it said nothing."""
        try:
            lines = self._path.read_bytes()[-4096:].decode(errors="replace").splitlines()
        except OSError:
            return ""
        said = next((line.strip()[:200] for line in reversed(lines) if line.strip()), "")
        return "" if said.startswith(HEAD) else said
