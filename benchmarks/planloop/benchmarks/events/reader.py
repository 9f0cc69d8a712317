"""Read `events.jsonl`, whole or while it grows.

A line is complete once its newline is written. The file is a projection of the run's log, so a torn end is set aside
and reported to the caller. A gap in `seq` or an invalid line before the end is an error with its location: nothing is
skipped silently. `planloop.benchmarks.scoring.fold` folds the events.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from planloop.schemas import canonical_json
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.frozen import frozen

FIRST_SEQ: Final = 1
HINT: Final = (
    "move {folder}/events.jsonl away and run `plan bench resume {folder}`, which writes it again from the run's log"
)
"""`folder` is the folder of the run."""


@frozen
class BenchEvent:
    """One line. `ts` is in seconds since 1970. Events about the whole run have None for the members that name an
    entry."""

    seq: int
    ts: float
    type: str
    suite: str
    case: str | None
    model: str | None
    trial: int | None
    attempt: int | None
    key: str | None
    data: JsonObject


@frozen
class TornEvent:
    """Incomplete event at the end of a file, left by a crash. `line` counts from 1, `offset` is in bytes."""

    line: int
    offset: int
    content: bytes


@frozen
class EventsRead:
    """The content of a file: its complete events, and the torn end, if any."""

    events: tuple[BenchEvent, ...]
    torn: TornEvent | None = None


class BadEvents(Exception):
    """Invalid events: `what` is the problem in `line` (from 1). `HINT`, formatted with the run's folder, is the fix."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(f"events.jsonl, line {line}: {what}")
        self.line = line
        self.what = what


class EventReader:
    """Reads a growing file. `feed` it the added bytes; an incomplete line is kept until the rest arrives.

    `after` is the seq of the last known event; the next event must have the next seq.
    """

    def __init__(self, after: int = FIRST_SEQ - 1) -> None:
        self._seq = after
        self._lines = 0
        self._offset = 0
        self._rest = b""

    def feed(self, content: bytes) -> tuple[BenchEvent, ...]:
        """Return the events that `content` completes. Raises BadEvents; do not use the reader after that."""
        *whole, rest = content.split(b"\n")
        if whole:
            whole[0] = self._rest + whole[0]
            self._rest = rest
        else:
            self._rest += rest
        return tuple(map(self._event, whole))

    @property
    def torn(self) -> TornEvent | None:
        """The incomplete last line; None if the last line is complete."""
        return TornEvent(self._lines + 1, self._offset, self._rest) if self._rest else None

    def _event(self, line: bytes) -> BenchEvent:
        self._lines += 1
        self._offset += len(line) + 1
        event = _parsed(line, self._lines)
        if event.seq != self._seq + 1:
            raise BadEvents(self._lines, _gap(self._seq, event.seq))
        self._seq = event.seq
        return event


def read_events(content: bytes) -> EventsRead:
    """Read all events of a finished file. Raises BadEvents.

    An invalid last line counts as torn even if it has a newline: a power failure can keep the length of a file and lose
    its content.
    """
    reader = EventReader()
    if content.endswith(b"\n"):
        start = content.rfind(b"\n", 0, -1) + 1
        try:
            _parsed(content[start:-1], place=0)
        except BadEvents:
            events = reader.feed(content[:start])
            return EventsRead(events, TornEvent(len(events) + 1, start, content[start:]))
    events = reader.feed(content)
    return EventsRead(events, reader.torn)


def _parsed(line: bytes, place: int) -> BenchEvent:
    # `line` may be any bytes: a disk can return zeros, and a person can edit the file.
    try:
        raw = canonical_json.decode(line)
    except ValueError:
        raise BadEvents(place, "not JSON") from None
    if not isinstance(raw, dict):
        raise BadEvents(place, "an event must be an object")
    return parse_event(raw, place)


def parse_event(raw: JsonObject, place: int) -> BenchEvent:
    """Return the event of the object in line `place`. Raises BadEvents."""
    values: tuple[Json, ...] = tuple(map(raw.get, _KINDS))
    if not _are_sound(tuple(map(type, values))):  # `isinstance` accepts true as a whole number.
        for value, (name, kinds) in zip(values, _KINDS.items(), strict=True):
            if type(value) not in kinds:
                raise BadEvents(place, f"{name} is {_kind(value)}, not {_NAMES[kinds]}")
    return BenchEvent(*values)


@lru_cache(maxsize=64)
def _are_sound(types: tuple[type, ...]) -> bool:
    """Whether members of these types make an event. Cached, because few combinations of types occur."""
    return all(one in kinds for one, kinds in zip(types, _KINDS.values(), strict=True))


_Kinds = tuple[type, ...]
_TEXT: Final[_Kinds] = (str,)
_MAYBE_TEXT: Final[_Kinds] = (str, type(None))
_MAYBE_NUMBER: Final[_Kinds] = (int, type(None))

_NAMES: Final[dict[_Kinds, str]] = {
    (int,): "a whole number",
    (int, float): "a number",
    _TEXT: "a text",
    _MAYBE_TEXT: "a text or null",
    _MAYBE_NUMBER: "a whole number or null",
    (dict,): "an object",
}

_KINDS: Final[dict[str, _Kinds]] = {
    "seq": (int,),
    "ts": (int, float),
    "type": _TEXT,
    "suite": _TEXT,
    "case": _MAYBE_TEXT,
    "model": _MAYBE_TEXT,
    "trial": _MAYBE_NUMBER,
    "attempt": _MAYBE_NUMBER,
    "key": _MAYBE_TEXT,
    "data": (dict,),
}
"""In the order of the fields of `BenchEvent`."""


def _kind(value: Json) -> str:
    return "missing" if value is None else f"{canonical_json.encode_text(value)[:40]}"


def _gap(last: int, found: int) -> str:
    if found <= last:
        return f"seq {found} follows {last}: events are duplicated or out of order"
    missing = f"{last + 1}" if found == last + 2 else f"{last + 1} to {found - 1}"
    return f"seq {found} follows {last}: {missing} missing"
