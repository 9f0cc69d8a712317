"""The payloads of a reply's body: one JSON value or a stream of events, as the body itself shows.

Content types are not to be relied on: proxies send whole replies as `text/event-stream` and streams as
`application/json`. No line of an event stream begins with a brace or a bracket. Bodies that are compressed are
recognised in the same way, also where no header says so.
"""

from __future__ import annotations

import zlib
from typing import Final

from planloop.controllers.agent.models.error_body import error_in
from planloop.controllers.agent.models.event_lines import BOM, EventLines, NoEvents
from planloop.schemas import encoding, limits
from planloop.schemas.encoding import Json

SPACE: Final = b" \t\r\n"
PACKED: Final = (b"\x1f\x8b", b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")
"""How bodies begin that are compressed with gzip, or with the deflate of HTTP. No reply begins like that."""


class Inflater:
    """Makes plain bytes of a body that may be compressed, as a whole or piece by piece."""

    def __init__(self) -> None:
        self._begin = b""
        self._is_plain = False
        self._member: zlib._Decompress | None = None

    def feed(self, piece: bytes) -> bytes:
        """What `piece` adds. Raises NoEvents for damaged ones, and for more than any reply has."""
        if self._is_plain:
            return piece
        if self._member is None:
            piece, self._begin = self._begin + piece, b""
            if not piece.startswith(PACKED):
                self._is_plain = not any(begin.startswith(piece) for begin in PACKED)
                self._begin = b"" if self._is_plain else piece
                return piece if self._is_plain else b""
            self._member = _member()
        try:
            found = self._member.decompress(piece, limits.MODEL_STREAM_BYTES_MAX)
            while self._member.unused_data.startswith(PACKED):
                rest, self._member = self._member.unused_data, _member()
                found += self._member.decompress(rest, limits.MODEL_STREAM_BYTES_MAX)
        except zlib.error as fault:
            raise NoEvents(f"it is compressed and damaged ({fault})") from None
        if self._member.unconsumed_tail or len(found) > limits.MODEL_STREAM_BYTES_MAX:
            raise NoEvents(f"the answer is longer than {limits.MODEL_STREAM_BYTES_MAX} bytes")
        return found


def _member() -> zlib._Decompress:
    return zlib.decompressobj(zlib.MAX_WBITS | 32)


class BodyReader:
    """Reads one body. `is_done` once a stream has said so."""

    def __init__(self) -> None:
        self._inflater = Inflater()
        self._begin = b""  # What came before the first character that tells; servers send blanks while they think.
        self._lines: EventLines | None = None
        self._whole: list[bytes] = []
        self._size_bytes = 0

    @property
    def is_done(self) -> bool:
        return self._lines is not None and self._lines.is_done

    @property
    def is_stream(self) -> bool:
        """Whether it was a stream of events, so far as is known."""
        return self._lines is not None

    def feed(self, piece: bytes) -> list[Json]:
        """The payloads that `piece` completes. Raises NoEvents."""
        piece = self._inflater.feed(piece)
        if self._lines is not None:
            return self._lines.feed(piece)
        self._size_bytes += len(piece)
        if self._size_bytes > limits.MODEL_STREAM_BYTES_MAX:
            raise NoEvents(f"the answer is longer than {limits.MODEL_STREAM_BYTES_MAX} bytes")
        if self._whole:
            self._whole.append(piece)
            return []
        begin = self._begin + piece
        told = begin.removeprefix(BOM).lstrip(SPACE)
        if told.startswith((b"{", b"[")):
            self._whole.append(told)
        elif told and not BOM.startswith(told):
            self._lines = EventLines()
            return self._lines.feed(begin)
        else:
            self._begin = begin if len(begin) < limits.OUTPUT_SHOWN_BYTES else b"\n"
        return []

    def end(self) -> list[Json]:
        """What the end of the body completes. Raises NoEvents for a body that is neither."""
        if self._lines is not None:
            return self._lines.end()
        if not self._whole:
            self._lines = EventLines()  # An empty body is a stream that broke off before its first event.
            return []
        content = b"".join(self._whole)
        try:
            value = encoding.decode(content.decode())
        except ValueError as fault:
            return self._in_lines(content, fault)
        if isinstance(value, list):  # Gemini puts its errors into a list, and some its chunks.
            return value
        if isinstance(value, dict) and not value.get("choices") and error_in(value) is None:
            raise NoEvents("JSON without `choices`")
        return [value]

    def _in_lines(self, content: bytes, fault: ValueError) -> list[Json]:
        """The payloads of a stream without the word `data`: one JSON value in each line."""
        lines = EventLines()
        try:
            payloads = lines.feed(content) + lines.end()
        except NoEvents:
            payloads = []
        if not payloads:
            raise NoEvents(f"no JSON ({fault})") from None
        self._lines = lines
        return payloads
