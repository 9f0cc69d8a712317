"""Decode Docker's stream frames and HTTP chunks. Standard library only. Pure.

A frame is a head of eight bytes (which of two outputs, how long), then that many. Mixed in the order they came in, the
head is only cut out; a terminal has no such framing at all. `GONE` is our own: what stands for a command that runs in a
container ends its output with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

HEAD_BYTES: Final = 8
GONE: Final = b"[planloop] the container went away under it, or its engine did\n"
GONE_EXIT: Final = 250
"""With `GONE` at the end of its output, how a command ends that runs in a container when nobody knows how it ended."""

_ERRORS: Final = 2
_BREAK: Final = b"\r\n"


class FrameDecoder:
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
        at = 0
        while at < len(data):
            if self._left == 0:
                at = self._read_head(data, at)
            else:
                end = min(at + self._left, len(data))
                yield data[at:end], self._is_error
                self._left -= end - at
                at = end

    def _read_head(self, data: bytes, at: int) -> int:
        """Where in `data` the head ends that begins, or goes on, at `at`."""
        end = at + HEAD_BYTES - len(self._head)
        self._head += data[at:end]
        if len(self._head) == HEAD_BYTES:
            self._left = int.from_bytes(self._head[4:], "big")
            self._is_error = self._head[0] == _ERRORS
            self._head = b""
        return end


class ChunkDecoder:
    """Feed it the body of an answer in HTTP's chunks; it gives what was in them so far.

    Many at once: an engine makes a chunk of each line, and what takes them one by one is busy with little else.
    """

    def __init__(self) -> None:
        self._line = b""
        self._left = 0
        self.is_over = False

    def feed(self, data: bytes) -> bytes:
        """What is in them. Raises ValueError for what is no chunk."""
        data = self._line + data
        self._line = b""
        pieces, at = [], 0
        while at < len(data) and not self.is_over:
            if self._left > 0:
                end = min(at + self._left, len(data))
                pieces.append(data[at : min(end, at + max(0, self._left - len(_BREAK)))])
                self._left -= end - at
                at = end
            elif (end := data.find(b"\n", at)) < 0:
                self._line = data[at:]
                break
            else:
                size = int(data[at:end].partition(b";")[0], 16)
                self._left, self.is_over = size + len(_BREAK), size == 0
                at = end + 1
        return b"".join(pieces)
