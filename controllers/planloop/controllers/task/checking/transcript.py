"""What was said to a program and what it answered, in lines, up to a bound: the evidence of a check."""

from __future__ import annotations

from dataclasses import field
from typing import Final

from planloop.schemas import limits
from planloop.schemas.frozen import mutable

_SHOWN_CHARS: Final = 2_000


@mutable
class Transcript:
    """Grows until it is full; then it says that there was more."""

    _lines: list[bytes] = field(default_factory=list)
    _room: int = limits.TRANSCRIPT_BYTES_MAX

    def add(self, line: str) -> None:
        """One line more, whatever it holds."""
        if self._room <= 0:
            return
        shown = line if len(line) <= _SHOWN_CHARS else f"{line[:_SHOWN_CHARS]}… ({len(line):,} characters)"
        content = shown.replace("\n", "\n  ").encode(errors="replace") + b"\n"
        self._room -= len(content)
        self._lines.append(content if self._room > 0 else "…\n".encode())

    def content(self) -> bytes:
        """All of it."""
        return b"".join(self._lines)
