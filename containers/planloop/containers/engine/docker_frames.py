"""Decode Docker's stream frames and HTTP chunks. Pure, standard library only.

A frame is a head of eight bytes (which output, how many bytes), then the bytes. Both outputs are mixed in the order of
arrival, so only the heads are removed. A terminal has no frames. planloop defines `GONE`: the local process that
represents a command in a container writes it at the end of its output if the end of the command is unknown.
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
    """Decodes frames. `feed` it the input; it returns the content of the frames so far."""

    def __init__(self) -> None:
        self._head = b""
        self._left = 0
        self._is_error = False

    def feed(self, data: bytes) -> bytes:
        """Return the content of both outputs, mixed."""
        return b"".join(piece for piece, _ in self.apart(data))

    def apart(self, data: bytes) -> Iterator[tuple[bytes, bool]]:
        """Yield pieces, each with whether it was written to stderr."""
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
        """Return the offset in `data` after the head that starts or continues at `at`."""
        end = at + HEAD_BYTES - len(self._head)
        self._head += data[at:end]
        if len(self._head) == HEAD_BYTES:
            self._left = int.from_bytes(self._head[4:], "big")
            self._is_error = self._head[0] == _ERRORS
            self._head = b""
        return end


class ChunkDecoder:
    """Decodes HTTP chunks. `feed` it the body of a response; it returns the content so far.

    One call takes many chunks: an engine sends a chunk for each line, and decoding each alone is too slow.
    """

    def __init__(self) -> None:
        self._line = b""
        self._left = 0
        self.is_over = False

    def feed(self, data: bytes) -> bytes:
        """Return the content of the chunks. Raises ValueError for a malformed chunk."""
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
