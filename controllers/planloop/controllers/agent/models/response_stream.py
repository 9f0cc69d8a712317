"""Read the payloads of a response body: server-sent events or one JSON value, compressed or plain."""

from __future__ import annotations

import json
import re
import zlib
from typing import Final

from planloop.controllers.agent.models.errors import find_error
from planloop.schemas import canonical_json, limits
from planloop.schemas.canonical_json import Json

# The payloads of server-sent events, from bytes in pieces of any size.
#
# The format is that of the WHATWG HTML standard: lines end with LF, CRLF or CR; a byte order mark, comments and events
# without data are ignored. Some servers omit the empty line between events or the word `data`, so a complete JSON value
# counts as a payload immediately. Lines are split as bytes, so a piece may end inside a UTF-8 character.

STREAM_DONE: Final = frozenset((b"[DONE]", b"DONE"))
STREAM_DONE_CHARS: Final = 8  # With quotation marks around it.
BOM: Final = b"\xef\xbb\xbf"
EMPTY_DATA: Final = (b"", b"null")
KEEP_ALIVE: Final = re.compile(
    rb":.*|\W*(?:ping|pong|heart-?beat|keep[-_ ]?alive|processing|waiting)\W*", re.IGNORECASE
)
"""Data that only keeps the connection open: a comment that a proxy sent as data, or one of these words."""

KEEP_ALIVE_CHARS: Final = 64
EVENT_FIELDS: Final = frozenset((b"", b"event", b"id", b"retry"))  # A line that begins with a colon is a comment.


class NotAnEventStream(ValueError):
    """The body is not an event stream with JSON payloads. The message says why."""


class EventStreamReader:
    """Reads one stream. `is_done` is True after `[DONE]`; `size_bytes` counts all bytes.

    Payloads may contain values that a log cannot store, such as NaN. The caller checks the parts that it keeps.
    """

    def __init__(self) -> None:
        self.is_done = False
        self.size_bytes = 0
        self._rest: list[bytes] = []  # The pieces of a line that has not ended, joined once at its end.
        self._held: list[bytes] = []  # The lines of a payload that has not ended.
        self._event = b""  # The name of the current event.
        self._is_event_stream = False
        self._ended_with_cr = False

    def feed(self, piece: bytes) -> list[Json]:
        """The payloads that `piece` completes. Raises NotAnEventStream."""
        self.size_bytes += len(piece)
        if self.size_bytes > limits.MODEL_STREAM_BYTES_MAX:
            raise NotAnEventStream(f"the answer is longer than {limits.MODEL_STREAM_BYTES_MAX} bytes")
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
        """The payloads that the end of the stream completes. Raises NotAnEventStream if the body had no event."""
        has_bytes = self.size_bytes > 0
        payloads = self.feed(b"\n\n")  # The last line may lack its end.
        if has_bytes and not self._is_event_stream:
            raise NotAnEventStream("the body is not an event stream")
        return payloads

    def _with_plain_ends(self, piece: bytes) -> bytes:
        """`piece` with LF at each line end. A CR at the end of a piece may be the first half of a CRLF."""
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
        if name == b"error":
            return [{"error": _shown(text) or "the server sent an error without a message"}]
        if not text:
            return []
        if name:
            return []
        raise NotAnEventStream(f"an event is not JSON: {_shown(text)}")

    def _take(self, line: bytes) -> list[Json]:
        if line.startswith(b"data: {") and not (self._held or self._event):  # Once for every token.
            self._is_event_stream = True
            return self._payload(line[6:].strip())
        name, _, value = line.partition(b":")
        name, value = name.removeprefix(BOM).strip().lower(), value.strip()
        if name == b"data":
            self._is_event_stream = True
            return self._data(value)
        if name == b"error" and value:  # Older servers of llama.cpp send errors in a field of this name.
            self._is_event_stream = True
            return [_as_error(_decoded(value), value)]
        if name in EVENT_FIELDS:
            self._is_event_stream = True
            if name == b"event":
                self._event = value
        elif line.lstrip().startswith((b"{", b"[", b"DONE")):
            return self._bare(line.strip())
        return []

    def _data(self, value: bytes) -> list[Json]:
        while value.startswith(b"data:"):  # Some proxies add their own `data:`.
            value = value[5:].lstrip()
        if self._is_end(value):
            return []
        is_sign = len(value) <= KEEP_ALIVE_CHARS and KEEP_ALIVE.fullmatch(value) is not None
        if not self._held and (value in EMPTY_DATA or is_sign or KEEP_ALIVE.fullmatch(self._event)):
            return []
        return self._payload(value)

    def _bare(self, line: bytes) -> list[Json]:
        """The objects in a line of JSON without a field name."""
        if self._is_end(line):
            self._is_event_stream = True
            return []
        text, found = line.decode(errors="replace"), []
        try:
            while text:
                value, end = _DECODER.raw_decode(text)
                found.append(value)
                text = text[end:].lstrip()
        except (ValueError, RecursionError):
            return []
        is_all = all(isinstance(one, dict) for one in found)
        self._is_event_stream |= is_all
        return found if is_all else []

    def _is_end(self, value: bytes) -> bool:
        is_end = len(value) <= STREAM_DONE_CHARS and value.strip(b'"').upper() in STREAM_DONE
        self.is_done |= is_end
        return is_end

    def _payload(self, value: bytes) -> list[Json]:
        """The payload that `value` completes, alone or together with the lines before."""
        text = b"\n".join((*self._held, value)) if self._held else value
        payload = _decoded(text)
        if payload is None:
            glued = [_decoded(one) for one in _GLUED.split(value)]
            if len(glued) > 1 and not self._held and None not in glued:
                return glued
            self._held.append(value)
            if len(self._held) > limits.MODEL_EVENT_LINES_MAX:
                raise NotAnEventStream(f"an event is not JSON: {_shown(text)}")
            return []
        self._held.clear()
        is_error, self._event = self._event == b"error", b""
        return [_as_error(payload, text) if is_error else payload]


