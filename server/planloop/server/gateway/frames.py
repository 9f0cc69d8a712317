"""Records as they go to those who listen: whole frames, made once, whoever many they go to.

A frame is `{"rev": N, "records": [...]}`, the records as the log has them. The newest frames are kept; whoever is where
one begins takes it as it is, whoever is elsewhere is read a frame of their own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from planloop.reconciler.storing.sqlite_log import Row
from planloop.schemas.frozen import frozen

FRAME_BYTES_MAX: Final = 256 << 10  # A frame ends with the record that passes this: one record may be larger.
KEPT_MAX: Final = 10_000  # Frames; older ones are read from the log again.
KEPT_BYTES_MAX: Final = 32 << 20  # The same, in bytes.


@frozen
class Frame:
    """The records from `first` to `last` as JSON."""

    first: int
    last: int
    body: bytes


def framed(rows: Iterable[Row]) -> list[Frame]:
    """The frames that hold `rows`, which follow one another."""
    frames: list[Frame] = []
    first, bodies, size = 0, list[bytes](), 0
    last = 0
    for row in rows:
        first, last = first or row[0], row[0]
        bodies.append(row[5].encode())
        size += len(bodies[-1])
        if size > FRAME_BYTES_MAX:
            frames.append(_frame(first, last, bodies))
            first, bodies, size = 0, [], 0
    return [*frames, _frame(first, last, bodies)] if bodies else frames


def _frame(first: int, last: int, bodies: list[bytes]) -> Frame:
    return Frame(first, last, b'{"rev":%d,"records":[%b]}' % (last, b",".join(bodies)))


class Kept:
    """The newest frames, each following the one before it."""

    def __init__(self) -> None:
        self._frames: dict[int, Frame] = {}
        self._bytes = 0

    def add(self, frame: Frame) -> None:
        """Keeps `frame`; the oldest go when it is too much."""
        self._frames[frame.first] = frame
        self._bytes += len(frame.body)
        while len(self._frames) > KEPT_MAX or self._bytes > KEPT_BYTES_MAX:
            self._bytes -= len(self._frames.pop(next(iter(self._frames))).body)

    def after(self, rev: int) -> Frame | None:
        """The frame that begins with the revision after `rev`, if it is kept."""
        return self._frames.get(rev + 1)

    def clear(self) -> None:
        """Forgets all: the log is another."""
        self._frames.clear()
        self._bytes = 0
