"""Server-sent events out of bytes that arrive in any pieces: the payloads of their `data` lines.

After the WHATWG HTML standard's event stream format: lines end with LF, CRLF or CR, a byte order mark and comments are
passed over, an event without data is none. With leave for servers that forget the empty line between events: data that
is a JSON value is taken at once. Lines are cut from bytes, so a piece may end inside a UTF-8 character.
"""

from __future__ import annotations

from typing import Final

from schemas import encoding, limits
from schemas.encoding import Json

DONE: Final = b"[DONE]"
BOM: Final = b"\xef\xbb\xbf"
NOTHING: Final = (b"", b"null")
FIELDS: Final = frozenset((b"", b"event", b"id", b"retry"))  # A line that begins with a colon is a comment.


class NoEvents(ValueError):
    """What came is no event stream with JSON in it."""


class EventLines:
    """Reads one stream. `is_done` once `[DONE]` came; `size_bytes` counts everything.

    Payloads may hold what no log can: a caller that keeps a part of one checks it, once and not with every piece.
    """

    def __init__(self) -> None:
        self.is_done = False
        self.size_bytes = 0
        self._rest: list[bytes] = []  # Of a line that has not ended: joined once, however many pieces it has.
        self._held: list[bytes] = []  # Of a payload over several lines.
        self._event = b""  # The name of the event that is being read.
        self._is_event_stream = False
        self._ended_with_cr = False

    def feed(self, piece: bytes) -> list[Json]:
        """The payloads that `piece` completes. Raises NoEvents."""
        self.size_bytes += len(piece)
        if self.size_bytes > limits.MODEL_STREAM_BYTES_MAX:
            raise NoEvents(f"the answer is longer than {limits.MODEL_STREAM_BYTES_MAX} bytes")
        piece = self._with_plain_ends(piece)
        self._rest.append(piece)
        if b"\n" not in piece:
            return []
        lines = b"".join(self._rest).split(b"\n")
        self._rest = [lines.pop()]
        payloads: list[Json] = []
        for line in lines:
            payloads += self._take(line) if line else self._dispatched()
        return payloads

    def end(self) -> list[Json]:
        """What the end of the stream completes. Raises NoEvents when there never was an event."""
        has_bytes = self.size_bytes > 0
        payloads = self.feed(b"\n\n")  # The last line may lack its end.
        if has_bytes and not self._is_event_stream:
            raise NoEvents("what came is no event stream")
        return payloads

    def _with_plain_ends(self, piece: bytes) -> bytes:
        """`piece` with each line end as one LF: a CR at its end may be the first half of one."""
        if self._ended_with_cr and piece.startswith(b"\n"):
            piece = piece[1:]
            self._ended_with_cr = False
        if piece:
            self._ended_with_cr = piece.endswith(b"\r")
        return piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in piece else piece

    def _dispatched(self) -> list[Json]:
        """The event that an empty line ends. Data that is not JSON is an error text, a keep-alive, or garbage."""
        name, text = self._event, b"\n".join(self._held).strip()
        self._event = b""
        self._held.clear()
        if not text:
            return []
        if name == b"error":
            return [{"error": _shown(text)}]
        if name:
            return []
        raise NoEvents(f"an event is no JSON: {_shown(text)}")

    def _take(self, line: bytes) -> list[Json]:
        name, _, value = line.partition(b":")
        name, value = name.removeprefix(BOM) if not self._is_event_stream else name, value.strip()
        if name == b"data":
            self._is_event_stream = True
            if value == DONE:
                self.is_done = True
                return []
            return self._payload(value) if self._held or value not in NOTHING else []
        if name == b"error" and value:  # llama.cpp's older server has a field of its own for errors.
            self._is_event_stream = True
            return [_as_error(_decoded(value), value)]
        if name in FIELDS:
            self._is_event_stream = True
            if name == b"event":
                self._event = value
        return []

    def _payload(self, value: bytes) -> list[Json]:
        """One payload when `value` ends it, alone or together with the lines before."""
        text = b"\n".join((*self._held, value)) if self._held else value
        payload = _decoded(text)
        if payload is None:
            self._held.append(value)
            if len(self._held) > limits.MODEL_EVENT_LINES_MAX:
                raise NoEvents(f"an event is no JSON: {_shown(text)}")
            return []
        self._held.clear()
        return [_as_error(payload, text) if self._event == b"error" else payload]


def _decoded(text: bytes) -> Json:
    """The value of `text`; None for invalid JSON and for null, which is not a payload."""
    try:
        return encoding.decode(text.decode())
    except ValueError:
        return None


def _as_error(payload: Json, text: bytes) -> Json:
    """The payload of an event named `error`, as an error object."""
    if isinstance(payload, dict) and payload.get("error"):
        return payload
    return {"error": payload or _shown(text)}


def _shown(text: bytes) -> str:
    return text[: limits.VALUE_SHOWN_CHARS].decode(errors="replace")