def _whole(digits: str) -> int | float:
    """An integer; one with more digits than Python converts is a float, thus infinite."""
    try:
        return int(digits)
    except ValueError:
        return float(digits)


_DECODER: Final = json.JSONDecoder(strict=False, parse_int=_whole)
_GLUED: Final = re.compile(rb"(?<=\})(?:\\[nr]|\s)*data:\s*(?=[{\[])")  # Two events in one line.


def _decoded(text: bytes) -> Json:
    """The value of `text`, UTF-8; None for invalid JSON and for null, which is not a payload.

    Invalid UTF-8, control characters in strings, and escaped line ends after the value are tolerated.
    """
    try:
        return canonical_json.decode(text.decode())
    except ValueError:
        pass
    if not text.startswith((b"{", b"[")):
        return None
    try:
        plain = text.decode(errors="replace")
        value, end = _DECODER.raw_decode(plain)
    except (ValueError, RecursionError):
        return None
    return None if plain[end:].strip("\\nr \t") else value


def _as_error(payload: Json, text: bytes) -> Json:
    """The payload of an event named `error`, as an error object."""
    if isinstance(payload, dict) and payload.get("error"):
        return payload
    return {"error": payload or _shown(text)}


def _shown(text: bytes) -> str:
    return text[: limits.VALUE_SHOWN_CHARS].decode(errors="replace")


# The payloads of a body, which is one JSON value or a stream of events. The body itself shows which.
#
# Content types are unreliable: proxies send whole replies as `text/event-stream` and streams as `application/json`. No
# line of an event stream begins with a brace or a bracket. Compressed bodies are recognised by their first bytes too,
# even without a header.

