"""Docker's framing of two outputs in one stream: a head of eight bytes (which output, how long), then that many. Pure.

Mixed in the order they came in, the head is only cut out; a terminal has no such framing at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

HEAD_BYTES: Final = 8
GONE: Final = b"[planloop] the container went away under it, or its engine did\n"
GONE_EXIT: Final = 250
"""With `GONE` at the end of its output, how a command ends that runs in a container when nobody knows how it ended."""

_ERRORS: Final = 2


class Frames:
    """Feed it what comes in; it gives what was in the frames so far."""

    def __init__(self) -> None:
        self._head = b""
        self._left = 0
        self._is_error = False

    def feed(self, data: bytes) -> bytes:
        """Both outputs, mixed."""
        return b"".join(piece for piece, _ in self.apart(data))

    def apart(self, data: bytes) -> Iterator[tuple[bytes, bool]]:
        """Pieces, each with whether it was written to the standard error."""
        while data:
            if self._left == 0:
                data = self._read_head(data)
            else:
                taken = min(self._left, len(data))
                yield data[:taken], self._is_error
                self._left -= taken
                data = data[taken:]

    def _read_head(self, data: bytes) -> bytes:
        """What follows the head that begins, or goes on, in `data`."""
        missing = HEAD_BYTES - len(self._head)
        self._head += data[:missing]
        if len(self._head) == HEAD_BYTES:
            self._left = int.from_bytes(self._head[4:], "big")
            self._is_error = self._head[0] == _ERRORS
            self._head = b""
        return data[missing:]
