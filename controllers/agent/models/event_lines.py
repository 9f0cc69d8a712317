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
    """Reads one stream. `is_done` once `[DONE]` came; `size_bytes` counts everything."""

    def __init__(self) -> None:
        self.is_done = False
        self.size_bytes = 0
        self._rest = b""  # Of a line that has not ended.
        self._held: list[bytes] = []  # Of a payload over several lines.
        self._is_event_stream = False

    def feed(self, piece: bytes) -> list[Json]:
        """The payloads that `piece` completes. Raises NoEvents."""
        self.size_bytes += len(piece)
        if self.size_bytes > limits.MODEL_STREAM_BYTES_MAX:
            raise NoEvents(f"the answer is longer than {limits.MODEL_STREAM_BYTES_MAX} bytes")
        lines = (self._rest + piece).split(b"\n")
        self._rest = lines.pop()
        payloads: list[Json] = []
        for line in lines:
            payloads += self._take(line.rstrip(b"\r"))
        return payloads

    def end(self) -> list[Json]:
        """What the end of the stream completes. Raises NoEvents when there never was an event."""
        payloads = self._take(self._rest.rstrip(b"\r")) + self._take(b"")
        if self.size_bytes and not self._is_event_stream:
            raise NoEvents("what came is no event stream")
        return payloads

    def _take(self, line: bytes) -> list[Json]:
        if not line:
            if self._held:
                raise NoEvents(f"an event is no JSON: {_shown(b''.join(self._held))}")
            return []
        name, _, value = line.partition(b":")
        if name in (b"", b"event", b"id", b"retry"):  # A line that begins with a colon is a comment: a sign of life.
            self._is_event_stream = True
        if name != b"data":
            return []
        self._is_event_stream = True
        value = value.removeprefix(b" ")
        if value.strip() == DONE:
            self.is_done = True
            return []
        return self._payload(value)

    def _payload(self, value: bytes) -> list[Json]:
        """One payload when `value` ends it, or the lines before together with it."""
        self._held.append(value)
        try:
            payload = encoding.decode_foreign(b"\n".join(self._held))
        except ValueError:
            return []
        self._held.clear()
        return [payload]


def _shown(text: bytes) -> str:
    return text[: limits.VALUE_SHOWN_CHARS].decode(errors="replace")