BLANKS: Final = b" \t\r\n"
COMPRESSED_PREFIXES: Final = (b"\x1f\x8b", b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")
"""The first bytes of bodies that are compressed with gzip or deflate. No plain reply begins with them."""


class Inflater:
    """Decompresses a body that may be compressed, as a whole or piece by piece."""

    def __init__(self) -> None:
        self._begin = b""
        self._is_plain = False
        self._member: zlib._Decompress | None = None

    def feed(self, piece: bytes) -> bytes:
        """The plain bytes that `piece` adds. Raises NotAnEventStream if it is damaged, or the body is too large."""
        if self._is_plain:
            return piece
        if self._member is None:
            piece, self._begin = self._begin + piece, b""
            if not piece.startswith(COMPRESSED_PREFIXES):
                self._is_plain = not any(begin.startswith(piece) for begin in COMPRESSED_PREFIXES)
                self._begin = b"" if self._is_plain else piece
                return piece if self._is_plain else b""
            self._member = _member()
        try:
            found = self._member.decompress(piece, limits.MODEL_STREAM_BYTES_MAX)
            while self._member.unused_data.startswith(COMPRESSED_PREFIXES):
                rest, self._member = self._member.unused_data, _member()
                found += self._member.decompress(rest, limits.MODEL_STREAM_BYTES_MAX)
        except zlib.error as error:
            raise NotAnEventStream(f"it cannot be decompressed ({error})") from None
        if self._member.unconsumed_tail or len(found) > limits.MODEL_STREAM_BYTES_MAX:
            raise NotAnEventStream(f"the answer is longer than {limits.MODEL_STREAM_BYTES_MAX} bytes")
        return found


def _member() -> zlib._Decompress:
    return zlib.decompressobj(zlib.MAX_WBITS | 32)


class BodyReader:
    """Reads one body. `is_done` is True after a stream has stated its end."""

    def __init__(self) -> None:
        self._inflater = Inflater()
        self._begin = b""  # Bytes before the first significant one; servers send blanks while the model thinks.
        self._lines: EventStreamReader | None = None
        self._whole: list[bytes] = []
        self._size_bytes = 0

    @property
    def is_done(self) -> bool:
        return self._lines is not None and self._lines.is_done

    @property
    def is_stream(self) -> bool:
        """Whether the body has turned out to be a stream of events."""
        return self._lines is not None

    def feed(self, piece: bytes) -> list[Json]:
        """The payloads that `piece` completes. Raises NotAnEventStream."""
        piece = self._inflater.feed(piece)
        if self._lines is not None:
            return self._lines.feed(piece)
        self._size_bytes += len(piece)
        if self._size_bytes > limits.MODEL_STREAM_BYTES_MAX:
            raise NotAnEventStream(f"the answer is longer than {limits.MODEL_STREAM_BYTES_MAX} bytes")
        if self._whole:
            self._whole.append(piece)
            return []
        begin = self._begin + piece
        significant = begin.removeprefix(BOM).lstrip(BLANKS)
        if significant.startswith((b"{", b"[")):
            self._whole.append(significant)
        elif significant and not BOM.startswith(significant):
            self._lines = EventStreamReader()
            return self._lines.feed(begin)
        else:
            self._begin = begin if len(begin) < limits.OUTPUT_SHOWN_BYTES else b"\n"
        return []

    def end(self) -> list[Json]:
        """The payloads that the end of the body completes. Raises NotAnEventStream if it is neither JSON nor events."""
        if self._lines is not None:
            return self._lines.end()
        if not self._whole:
            self._lines = EventStreamReader()  # An empty body is a stream that ended before its first event.
            return []
        content = b"".join(self._whole)
        try:
            value = canonical_json.decode(content.decode())
        except ValueError as error:
            return self._in_lines(content, error)
        if isinstance(value, list):  # Gemini sends errors in a list; some servers send chunks in one.
            return value
        if isinstance(value, dict) and not value.get("choices") and find_error(value) is None:
            raise NotAnEventStream("JSON without `choices`")
        return [value]

    def _in_lines(self, content: bytes, error: ValueError) -> list[Json]:
        """The payloads of a stream without the word `data`: one JSON value in each line."""
        lines = EventStreamReader()
        try:
            payloads = lines.feed(content) + lines.end()
        except NotAnEventStream:
            payloads = []
        if not payloads:
            raise NotAnEventStream(f"invalid JSON ({error})") from None
        self._lines = lines
        return payloads
