"""Docker's framing of two outputs in one stream: a head of eight bytes (which output, how long), then that many. Pure.

We want them mixed in the order they came in, so the head is only cut out.
"""

from __future__ import annotations

from typing import Final

HEAD_BYTES: Final = 8


class Frames:
    """Feed it what comes in; it gives what was in the frames so far."""

    def __init__(self) -> None:
        self._head = b""
        self._left = 0

    def feed(self, data: bytes) -> bytes:
        out = bytearray()
        while data:
            if self._left == 0:
                data = self._read_head(data)
            else:
                out += data[: self._left]
                taken = min(self._left, len(data))
                self._left -= taken
                data = data[taken:]
        return bytes(out)

    def _read_head(self, data: bytes) -> bytes:
        """What follows the head that begins, or goes on, in `data`."""
        missing = HEAD_BYTES - len(self._head)
        self._head += data[:missing]
        if len(self._head) == HEAD_BYTES:
            self._left = int.from_bytes(self._head[4:], "big")
            self._head = b""
        return data[missing:]
