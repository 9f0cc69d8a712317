"""Append to `events.jsonl` from one process, resume where it ended, and verify it against the log."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, Self

from planloop.benchmarks.events.projection import RunProjection
from planloop.benchmarks.events.reader import BadEvents, read_events
from planloop.schemas.canonical_json import JsonObject, canonical_bytes, decode
from planloop.schemas.log.record import Record

# Lines of `events.jsonl` held against the log of the run, of which alone they are made.
#
# So a line that somebody has edited is found by whoever has both: who goes on with the file, and who reports it.

ASKED: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "run/open": frozenset({"plan", "cases", "entries", "planned", "report", "validated"}),
        "run/resume": frozenset({"validated"}),
        "case/start": frozenset({"variant", "language", "tags", "case_key"}),
    }
)
"""What these say from plan.json and not from the log: another once `resume --suite`, or a person, has changed it."""

NAMED: Final = frozenset({"run"})
"""What an opening says from the name of the folder, which people give another: no figure hangs on it."""


class EventVerifier:
    """`lines` are those that are there. `note` takes the records of the log, from the first one on."""

    def __init__(self, lines: Iterable[bytes], projection: RunProjection) -> None:
        self._lines = iter(lines)
        self._projection = projection
        self._seq = 0
        self._is_replanned = False

    def note(self, records: Iterable[Record]) -> Iterator[JsonObject]:
        """The events of `records` that no line is there for. Raises BadEvents for a line that the log does not say."""
        for record in records:
            for number, made in enumerate(self._projection.note(record)):
                self._seq += 1
                event = {"seq": self._seq, "n": number, **made}
                there = next(self._lines, None)
                if there is None:
                    yield event
                elif (other := self._other(there, event)) is not None:
                    raise BadEvents(self._seq, f"`{other}` is not what the run's log says")

    def end(self) -> None:
        """Raises BadEvents when lines are there of which the log, noted to its end, says nothing."""
        if next(self._lines, None) is not None:
            raise BadEvents(self._seq + 1, "the run's log says nothing of this")

    def _other(self, there: bytes, event: JsonObject) -> str | None:
        """The member in which the line `there` is another event than `event`; None when it is the same."""
        if there == canonical_bytes(event):
            return None
        line = decode(there)
        if event["type"] == "run/open":
            self._is_replanned = _asked_by(line) != _asked_by(event)
        asked = ASKED.get(event["type"], frozenset()) if self._is_replanned else frozenset()
        others = asked | NAMED if event["type"] == "run/open" else asked
        line, event = _without(others, line), _without(others, event)
        return next((name for name in sorted({*line, *event}) if line.get(name) != event.get(name)), None)


def _asked_by(opening: JsonObject) -> object:
    """The digest of the plan.json that an opening was made with."""
    data = opening.get("data")
    return data.get("plan") if isinstance(data, dict) else None


def _without(names: frozenset[str], event: JsonObject) -> JsonObject:
    data = event.get("data")
    if not isinstance(data, dict):
        return event
    return event | {"data": {name: value for name, value in data.items() if name not in names}}


# `events.jsonl` as it is written: appended to by one process, and gone on with exactly where it ended.
#
# The run's log is durable before its events are, and they are made of it alone. So whoever opens the file folds the log
# from its beginning, holds what the file has already against it, and appends the rest: a crash loses no
# event and doubles none, and a line that somebody has edited is found.

FILE: Final = "events.jsonl"


class EventsTaken(Exception):
    """Another process writes the events of the run."""


class EventFile:
    """The file in `folder`, open for appending. `note` takes the records of the log, from the first one on.

    Raises EventsTaken, BadEvents (see `reading.py`), OSError.
    """

    def __init__(self, folder: Path, projection: RunProjection) -> None:
        self._path = folder / FILE
        self._file = self._path.open("ab+", buffering=0)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise EventsTaken(str(self._path)) from None
        self._holding = EventVerifier(self._look(), projection)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ended: object) -> None:
        self.close()

    def note(self, records: Iterable[Record]) -> list[JsonObject]:
        """Appends the events of `records` that are not there yet, and gives these back.

        Raises BadEvents when a line that is there is not what the log says; OSError, as for a full disk: what was
        written is gone on with by whoever opens the file next.
        """
        fresh = list(self._holding.note(records))
        if fresh:
            # As one: a reader sees whole lines but for the last, whatever happens.
            self._write(b"".join(canonical_bytes(event) + b"\n" for event in fresh))
        return fresh

    def close(self) -> None:
        """Makes durable what was written."""
        if not self._file.closed:
            os.fsync(self._file.fileno())
            self._file.close()

    def _write(self, content: bytes) -> None:
        while content:  # A disk that fills up takes a part, and says so only when it is asked again.
            content = content[self._file.write(content) :]

    def _look(self) -> Iterator[bytes]:
        """The lines that are there. What is torn after the last is moved to a file of its own."""
        self._file.seek(0)
        content = self._file.read()
        reading = read_events(content)
        if reading.torn is not None:
            self._set_aside(reading.torn.content)
            os.ftruncate(self._file.fileno(), reading.torn.offset)
            content = content[: reading.torn.offset]
        return iter(content.splitlines())

    def _set_aside(self, torn: bytes) -> None:
        number = 1
        while (path := self._path.with_name(f"{FILE}.torn-{number}")).exists():
            number += 1
        path.write_bytes(torn)
