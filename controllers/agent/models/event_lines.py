"""Server-sent events out of bytes that arrive in any pieces: the payloads of their `data` lines.

After the HTML standard's event stream format, with leave for servers that forget the empty line between events. Lines
are cut from bytes, so a piece may end inside a UTF-8 character.
"""

from __future__ import annotations

from schemas import encoding, limits
from schemas.encoding import Json

DONE = b"[DONE]"


class NoEvents(ValueError):
    """What came is no event stream with JSON in it."""


class EventLines:
    """Reads one stream. `is_done` once `[DONE]` came; `size_bytes` counts everything.

    Payloads may hold what no log can: whoever keeps a part of one checks it, once and not with every piece.
    """

    def __init__(self) -> None:
        self.is_done = False
        self.size_bytes = 0
        self._rest: list[bytes] = []  # Of a line that has not ended: joined once, however many pieces it has.
        self._held: list[bytes] = []  # Of a payload over several lines.
        self._is_event_stream = False

    def feed(self, piece: bytes) -> list[Json]:
        """The payloads that `piece` completes. Raises NoEvents."""
        self.size_bytes += len(piece)
        if self.size_bytes > limits.MODEL_STREAM_BYTES_MAX:
            raise NoEvents(f"the answer is longer than {limits.MODEL_STREAM_BYTES_MAX} bytes")
        self._rest.append(piece)
        if b"\n" not in piece:
            return []
        lines = b"".join(self._rest).split(b"\n")
        self._rest = [lines.pop()]
        payloads: list[Json] = []
        for line in lines:
            if line and line != b"\r":
                payloads += self._take(line)
            elif self._held:
                raise NoEvents(f"an event is no JSON: {_shown(b''.join(self._held))}")
        return payloads

    def end(self) -> list[Json]:
        """What the end of the stream completes. Raises NoEvents when there never was an event."""
        payloads = self.feed(b"\n\n")  # The last line may lack its end.
        if self.size_bytes > len(b"\n\n") and not self._is_event_stream:
            raise NoEvents("what came is no event stream")
        return payloads

    def _take(self, line: bytes) -> list[Json]:
        name, _, value = line.partition(b":")
        if name == b"data":
            self._is_event_stream = True
            value = value.strip()
            if value == DONE:
                self.is_done = True
                return []
            return self._payload(value)
        if name in (b"", b"event", b"id", b"retry"):  # A line that begins with a colon is a comment: a sign of life.
            self._is_event_stream = True
        return []

    def _payload(self, value: bytes) -> list[Json]:
        """One payload when `value` ends it, alone or together with the lines before."""
        text = b"\n".join((*self._held, value)) if self._held else value
        try:
            payload = encoding.decode(text.decode())
        except ValueError:
            self._held.append(value)
            if len(self._held) > limits.MODEL_EVENT_LINES_MAX:
                raise NoEvents(f"an event is no JSON: {_shown(text)}") from None
            return []
        self._held.clear()
        return [payload]


def _shown(text: bytes) -> str:
    return text[: limits.VALUE_SHOWN_CHARS].decode(errors="replace")
