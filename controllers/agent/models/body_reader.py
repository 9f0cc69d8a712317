"""The payloads of a reply's body: one JSON value or a stream of events, as the body itself shows.

Content types are not to be relied on: proxies send whole replies as `text/event-stream` and streams as
`application/json`. No line of an event stream begins with a brace or a bracket.
"""

from __future__ import annotations

from typing import Final

from controllers.agent.models.event_lines import BOM, EventLines, NoEvents
from controllers.agent.models.failures import error_in
from schemas import encoding, limits
from schemas.encoding import Json

SPACE: Final = b" \t\r\n"


class BodyReader:
    """Reads one body. `is_done` once a stream has said so."""

    def __init__(self) -> None:
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
        try:
            value = encoding.decode(b"".join(self._whole).decode())
        except ValueError as fault:
            raise NoEvents(f"no JSON ({fault})") from None
        if isinstance(value, dict) and not value.get("choices") and error_in(value) is None:
            raise NoEvents("JSON without `choices`")
        return [value]
