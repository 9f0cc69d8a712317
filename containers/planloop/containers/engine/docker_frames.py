"""Decode Docker's stream frames and HTTP chunks. Pure, standard library only.

A frame is a head of eight bytes (which of two outputs, how long), then that many bytes. The outputs are mixed in the
order in which they came, so only the heads are cut out; a terminal has no frames at all. `GONE` is ours: a process that
stands for a command in a container ends its output with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

HEAD_BYTES: Final = 8
GONE: Final = b"[planloop] the container went away under it, or its engine did\n"
GONE_EXIT: Final = 250
"""With `GONE` at the end of its output: the exit code of a command in a container whose end is unknown."""

_ERRORS: Final = 2
_BREAK: Final = b"\r\n"


class FrameDecoder:
    """Feed it the input; it returns the content of the frames so far."""

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
        """Where in `data` the head ends that begins or continues at `at`."""
        end = at + HEAD_BYTES - len(self._head)
        self._head += data[at:end]
        if len(self._head) == HEAD_BYTES:
            self._left = int.from_bytes(self._head[4:], "big")
            self._is_error = self._head[0] == _ERRORS
            self._head = b""
        return end


class ChunkDecoder:
    """Feed it the body of a response in HTTP chunks; it returns the content so far.

    It takes many chunks in one call: an engine sends a chunk for each line, and decoding them one by one costs too
    much.
    """

    def __init__(self) -> None:
        self._line = b""
        self._left = 0
        self.is_over = False

    def feed(self, data: bytes) -> bytes:
        """The content of the chunks. Raises ValueError for a malformed chunk."""
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
